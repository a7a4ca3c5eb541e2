//! Whole runs of random DAGs, carried out by providers that give and take chunks of any kind and fail wherever they can: with edges that may stream, and with none.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    panic::resume_unwind,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::{runtime::Builder, task::yield_now, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    accept::{Failure, Rejection},
    acmp::chunks::{self, Chunk},
    agent::{Agent, Agents, Answer, Chunks, Ready, Reply, Request},
    compile::Workflow,
    diagnostic::File,
    event::RunEvent,
    load::Project,
    run::{Start, workflow},
    source::Source,
};

/// What a task puts out, bit by bit.
#[derive(Debug, Clone)]
enum Bit {
    /// A literal.
    Own(Value),
    /// A text that says what the whole input was.
    OfInput,
    /// Nothing, but it waits for the next chunk of its input.
    Next,
}

/// What goes wrong while a task is asked for, once so many chunks are out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Fails(usize),
    Panics(usize),
    /// A chunk is left out.
    Gap(usize),
    /// The connection is lost, and all comes again.
    Again(usize),
    /// A chunk is not what it says in the end.
    Lies(usize),
    /// There are none, though there could be.
    Whole,
}

#[derive(Debug)]
struct Task {
    needs: Vec<usize>,
    /// What it works on: the output of one, those of all, or a literal.
    input: Value,
    bits: Vec<Bit>,
    /// What goes wrong at first, and how often it does; and what goes wrong where it is ahead of its need.
    fault: Option<Fault>,
    times: u32,
    ahead: Option<Fault>,
    takes: bool,
    gives: bool,
    /// How long it takes for a bit, in milliseconds.
    pace: u64,
}

#[derive(Debug)]
struct World {
    tasks: Vec<Task>,
    concurrency: usize,
}

const TEXTS: [&str; 8] = [
    "",
    "a",
    "ß",
    "😀\u{200d}😀",
    "\"\\",
    "\u{0}\n",
    "long ",
    "[1,",
];

fn any_literal(rng: &mut Rng) -> Value {
    let text = TEXTS[rng.usize(..TEXTS.len())].repeat(rng.usize(1..4));
    match rng.usize(..10) {
        0 => json!({ "type": "json", "data": { "a": [text, 1.5, null] } }),
        1 => json!({ "type": "json", "data": text }),
        2 => json!({ "type": "image/png", "data": text }),
        3 => json!({ "type": "text", "data": rng.u8(..) }),
        _ => json!({ "type": "text", "data": text }),
    }
}

fn any_fault(rng: &mut Rng) -> Option<Fault> {
    let at = rng.usize(..4);
    match rng.usize(..12) {
        0 => Some(Fault::Fails(at)),
        1 => Some(Fault::Panics(at)),
        2 => Some(Fault::Gap(at)),
        3 => Some(Fault::Again(at)),
        4 => Some(Fault::Lies(at)),
        5 => Some(Fault::Whole),
        _ => None,
    }
}

impl World {
    fn any(seed: u64) -> World {
        let rng = &mut Rng::with_seed(seed);
        let n_tasks = rng.usize(1..7);
        let tasks = (0..n_tasks).map(|ix| {
            let mut needs: Vec<usize> = (0..ix).filter(|_| rng.usize(..3) > 0).collect();
            rng.shuffle(&mut needs);
            needs.truncate(rng.usize(1..4));
            let input = match (&*needs, rng.usize(..8)) {
                ([], _) | (_, 0) => any_literal(rng),
                (_, 1) => json!({ "source": { "from_tasks": needs.iter().map(|it| name(*it)).collect::<Value>() } }),
                (_, 2) => json!({ "source": { "from_task": name(needs[0]), "field": "data" } }),
                _ => json!({ "source": { "from_task": name(needs[0]) } }),
            };
            let bits = (0..rng.usize(1..6)).map(|_| match rng.usize(..4) {
                0 => Bit::OfInput,
                1 => Bit::Next,
                _ => Bit::Own(any_literal(rng)),
            });
            Task {
                bits: bits.collect(),
                needs,
                input,
                fault: any_fault(rng),
                times: if rng.usize(..8) == 0 { u32::MAX } else { 1 },
                ahead: any_fault(rng),
                takes: rng.usize(..8) > 0,
                gives: rng.usize(..8) > 0,
                pace: rng.u64(..4),
            }
        });
        World {
            tasks: tasks.collect(),
            concurrency: rng.usize(1..5),
        }
    }

    fn dag(&self, streams: bool) -> Value {
        let tasks = self.tasks.iter().enumerate().map(|(ix, task)| {
            json!({ "task_id": name(ix), "capability": name(ix), "input": task.input })
        });
        let edges = self.tasks.iter().enumerate().flat_map(|(to, task)| {
            let edge = move |from: &usize| json!({ "from": name(*from), "to": name(to), "stream_eligible": streams });
            task.needs.iter().map(edge)
        });
        json!({ "dag_id": "d", "tasks": tasks.collect::<Value>(), "edges": edges.collect::<Value>() })
    }

    /// What comes of it: how each task ends, and the outputs of those that nothing waits for.
    fn play(self: &Arc<World>, streams: bool) -> Played {
        let project = Project {
            root: "/project".into(),
            workflows: "/project/workflows".into(),
        };
        let mut wanted = Workflow::bare("w", project);
        let capabilities: Vec<String> = (0..self.tasks.len()).map(name).collect();
        let endpoint = json!({ "kind": "stdio", "argv": ["nobody"] });
        let acmp = json!({
            "concurrency": self.concurrency,
            "failure_policy": "best-effort",
            "retry_limit": 2,
            "retry": { "initial_seconds": 0.003, "max_seconds": 0.01, "jitter": "none" },
            "providers": [{ "name": "p", "endpoint": endpoint, "capabilities": capabilities }],
        });
        wanted.acmp = serde_json::from_value(acmp).expect("it fits");
        let file = File {
            name: "dag.json".to_owned(),
            text: self.dag(streams).to_string(),
        };
        let source = Source::parse(&Arc::new(file)).expect("it is JSON");
        wanted
            .carry_out(&source)
            .unwrap_or_else(|it| panic!("{it:?}"));
        let count = Arc::new(Count::default());
        let agents = (0..self.tasks.len()).map(|ix| {
            let (world, count) = (Arc::clone(self), Arc::clone(&count));
            let agent: Arc<dyn Agent> = Arc::new(Provider { world, ix, count });
            (format!("acmp:{}", name(ix)), agent)
        });
        let agents: Agents = agents.collect();
        let mut ends = BTreeMap::new();
        let mut hear = |event: &RunEvent| {
            if let RunEvent::TaskEnded { task, end, .. } = event {
                let before = ends.insert(task.to_string(), format!("{end:?}"));
                assert_eq!(before, None, "a task ends once");
            }
        };
        let start = Start::bare("run", Path::new("/nowhere"));
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build();
        let runtime = runtime.expect("it can be built");
        let cancel = CancellationToken::new();
        let ending = runtime.block_on(workflow(&wanted, &agents, start, &mut hear, &cancel));
        let ending = ending.expect("nothing is written");
        assert_eq!(count.under_way.load(Relaxed), 0, "nothing outlives a run");
        Played {
            ends,
            answer: ending.answer.map(|it| it.value().into_owned()),
            status: ending.status.as_str(),
            ahead: count.ahead.load(Relaxed),
            in_vain: count.in_vain.load(Relaxed),
        }
    }
}

fn name(ix: usize) -> String {
    format!("t{ix}")
}

#[derive(Debug)]
struct Played {
    ends: BTreeMap<String, String>,
    answer: Option<Value>,
    status: &'static str,
    /// How many went ahead to their end, and how many did not get there.
    ahead: usize,
    in_vain: usize,
}

#[derive(Default)]
struct Count {
    under_way: AtomicUsize,
    ahead: AtomicUsize,
    in_vain: AtomicUsize,
}

/// Who carries out one of the tasks.
struct Provider {
    world: Arc<World>,
    ix: usize,
    count: Arc<Count>,
}

impl Agent for Provider {
    fn ask(&self, request: Request) -> Answer {
        let (world, ix) = (Arc::clone(&self.world), self.ix);
        let is_ahead = request.streams.input.is_some();
        let mut under_way = UnderWay {
            count: Arc::clone(&self.count),
            is_ahead,
            is_done: false,
        };
        under_way.count.under_way.fetch_add(1, Relaxed);
        Box::pin(async move {
            let carried_out = carry_out(&world.tasks[ix], request).await;
            under_way.has_ended(carried_out.is_ok());
            let text = carried_out?.to_string();
            Ok(Reply {
                text,
                ..Reply::default()
            })
        })
    }

    fn takes_chunks(&self) -> Ready {
        let takes = self.world.tasks[self.ix].takes;
        Box::pin(async move {
            yield_now().await;
            takes
        })
    }
}

struct UnderWay {
    count: Arc<Count>,
    is_ahead: bool,
    is_done: bool,
}

impl UnderWay {
    fn has_ended(&mut self, well: bool) {
        self.is_done = well;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.count.under_way.fetch_sub(1, Relaxed);
        let count = match self.is_done {
            true => &self.count.ahead,
            false => &self.count.in_vain,
        };
        count.fetch_add(usize::from(self.is_ahead), Relaxed);
    }
}

/// An input, whole or as it comes.
struct Input {
    whole: Option<Value>,
    chunks: Option<Arc<Chunks>>,
    came: Vec<Chunk>,
}

impl Input {
    /// The next chunk, if there is another one.
    async fn next(&mut self) -> Result<Option<Chunk>, Rejection> {
        let Some(chunks) = &self.chunks else {
            return Ok(None);
        };
        if self.came.last().is_some_and(|it| it.is_last) {
            return Ok(None);
        }
        let next = chunks.get(self.came.len()).await;
        let next = next.ok_or_else(|| failed("its input came to nothing"))?;
        self.came.push(next.clone());
        Ok(Some(next))
    }

    async fn all(&mut self) -> Result<Value, Rejection> {
        while self.next().await?.is_some() {}
        let whole = || chunks::whole(self.came.iter());
        Ok(self.whole.get_or_insert_with(whole).clone())
    }
}

fn failed(why: &str) -> Rejection {
    Rejection::new(Failure::ProgramFailed, why)
}

/// The output of a task. As any provider's, its chunks depend on its input, and not on how that comes.
async fn carry_out(task: &Task, request: Request) -> Result<Value, Rejection> {
    let whole = request
        .invocation
        .as_ref()
        .expect("it is a task")
        .input
        .value()
        .into_owned();
    let chunks = request.streams.input.clone();
    let fault = match (&chunks, task.fault) {
        // What always goes wrong does so there as well.
        (Some(_), fault) if task.times == u32::MAX => fault,
        (Some(_), _) => task.ahead,
        (None, fault) => fault.filter(|_| request.attempt <= task.times),
    };
    let mut input = Input {
        whole: chunks.is_none().then_some(whole),
        chunks,
        came: Vec::new(),
    };
    let output = request.streams.output.as_ref();
    let output = output.filter(|_| task.gives && fault != Some(Fault::Whole));
    let mut sent = Sent {
        output,
        fault,
        literals: Vec::new(),
        chunks: Vec::new(),
    };
    for bit in &task.bits {
        sleep(Duration::from_millis(task.pace)).await;
        let literal = match bit {
            Bit::Own(literal) => literal.clone(),
            Bit::OfInput => said(&input.all().await?),
            Bit::Next => {
                input.next().await?;
                continue;
            }
        };
        sent.put(literal, false)?;
    }
    let last = said(&input.all().await?);
    sleep(Duration::from_millis(task.pace)).await;
    sent.put(last, true)?;
    sleep(Duration::from_millis(task.pace)).await;
    sent.fails(sent.literals.len())?;
    let chunks = sent
        .literals
        .iter()
        .map(|it| Chunk::new(it, false).expect("it is one"));
    Ok(chunks::whole(chunks.collect::<Vec<_>>().iter()))
}

/// A text that no other input has.
fn said(input: &Value) -> Value {
    let mut hasher = DefaultHasher::new();
    input.to_string().hash(&mut hasher);
    json!({ "type": "text", "data": format!("<{:x}>", hasher.finish()) })
}

struct Sent<'a> {
    output: Option<&'a Arc<Chunks>>,
    fault: Option<Fault>,
    literals: Vec<Value>,
    chunks: Vec<Value>,
}

impl Sent<'_> {
    fn put(&mut self, literal: Value, is_last: bool) -> Result<(), Rejection> {
        let at = self.literals.len();
        self.fails(at)?;
        self.literals.push(literal.clone());
        let Some(output) = self.output else {
            return Ok(());
        };
        let chunk = match self.fault {
            Some(Fault::Lies(lies)) if lies == at => json!({ "type": "text", "data": "a lie" }),
            _ => literal,
        };
        let seq = at + usize::from(self.fault == Some(Fault::Gap(at)));
        let put = |it: &Value| output.put(it).map_err(|it| failed(&it.to_string()));
        self.chunks.push(chunks::params("t", seq, chunk, is_last));
        if self.fault == Some(Fault::Again(at)) {
            output.rewind();
            let before = &self.chunks[..at];
            before.iter().try_for_each(put)?;
        }
        put(&self.chunks[at])
    }

    fn fails(&self, at: usize) -> Result<(), Rejection> {
        match self.fault {
            Some(Fault::Panics(it)) if it == at => resume_unwind(Box::new("it breaks".to_owned())),
            Some(Fault::Fails(it)) if it == at => Err(failed("it fails")),
            _ => Ok(()),
        }
    }
}

#[test]
fn l2_34_the_same_comes_of_a_run_with_edges_that_stream_and_without() {
    let (mut ahead, mut in_vain) = (0, 0);
    for seed in 0..1000 {
        let world = Arc::new(World::any(seed));
        let whole = world.play(false);
        let streamed = world.play(true);
        assert_eq!(whole.ahead + whole.in_vain, 0);
        assert_eq!(
            (&streamed.ends, &streamed.answer, streamed.status),
            (&whole.ends, &whole.answer, whole.status),
            "seed {seed}: {world:#?}"
        );
        ahead += streamed.ahead;
        in_vain += streamed.in_vain;
    }
    // Both happen, and often.
    assert!(
        ahead > 200 && in_vain > 100,
        "{ahead} ahead, {in_vain} in vain"
    );
}
