//! Our provider, where the author's functions run around its agents.

use super::{Serving, answers, invoke};
use crate::harness::Project;

#[test]
fn functions_rewrite_prompts_and_tools_run_on_outputs_of_served_tasks() {
    let project = Project::of(
        r#"=== agents.yaml
agents:
  - {name: Echo, capabilities: [echo], system_message: be brief, runtime: {kind: command, argv: [cat]}}
  - {name: Stiff, capabilities: [stiff], system_message: be brief, runtime: {kind: command, argv: [cat]}}
=== middleware.yaml
prompt_middleware:
  - {agent: Echo, filename: f.py, function: style}
  - {agent: Stiff, filename: f.py, function: broken}
=== tools.yaml
tools: [{agent: Echo, file: f.py, function: keep, auto_tool_call: true}]
=== f.py
import pathlib
def style(agent): return agent.system_message + "!"
def broken(agent): raise KeyError("x")
def keep(task_id, prompt):
    if task_id == "poor": raise ValueError("not this")
    with open(pathlib.Path(__file__).parent / "kept", "a") as kept: print(task_id, prompt["system"], file=kept)
"#,
    );
    let serving = Serving::start(&project, None);
    let calls = [("good", "echo"), ("poor", "echo"), ("none", "stiff")];
    let calls = [1, 2, 3].map(|it| {
        let (task, capability) = calls[it - 1];
        invoke(it as u32, task, capability).to_string()
    });
    let (_, lines) = serving.buy("-", &calls);
    let answers = answers(&lines);
    let asked = &answers["1"]["result"]["output"]["data"]["prompt"]["system"];
    let asked = asked.as_str().expect("it was told something");
    assert!(asked.ends_with('!'), "{asked}");
    // What goes wrong inside is told to whoever runs it, and to no buyer.
    let why = |id: &str| answers[id]["error"]["message"].clone();
    let failed = "tool_failed: a tool that runs on the answer failed, or did not take it";
    assert_eq!([why("2"), why("3")], [failed, failed]);
    let told = serving.told();
    for line in [
        "task \"poor\" of `echo` failed: tool_failed: the tool `keep` failed: ValueError: not this",
        "task \"none\" of `stiff` failed: tool_failed: the prompt function `broken` of `Stiff` is left out",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let kept = std::fs::read_to_string(project.path("workflows/W/kept")).expect("it is there");
    assert_eq!(kept.trim(), format!("good {asked}").trim());
}
