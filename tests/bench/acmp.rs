//! What it costs to have DAGs carried out by a provider in another process, over a WebSocket of this machine.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use mozaiks::{
    agent::{
        Agents, build,
        human::{Nobody, People},
    },
    compile::Workflow,
    contract::acmp::Acmp,
    diagnostic::File,
    load::Project,
    run::Log,
    schema::FileKind,
    source::Source,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::{accept_async, connect_async_with_config, tungstenite::Message};

use crate::{
    batch::{Bench, Performed},
    cpu, durable,
};

const TASKS: usize = 10_000;
const STEPS: usize = 1_000;
const ROUNDS: usize = 5;

const SERVED: &str = "agents:
  - {name: Echo, capabilities: [echo], runtime: {kind: template, template: '{{ input.data | tojson }}'}}
";

pub(crate) fn measure(out: &mut impl Write) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let served = folder.path().join("workflows/Served");
    std::fs::create_dir_all(&served)?;
    std::fs::write(served.join("agents.yaml"), SERVED)?;
    let mut provide = Command::new(env!("CARGO_BIN_EXE_mozaiks-run"));
    provide.args(["provide", "Served", "--listen", "127.0.0.1:0"]);
    provide.current_dir(folder.path()).stderr(Stdio::piped());
    let provider = Other::start(&mut provide, |child| {
        child.stderr.take().map(|it| Box::new(it) as _)
    })?;

    writeln!(
        out,
        "\n{TASKS} tasks that do nothing, at a provider in another process, concurrency 64\n"
    )?;
    let wide = Dag::new(&provider, TASKS, false)?;
    let memory = wide.least(|it| it.took, Log::default);
    let journals = tempfile::tempdir()?;
    let journal = wide.perform(durable::log(journals.path())).took;
    writeln!(
        out,
        "{:>8.1} us CPU a task, {:.1} us with the journal",
        micros(memory, TASKS),
        micros(journal, TASKS)
    )?;

    let mut echo = Command::new(env::current_exe()?);
    echo.arg("echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let echo = Other::start(&mut echo, |child| {
        child.stdout.take().map(|it| Box::new(it) as _)
    })?;
    let chain = Dag::new(&provider, STEPS, true)?;
    let step = micros(chain.least(|it| it.wall, Log::default), STEPS);
    let bare = micros(bare(&echo.address)?, STEPS);
    writeln!(
        out,
        "{step:>8.1} us a step of a chain of {STEPS}, {bare:.1} us a message that is only echoed: {:.2}x",
        step / bare
    )
}

fn micros(all: Duration, each: usize) -> f64 {
    all.as_secs_f64() * 1e6 / each as f64
}

/// A process that says where it listens, and goes with us.
struct Other {
    child: Child,
    address: String,
}

impl Other {
    fn start(
        command: &mut Command,
        says: impl FnOnce(&mut Child) -> Option<Box<dyn Read + Send>>,
    ) -> io::Result<Other> {
        let mut child = command.spawn()?;
        let mut said = BufReader::new(says(&mut child).expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line)?;
        // Nobody may wait for somebody to read the rest.
        thread::spawn(move || io::copy(&mut said, &mut io::sink()));
        let address = line.trim().trim_end_matches('/').rsplit('/').next();
        let address = address.unwrap_or_default().to_owned();
        Ok(Other { child, address })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Work for the provider: tasks side by side, or each after the one before.
struct Dag {
    bench: Bench,
    agents: Agents,
    tasks: usize,
}

impl Dag {
    fn new(provider: &Other, tasks: usize, is_chain: bool) -> io::Result<Dag> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("workflows"))?;
        let workflow = workflow(folder.path(), &provider.address, &document(tasks, is_chain));
        let people: Arc<dyn People> = Arc::new(Nobody);
        let agents = build::all(&workflow, &people, None);
        let agents = agents.unwrap_or_else(|faults| panic!("{faults:?}"));
        let bench = Bench::of(folder, workflow)?;
        Ok(Dag {
            bench,
            agents,
            tasks,
        })
    }

    fn perform(&self, log: Log) -> Performed {
        let performed = self.bench.perform(&self.agents, log, usize::MAX);
        assert_eq!(performed.completed, self.tasks, "every task is done");
        performed
    }

    fn least(&self, what: impl Fn(Performed) -> Duration, log: impl Fn() -> Log) -> Duration {
        cpu::least(ROUNDS, || what(self.perform(log())))
    }
}

fn document(tasks: usize, is_chain: bool) -> Value {
    let written = (0..tasks).map(|n| {
        let input = match n.checked_sub(1).filter(|_| is_chain) {
            Some(before) => {
                json!({ "source": { "from_task": format!("t{before}"), "field": "data" } })
            }
            None => json!({ "type": "text", "data": "x" }),
        };
        json!({ "task_id": format!("t{n}"), "capability": "echo", "input": input })
    });
    let edges = 1..if is_chain { tasks } else { 1 };
    let edges = edges.map(|n| json!({ "from": format!("t{}", n - 1), "to": format!("t{n}") }));
    json!({ "dag_id": "bench", "tasks": written.collect::<Value>(), "edges": edges.collect::<Value>() })
}

fn workflow(folder: &Path, address: &str, document: &Value) -> Workflow {
    let acmp = json!({ "concurrency": 64, "providers": [{
        "name": "other",
        "endpoint": { "kind": "websocket", "url": format!("ws://{address}/") },
        "capabilities": ["echo"],
        "concurrency": 64,
    }] });
    let project = Project::find(folder, None).expect("it was made");
    let mut workflow = Workflow::bare("bench", project);
    let (acmp, faults) = FileKind::Acmp.schema().read::<Acmp>(&source(&acmp));
    workflow.acmp = acmp.unwrap_or_else(|| panic!("{faults:?}"));
    let carried = workflow.carry_out(&source(document));
    carried.unwrap_or_else(|faults| panic!("{faults:?}"));
    workflow
}

fn source(value: &Value) -> Source {
    let file = File {
        name: "bench".to_owned(),
        text: value.to_string(),
    };
    Source::parse_json(&Arc::new(file)).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// As many messages, each sent when the one before has come back: what the way there and back costs.
fn bare(address: &str) -> io::Result<Duration> {
    let runtime = tokio::runtime::Runtime::new()?;
    let text = json!({ "jsonrpc": "2.0", "id": "x".repeat(37), "method": "acmp/invoke", "params": {
        "task_id": "x".repeat(37), "capability": "echo", "input": { "type": "text", "data": "x" },
        "output_type": "json", "timeout_ms": 120_000, "stream": false, "input_stream": false,
        "metadata": { "dag_id": "bench" },
    } });
    let text = text.to_string();
    let round = async || {
        let (mut socket, _) = connect_async_with_config(format!("ws://{address}/"), None, true)
            .await
            .map_err(io::Error::other)?;
        let begun = Instant::now();
        for _ in 0..STEPS {
            socket
                .send(Message::text(text.clone()))
                .await
                .map_err(io::Error::other)?;
            let came = socket
                .next()
                .await
                .expect("it is echoed")
                .map_err(io::Error::other)?;
            assert_eq!(came.len(), text.len(), "it comes back whole");
        }
        io::Result::Ok(begun.elapsed())
    };
    runtime.block_on(async {
        let mut least = Duration::MAX;
        for _ in 0..ROUNDS {
            least = least.min(round().await?);
        }
        Ok(least)
    })
}

/// Sends back whatever comes, until nobody wants it any more.
pub(crate) fn echo(out: &mut impl Write) -> io::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    writeln!(out, "ws://{}/", listener.local_addr()?)?;
    out.flush()?;
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let Ok(mut socket) = accept_async(stream).await else {
                    return;
                };
                while let Some(Ok(message)) = socket.next().await {
                    if !message.is_text() || socket.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    io::stdin().read_to_end(&mut Vec::new()).map(|_| ())
}
