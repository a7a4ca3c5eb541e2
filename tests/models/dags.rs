//! Planners that are models, and make DAGs.

use serde_json::{Value, json};

use super::{ask, endpoint, says};
use crate::harness::Project;

const FILES: &str = r#"
=== extended_orchestration/task_batches.yaml
batches:
  - id: work
    trigger_agent: Planner
    source: {kind: structured_output, path: plan, task_model: Dag}
    allowed_capabilities: [echo, shout]
    result: {context_key: outputs, status_key: status, require_owned_paths: false}
=== acmp.yaml
max_price_cu: 1
=== orchestrator.yaml
initial_agent: Planner
=== agents.yaml
agents:
  - {name: Planner, system_message: plan}
  - {name: Echo, capabilities: [echo], runtime: {kind: template, template: '{{ input.data | tojson }}'}}
  - {name: Shouter, capabilities: [shout], runtime: {kind: template, template: '{{ input.data | upper | tojson }}'}}
  - {name: Whisperer, capabilities: [whisper], runtime: {kind: template, template: x}}
"#;

#[test]
fn a_model_that_plans_a_dag_is_held_to_what_is_allowed() {
    let task = |id: &str, capability: &str, input: Value| json!({ "task_id": id, "capability": capability, "input": input, "output_type": "json", "max_price_cu": 0.5 });
    let whole = json!({ "source": { "from_task": "a", "field": null } });
    let plan = json!({ "plan": {
        "dag_id": "d",
        "tasks": [
            task("a", "echo", json!({ "type": "text", "data": "hello" })),
            task("b", "shout", whole),
        ],
        "edges": [{ "from": "a", "to": "b" }],
    } });
    let (url, served) = endpoint(vec![says(&plan.to_string())]);
    let project = Project::of(FILES);
    let ran = ask(&project, &url, &["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(result["context"]["outputs"]["b"]["data"], "HELLO");
    let asked = served.join().expect("it was asked once");
    let format = &asked[0]["response_format"]["json_schema"];
    assert_eq!(format["strict"], true, "{format}");
    let dag = &format["schema"]["properties"]["plan"];
    for part in [&format["schema"], dag, &dag["properties"]["tasks"]["items"]] {
        assert_eq!(part["additionalProperties"], false, "{part}");
    }
    let task = &dag["properties"]["tasks"]["items"]["properties"];
    assert_eq!(task["capability"]["enum"], json!(["echo", "shout"]));
    assert_eq!(task["max_price_cu"]["type"], "number");
    let edge = &dag["properties"]["edges"]["items"]["properties"];
    for id in [&task["task_id"], &edge["from"], &edge["to"]] {
        assert!(id["pattern"].is_string(), "{id}");
    }
}
