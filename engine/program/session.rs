//! One session of a run: from its first event, or from where an earlier session stopped, to its end.
//!
//! **Invariant:** only one process works on a run: it holds the lock of the run's folder, which ends with the process.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File, TryLockError},
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    args, inbox, inputs::Inputs, out, show, stop::Stopped, tape::Tape, terminal::Terminal,
};
use crate::{
    agent::Agents,
    budget::Limit,
    compile::{self, First, Workflow},
    context::{Context, Json},
    contract::runtime::Runtime,
    diagnostic::Diagnostic,
    event::RunEvent,
    journal::{self, Journal},
    load::{Bundle, Project},
    report::{
        self, Clock, Listener,
        json::Events,
        lines::{Level, Lines},
        progress::Progress,
    },
    run::{self, Ending, Log, Replace, Start, Status},
    schema::FileKind,
    source::Source,
    tool,
};

/// The folder, in a run's own, of what it publishes.
pub(super) const ARTIFACTS: &str = "artifacts";

/// How many tools are named at the end of a run that failed in it.
const FAILED_TOOLS: usize = 5;

/// How much of one file of a workflow's folder is looked at, to see whether it has changed.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A lock that is held is asked for so often more, with so long between.
const PROBE: Duration = Duration::from_millis(10);
const PROBES: u32 = 5;

/// What a run was begun with. Neither keys nor values of the environment are in it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    /// The version of the program.
    pub(super) version: String,
    pub(super) inputs: Inputs,
    /// What the run may spend, as far as its files do not say.
    #[serde(default)]
    pub(super) budget: Limit,
    /// What [`fingerprints`] gave.
    pub(super) files: BTreeMap<String, String>,
    /// The recording that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<PathBuf>,
}

/// A run that can begin or go on at once.
pub(super) struct Ready {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) workflow: Workflow,
    pub(super) agents: Agents,
    pub(super) terminal: Arc<Terminal>,
    pub(super) context: Context,
    pub(super) plan: Option<Source>,
    pub(super) budget: Limit,
    pub(super) log: Log,
    pub(super) tape: Tape,
    /// The file of `--events`.
    pub(super) events: Option<File>,
    /// Held until the session is over.
    pub(super) lock: File,
}

impl Header {
    pub(super) fn new(
        bundle: Option<&Bundle>,
        workflow: &Workflow,
        inputs: Inputs,
        budget: Limit,
    ) -> anyhow::Result<Header> {
        Ok(Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            inputs,
            budget,
            files: fingerprints(bundle, workflow)?,
            replay: None,
        })
    }
}

/// The hash of every file that a workflow is made of, by path: its YAML files, its shared agents, and the templates,
/// programs and values that they name. A DAG of its own has no files. What lies beside them is nobody's business.
pub(super) fn fingerprints(
    bundle: Option<&Bundle>,
    workflow: &Workflow,
) -> anyhow::Result<BTreeMap<String, String>> {
    let Some(bundle) = bundle else {
        return Ok(BTreeMap::new());
    };
    let named = FileKind::ALL.iter().filter_map(|it| it.path());
    let mut paths: Vec<PathBuf> = named.map(|it| bundle.folder.join(it)).collect();
    let as_json = FileKind::TaskDag.path().map(PathBuf::from);
    paths.extend(as_json.map(|it| bundle.folder.join(it).with_extension("json")));
    for agent in workflow.agents.values() {
        let named: Vec<&str> = match &agent.runtime {
            Runtime::Template { template_file, .. } => {
                template_file.iter().map(|it| it.as_str()).collect()
            }
            Runtime::Command { argv, .. } => argv.iter().map(|it| it.as_str()).collect(),
            _ => Vec::new(),
        };
        paths.extend(named.iter().map(|it| agent.home.join(it)));
    }
    paths.extend(tool::files(&workflow.tools));
    let variables = workflow.variables.iter();
    paths.extend(variables.filter_map(|it| it.path.clone()));
    let mut files = BTreeMap::new();
    for path in paths.iter().filter(|it| it.is_file()) {
        let shown = path.strip_prefix(&bundle.project.root).unwrap_or(path);
        files.insert(shown.display().to_string(), fingerprint(path)?);
    }
    if let Some(part) = &bundle.shared_providers {
        let text = &part.source.file.text;
        files.insert("shared providers".to_owned(), journal::hash(text));
    }
    for (name, part) in &bundle.shared_agents {
        let text = &part.source.file.text;
        files.insert(format!("shared agent {name}"), journal::hash(text));
    }
    Ok(files)
}

fn fingerprint(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|it| it.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
    read.with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(journal::hash(&bytes))
}

/// The folder of the project that this program writes into.
pub(super) fn state(project: &Project) -> PathBuf {
    project.root.join(".mozaiks")
}

/// The folder of a run.
pub(super) fn folder_of(project: &Project, run: &str) -> PathBuf {
    state(project).join("runs").join(run)
}

/// Removes what a run has published, for it to be published anew.
pub(super) fn forget_artifacts(folder: &Path) -> anyhow::Result<()> {
    let artifacts = folder.join(ARTIFACTS);
    match fs::remove_dir_all(&artifacts) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let artifacts = artifacts.display();
            Err(error).with_context(|| format!("cannot remove the folder `{artifacts}`"))
        }
        _ => Ok(()),
    }
}

pub(super) fn journal(project: &Project) -> anyhow::Result<Journal> {
    Journal::open(&state(project))
}

/// The lock of a run.
///
/// # Errors
/// Another process holds it, and which one.
pub(super) fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let opened = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path);
    let mut file = opened.with_context(|| format!("cannot open `{}`", path.display()))?;
    match patiently(|| file.try_lock()) {
        Ok(()) => {
            file.set_len(0)?;
            write!(file, "{}", std::process::id())?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = file.read_to_string(&mut holder);
            let id = folder.file_name().unwrap_or_default().to_string_lossy();
            anyhow::bail!("process {holder} works on run `{id}`; wait for it, or end it first")
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock `{}`", path.display()))
        }
    }
}

/// Whoever looks at a run holds its lock for a moment: that is waited for.
fn patiently(mut lock: impl FnMut() -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    for _ in 0..PROBES {
        match lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(PROBE),
            done => return done,
        }
    }
    lock()
}

/// Carries a run to the end of this session.
pub(super) fn perform(
    ready: Ready,
    args: &args::Session,
    common: &args::Common,
) -> anyhow::Result<u8> {
    let mut hearing = Hearing::new(args, &ready.terminal, ready.events);
    let (wanted, withdrawals) = mpsc::channel(1);
    let start = Start {
        id: ready.id.as_str().into(),
        folder: &ready.folder,
        context: ready.context,
        plan: ready.plan.as_ref(),
        log: ready.log,
        tools: super::tools(&ready.workflow).on_tape(ready.tape.of_tools()),
        budget: ready.budget,
        grace: ready.tape.grace(Duration::from_secs(args.grace.into())),
        withdrawals: Some(withdrawals),
    };
    let (workflow, agents) = (&ready.workflow, &ready.agents);
    let (tape, terminal) = (&ready.tape, &ready.terminal);
    let mut hear = |event: &RunEvent| hearing.hear(event, tape.differs());
    let inbox = inbox::watch(ready.folder.clone(), wanted);
    let done = tape.on_runtime(|cancel| async move {
        tape.end_with(&cancel);
        let mut beside = JoinSet::new();
        beside.spawn(inbox);
        let run = run::workflow(workflow, agents, start, &mut hear, &cancel);
        let done = terminal.until(cancel.cancelled(), run).await;
        for agent in agents.values() {
            agent.close().await;
        }
        done
    });
    hearing.finish()?;
    let (ending, stopped) = done.with_context(|| {
        let id = &ready.id;
        format!("run `{id}` stopped; what is done is kept, and `mozaiks-run resume {id}` goes on")
    })?;
    if let Some(difference) = ready.tape.difference() {
        show(&[difference], common)?;
        return Ok(2);
    }
    match &ready.tape {
        Tape::Record(recorder) => recorder.finish(ending.status.as_str())?,
        Tape::Replay(replay)
            if ending.status != Status::Cancelled && !args.quiet && !common.json =>
        {
            show(replay.left().as_slice(), common)?;
        }
        _ => (),
    }
    let is_dag = matches!(ready.workflow.first, First::Dag(_));
    let code = finish(
        &ready.id,
        &ready.name,
        &ready.folder,
        (&ending, is_dag),
        (args, common, stopped),
    )?;
    drop(ready.lock);
    Ok(code)
}

/// A folder of its own for a run, named after the time.
pub(super) fn new_folder(project: &Project) -> anyhow::Result<(String, PathBuf)> {
    let seconds = run::now_ms() / 1000;
    let runs = state(project).join("runs");
    fs::create_dir_all(&runs).with_context(|| format!("cannot make `{}`", runs.display()))?;
    loop {
        let id = format!("{seconds:x}-{:04x}", fastrand::u16(..));
        let folder = runs.join(&id);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok((id, folder)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make `{}`", folder.display()));
            }
        }
    }
}

/// Whoever listens to a run: a person, and perhaps a file.
struct Hearing {
    person: Box<dyn Listener + Send>,
    file: Option<(Events, PathBuf)>,
}

impl Hearing {
    fn new(args: &args::Session, terminal: &Terminal, events: Option<File>) -> Hearing {
        let begun = Instant::now();
        let clock: Clock = Arc::new(move || begun.elapsed());
        let level = match (args.quiet, args.verbose) {
            (true, _) => Level::Quiet,
            (_, true) => Level::Verbose,
            _ => Level::Normal,
        };
        let events = events.map(|it| Events::new(Box::new(it), Arc::clone(&clock)));
        let file = events.zip(args.events.clone());
        // A bar is for somebody who looks at a terminal; everything else gets lines.
        let person: Box<dyn Listener + Send> = match io::stderr().is_terminal() {
            true if level != Level::Quiet => {
                let progress = Progress::on_stderr(level, clock);
                terminal.behind(progress.curtain());
                Box::new(progress)
            }
            _ => Box::new(Lines::new(level, Box::new(io::stderr()), clock)),
        };
        Hearing { person, file }
    }

    /// What a run does that is over, since it differs from its recording, is nothing to tell people.
    fn hear(&mut self, event: &RunEvent, is_over: bool) {
        if let Some((events, _)) = &mut self.file {
            events.hear(event);
        }
        if !is_over {
            self.person.hear(event);
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self.file {
            Some((events, path)) => events
                .finish()
                .with_context(|| format!("cannot write `{}`", path.display())),
            None => Ok(()),
        }
    }
}

fn finish(
    id: &str,
    name: &str,
    folder: &Path,
    (ending, is_dag): (&Ending, bool),
    (args, common, stopped): (&args::Session, &args::Common, Stopped),
) -> anyhow::Result<u8> {
    let code = match ending.status {
        Status::Cancelled => stopped.exit_code(),
        status => status.exit_code(),
    };
    let artifacts = folder.join(ARTIFACTS);
    let shown = artifacts.display().to_string();
    let ended = report::json::Ended::of(id, name, &shown, ending);
    let result = folder.join("result.json");
    let draft = folder.join(".result.json.part");
    File::create(&draft)
        .and_then(|it| ended.write(it))
        .and_then(|()| fs::rename(&draft, &result))
        .with_context(|| format!("cannot write `{}`", result.display()))?;
    if let Some(out) = &args.out {
        let replace = match args.overwrite {
            true => Replace::Yes,
            false => Replace::No,
        };
        run::copy_out(&artifacts, out, &ending.files, replace)?;
    }
    let can_go_on = ending.status.can_go_on();
    let larger = match ending.status {
        Status::Budget => {
            " with a larger budget: `--budget-tokens N`, `--budget-cost X` or `--budget-cu CU`"
        }
        _ => "",
    };
    let to_go_on = format!("to go on: mozaiks-run resume {id}{larger}");
    if common.json {
        ended.write(out::stdout())?;
        if can_go_on {
            writeln!(io::stderr(), "{to_go_on}")?;
        }
        return Ok(code);
    }
    // What the last agent said, if it said it to people.
    let answer = ending.answer.as_ref().map(Json::to_value);
    match ending.text.clone().map(Value::String).or(answer) {
        Some(Value::String(text)) => writeln!(out::stdout(), "{}", text.trim_end())?,
        // What a DAG comes to is for whoever has it carried out.
        Some(result) if is_dag => writeln!(out::stdout(), "{result:#}")?,
        _ => (),
    }
    if args.quiet && code == 0 {
        return Ok(code);
    }
    let mut err = io::stderr();
    let shown = args.out.as_ref().unwrap_or(&artifacts);
    let shown = env::current_dir()
        .ok()
        .and_then(|it| shown.strip_prefix(it).ok())
        .unwrap_or(shown);
    match ending.files.as_slice() {
        [] => (),
        [one] => writeln!(err, "wrote {}", shown.join(one).display())?,
        several => writeln!(err, "wrote {} files to {}", several.len(), shown.display())?,
    }
    for it in ending.failed_tools.iter().take(FAILED_TOOLS) {
        writeln!(err, "{}", report::lines::failed_tool(it))?;
    }
    if let more @ 1.. = ending.failed_tools.len().saturating_sub(FAILED_TOOLS) {
        writeln!(err, "and {more} more calls of tools that failed")?;
    }
    if can_go_on {
        writeln!(err, "{to_go_on}")?;
    } else if code != 0 {
        let part = match ending.batches.is_empty() {
            true => "one of its turns with --turn N",
            false => "one of its tasks with --task ID",
        };
        writeln!(err, "for more: mozaiks-run show {id}, or {part}")?;
    }
    Ok(code)
}

/// What keeps a run from having a budget in money.
pub(super) fn unpriced(budget: Limit, workflow: &Workflow) -> Vec<Diagnostic> {
    match budget.cost {
        Some(_) => compile::providers::unpriced(workflow.agents.values(), &workflow.providers),
        None => Vec::new(),
    }
}
