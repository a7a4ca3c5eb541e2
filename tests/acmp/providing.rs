//! Our provider: asked by hand, by a peer in another language, and by our own buyer.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{self, Child, Command},
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use super::{
    Carrier::{self, *},
    one, read,
};
use crate::harness::{Project, command, home};

/// Ours, in another process.
pub(crate) struct Serving {
    program: Child,
    pub(crate) port: String,
    /// Reads what it says to whoever runs it, to the end.
    told: Option<JoinHandle<String>>,
}

impl Serving {
    pub(crate) fn start(project: &Project, token: Option<&str>) -> Serving {
        Serving::at("127.0.0.1:0", project, token, &[]).expect("any port will do")
    }

    pub(crate) fn start_with(project: &Project, options: &[&str]) -> Serving {
        Serving::at("127.0.0.1:0", project, None, options).expect("any port will do")
    }

    /// Nothing if it cannot listen there.
    fn at(
        address: &str,
        project: &Project,
        token: Option<&str>,
        options: &[&str],
    ) -> Option<Serving> {
        let mut arguments = vec!["provide", "W", "--listen", address];
        arguments.extend(options);
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
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let line = lines.next().expect("it says where");
        let port = line.trim_end_matches('/').rsplit(':').next();
        let port = port.filter(|it| it.parse::<u16>().is_ok());
        let Some(port) = port.map(str::to_owned) else {
            assert!(line.contains("in use"), "{line}");
            let _ = program.wait();
            return None;
        };
        let told = thread::spawn(move || lines.map(|it| it + "\n").collect());
        Some(Serving {
            program,
            port,
            told: Some(told),
        })
    }

    /// Kills it, and starts another one in its place.
    pub(crate) fn killed_and_started(self, project: &Project) -> Serving {
        let address = format!("127.0.0.1:{}", self.port);
        drop(self);
        // What it was about to start may have its port for a moment more.
        let mut starts = (0..500).map(|_| Serving::at(&address, project, None, &[]));
        starts.find_map(|it| it).expect("the port becomes free")
    }

    /// Ends it. What it said to whoever runs it.
    pub(crate) fn told(mut self) -> String {
        let _ = self.program.kill();
        let told = self.told.take().map(JoinHandle::join);
        told.expect("it is taken once").expect("it reads")
    }

    /// What `acmp.yaml` says of it, to those who are to ask it for these capabilities.
    pub(crate) fn acmp(&self, carrier: Carrier, capabilities: &[&str]) -> Value {
        json!({ "providers": [{
            "name": "next door",
            "endpoint": carrier.endpoint(&self.port),
            "capabilities": capabilities,
        }] })
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
        self.buy_from("127.0.0.1", carrier, token, messages)
    }

    /// As a buyer does that comes from an address.
    pub(crate) fn buy_from(
        &self,
        source: &str,
        carrier: Carrier,
        token: &str,
        messages: &[String],
    ) -> (Option<i32>, Vec<String>) {
        let peer = home().join("tests/peers/buyer.py");
        let mut buyer = Command::new("python3")
            .arg(peer)
            .args([carrier.name(), "127.0.0.1", &self.port, token, source])
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
fn l1_08_a_buyer_without_the_token_is_not_let_in() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, Some("open sesame, please"));
    let message = [invoke(1, "task_1", "echo").to_string()];
    for (token, code) in [
        ("open sesame, please", 0),
        ("open sesame, pleas", 1),
        ("-", 1),
    ] {
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
    let mut acmp = serving.acmp(carrier, &["echo"]);
    acmp["providers"][0]["token_env"] = json!("MY_TOKEN");
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&json!({})));
    let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
    let ran = project.run_with(&[("MY_TOKEN", "open sesame, please")], &arguments);
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
        let acmp = serving.acmp(carrier, &["count"]);
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
