//! Our buyer, and providers that behave well and badly, over everything that carries messages.

use std::{fs, thread};

use serde_json::{Value, json};

use super::{
    CARRIERS,
    Carrier::{self, *},
    Peer, SERVED, ask, ask_over, heard, one, read,
};
use crate::harness::Project;

#[test]
fn l2_01_and_22_a_provider_is_given_one_task_and_a_literal() {
    let project = Project::new();
    let more = json!({ "preferred_tier": "B", "metadata": { "priority": "normal" }, "input_tokens_est": 5, "timeout_ms": 30000 });
    let ran = ask(&project, &["good"], &more);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result = read(&ran.stdout);
    let wanted = json!({ "type": "json", "data": { "said": "hello" } });
    assert_eq!(result["answer"], wanted);
    assert_eq!(result["usage"]["output_tokens"], 7);
    let invoked = heard(&project, "good", "acmp/invoke");
    assert_eq!(invoked.len(), 1);
    let params = &invoked[0]["params"];
    let id = params["task_id"].as_str().unwrap_or_default();
    // L2-03: an id that is nobody else's, in the form that is asked for.
    assert!(id.starts_with("task_") && id.len() == 37, "{id}");
    let wanted = json!({
        "task_id": id,
        "capability": "echo",
        "input": { "type": "text", "data": "hello" },
        "output_type": "json",
        "timeout_ms": 30000,
        "stream": false,
        "input_stream": false,
        "metadata": { "priority": "normal", "dag_id": "dag_1" },
        "input_tokens_est": 5,
        "max_price_cu": 0.01,
        "preferred_tier": "B",
    });
    assert_eq!(*params, wanted);
    let again = ask(&project, &["good"], &more);
    assert_eq!(again.code, 0);
    let invoked = heard(&project, "good", "acmp/invoke");
    assert_ne!(
        invoked[0]["params"]["task_id"],
        invoked[1]["params"]["task_id"]
    );
}

/// How a provider behaves, and what becomes of the task.
fn behaviours() -> Vec<(&'static str, Value, &'static str)> {
    let hash = json!({ "proof_method": "result-hash" });
    let none = json!({});
    let soon = json!({ "timeout_ms": 700 });
    let all = [
        ("old", &none, ""),
        ("floods", &none, ""),
        ("beats", &none, ""),
        ("closes_once", &none, ""),
        ("good", &hash, ""),
        (
            "wrong_id",
            &none,
            "wrong_task: provider `wrong_id`: the result is for the task \"task_another\"",
        ),
        (
            "negative",
            &none,
            "wrong_shape: provider `negative`: `cost_cu` is -1, which is no price",
        ),
        (
            "no_price",
            &none,
            "wrong_shape: provider `no_price`: `cost_cu` is \"free\"",
        ),
        (
            "vast",
            &none,
            "wrong_shape: provider `vast`: `cost_cu` is 2000000000.0, which is no price",
        ),
        (
            "wordy",
            &none,
            "wrong_shape: provider `wordy`: `tokens_used` is 9223372036854775808, which is no number of tokens",
        ),
        (
            "tokenless",
            &none,
            "wrong_shape: provider `tokenless`: there is no `tokens_used`, which is no number of tokens",
        ),
        (
            "error_text",
            &none,
            "program_failed: provider `error_text`: error -33099: out of order",
        ),
        (
            "dear",
            &none,
            "budget_exceeded: provider `dear`: the result costs 0.5 CU; 0.01 are allowed",
        ),
        (
            "no_output",
            &none,
            "wrong_shape: provider `no_output`: the result has no `output`",
        ),
        (
            "streamed",
            &none,
            "wrong_shape: provider `streamed`: the output was streamed",
        ),
        (
            "no_proof",
            &hash,
            "wrong_shape: provider `no_proof`: the proof by `result-hash` that was asked for is missing",
        ),
        (
            "other_proof",
            &hash,
            "wrong_shape: provider `other_proof`: the proof is by `tee-attestation`",
        ),
        (
            "false_proof",
            &hash,
            "wrong_shape: provider `false_proof`: the output does not have the hash",
        ),
        (
            "budget",
            &none,
            "budget_exceeded: provider `budget`: error -33001: it says so",
        ),
        ("capability", &none, "not_found: "),
        ("timeout", &none, "timeout: "),
        ("cancelled", &none, "refused: "),
        ("escrow", &none, "bad_request: "),
        ("proof", &none, "bad_request: "),
        ("feature", &none, "bad_request: "),
        ("internal", &none, "program_failed: "),
        ("params", &none, "bad_request: "),
        (
            "odd",
            &none,
            "program_failed: provider `odd`: error 7: it says so",
        ),
        (
            "silent",
            &none,
            "idle_timeout: provider `silent`: it was silent for 0.15 seconds",
        ),
        ("never", &soon, "timeout: no answer within 0.7 seconds"),
        (
            "version",
            &none,
            "not_found: provider `version`: it speaks ACMP 9.0.0",
        ),
        (
            "mcp",
            &none,
            "not_found: provider `mcp`: it answers `initialize`, but is no ACMP provider",
        ),
    ];
    all.map(|(how, more, wanted)| (how, more.clone(), wanted))
        .to_vec()
}

fn check(carrier: Carrier, how: &str, more: &Value, wanted: &str) -> Project {
    let project = Project::new();
    let ran = ask_over(carrier, &project, &[how], more);
    let result = read(&ran.stdout);
    if wanted.is_empty() {
        assert_eq!(ran.code, 0, "{carrier:?} {how}: {}", ran.stderr);
        assert_eq!(result["answer"]["data"]["said"], "hello", "{how}");
        return project;
    }
    assert_eq!(ran.code, 1, "{carrier:?} {how}: {}", ran.stderr);
    let reason = result["reason"].as_str().unwrap_or_default();
    let wanted = format!("task `a` failed: {wanted}");
    assert!(reason.starts_with(&wanted), "{carrier:?} {how}: {reason}");
    project
}

#[test]
fn l1_04_and_05_and_09_what_a_provider_says_is_checked_and_its_errors_have_a_meaning() {
    for (how, more, wanted) in behaviours() {
        check(Stdio, how, &more, wanted);
    }
}

#[test]
fn so_it_is_whatever_carries_it() {
    let some = [
        "old",
        "floods",
        "beats",
        "wrong_id",
        "negative",
        "dear",
        "capability",
        "silent",
        "never",
        "mcp",
    ];
    for (how, more, wanted) in behaviours() {
        if some.contains(&how) {
            check(Websocket, how, &more, wanted);
            check(Http, how, &more, wanted);
        }
    }
}

/// What is wrong with messages themselves, and how that shows with each carrier.
#[test]
fn a_connection_that_is_of_no_use_is_lost() {
    let lost = "connection: provider `{}`: ";
    let closed = "connection: provider `{}`: it was closed";
    let half = "connection: provider `{}`: it was closed in the middle of a message";
    let unanswered = "connection: provider `{}`: it was closed without an answer";
    let long = "connection: provider `{}`: a message is longer than the 65536 bytes";
    let odd = "connection: provider `{}`: a message is not UTF-8";
    let status = "connection: provider `{}`: it answers with status 307";
    let unavailable = "connection: provider `{}`: it answers with status 503";
    let empty = "connection: provider `{}`: it answers with status 202";
    let refused = "authentication: provider `{}`: it answers with status 401";
    // Where the task has to be given up.
    let late = "timeout: no answer within 0.7 seconds";
    let cases = [
        ("closes", [Some(closed), Some(lost), Some(closed)]),
        ("half", [Some(half), Some(lost), Some(unanswered)]),
        ("redirects", [None, None, Some(status)]),
        ("unavailable", [None, None, Some(unavailable)]),
        ("empty", [None, None, Some(empty)]),
        ("unauthorized", [None, None, Some(refused)]),
        ("long", [Some(long); 3]),
        ("endless", [Some(long); 3]),
        ("announced", [None, Some(long), Some(long)]),
        ("not_utf8", [Some(odd); 3]),
        // It answers another question, or when it was told that nobody waits, or says other things for ever.
        ("another_id", [Some(late); 3]),
        ("late", [Some(late); 3]),
        ("floods_on", [Some(late); 3]),
    ];
    let cases = cases.iter().flat_map(|(how, wanted)| {
        let wanted = CARRIERS.into_iter().zip(wanted);
        wanted.filter_map(move |(carrier, it)| Some((*how, carrier, (*it)?)))
    });
    let cases: Vec<_> = cases.collect();
    // They wait most of the time.
    for some in cases.chunks(8) {
        thread::scope(|scope| {
            for (how, carrier, wanted) in some {
                let more = match *wanted == late {
                    true => json!({ "timeout_ms": 700 }),
                    false => json!({}),
                };
                scope.spawn(move || {
                    let project = check(*carrier, how, &more, &wanted.replace("{}", how));
                    // What cannot be read cannot be read another time.
                    if [long, odd].contains(wanted) {
                        assert_eq!(heard(&project, how, "acmp/invoke").len(), 1, "{how}");
                    }
                });
            }
        });
    }
}

#[test]
fn what_is_no_message_fails_the_task_at_once() {
    let json = "not_json: provider `{}`: what it sent is no message: not JSON: ";
    let object = "wrong_shape: provider `{}`: what it sent is no message: a message is an object";
    let version = "wrong_shape: provider `{}`: what it sent is no message: a message has `jsonrpc";
    let method = "wrong_shape: provider `{}`: what it sent is no message: a method is a text";
    let cases = [
        ("nonsense", json),
        ("cut", json),
        ("deep", json),
        // What is no number is no JSON.
        ("nan", json),
        ("infinite", json),
        ("null", object),
        ("batch", object),
        ("unversioned", version),
        ("methodless", method),
    ];
    let cases = cases
        .iter()
        .flat_map(|(how, wanted)| CARRIERS.map(|it| (*how, *wanted, it)));
    let mut cases: Vec<_> = cases.collect();
    cases.push(("banner", json, Stdio));
    for some in cases.chunks(8) {
        thread::scope(|scope| {
            for (how, wanted, carrier) in some {
                scope.spawn(move || {
                    let project = check(*carrier, how, &json!({}), &wanted.replace("{}", how));
                    let asked = heard(&project, how, "acmp/invoke").len();
                    assert_eq!(asked, usize::from(*how != "banner"), "{carrier:?} {how}");
                });
            }
        });
    }
}

#[test]
fn what_is_no_message_concerns_whose_answer_it_would_be_or_all() {
    let task = |id| json!({ "task_id": id, "capability": "echo", "input": { "type": "text", "data": id } });
    let dag = json!({ "dag_id": "dag_1", "tasks": [task("a"), task("b")], "edges": [] });
    for (how, completed) in [("spoils_one", 1), ("spoils_all", 0)] {
        for carrier in [Stdio, Websocket] {
            let project = Project::new();
            let peer = Peer::start(&project, how, carrier);
            let acmp = json!({
                "failure_policy": "best-effort",
                "providers": [{ "name": how, "endpoint": peer.endpoint, "capabilities": ["echo"] }],
            });
            project.write("acmp.json", acmp.to_string());
            project.write("dag.json", dag.to_string());
            let ran = project.run(&["dag", "dag.json", "--acmp", "acmp.json", "--json"]);
            assert_eq!(ran.code, 3, "{carrier:?} {how}: {}", ran.stderr);
            let outputs = read(&ran.stdout)["context"]["dag_result"].clone();
            let outputs = outputs.as_object().map(|it| it.len());
            assert_eq!(
                outputs,
                Some(completed),
                "{carrier:?} {how}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn after_a_lost_connection_a_task_is_sent_again_with_its_id() {
    let cases = CARRIERS.map(|it| (it, "closes_once"));
    // A session that is over is begun anew.
    for (carrier, how) in cases.into_iter().chain([(Http, "forgets_once")]) {
        let project = Project::new();
        let ran = ask_over(carrier, &project, &[how], &json!({}));
        assert_eq!(ran.code, 0, "{carrier:?} {how}: {}", ran.stderr);
        let invoked = heard(&project, how, "acmp/invoke");
        assert_eq!(invoked.len(), 2, "{carrier:?} {how}");
        assert_eq!(invoked[0]["params"], invoked[1]["params"]);
        let greeted = heard(&project, how, "initialize").len();
        let anew = usize::from(how == "forgets_once" || carrier != Http);
        assert_eq!(greeted, 1 + anew, "{carrier:?} {how}");
    }
}

#[test]
fn over_streamable_http_answers_come_at_once_or_as_events_and_heartbeats_aside() {
    for how in ["plain", "good", "beats_aside"] {
        let project = Project::new();
        let ran = ask_over(Http, &project, &[how], &json!({}));
        assert_eq!(ran.code, 0, "{how}: {}", ran.stderr);
        // Everybody may have something to say besides, and is told when the session is over.
        assert_eq!(heard(&project, how, "GET /").len(), 1, "{how}");
        assert_eq!(heard(&project, how, "DELETE").len(), 1, "{how}");
    }
}

#[test]
fn nothing_goes_to_another_machine_where_everybody_can_read_it() {
    let project = Project::new();
    project.write("dag.json", one(&json!({})));
    for (kind, url) in [
        ("http", "http://192.0.2.1/"),
        ("websocket", "ws://192.0.2.1/"),
        ("http", "https://name:secret@192.0.2.1/"),
        ("http", "ws://127.0.0.1/"),
        ("websocket", "nonsense"),
    ] {
        let acmp = json!({ "providers": [{
            "name": "far",
            "endpoint": { "kind": kind, "url": url },
            "capabilities": ["echo"],
        }] });
        project.write("acmp.json", acmp.to_string());
        let ran = project.run(&["dag", "dag.json", "--acmp", "acmp.json"]);
        assert_eq!(ran.code, 2, "{url}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("the provider `far` cannot be asked"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
        // It shows before anything runs.
        let project = Project::of(SERVED);
        project.write("workflows/W/acmp.yaml", acmp.to_string());
        let checked = project.run(&["check", "W"]);
        assert_eq!(checked.code, 2, "{url}: {}", checked.stderr);
        assert!(
            checked.stderr.contains("cannot be asked"),
            "{}",
            checked.stderr
        );
    }
}

/// Elsewhere it is the system that says which ones are.
#[cfg(target_os = "linux")]
#[test]
fn l2_24_what_is_given_up_is_cancelled_at_its_provider() {
    let never = json!({ "timeout_ms": 4000 });
    for (how, more, carrier) in [
        ("never", &never, Stdio),
        ("never", &never, Websocket),
        ("never", &never, Http),
        ("silent", &json!({}), Stdio),
        ("silent", &json!({}), Http),
    ] {
        let project = Project::new();
        assert_eq!(ask_over(carrier, &project, &[how], more).code, 1);
        let (invoked, cancelled) = (
            heard(&project, how, "acmp/invoke"),
            heard(&project, how, "acmp/cancel"),
        );
        assert_eq!(cancelled.len(), 1, "{how}");
        assert_eq!(
            cancelled[0]["params"]["task_id"],
            invoked[0]["params"]["task_id"]
        );
    }
}

#[test]
fn what_is_given_up_at_once_is_not_cancelled_before_it_is_asked_for() {
    let dag = json!({ "dag_id": "dag_1", "edges": [], "tasks": [
        { "task_id": "a", "capability": "echo", "input": { "type": "text", "data": "x" } },
        { "task_id": "b", "capability": "fail", "input": { "type": "text", "data": "x" } },
    ] });
    for carrier in CARRIERS {
        let project = Project::new();
        let hows = [("never", "echo"), ("internal", "fail")];
        let peers = hows.map(|(how, _)| Peer::start(&project, how, carrier));
        let providers = hows.iter().zip(&peers).map(|((how, capability), peer)| {
            json!({ "name": how, "endpoint": peer.endpoint, "capabilities": [capability] })
        });
        let acmp = json!({ "providers": providers.collect::<Value>() });
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", dag.to_string());
        let ran = project.run(&["dag", "dag.json", "--acmp", "acmp.json"]);
        assert_eq!(ran.code, 1, "{carrier:?}: {}", ran.stderr);
        let log = fs::read_to_string(project.path("heard-never")).unwrap_or_default();
        let methods = log.lines().map(|it| read(it)["method"].clone());
        let of_task = |it: &Value| *it == "acmp/invoke" || *it == "acmp/cancel";
        let methods: Vec<Value> = methods.filter(of_task).collect();
        // The other one may have failed before this one was asked for.
        let whole = [json!("acmp/invoke"), json!("acmp/cancel")];
        assert!(
            methods.is_empty() || methods == whole,
            "{carrier:?}: {methods:?}"
        );
    }
}

#[test]
fn an_answer_that_fits_no_request_is_told_of() {
    let soon = json!({ "timeout_ms": 5000 });
    for (how, id) in [("another_id", "\"another\""), ("numeric_id", "7")] {
        let wanted = format!(
            "timeout: no answer within 5 seconds; provider `{how}` sent an answer with the id {id}, which no request has"
        );
        check(Stdio, how, &soon, &wanted);
    }
}

#[test]
fn a_task_larger_than_a_message_is_not_sent() {
    let project = Project::new();
    let large = json!({ "input": { "type": "text", "data": "x".repeat(70_000) } });
    let ran = ask(&project, &["good"], &large);
    let reason = read(&ran.stdout)["reason"].clone();
    let reason = reason.as_str().unwrap_or_default();
    assert!(
        reason.contains("bad_request: provider `good`: the task is 70"),
        "{reason}"
    );
    assert!(heard(&project, "good", "acmp/invoke").is_empty());
}
