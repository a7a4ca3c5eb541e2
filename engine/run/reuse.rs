//! When two tasks are the same work, so that the output of one can stand for the other.

use serde_json::json;

use crate::{accept::Terms, agent::Request, compile::AgentSpec, journal};

/// What equal work has the same of: the agent as it is defined and asked, the prompt, the variables the agent sees, the
/// task, and the outputs of the tasks before it. Neither the run nor the rest of the plan is in it.
///
/// `identity` is the hash of [`crate::agent::Agent::identity`]. `None` where there is no task.
pub(super) fn key(
    request: &Request,
    terms: &Terms,
    spec: &AgentSpec,
    identity: &str,
) -> Option<String> {
    let task = request.view.task()?;
    let before = task.dependency_outputs();
    let before: Vec<(&str, String)> = before
        .map(|(id, output)| (&**id, output.to_string()))
        .collect();
    let work = json!({
        "program": env!("CARGO_PKG_VERSION"),
        "agent": &*request.agent,
        "instruction": &*spec.instruction,
        "runtime": spec.runtime,
        "identity": identity,
        "shape": request.shape.as_ref().map(|it| it.json_schema()),
        "prompt": request.prompt,
        "variables": request.view.variables().collect::<Vec<_>>(),
        "own": task.own,
        "task": task.task().text(),
        "before": before,
        "terms": format!("{terms:?}"),
    });
    Some(journal::hash(work.to_string()))
}
