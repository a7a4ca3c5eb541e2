//! What buyers ask of our provider: the params of their tasks, and what they may cost.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    Carrier::{self, *},
    providing::{SERVED, Serving, answers, invoke},
    read,
};
use crate::harness::Project;

#[test]
fn l3_04_what_a_buyer_sends_is_checked() {
    for carrier in [Websocket, Http] {
        checked(carrier);
    }
}

fn checked(carrier: Carrier) {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, None);
    let broken = |id: u32, change: fn(&mut Value)| {
        let mut message = invoke(id, &format!("task_{id}"), "echo");
        change(&mut message["params"]);
        message.to_string()
    };
    let (code, lines) = serving.buy_over(carrier, "-", &[
        invoke(1, "task_1", "echo").to_string(),
        invoke(2, "task_2", "nobody").to_string(),
        broken(3, |it| it["task_id"] = json!(7)),
        broken(4, |it| it["input"] = json!({ "source": { "from_task": "x" } })),
        broken(5, |it| { it["input_stream"] = json!(true); it["input"] = json!("hi"); }),
        broken(6, |it| it["proof_method"] = json!("tee-attestation")),
        broken(7, |it| { it.as_object_mut().map(|it| it.remove("capability")); }),
        broken(8, |it| it["proof_method"] = json!("result-hash")),
        broken(9, |it| *it = json!([])),
        broken(12, |it| it["timeout_ms"] = json!(0)),
        broken(13, |it| it["timeout_ms"] = json!(1.5)),
        broken(14, |it| it["max_price_cu"] = json!(-1)),
        broken(15, |it| it["stream"] = json!("yes")),
        broken(16, |it| it["output_type"] = json!(7)),
        // The id is another task's.
        broken(17, |it| { it["task_id"] = json!("task_1"); it["input"]["data"] = json!("ho"); }),
        broken(18, |it| { it["task_id"] = json!("task_1"); it["capability"] = json!("count"); }),
        broken(19, |it| it["task_id"] = json!("task_1")),
        json!({ "jsonrpc": "2.0", "id": 10, "method": "acmp/invokeDag" }).to_string(),
        json!({ "jsonrpc": "2.0", "id": 11, "method": "ping" }).to_string(),
        "nonsense".to_owned(),
        r#"{"jsonrpc": "2.0", "id": 36893488147419103232, "method": "ping"}"#.to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        json!({ "jsonrpc": "2.0", "method": "acmp/cancel", "params": { "task_id": "task_unknown" } }).to_string(),
        json!({ "jsonrpc": "2.0", "method": "acmp/cancel" }).to_string(),
    ]);
    assert_eq!(code, Some(0), "{lines:?}");
    let answers = answers(&lines);
    assert_eq!(answers["1"]["result"]["output"]["data"]["said"], "hi");
    assert_eq!(answers["1"]["result"]["task_id"], "task_1");
    let errors = [
        (2, -33002),
        (3, -32602),
        (4, -32602),
        (5, -32602),
        (6, -33006),
        (7, -32602),
        (9, -32602),
        (10, -32601),
        (12, -32602),
        (13, -32602),
        (14, -32602),
        (15, -32602),
        (16, -32602),
        (17, -32602),
        (18, -32602),
    ];
    for (id, code) in errors {
        assert_eq!(
            answers[id.to_string()]["error"]["code"],
            code,
            "{id}: {answers}"
        );
    }
    assert_eq!(answers["19"]["result"], answers["1"]["result"]);
    let proof = &answers["8"]["result"]["proof"];
    assert_eq!(proof["method"], "result-hash");
    assert_eq!(answers["11"]["result"], json!({}));
    assert_eq!(
        lines
            .iter()
            .filter(|it| read(it)["id"].is_null() && read(it).get("error").is_some())
            .count(),
        4
    );
}

#[test]
fn l1_10_a_task_costs_what_is_written_down_and_is_refused_for_less() {
    let project = Project::of(SERVED);
    project.write("workflows/W/acmp.yaml", "prices_cu: {echo: 0.25}");
    let serving = Serving::start(&project, None);
    let asked = |id: u32, capability: &str, most: Value| {
        let mut message = invoke(id, &format!("task_{id}"), capability);
        message["params"]["max_price_cu"] = most;
        message.to_string()
    };
    let (code, lines) = serving.buy(
        "-",
        &[
            asked(1, "echo", json!(0.25)),
            asked(2, "echo", json!(0.2)),
            asked(3, "count", json!(0)),
            invoke(4, "task_4", "echo").to_string(),
        ],
    );
    assert_eq!(code, Some(0), "{lines:?}");
    let answers = answers(&lines);
    let cost = |id: &str| answers[id]["result"]["cost_cu"].as_f64();
    assert_eq!(
        [cost("1"), cost("3"), cost("4")],
        [Some(0.25), Some(0.0), Some(0.25)]
    );
    let refused = &answers["2"]["error"];
    assert_eq!(refused["code"], -33001);
    assert_eq!(
        refused["data"],
        json!({ "task_id": "task_2", "min_price_cu": 0.25, "detail": "`echo` takes 0.25 CU" })
    );
    project.write("workflows/W/acmp.yaml", "prices_cu: {echo: -1}");
    let negative = project.run(&["check", "W"]).stderr;
    assert!(negative.contains("acmp.yaml:1:19"), "{negative}");
    project.write("workflows/W/acmp.yaml", "prices_cu: {ecko: 0.25}");
    let checked = project.run(&["check", "W"]).stderr;
    expect![[r#"
        error[MZ416]: no agent here serves the capability `ecko`
         --> workflows/W/acmp.yaml:1:13
          |
        1 | prices_cu: {ecko: 0.25}
          |             ^^^^
          |
          = note: expected `count`, `echo` or `sleep`
          = help: did you mean `echo`?

        checked W: 1 error
    "#]]
    .assert_eq(&checked);
}
