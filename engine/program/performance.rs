//! `mozaiks-run WORKFLOW`: runs it.

use std::{
    env,
    fs::{self, File},
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{args, project, refuse, show, workflow};
use crate::{
    agent::build,
    compile::Workflow,
    context::Context,
    diagnostic::{Code, Diagnostic},
    event::RunEvent,
    load::Project,
    report::{
        self, Clock, Listener,
        json::Events,
        lines::{Level, Lines},
        progress::Progress,
    },
    run::{self, Ending, Start},
    source::{self, Source},
};

pub(super) fn run(args: &args::Run) -> anyhow::Result<u8> {
    let name = args.workflow.as_deref().unwrap_or_default();
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let (_, workflow, warnings) = match workflow(&project, name) {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, &args.common),
    };
    if args.verbose && !args.common.json {
        show(&warnings, &args.common)?;
    } else if !warnings.is_empty() && !args.quiet && !args.common.json {
        writeln!(
            io::stderr(),
            "{} (mozaiks-run check {name} shows them)",
            crate::diagnostic::summary(&warnings)
        )?;
    }
    let prepared = prepare(&workflow, &args.given, args.plan.as_deref());
    let (context, plan) = match prepared {
        Ok(prepared) => prepared,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let agents = match build::all(&workflow) {
        Ok(agents) => agents,
        Err(faults) => return refuse(&faults, &args.common),
    };
    if let Some(fault) = out_is_taken(args) {
        return refuse(&[fault], &args.common);
    }
    let (id, folder) = new_folder(&project)?;
    let mut hearing = Hearing::new(args)?;
    let start = Start {
        id: id.as_str().into(),
        folder: &folder,
        context,
        plan: plan.as_ref(),
    };
    let mut hear = |event: &RunEvent| hearing.hear(event);
    let ending = on_runtime(|cancel| async move {
        run::workflow(&workflow, &agents, start, &mut hear, &cancel).await
    })?;
    hearing.finish()?;
    finish(args, name, &id, &folder, &ending)
}

/// The context a run begins with, and the plan it is given.
pub(super) fn prepare(
    workflow: &Workflow,
    given: &args::Given,
    plan: Option<&Path>,
) -> Result<(Context, Option<Source>), Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let input = given
        .input
        .as_deref()
        .map(read_input)
        .transpose()
        .unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
    let mut set = Vec::new();
    for text in &given.set {
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
                set.push((key.trim().to_owned(), value));
            }
            _ => {
                let message = format!("`--set {text}` is not of the form KEY=VALUE");
                faults.push(Diagnostic::error(Code::BadInput, message));
            }
        }
    }
    let plan = plan.map(read_plan).transpose().unwrap_or_else(|fault| {
        faults.push(fault);
        None
    });
    let context = run::initial_context(workflow, input, &set).unwrap_or_else(|more| {
        faults.extend(more);
        Context::default()
    });
    match faults.is_empty() {
        true => Ok((context, plan)),
        false => Err(faults),
    }
}

fn read_input(text: &str) -> Result<String, Diagnostic> {
    let fault = |message: String| Diagnostic::error(Code::BadInput, message);
    let (name, bytes) = match text.strip_prefix('@') {
        Some(path) => (
            path,
            fs::read(path)
                .map_err(|error| fault(format!("cannot read the input `{path}`: {error}")))?,
        ),
        None if text == "-" => {
            let mut bytes = Vec::new();
            let read = io::stdin()
                .take(source::MAX_BYTES as u64 + 1)
                .read_to_end(&mut bytes);
            read.map_err(|error| {
                fault(format!(
                    "cannot read the input from standard input: {error}"
                ))
            })?;
            ("standard input", bytes)
        }
        None => return Ok(text.to_owned()),
    };
    source::decode(name, bytes).map(|it| it.text.clone())
}

fn read_plan(path: &Path) -> Result<Source, Diagnostic> {
    let name = path.display().to_string();
    let bytes = fs::read(path).map_err(|error| {
        Diagnostic::error(
            Code::BadInput,
            format!("cannot read the plan `{name}`: {error}"),
        )
    })?;
    let file = source::decode(&name, bytes)?;
    match path.extension().and_then(|it| it.to_str()) {
        Some("json") => Source::parse_json(&file),
        _ => Source::parse(&file),
    }
}

/// Runs a future to its end on a runtime of its own. The first Ctrl-C cancels, the second ends the program at once.
pub(super) fn on_runtime<T, F>(make: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the runtime")?;
    let cancel = CancellationToken::new();
    runtime.spawn(watch(cancel.clone()));
    let done = runtime.block_on(make(cancel));
    runtime.shutdown_background();
    done
}

async fn watch(cancel: CancellationToken) {
    while tokio::signal::ctrl_c().await.is_ok() {
        if cancel.is_cancelled() {
            std::process::exit(130);
        }
        cancel.cancel();
        let _ = writeln!(
            io::stderr(),
            "stopping: what runs is cancelled, what is done is kept; Ctrl-C again ends at once"
        );
    }
}

/// A folder of its own for a run, named after the time.
fn new_folder(project: &Project) -> anyhow::Result<(String, PathBuf)> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let runs = project.root.join(".mozaiks").join("runs");
    fs::create_dir_all(&runs).with_context(|| format!("cannot make `{}`", runs.display()))?;
    loop {
        let id = format!("{:x}-{:04x}", now.as_secs(), fastrand::u16(..));
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
    fn new(args: &args::Run) -> anyhow::Result<Hearing> {
        let begun = Instant::now();
        let clock: Clock = Arc::new(move || begun.elapsed());
        let level = match (args.quiet, args.verbose) {
            (true, _) => Level::Quiet,
            (_, true) => Level::Verbose,
            _ => Level::Normal,
        };
        let file = args.events.as_ref().map(|path| {
            let file =
                File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?;
            let events = Events::new(Box::new(file), Arc::clone(&clock));
            anyhow::Ok((events, path.clone()))
        });
        let file = file.transpose()?;
        // A bar is for somebody who looks at a terminal; everything else gets lines.
        let person: Box<dyn Listener + Send> = match io::stderr().is_terminal() {
            true if level != Level::Quiet => Box::new(Progress::on_stderr(level, clock)),
            _ => Box::new(Lines::new(level, Box::new(io::stderr()), clock)),
        };
        Ok(Hearing { person, file })
    }

    fn hear(&mut self, event: &RunEvent) {
        if let Some((events, _)) = &mut self.file {
            events.hear(event);
        }
        self.person.hear(event);
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
    args: &args::Run,
    name: &str,
    id: &str,
    folder: &Path,
    ending: &Ending,
) -> anyhow::Result<u8> {
    let artifacts = folder.join("artifacts");
    let value = report::json::ending(id, name, &artifacts.display().to_string(), ending);
    let result = folder.join("result.json");
    fs::write(&result, format!("{value:#}\n"))
        .with_context(|| format!("cannot write `{}`", result.display()))?;
    if let Some(out) = &args.out {
        copy_out(&artifacts, out, &ending.files, args)?;
    }
    let code = ending.status.exit_code();
    if args.common.json {
        writeln!(io::stdout(), "{value:#}")?;
        return Ok(code);
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
    Ok(code)
}

/// A file of the run's would replace one that is there.
fn out_is_taken(args: &args::Run) -> Option<Diagnostic> {
    let out = args.out.as_ref()?;
    let is_taken = fs::read_dir(out).is_ok_and(|mut it| it.next().is_some());
    (is_taken && !args.overwrite).then(|| {
        let message = format!("the folder `{}` is not empty", out.display());
        Diagnostic::error(Code::Exists, message)
            .help("name another with `--out`, or add `--overwrite`")
    })
}

fn copy_out(
    artifacts: &Path,
    out: &Path,
    files: &[String],
    args: &args::Run,
) -> anyhow::Result<()> {
    for file in files {
        let target = out.join(file);
        anyhow::ensure!(
            args.overwrite || !target.exists(),
            "`{}` is there already; `--overwrite` replaces it",
            target.display()
        );
        let parent = target.parent().unwrap_or(out);
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make `{}`", parent.display()))?;
        fs::copy(artifacts.join(file), &target)
            .with_context(|| format!("cannot write `{}`", target.display()))?;
    }
    Ok(())
}
