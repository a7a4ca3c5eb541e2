//! Providers and buyers: ours against peers that were written in another language, and against each other.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{self, Child, Command},
    thread,
};

use serde_json::{Value, json};

use crate::harness::{Project, Ran, command, home};

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|it| panic!("{it}: {text}"))
}

/// A DAG of one task, with these fields besides.
fn one(more: &Value) -> String {
    let mut task = json!({
        "task_id": "a",
        "capability": "echo",
        "input": { "type": "text", "data": "hello" },
        "max_price_cu": 0.01,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        task[key] = value.clone();
    }
    json!({ "dag_id": "dag_1", "tasks": [task], "edges": [] }).to_string()
}

/// What carries messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Carrier {
    Stdio,
    Websocket,
    Http,
}
use Carrier::{Http, Stdio, Websocket};

const CARRIERS: [Carrier; 3] = [Stdio, Websocket, Http];

impl Carrier {
    fn name(self) -> &'static str {
        match self {
            Stdio => "stdio",
            Websocket => "websocket",
            Http => "http",
        }
    }

    fn endpoint(self, port: &str) -> Value {
        let scheme = if self == Http { "http" } else { "ws" };
        json!({ "kind": self.name(), "url": format!("{scheme}://127.0.0.1:{port}/") })
    }
}

/// A provider that behaves so, and where it is.
struct Peer {
    endpoint: Value,
    program: Option<Child>,
}

impl Peer {
    fn start(project: &Project, how: &str, carrier: Carrier) -> Peer {
        let peer = home().join("tests/peers/provider.py");
        let log = project.path(&format!("heard-{how}"));
        if carrier == Stdio {
            return Peer {
                endpoint: json!({ "kind": "stdio", "argv": ["python3", peer, how, log] }),
                program: None,
            };
        }
        let mut command = Command::new("python3");
        command.arg(peer).arg(how).arg(log).arg(carrier.name());
        if how == "secured" {
            command.arg("tls");
        }
        let mut program = command
            .stdout(process::Stdio::piped())
            .stderr(process::Stdio::null())
            .spawn()
            .expect("there is Python");
        let stdout = program.stdout.take().expect("it is piped");
        let port = BufReader::new(stdout).lines().next();
        let port = port.expect("it says where").expect("it is text");
        Peer {
            endpoint: carrier.endpoint(&port),
            program: Some(program),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(program) = &mut self.program {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// The same, asked of providers that behave so, in this order.
fn ask(project: &Project, hows: &[&str], more: &Value) -> Ran {
    ask_over(Stdio, project, hows, more)
}

fn ask_over(carrier: Carrier, project: &Project, hows: &[&str], more: &Value) -> Ran {
    let peers = hows.iter().map(|how| Peer::start(project, how, carrier));
    let peers: Vec<Peer> = peers.collect();
    let providers = hows.iter().zip(&peers).map(|(how, peer)| {
        json!({
            "name": how,
            "endpoint": peer.endpoint,
            "capabilities": ["echo"],
            "max_message_bytes": 65536,
        })
    });
    let acmp = json!({ "providers": providers.collect::<Value>() });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(more));
    project.run(&["dag", "dag.json", "--acmp", "acmp.json", "--json"])
}

/// What a provider was sent.
fn heard(project: &Project, how: &str, method: &str) -> Vec<Value> {
    let text = fs::read_to_string(project.path(&format!("heard-{how}"))).unwrap_or_default();
    let mut all = text.lines().map(read).collect::<Vec<_>>();
    all.retain(|it| it["method"] == method);
    all
}

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

fn check(carrier: Carrier, how: &str, more: &Value, wanted: &str) {
    let project = Project::new();
    let ran = ask_over(carrier, &project, &[how], more);
    let result = read(&ran.stdout);
    if wanted.is_empty() {
        assert_eq!(ran.code, 0, "{carrier:?} {how}: {}", ran.stderr);
        assert_eq!(result["answer"]["data"]["said"], "hello", "{how}");
        return;
    }
    assert_eq!(ran.code, 1, "{carrier:?} {how}: {}", ran.stderr);
    let reason = result["reason"].as_str().unwrap_or_default();
    let wanted = format!("task `a` failed: {wanted}");
    assert!(reason.starts_with(&wanted), "{carrier:?} {how}: {reason}");
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
        // What is no number is no JSON, and no message.
        ("nan", [Some(late), Some(late), Some(unanswered)]),
        ("infinite", [Some(late), Some(late), Some(unanswered)]),
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
                scope.spawn(move || check(*carrier, how, &more, &wanted.replace("{}", how)));
            }
        });
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

/// What a run took in CU, as it and its history say.
fn cu(project: &Project, ran: &Ran) -> Value {
    let ending = read(&ran.stdout);
    let told = ending["usage"]["cu"].clone();
    let id = ending["run"].as_str().unwrap_or_default();
    let shown = project.run(&["show", id, "--json"]);
    let shown = read(&shown.stdout);
    assert_eq!(shown["usage"]["cu"], told, "{shown}");
    let listed = read(&project.run(&["runs", "--json"]).stdout);
    assert_eq!(listed[0]["usage"]["cu"], told, "{listed}");
    told
}

#[test]
fn what_a_task_took_is_what_its_provider_says_up_to_its_price() {
    let hash = json!({ "proof_method": "result-hash" });
    let none = json!({});
    let soon = json!({ "timeout_ms": 700 });
    for (how, more, taken) in [
        ("good", &none, json!(0.001)),
        // It says that it was paid, and proves nothing.
        ("false_proof", &hash, json!(0.001)),
        ("proves_late", &hash, json!(0.001)),
        // No more than was offered, whatever it says.
        ("dear", &none, json!(0.01)),
        ("huge", &none, json!(0.01)),
        ("negative", &none, json!(0.01)),
        ("no_price", &none, json!(0.01)),
        // It may have been paid for what nobody waited for.
        ("never", &soon, json!(0.01)),
        ("silent", &none, json!(0.01)),
        ("closes", &none, json!(0.01)),
        // It did nothing.
        ("internal", &none, Value::Null),
        ("mcp", &none, Value::Null),
    ] {
        let project = Project::new();
        let ran = ask(&project, &[how], more);
        assert_eq!(cu(&project, &ran), taken, "{how}: {}", ran.stderr);
    }
}

#[test]
fn what_a_dag_may_cost_is_reserved_for_each_task_and_the_run_stops_there_and_goes_on() {
    let project = Project::new();
    let hash = json!({ "proof_method": "result-hash" });
    let peer = Peer::start(&project, "proves_late", Stdio);
    let acmp = json!({
        "max_price_cu": 0.0105,
        "retry_limit": 5,
        "retry": { "initial_seconds": 0.0 },
        "providers": [{ "name": "late", "endpoint": peer.endpoint, "capabilities": ["echo"] }],
    });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&hash));
    let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
    let ran = project.run(&arguments);
    // The first attempt took 0.001, and for another one 0.01 are not left.
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let result = read(&ran.stdout);
    assert_eq!(result["status"], "budget");
    let reason = "the budget of the run is reached: 0.001 of 0.0105 CU are spent, and the next task may cost 0.01";
    assert_eq!(result["reason"], reason);
    assert!(ran.stderr.contains("--budget-cu"), "{}", ran.stderr);
    assert_eq!(cu(&project, &ran), 0.001);
    let invoked = heard(&project, "proves_late", "acmp/invoke");
    assert_eq!(invoked.len(), 1);
    // It is no larger the next time.
    assert_eq!(project.run(&["resume"]).code, 4);
    let ran = project.run(&["resume", "--budget-cu", "0.011", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(cu(&project, &ran), 0.002);
    let ending = read(&ran.stdout);
    let id = ending["run"].as_str().unwrap_or_default();
    let shown = project.run(&["show", id]).stdout;
    assert!(shown.contains("0.002 CU"), "{shown}");
    // What costs nothing can always be done.
    let free = json!({ "proof_method": "result-hash", "max_price_cu": 0.0 });
    project.write("dag.json", one(&free));
    let free = [&arguments[..], &["--max-price-cu", "0"]].concat();
    let ran = project.run(&free);
    let reason = read(&ran.stdout)["reason"].clone();
    let reason = reason.as_str().unwrap_or_default();
    assert!(
        reason.contains("the result costs 0.001 CU; 0 are allowed"),
        "{reason}"
    );
}

/// Elsewhere it is the system that says which ones are.
#[cfg(target_os = "linux")]
#[test]
fn over_tls_only_a_certificate_that_is_trusted_counts() {
    for carrier in [Websocket, Http] {
        let project = Project::new();
        let peer = Peer::start(&project, "secured", carrier);
        let plain = peer.endpoint["url"].as_str().unwrap_or_default();
        let (scheme, place) = plain.split_once(':').expect("it has a scheme");
        let acmp = json!({ "providers": [{
            "name": "secured",
            "endpoint": { "kind": carrier.name(), "url": format!("{scheme}s:{place}") },
            "capabilities": ["echo"],
        }] });
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", one(&json!({})));
        let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
        let trusted = home().join("tests/peers/tls.pem");
        let trusted = trusted.to_string_lossy();
        let ran = project.run_with(&[("SSL_CERT_FILE", &*trusted)], &arguments);
        assert_eq!(ran.code, 0, "{carrier:?}: {} {}", ran.stdout, ran.stderr);
        let ran = project.run(&arguments);
        assert_eq!(ran.code, 1, "{carrier:?}: {}", ran.stderr);
        let reason = read(&ran.stdout)["reason"].clone();
        let reason = reason.as_str().unwrap_or_default();
        assert!(
            reason.contains("connection: provider `secured`: "),
            "{reason}"
        );
        assert_eq!(heard(&project, "secured", "acmp/invoke").len(), 1);
    }
}

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
fn the_next_provider_is_asked_where_one_cannot() {
    for (first, code) in [
        ("budget", 0),
        ("capability", 0),
        ("closes", 0),
        ("mcp", 0),
        ("internal", 1),
        ("wrong_id", 1),
    ] {
        let project = Project::new();
        let ran = ask(&project, &[first, "good"], &json!({}));
        assert_eq!(ran.code, code, "{first}: {}", ran.stderr);
        assert_eq!(
            heard(&project, "good", "acmp/invoke").len(),
            usize::from(code == 0),
            "{first}"
        );
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

/// Ours, in another process.
pub(crate) struct Serving {
    program: Child,
    pub(crate) port: String,
}

impl Serving {
    pub(crate) fn start(project: &Project, token: Option<&str>) -> Serving {
        let mut arguments = vec!["provide", "W", "--listen", "127.0.0.1:0"];
        if token.is_some() {
            arguments.extend(["--token-env", "BUYERS_TOKEN"]);
        }
        let mut command = command(&project.path(""), &arguments);
        command.env("BUYERS_TOKEN", token.unwrap_or_default());
        let mut program = command
            .stderr(process::Stdio::piped())
            .spawn()
            .expect("the program is built");
        let stderr = program.stderr.take().expect("it is piped");
        let line = BufReader::new(stderr).lines().next();
        let line = line.expect("it says where").expect("it is text");
        let port = line
            .trim_end_matches('/')
            .rsplit(':')
            .next()
            .unwrap_or_default();
        Serving {
            program,
            port: port.to_owned(),
        }
    }

    /// Of the process.
    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    /// What comes back for these messages.
    pub(crate) fn buy(&self, token: &str, messages: &[String]) -> (Option<i32>, Vec<String>) {
        self.buy_over(Websocket, token, messages)
    }

    pub(crate) fn buy_over(
        &self,
        carrier: Carrier,
        token: &str,
        messages: &[String],
    ) -> (Option<i32>, Vec<String>) {
        let peer = home().join("tests/peers/buyer.py");
        let mut buyer = Command::new("python3")
            .arg(peer)
            .args([carrier.name(), "127.0.0.1", &self.port, token])
            .stdin(process::Stdio::piped())
            .stdout(process::Stdio::piped())
            .spawn()
            .expect("there is Python");
        let mut stdin = buyer.stdin.take().expect("it is piped");
        // One that was refused does not read.
        let _ = stdin.write_all((messages.join("\n") + "\n").as_bytes());
        drop(stdin);
        let ended = buyer.wait_with_output().expect("it can be waited for");
        let lines = String::from_utf8_lossy(&ended.stdout);
        (
            ended.status.code(),
            lines.lines().map(str::to_owned).collect(),
        )
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// One that says how often it was asked, one that never ends, and one that is a template.
pub(crate) const SERVED: &str = r#"=== agents.yaml
agents:
  - name: Counter
    capabilities: [count]
    runtime: {kind: command, argv: [sh, -c, 'cat > /dev/null; echo x >> ../../count; sleep 0.3; wc -l < ../../count']}
  - name: Sleeper
    capabilities: [sleep]
    runtime: {kind: command, argv: [sh, -c, 'echo $$ >> ../../asleep; sleep 3600']}
  - name: Echo
    capabilities: [echo]
    runtime: {kind: template, template: '{"said": {{ input.data | tojson }}}'}
"#;

pub(crate) fn invoke(id: u32, task: &str, capability: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "acmp/invoke", "params": {
        "task_id": task, "capability": capability, "input": { "type": "text", "data": "hi" },
    } })
}

/// The answers by id, as far as they have one.
pub(crate) fn answers(lines: &[String]) -> Value {
    let mut answers = json!({});
    for line in lines
        .iter()
        .map(|it| read(it))
        .filter(|it| it.get("id").is_some())
    {
        let id = line["id"].to_string();
        answers[id] = line;
    }
    answers
}

#[test]
fn l1_10_a_task_is_carried_out_once_however_often_it_is_asked_for() {
    for carrier in [Websocket, Http] {
        carried_out_once(carrier);
    }
}

fn carried_out_once(carrier: Carrier) {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, None);
    let twice = [1, 2].map(|it| invoke(it, "task_1", "count").to_string());
    let (code, lines) = serving.buy_over(carrier, "-", &twice);
    assert_eq!(code, Some(0), "{lines:?}");
    let first = answers(&lines);
    assert_eq!(
        first["1"]["result"], first["2"]["result"],
        "the second attaches to the first"
    );
    assert_eq!(
        first["1"]["result"]["output"],
        json!({ "type": "json", "data": 1 })
    );
    // Over another connection, when it is done.
    let (_, lines) = serving.buy_over(
        carrier,
        "-",
        &[
            invoke(3, "task_1", "count").to_string(),
            invoke(4, "task_2", "count").to_string(),
        ],
    );
    let later = answers(&lines);
    assert_eq!(later["3"]["result"], first["1"]["result"]);
    assert_eq!(later["4"]["result"]["output"]["data"], 2);
}

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
        broken(5, |it| it["input_stream"] = json!(true)),
        broken(6, |it| it["proof_method"] = json!("tee-attestation")),
        broken(7, |it| { it.as_object_mut().map(|it| it.remove("capability")); }),
        broken(8, |it| it["proof_method"] = json!("result-hash")),
        broken(9, |it| *it = json!([])),
        json!({ "jsonrpc": "2.0", "id": 10, "method": "acmp/invokeDag" }).to_string(),
        json!({ "jsonrpc": "2.0", "id": 11, "method": "ping" }).to_string(),
        "nonsense".to_owned(),
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
        (5, -33007),
        (6, -33006),
        (7, -32602),
        (9, -32602),
        (10, -32601),
    ];
    for (id, code) in errors {
        assert_eq!(
            answers[id.to_string()]["error"]["code"],
            code,
            "{id}: {answers}"
        );
    }
    let proof = &answers["8"]["result"]["proof"];
    assert_eq!(proof["method"], "result-hash");
    assert_eq!(answers["11"]["result"], json!({}));
    assert_eq!(
        lines
            .iter()
            .filter(|it| read(it)["id"].is_null() && read(it).get("error").is_some())
            .count(),
        3
    );
}

#[test]
fn l1_08_a_buyer_without_the_token_is_not_let_in() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, Some("open sesame"));
    let message = [invoke(1, "task_1", "echo").to_string()];
    for (token, code) in [("open sesame", 0), ("open sesam", 1), ("-", 1)] {
        for carrier in [Websocket, Http] {
            let (ended, lines) = serving.buy_over(carrier, token, &message);
            assert_eq!(ended, Some(code), "{carrier:?} {token}: {lines:?}");
            assert!(code == 0 || lines[0].contains("401"), "{lines:?}");
        }
    }
    // Nor is anybody let in from elsewhere without one.
    let ran = project.run(&["provide", "W", "--listen", "0.0.0.0:0"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("MZ501"),
        "{}",
        ran.stderr
    );
    // Ours shows it.
    for carrier in [Websocket, Http] {
        shown(carrier, &project, &serving);
    }
}

fn shown(carrier: Carrier, project: &Project, serving: &Serving) {
    let acmp = json!({ "providers": [{
        "name": "next door",
        "endpoint": carrier.endpoint(&serving.port),
        "capabilities": ["echo"],
        "token_env": "MY_TOKEN",
    }] });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&json!({})));
    let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
    let ran = project.run_with(&[("MY_TOKEN", "open sesame")], &arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = project.run_with(&[("MY_TOKEN", "guessed")], &arguments);
    assert_eq!(ran.code, 1);
    let reason = read(&ran.stdout)["reason"].clone();
    let reason = reason.as_str().unwrap_or_default();
    assert!(
        reason.starts_with("task `a` failed: authentication: "),
        "{reason}"
    );
    assert!(!ran.stderr.contains("guessed") && !ran.stdout.contains("guessed"));
    assert_eq!(project.run(&arguments).code, 2, "no token is there");
}

#[test]
fn a_cancelled_task_stops_at_the_provider() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, None);
    for (carrier, task) in [(Websocket, "task_1"), (Http, "task_2")] {
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "acmp/cancel", "params": { "task_id": task } });
        let messages = [invoke(1, task, "sleep").to_string(), cancel.to_string()];
        let (code, lines) = serving.buy_over(carrier, "-", &messages);
        assert_eq!(code, Some(0), "{carrier:?}: {lines:?}");
        assert_eq!(answers(&lines)["1"]["error"]["code"], -33004);
    }
}

/// What comes back for a request of so many headers, up to the end of the connection.
fn request(port: &str, first: &str, headers: &[&str], body: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("somebody is there");
    let length = format!("Content-Length: {}", body.len());
    let headers = [&["Host: x", "Connection: close", &*length], headers].concat();
    let text = format!("{first} HTTP/1.1\r\n{}\r\n\r\n{body}", headers.join("\r\n"));
    stream.write_all(text.as_bytes()).expect("it is read");
    let mut answer = String::new();
    // Where it is closed in the middle, what came before counts.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn over_http_a_buyer_is_answered_as_it_can_read_and_no_browser_is() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, None);
    let invoke = invoke(1, "task_1", "echo").to_string();
    let sleep = self::invoke(2, "task_2", "sleep").to_string();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let events = "Accept: application/json, text/event-stream";
    let said = r#""said":"hi""#;
    let cases: [(&str, &[&str], &str, &str, &str); 10] = [
        ("POST /", &[], &invoke, "200", said),
        (
            "POST /",
            &["Accept: application/json"],
            &invoke,
            "200",
            said,
        ),
        ("POST /any/path", &[events], &invoke, "200", said),
        ("POST /", &[events], &ping, "200", r#""result":{}"#),
        ("POST /", &[], &note, "202", ""),
        ("POST /", &[], "nonsense", "400", "-32700"),
        ("POST /", &["Origin: http://127.0.0.1"], &sleep, "403", ""),
        ("GET /", &["Accept: text/event-stream"], "", "405", ""),
        ("DELETE /", &[], "", "405", ""),
        (
            "GET /",
            &["Upgrade: websocket", "Connection: upgrade"],
            "",
            "400",
            "",
        ),
    ];
    for (first, headers, body, status, wanted) in cases {
        let answer = request(&serving.port, first, headers, body);
        let head = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&head), "{first} {headers:?}: {answer}");
        assert!(answer.contains(wanted), "{first} {headers:?}: {answer}");
        let is_stream = headers == [events] && body == invoke;
        assert_eq!(answer.contains("\ndata: {"), is_stream, "{answer}");
    }
}

/// The example, with its own agents and with those of another process.
#[test]
fn the_example_comes_to_the_same_both_ways() {
    let project = Project::new();
    let example = home().join("workflows/TextDecomposition");
    let within = crate::harness::run_in(home(), &["TextDecomposition"]);
    assert_eq!(within.code, 0, "{}", within.stderr);
    let workflows = home().join("workflows");
    let program = env!("CARGO_BIN_EXE_mozaiks-run");
    let acmp = json!({ "providers": [{
        "name": "another process",
        "endpoint": { "kind": "stdio", "argv": [program, "provide", "TextDecomposition", "--workflows", workflows] },
        "capabilities": ["text-split", "sentiment-analysis", "result-aggregation"],
    }] });
    project.write("acmp.json", acmp.to_string());
    let dag = example.join("extended_orchestration/task_dag.yaml");
    let dag = dag.to_string_lossy().into_owned();
    let outside = project.run(&["dag", &dag, "--acmp", "acmp.json"]);
    assert_eq!(outside.code, 0, "{}", outside.stderr);
    assert_eq!(read(&within.stdout), read(&outside.stdout));
}

#[test]
fn wherever_the_buyer_dies_nothing_is_carried_out_twice() {
    let tasks = json!([
        { "task_id": "a", "capability": "count", "input": { "type": "text", "data": "x" } },
        { "task_id": "b", "capability": "count", "input": { "source": { "from_task": "a" } } },
    ]);
    let dag = json!({ "dag_id": "dag_1", "tasks": tasks, "edges": [{ "from": "a", "to": "b" }] });
    let mut deaths = 0;
    for at in 0_usize.. {
        let project = Project::of(SERVED);
        let serving = Serving::start(&project, None);
        let carrier = [Websocket, Http][at % 2];
        let acmp = json!({ "providers": [{
            "name": "next door",
            "endpoint": carrier.endpoint(&serving.port),
            "capabilities": ["count"],
        }] });
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", dag.to_string());
        let arguments = ["dag", "dag.json", "--acmp", "acmp.json"];
        let crash = [("MOZAIKS_CRASH_AT", &*at.to_string())];
        if project.run_with(&crash, &arguments).code == 0 {
            break;
        }
        deaths += 1;
        let ran = project.run(&["resume"]);
        assert_eq!(ran.code, 0, "killed at {at}: {}", ran.stderr);
        // What was under way is sent again with its id, and the provider has it already.
        let wanted = json!({ "type": "json", "data": 2 });
        assert_eq!(read(&ran.stdout), wanted, "killed at {at}");
    }
    assert!(deaths > 3, "it died {deaths} times");
}

/// A conveyor whose worker is served by another process: it is sent the prompt, and its answer is judged as any other.
#[test]
fn a_worker_of_a_conveyor_may_be_a_capability() {
    let project = Project::of(
        "\
=== agents.yaml
agents:
  - {name: Shouter, capabilities: [shout], runtime: {kind: template, template: '{\"loud\": {{ (input.data | upper) | tojson }}}'}}
",
    );
    let mine = Project::of(
        "\
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W]}]
=== structured_outputs.yaml
models: {Loud: {type: model, fields: {loud: {type: str}}}}
registry: {W: Loud}
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [{task_id: t, execution_agent: W, task_prompt: dig deep}]}}}]}}
  - {name: W, system_message: be loud, runtime: {kind: acmp, capability: shout}}
  - {name: Z, runtime: {kind: template, output: text, template: '{{ c_results.t.loud }}'}}
",
    );
    let program = env!("CARGO_BIN_EXE_mozaiks-run");
    let workflows = project.path("workflows");
    let acmp = json!({ "providers": [{
        "name": "loud ones",
        "endpoint": { "kind": "stdio", "argv": [program, "provide", "W", "--workflows", workflows] },
        "capabilities": ["shout"],
    }] });
    mine.write("workflows/W/acmp.yaml", acmp.to_string());
    let ran = mine.run(&["W", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let said = read(&ran.stdout)["answer"].to_string();
    assert!(
        said.contains("BE LOUD") && said.contains("DIG DEEP"),
        "{said}"
    );
}
