//! `mozaiks-run test WORKFLOW`: runs a workflow's tests.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;

use super::{
    Faults, args,
    inputs::Inputs,
    out, project, refuse, session,
    tape::{self, Tape},
    workflow,
};
use crate::{
    agent::{
        Agent, Agents, build,
        human::{Nobody, People},
        scripted::Scripted,
    },
    compile::Workflow,
    contract::{runtime::Runtime, test::Test},
    diagnostic::{Code, Diagnostic},
    load::{self, Part, Project},
    report,
    run::{self, Start, Status},
    source::pointer,
};

mod expect;

/// A test that can be run.
struct Ready {
    name: String,
    agents: Agents,
    tape: Tape,
    inputs: Inputs,
    part: Part<Test>,
}

/// What came of a test.
#[derive(Debug, Serialize)]
struct Outcome {
    test: String,
    passed: bool,
    took_ms: u64,
    /// The folder of what the run wrote.
    folder: String,
    /// What is not as it was to be, one a line.
    faults: Vec<String>,
}

pub(super) fn test(args: &args::Test) -> anyhow::Result<u8> {
    let common = &args.common;
    let project = match project(common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, common),
    };
    let (bundle, mut workflow, _) = match workflow(&project, &args.workflow) {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, common),
    };
    let tests = load::tests(&bundle).and_then(|tests| chosen(tests, args));
    let tests = tests.and_then(|tests| ready(tests, &project, &mut workflow));
    let tests = match tests {
        Ok(tests) => tests,
        Err(faults) => return refuse(&faults, common),
    };
    let folder = session::state(&project).join("tests").join(&args.workflow);
    let mut outcomes = Vec::new();
    for test in tests {
        let outcome = carry_out(test, &workflow, &folder)?;
        if !common.json {
            tell(&outcome)?;
        }
        outcomes.push(outcome);
    }
    let failed = outcomes.iter().filter(|it| !it.passed).count();
    let passed = outcomes.len() - failed;
    match common.json {
        true => {
            let result = json!({ "passed": passed, "failed": failed, "tests": outcomes });
            writeln!(out::stdout(), "{result:#}")?;
        }
        false => writeln!(io::stderr(), "{passed} passed, {failed} failed")?,
    }
    Ok(u8::from(failed > 0))
}

/// Those that are named, or all.
fn chosen(
    tests: Vec<(String, Part<Test>)>,
    args: &args::Test,
) -> Result<Vec<(String, Part<Test>)>, Faults> {
    let names: Vec<String> = tests.iter().map(|(name, _)| name.clone()).collect();
    let unknown = args.names.iter().filter(|it| !names.contains(it));
    let mut faults: Faults = unknown
        .map(|name| {
            let message = format!("`{}` has no test `{name}`", args.workflow);
            Diagnostic::error(Code::BadInput, message)
                .found(name)
                .allowed(&names)
        })
        .collect();
    if names.is_empty() {
        let message = format!("`{}` has no tests", args.workflow);
        let help = format!(
            "write one, in `tests/NAME.yaml` of the folder `{}`: `replies: {{AGENT: [{{text: ...}}]}}`, and what is to come of it under `expect`",
            args.workflow
        );
        faults.push(Diagnostic::error(Code::BadInput, message).help(help));
    }
    match faults.is_empty() {
        true => Ok(tests
            .into_iter()
            .filter(|(name, _)| args.names.is_empty() || args.names.contains(name))
            .collect()),
        false => Err(faults),
    }
}

fn ready(
    tests: Vec<(String, Part<Test>)>,
    project: &Project,
    workflow: &mut Workflow,
) -> Result<Vec<Ready>, Faults> {
    let mut faults = Vec::new();
    let mut ready = Vec::new();
    for (name, part) in tests {
        match prepare(name, part, (project, workflow)) {
            Ok(test) => ready.push(test),
            Err(more) => faults.extend(more),
        }
    }
    tape::wait_for_nobody(workflow);
    match faults.is_empty() {
        true => Ok(ready),
        false => Err(faults),
    }
}

fn prepare(
    name: String,
    part: Part<Test>,
    (project, workflow): (&Project, &Workflow),
) -> Result<Ready, Faults> {
    let mut faults = Vec::new();
    let test = &part.value;
    let mut agents = Agents::new();
    let mut inputs = Inputs {
        input: test.input.clone(),
        set: test
            .set
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
        plan: None,
        dag: None,
    };
    let mut tape = Tape::None;
    if let Some(recording) = &test.recording {
        let path = part.folder.join(&**recording);
        match tape::read(&path, project.shown(&path), &workflow.name) {
            Ok(replay) => {
                agents = replay.agents(workflow);
                if inputs == Inputs::default() {
                    inputs = Inputs::recorded(&replay);
                }
                tape = Tape::Replay(replay);
            }
            Err(more) => faults.extend(more.into_iter().map(|it| match it.at {
                Some(_) => it,
                None => it.at(part.at("/recording")),
            })),
        }
    }
    for (agent, replies) in &test.replies {
        let at = || part.key_at(&pointer("/replies", agent));
        match workflow.agents.get(&**agent) {
            Some(spec) => match build::played(spec, Arc::new(Scripted::new(replies, at()))) {
                Ok(played) => {
                    agents.insert(agent.to_string(), played);
                }
                Err(fault) => faults.push(fault),
            },
            None => {
                let message = format!("`{}` has no agent `{agent}`", workflow.name);
                let names = workflow.agents.keys().map(|it| it.to_string());
                let fault = Diagnostic::error(Code::UnknownAgent, message).at(at());
                faults.push(fault.found(agent.to_string()).allowed(names));
            }
        }
    }
    // Nobody outside is asked. Whoever has no reply says so, if it is asked at all.
    for spec in workflow.agents.values() {
        let is_local = matches!(
            spec.runtime,
            Runtime::Template { .. }
                | Runtime::Scripted { .. }
                | Runtime::Command { .. }
                // There is nobody: the default is taken, or the run waits.
                | Runtime::Human { .. }
        );
        if !is_local {
            let silent = || Arc::new(Scripted::new(&[], part.key_at("/replies"))) as Arc<dyn Agent>;
            agents.entry(spec.name.to_string()).or_insert_with(silent);
        }
    }
    let people: Arc<dyn People> = Arc::new(Nobody);
    if faults.is_empty() {
        match build::all_but(workflow, &people, agents, None) {
            Ok(agents) => {
                return Ok(Ready {
                    name,
                    agents,
                    tape,
                    inputs,
                    part,
                });
            }
            Err(more) => faults = more,
        }
    }
    Err(faults)
}

fn carry_out(test: Ready, workflow: &Workflow, folder: &Path) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let folder = folder.join(&test.name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let faults = match test.inputs.prepare(workflow) {
        Ok((context, plan)) => {
            let start = Start {
                context,
                plan: plan.as_ref(),
                tools: super::tools(workflow).on_tape(test.tape.of_tools()),
                grace: test.tape.grace(Duration::ZERO),
                ..Start::bare(format!("test-{}", test.name), &folder)
            };
            let (tape, agents) = (&test.tape, &test.agents);
            let (ending, stopped) = tape.on_runtime(|cancel| async move {
                tape.end_with(&cancel);
                run::workflow(workflow, agents, start, &mut |_| (), &cancel).await
            })?;
            let difference = test.tape.difference();
            let is_meant = difference.is_some() || tape.is_stopped();
            if ending.status == Status::Cancelled && !is_meant {
                anyhow::bail!("told to stop ({})", stopped.exit_code());
            }
            match difference {
                Some(difference) => vec![difference.message],
                None => expect::faults(
                    &test.part.value.expect,
                    &ending,
                    &folder.join(session::ARTIFACTS),
                ),
            }
        }
        Err(faults) => faults.into_iter().map(|it| it.message).collect(),
    };
    Ok(Outcome {
        test: test.name,
        passed: faults.is_empty(),
        took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        folder: folder.display().to_string(),
        faults,
    })
}

fn tell(outcome: &Outcome) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let word = if outcome.passed { "ok" } else { "FAILED" };
    let seconds = outcome.took_ms as f64 / 1000.0;
    writeln!(err, "test {} ... {word} ({seconds:.2}s)", outcome.test)?;
    for fault in &outcome.faults {
        writeln!(err, "    {}", report::inert_lines(fault))?;
    }
    if !outcome.passed {
        writeln!(err, "    what it wrote is in {}", outcome.folder)?;
    }
    Ok(())
}
