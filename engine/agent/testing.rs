//! What the tests of all kinds of agents share.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use serde_json::{Value, json};

use super::{
    Agent, Leave, Reply, Request, Streams, Witness,
    build::{BuildError, build},
    env::Env,
    human::{Nobody, People},
    openai::Known,
};
use crate::{
    accept::Rejection,
    context::{Context, Decomposition, Outputs, Sees, TaskFiles, TaskView},
    contract::runtime::Runtime,
    prompt::Prompt,
};

/// An agent from its `runtime`, in the folder `home`.
pub(super) fn agent(runtime: Value, home: &Path, env: &Env) -> Result<Arc<dyn Agent>, BuildError> {
    let runtime: Runtime = serde_json::from_value(runtime).unwrap();
    let nobody: Arc<dyn People> = Arc::new(Nobody);
    build(&runtime, home, env, &Known::default(), &nobody)
}

/// A question outside a batch: `input` is `hello`, and `names` a list.
pub(super) fn question() -> Request {
    let mut context = Context::default();
    context.set("input", json!("hello"));
    context.set("names", json!(["Ada", "Ben"]));
    Request {
        agent: "Worker".into(),
        task_id: None,
        attempt: 1,
        idempotency_key: "run:turn:1".to_owned(),
        prompt: Prompt {
            system: "be brief".to_owned(),
            user: "hello".to_owned(),
        },
        view: context.view(&Sees::All),
        invocation: None,
        streams: Streams::default(),
        failed: Vec::new(),
        is_budgeted: false,
        shape: None,
        tools: None,
        timeout: std::time::Duration::from_secs(600),
        max_output_bytes: 1 << 20,
        leave: Leave::default(),
        witness: Witness::default(),
    }
}

/// A question in a batch, for the task `b` after `a`.
pub(super) fn task() -> Request {
    let outputs = Outputs::new(vec!["a".into(), "b".into()]);
    outputs.put(0, 0, json!({ "done": true }).into());
    let view = TaskView {
        batch_id: "batch".into(),
        task_id: "b".into(),
        ix: 1,
        own: BTreeMap::from([("goal".to_owned(), Arc::new(json!("more")))]),
        plan: Arc::new(Decomposition::new(
            "batch".into(),
            ["a", "b"].map(|it| json!({ "task_id": it }).into()).into(),
        )),
        dependencies: vec![0],
        outputs: Arc::new(outputs),
        completed: 1,
        context_key: "results".into(),
        status_key: "status".into(),
        files: Some(Arc::new(TaskFiles {
            plan: "/run/plan.json".to_owned(),
            outputs: "/run/outputs.jsonl".to_owned(),
        })),
    };
    let mut request = question();
    request.task_id = Some("b".into());
    request.view = request.view.in_task(view);
    request
}

/// An answer, or the rejection, in one line.
pub(super) fn show(answer: &Result<Reply, Rejection>) -> String {
    match answer {
        Ok(reply) => reply.text.clone(),
        Err(rejection) => rejection.to_string(),
    }
}
