//! Tasks that do nothing, through the whole path: scheduler, driver, acceptance, events, results, context. Against
//! the same futures in a bare [`JoinSet`] with a [`Semaphore`].

use std::{
    collections::BTreeMap,
    env,
    io::{self, Write},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use mozaiks::{
    accept::{self, Terms},
    agent::{Agent, Agents, Answer, Leave, Reply, Request, Streams, Witness},
    compile::{self, Workflow},
    context::{Context, Json, Sees, View},
    event::{RunEvent, TaskEnd},
    load::{self, Project},
    ownership::Require,
    plan::{self, Origin},
    prompt::Prompt,
    run::{self, Log, Start},
};
use tokio::{runtime::Runtime, sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::cpu;

const SHAPES: &[&str] = &["wide", "chain", "layers"];
const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Tasks side by side in `layers`.
const LAYER: usize = 100;

const FILES: &[(&str, &str)] = &[
    (
        "extended_orchestration/task_batches.yaml",
        "version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    concurrency: 64
",
    ),
    (
        "agents.yaml",
        "agents:
  - {name: Planner, runtime: {kind: scripted, replies: ['']}}
  - {name: Worker, runtime: {kind: scripted, replies: ['']}}
",
    ),
    (
        "orchestrator.yaml",
        "workflow_name: Bench
initial_agent: Planner
limits: {max_tasks: 1000000, max_depth: 1000000, max_dependencies: 100000000, max_output_bytes: 1000000000}
",
    ),
];

pub(crate) fn compare(out: &mut impl Write) -> io::Result<()> {
    let bench = Bench::new()?;
    writeln!(
        out,
        "tasks that do nothing, concurrency 64, CPU time a task\n"
    )?;
    writeln!(
        out,
        "{:8} {:>9} {:>9} {:>9} {:>9} {:>10} {:>12}",
        "", "1,000", "100,000", "ratio", "bare", "to bare", "bytes a task"
    )?;
    for shape in SHAPES {
        let few = bench.run(shape, FEW, 20);
        let many = bench.run(shape, MANY, 3);
        let bare = cpu::least(3, || bench.bare(shape, MANY));
        let (few, many) = (each(few, FEW), each(many, MANY));
        let bare = each(bare, MANY);
        writeln!(
            out,
            "{shape:8} {:>6.2} us {:>6.2} us {:>8.2}x {:>6.2} us {:>9.2}x {:>12}",
            few,
            many,
            many / few,
            bare,
            many / bare,
            memory(shape)?
        )?;
    }
    writeln!(out)
}

/// Checks a large plan as a whole.
pub(crate) fn accept_plan(out: &mut impl Write) -> io::Result<()> {
    let bench = Bench::new()?;
    let value = Json::of_text(plan_text("owning", 10_000));
    let taken = cpu::least(5, || {
        let before = cpu::here();
        let batch = &bench.workflow.batches[0];
        let origin = Origin::Reply("answer".to_owned());
        let plan = plan::accept(batch, &value, &origin, &bench.workflow.limits);
        assert_eq!(plan.expect("it has no fault").tasks().len(), 10_000);
        cpu::here() - before
    });
    let milliseconds = taken.as_secs_f64() * 1e3;
    writeln!(
        out,
        "accepting a plan of 10,000 tasks, each with an owned path: {milliseconds:.1} ms CPU"
    )
}

/// Says what a run takes of memory at most, for whoever started this process.
pub(crate) fn print_peak(out: &mut impl Write, shape: &str, tasks: &str) -> io::Result<()> {
    let tasks = tasks.parse().map_err(io::Error::other)?;
    Bench::new()?.run(shape, tasks, 1);
    writeln!(out, "{}", cpu::peak())
}

/// How much more memory a task more takes, above the text it is written in.
fn memory(shape: &str) -> io::Result<isize> {
    let peak = |tasks: usize| -> io::Result<isize> {
        let program = env::current_exe()?;
        let mut command = Command::new(program);
        let ran = command
            .args(["memory-of", shape, &tasks.to_string()])
            .output()?;
        let text = String::from_utf8_lossy(&ran.stdout);
        text.trim().parse().map_err(io::Error::other)
    };
    let text = plan_text(shape, MANY).len() - plan_text(shape, FEW).len();
    Ok((peak(MANY)? - peak(FEW)? - text as isize) / (MANY - FEW) as isize)
}

fn each(all: Duration, tasks: usize) -> f64 {
    all.as_secs_f64() * 1e6 / tasks as f64
}

/// A plan as a planner would have written it.
fn plan_text(shape: &str, tasks: usize) -> String {
    let written = (0..tasks).map(|task| {
        let needs: Vec<String> = needs(shape, task).map(|it| format!("\"t{it}\"")).collect();
        let owned = match shape {
            "owning" => format!(",\"owned_paths\":[\"out/t{task}\"]"),
            _ => String::new(),
        };
        format!(
            "{{\"task_id\":\"t{task}\",\"execution_agent\":\"Worker\",\"task_prompt\":\"do\",\"depends_on\":[{}]{owned}}}",
            needs.join(",")
        )
    });
    format!("[{}]", written.collect::<Vec<_>>().join(","))
}

/// What a task depends on. In `layers`, and where tasks own paths, that is three tasks of the layer before.
fn needs(shape: &str, task: usize) -> impl Iterator<Item = usize> {
    let before = match shape {
        "chain" => task.checked_sub(1).into_iter().collect(),
        "layers" | "owning" if task >= LAYER => {
            let layer = (task / LAYER - 1) * LAYER;
            (0..3)
                .map(|it| layer + (task * 7 + it * 31) % LAYER)
                .collect()
        }
        _ => Vec::new(),
    };
    before.into_iter()
}

/// Answers at once, a worker with as little as an answer can be.
struct Says(String);

impl Agent for Says {
    fn ask(&self, _: Request) -> Answer {
        let text = self.0.clone();
        Box::pin(async move {
            Ok(Reply {
                text,
                ..Reply::default()
            })
        })
    }

    fn reads_prompt(&self) -> bool {
        false
    }
}

/// What was seen of a run.
#[derive(Default)]
pub(crate) struct Performed {
    /// CPU time of the batch.
    pub(crate) took: Duration,
    /// How long it took.
    pub(crate) wall: Duration,
    /// How many tasks this session completed.
    pub(crate) completed: usize,
    /// How many an earlier session had completed, and the CPU time when all that was recalled.
    pub(crate) recalled: usize,
    pub(crate) recalled_at: Duration,
}

pub(crate) struct Bench {
    folder: tempfile::TempDir,
    workflow: Workflow,
    runtime: Runtime,
}

impl Bench {
    pub(crate) fn new() -> io::Result<Bench> {
        let folder = tempfile::tempdir()?;
        for (name, text) in FILES {
            let path = folder.path().join("workflows/Bench").join(name);
            std::fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
            std::fs::write(path, text)?;
        }
        let project = Project::find(folder.path(), None).expect("it was made");
        let (bundle, faults) = load::load(&project, "Bench");
        let bundle = bundle.unwrap_or_else(|| panic!("{faults:?}"));
        let (workflow, faults) = compile::compile(&bundle);
        let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
        Bench::of(folder, workflow)
    }

    /// Of a workflow that lies in a folder.
    pub(crate) fn of(folder: tempfile::TempDir, workflow: Workflow) -> io::Result<Bench> {
        Ok(Bench {
            folder,
            workflow,
            runtime: Runtime::new()?,
        })
    }

    /// The agents of a run: a planner that answers with a plan of this shape, and a worker.
    pub(crate) fn agents(shape: &str, tasks: usize) -> Agents {
        let says = |name: &str, text: String| {
            let agent: Arc<dyn Agent> = Arc::new(Says(text));
            (name.to_owned(), agent)
        };
        let tasks = plan_text(shape, tasks);
        let plan = format!("{{\"DecompositionPlan\":{{\"tasks\":{tasks}}}}}");
        BTreeMap::from([says("Planner", plan), says("Worker", "{}".to_owned())])
    }

    /// CPU time of the batch, from its first event to its last.
    fn run(&self, shape: &str, tasks: usize, rounds: usize) -> Duration {
        let agents = Bench::agents(shape, tasks);
        cpu::least(rounds, || {
            self.perform(&agents, Log::default(), usize::MAX).took
        })
    }

    /// Runs the workflow, and cancels the run when so many tasks are completed.
    pub(crate) fn perform(&self, agents: &Agents, log: Log, stop_at: usize) -> Performed {
        let cancel = CancellationToken::new();
        let (mut begun, mut began) = (Duration::ZERO, Instant::now());
        let mut performed = Performed::default();
        let mut hear = |event: &RunEvent| match event {
            RunEvent::BatchStarted { .. } => (begun, began) = (cpu::here(), Instant::now()),
            RunEvent::BatchRecalled { completed, .. } => {
                performed.recalled = *completed;
                performed.recalled_at = cpu::here();
            }
            RunEvent::TaskEnded {
                end: TaskEnd::Completed,
                ..
            } => {
                performed.completed += 1;
                if performed.completed == stop_at {
                    cancel.cancel();
                }
            }
            RunEvent::BatchEnded { .. } => {
                performed.took = cpu::here() - begun;
                performed.wall = began.elapsed();
            }
            _ => (),
        };
        // A provider would answer the tasks of another run of the same id with what it remembers.
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let start = Start {
            log,
            ..Start::bare(format!("bench-{run}"), self.folder.path())
        };
        let ran = run::workflow(&self.workflow, agents, start, &mut hear, &cancel);
        let ending = self.runtime.block_on(ran);
        ending.expect("the folder can be written");
        performed
    }

    /// The same futures with nothing around them: no order between layers but waves, no results, no events.
    fn bare(&self, shape: &str, tasks: usize) -> Duration {
        let view = Context::default().view(&Sees::All);
        let before = cpu::here();
        let outputs = self.runtime.block_on(async {
            match shape {
                "wide" => wave(&view, 0..tasks).await,
                "layers" => {
                    let mut outputs = 0;
                    for layer in 0..tasks / LAYER {
                        outputs += wave(&view, layer * LAYER..(layer + 1) * LAYER).await;
                    }
                    outputs
                }
                _ => {
                    let mut outputs = 0;
                    for task in 0..tasks {
                        let made = tokio::spawn(attempt(view.clone(), task)).await;
                        outputs += usize::from(made.expect("it does not panic"));
                    }
                    outputs
                }
            }
        });
        assert_eq!(outputs, tasks);
        cpu::here() - before
    }
}

async fn wave(view: &View, tasks: std::ops::Range<usize>) -> usize {
    let slots = Arc::new(Semaphore::new(64));
    let mut set = JoinSet::new();
    for task in tasks {
        let (slots, view) = (Arc::clone(&slots), view.clone());
        set.spawn(async move {
            let _slot = slots.acquire_owned().await.expect("it stays open");
            attempt(view, task).await
        });
    }
    let mut outputs = 0;
    while let Some(made) = set.join_next().await {
        outputs += usize::from(made.expect("it does not panic"));
    }
    outputs
}

/// What an attempt does in the engine as well: ask, read the answer, check it.
async fn attempt(view: View, task: usize) -> bool {
    let id: Arc<str> = format!("t{task}").into();
    let request = Request {
        agent: "Worker".into(),
        task_id: Some(Arc::clone(&id)),
        attempt: 1,
        idempotency_key: format!("bench/batch/{id}/1"),
        prompt: Prompt::default(),
        view,
        invocation: None,
        streams: Streams::default(),
        failed: Vec::new(),
        is_budgeted: false,
        shape: None,
        tools: None,
        timeout: Duration::from_secs(600),
        max_output_bytes: 1 << 20,
        leave: Leave::default(),
        witness: Witness::default(),
    };
    let terms = Terms {
        task_id: id,
        agent: "Worker".into(),
        kind: None,
        owned: Arc::new([]),
        owned_as_written: None,
        require: Require::Nothing,
        max_file_bytes: 1 << 20,
    };
    let reply = Says("{}".to_owned())
        .ask(request)
        .await
        .expect("it answers");
    accept::task(&reply.text, None, &terms).is_ok()
}
