//! Providers and buyers: ours against peers that were written in another language, and against each other.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{self, Child, Command},
};

use serde_json::{Value, json};

use crate::harness::{Project, Ran, home};

mod asked;
mod buying;
mod checked;
mod costs;
mod functions;
mod kills;
mod next;
mod providing;
mod secured;
mod serving;
mod streaming;

pub(crate) use providing::{SERVED, Serving, answers, invoke};

pub(crate) fn read(text: &str) -> Value {
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
        let log = log(project, how);
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

/// Where a provider that behaves so writes what it is sent.
pub(crate) fn log(project: &Project, how: &str) -> PathBuf {
    project.path(&format!("heard-{how}"))
}

/// All that a provider was sent.
pub(crate) fn all_heard(project: &Project, how: &str) -> Vec<Value> {
    let text = fs::read_to_string(log(project, how)).unwrap_or_default();
    text.lines().map(read).collect()
}

/// What a provider was sent of one method.
fn heard(project: &Project, how: &str, method: &str) -> Vec<Value> {
    let mut all = all_heard(project, how);
    all.retain(|it| it["method"] == method);
    all
}
