use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{
        build,
        human::{Nobody, People},
    },
    compile::{compile, tests::bundle},
    run::{self, Start},
};

use super::*;

#[tokio::test(start_paused = true)]
async fn an_answer_outside_a_batch_has_its_time() {
    let (workflow, faults) = compile(&bundle(
        "
=== agents
agents:
  - {name: A, runtime: {kind: scripted, replies: [{text: late, delay_seconds: 8}, {text: soon, delay_seconds: 6}]}}
=== orchestrator
initial_agent: A
limits: {turn_timeout_seconds: 7}
",
    ));
    let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
    let nobody: Arc<dyn People> = Arc::new(Nobody);
    let agents = build::all(&workflow, &nobody, None).expect("they are there");
    let folder = tempfile::tempdir().expect("there is room");
    let start = Start::bare("r", folder.path());
    let (begun, mut rejected) = (Instant::now(), Vec::new());
    let mut hear = |it: &RunEvent| {
        if let RunEvent::TurnRejected { failure, .. } = it {
            rejected.push((*failure, begun.elapsed().as_secs()));
        }
    };
    let cancel = CancellationToken::new();
    let ending = run::workflow(&workflow, &agents, start, &mut hear, &cancel).await;
    let answer = ending.expect("the folder can be written").answer;
    assert_eq!(
        answer.map(|it| it.text().into_owned()),
        Some("\"soon\"".to_owned())
    );
    assert_eq!(rejected, [("timeout", 7)]);
}
