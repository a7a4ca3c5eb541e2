//! What it costs to ask a model: tasks through the whole path, to an endpoint on this machine that answers at once. It
//! runs in a process of its own, and what it takes is not counted.

use std::{
    collections::BTreeMap,
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
};

use mozaiks::{
    agent::{
        Agents, build,
        env::Env,
        human::{Nobody, People},
        openai::Known,
    },
    compile::{self, Workflow},
    load::{self, Project},
    run::Log,
};

use crate::{batch::Bench, cpu};

const CALLS: usize = 1_000;
const ROUNDS: usize = 5;

const FILES: &[(&str, &str)] = &[
    (
        "extended_orchestration/task_batches.yaml",
        "version: 1
conveyors:
  - {id: work, decomposition_agent: Planner, execution_agents: [Worker], concurrency: 64}
",
    ),
    (
        "agents.yaml",
        "agents:
  - {name: Planner, runtime: {kind: scripted, replies: ['']}}
  - {name: Worker, system_message: work, runtime: {kind: openai, model: m, provider: here, max_output_tokens: 100, stream: STREAM}}
",
    ),
    (
        "orchestrator.yaml",
        "workflow_name: Bench
initial_agent: Planner
providers: {here: {base_url: 'URL', max_concurrency: 64, requests_per_minute: 1000000, tokens_per_minute: 100000000, prices: {m: {input: 1, output: 2}}}}
budget: {tokens: 100000000, cost: 1000000}
",
    ),
];

pub(crate) fn measure(out: &mut impl Write) -> io::Result<()> {
    let mut server = Server::start()?;
    writeln!(
        out,
        "\n{CALLS} calls of a model that answers at once, concurrency 64, with limits, prices and a budget\n"
    )?;
    for (name, stream) in [("at once", "false"), ("streamed", "true")] {
        let folder = tempfile::tempdir()?;
        let workflow = workflow(folder.path(), &server.url, stream)?;
        let agents = agents(&workflow);
        let bench = Bench::of(folder, workflow)?;
        let taken = cpu::least(ROUNDS, || {
            let performed = bench.perform(&agents, Log::default(), usize::MAX);
            assert_eq!(performed.completed, CALLS, "every call is answered");
            performed.took
        });
        let each = taken.as_secs_f64() * 1e6 / CALLS as f64;
        writeln!(out, "{each:>8.1} us CPU a call, {name}")?;
    }
    server.stop()
}

fn workflow(folder: &Path, url: &str, stream: &str) -> io::Result<Workflow> {
    for (name, text) in FILES {
        let path = folder.join("workflows/Bench").join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
        std::fs::write(path, text.replace("URL", url).replace("STREAM", stream))?;
    }
    let project = Project::find(folder, None).expect("it was made");
    let (bundle, faults) = load::load(&project, "Bench");
    let bundle = bundle.unwrap_or_else(|| panic!("{faults:?}"));
    let (workflow, faults) = compile::compile(&bundle);
    Ok(workflow.unwrap_or_else(|| panic!("{faults:?}")))
}

/// The planner that is in every benchmark, and a worker that asks the endpoint.
fn agents(workflow: &Workflow) -> Agents {
    let spec = &workflow.agents["Worker"];
    let env = Env::Fixed(BTreeMap::new());
    let people: Arc<dyn People> = Arc::new(Nobody);
    let worker = build::build(&spec.runtime, &spec.home, &env, &Known::default(), &people);
    let worker = worker.unwrap_or_else(|error| panic!("{error:?}"));
    let mut agents = Bench::agents("wide", CALLS);
    agents.insert("Worker".to_owned(), worker);
    agents
}

/// The endpoint.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> io::Result<Server> {
        let mut command = Command::new(env::current_exe()?);
        command
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let said = child.stdout.take().expect("it is piped");
        let mut url = String::new();
        BufReader::new(said).read_line(&mut url)?;
        let url = url.trim().to_owned();
        Ok(Server { child, url })
    }

    fn stop(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends by itself when its standard input does.
        let _ = self.stop();
    }
}

/// Answers every request, until nobody wants it any more.
pub(crate) fn serve(out: &mut impl Write) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(out, "http://{}/v1", listener.local_addr()?)?;
    out.flush()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    io::stdin().read_to_end(&mut Vec::new()).map(|_| ())
}

/// One connection, request after request.
fn answer(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut requests = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        requests.read_exact(&mut body)?;
        let is_streamed = String::from_utf8_lossy(&body).contains("\"stream\":true");
        let usage = r#""usage":{"prompt_tokens":50,"completion_tokens":5}"#;
        let (kind, text) = match is_streamed {
            false => (
                "application/json",
                format!(
                    r#"{{"choices":[{{"message":{{"content":"{{}}"}},"finish_reason":"stop"}}],{usage}}}"#
                ),
            ),
            true => (
                "text/event-stream",
                format!(
                    "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{{}}\"}},\"finish_reason\":\"stop\"}}],{usage}}}\n\ndata: [DONE]\n\n"
                ),
            ),
        };
        let length = text.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        out.write_all((head + &text).as_bytes())?;
    }
}
