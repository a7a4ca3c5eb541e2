//! The program `mozaiks-run`: one file a sub-command.
//!
//! **Invariant:** standard output carries results and nothing else; people's text goes to standard error.

use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, Parser};

use crate::{
    agent::{build, env::Env},
    compile::{self, Workflow},
    diagnostic::{self, Diagnostic, Style, draw},
    endpoint::Secrets,
    load::{self, Bundle, Project},
    report,
    tool::{self, Tools},
};

mod args;
mod cancel;
mod check;
mod dag;
mod explain;
mod history;
mod inbox;
mod init;
mod inputs;
mod keys;
mod out;
mod performance;
mod places;
mod plan;
mod provide;
mod remove;
mod resume;
mod retry;
mod schema;
mod session;
mod stop;
mod tape;
mod terminal;
mod test;
mod which;

use args::{Args, Command, Common};
use inputs::Inputs;

/// Invalid input, or an invalid plan.
const INVALID: u8 = 2;
/// The world failed.
const BROKEN: u8 = 1;

/// Parses the arguments, does what they say, and gives the exit code.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are no errors; clap knows which stream each belongs on.
            let code = if error.use_stderr() { INVALID } else { 0 };
            let shown = error.print();
            return ExitCode::from(shown.map_or(BROKEN, |()| code));
        }
    };
    let done = match args.command {
        Some(Command::Run(run)) => performance::run(&run),
        Some(Command::Dag(dag)) => dag::dag(&dag),
        Some(Command::Provide(provide)) => provide::provide(&provide),
        Some(Command::Check(check)) => check::check(&check),
        Some(Command::Retry(retry)) => retry::retry(&retry),
        Some(Command::Resume(resume)) => resume::resume(&resume),
        Some(Command::Runs(runs)) => history::runs(&runs),
        Some(Command::Show(show)) => history::show(&show),
        Some(Command::Logs(logs)) => history::logs(&logs),
        Some(Command::Cancel(cancel)) => cancel::cancel(&cancel),
        Some(Command::Rm(rm)) => remove::rm(&rm),
        Some(Command::Prune(prune)) => remove::prune(&prune),
        Some(Command::Plan(plan)) => plan::plan(&plan),
        Some(Command::Test(test)) => test::test(&test),
        Some(Command::Schema(schema)) => schema::schema(&schema),
        Some(Command::Init(init)) => init::init(&init),
        Some(Command::Explain(explain)) => explain::explain(&explain),
        Some(Command::Completions { shell }) => completions(shell),
        None => performance::run(&args.run),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let error = report::inert_lines(&format!("{error:#}"));
            let _ = writeln!(anstream::stderr(), "error: {error}");
            ExitCode::from(BROKEN)
        }
    }
}

/// Whoever read our output has read enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|it| it.downcast_ref::<io::Error>());
    causes.any(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "mozaiks-run", &mut text);
    io::stdout().write_all(&text)?;
    Ok(0)
}

/// What is wrong with what somebody wrote, for a sub-command to show.
type Faults = Vec<Diagnostic>;

/// A workflow, the files it is of, if it is of any, and its warnings.
type Found = (Option<Bundle>, Workflow, Faults);

/// Finds the project the person is in.
fn project(common: &Common) -> Result<Project, Faults> {
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    Project::find(&here, common.workflows.as_deref()).map_err(|it| vec![it])
}

/// Reads and compiles a workflow. Gives its warnings.
fn workflow(project: &Project, name: &str) -> Result<(Bundle, Workflow, Faults), Faults> {
    let (bundle, mut diagnostics) = load::load(project, name);
    let Some(bundle) = bundle else {
        diagnostic::sort(&mut diagnostics);
        return Err(diagnostics);
    };
    let (workflow, more) = compile::compile(&bundle);
    diagnostics.extend(more);
    if let Some(workflow) = &workflow {
        diagnostics.extend(ready(workflow, &bundle));
    }
    diagnostic::sort(&mut diagnostics);
    match workflow.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)) {
        Some(workflow) => Ok((bundle, workflow, diagnostics)),
        None => Err(diagnostics),
    }
}

/// The workflow of a run: that of a folder, or one that carries out the DAG that the run was given.
fn workflow_of(project: &Project, name: &str, inputs: &Inputs) -> Result<Found, Faults> {
    match &inputs.dag {
        Some(given) => dag::prepare(project, given),
        None => {
            let (bundle, workflow, warnings) = workflow(project, name)?;
            Ok((Some(bundle), workflow, warnings))
        }
    }
}

/// Whether every agent could be asked, as far as it can be known without asking.
fn ready(workflow: &Workflow, bundle: &Bundle) -> Faults {
    let agents = workflow.agents.values();
    let mut faults: Faults = agents.filter_map(|it| build::check(it).err()).collect();
    let at = |ix: usize| Some(bundle.acmp.at(&format!("/providers/{ix}")));
    faults.extend(build::check_providers(workflow, at));
    faults.extend(build::check_programs(workflow));
    let files = || bundle.naming_variables();
    faults.extend(keys::short(workflow, files, &Env::Process));
    faults.extend(tool::check(&workflow.tools));
    faults
}

/// The keys that a workflow uses.
fn keys(workflow: &Workflow) -> Secrets {
    Secrets::of(workflow.keys(), &Env::Process)
}

/// The tools of a workflow, ready to be called.
fn tools(workflow: &Workflow) -> Tools {
    Tools::new(&workflow.tools, keys(workflow), &Env::Process)
}

/// Shows diagnostics: as data on standard output, or drawn on standard error.
fn show(diagnostics: &[Diagnostic], common: &Common) -> anyhow::Result<()> {
    if common.json {
        let value = report::json::diagnostics(diagnostics);
        writeln!(out::stdout(), "{value:#}")?;
        return Ok(());
    }
    write!(anstream::stderr(), "{}", draw(diagnostics, Style::Coloured))?;
    Ok(())
}

/// Refuses what somebody wrote.
fn refuse(diagnostics: &[Diagnostic], common: &Common) -> anyhow::Result<u8> {
    show(diagnostics, common)?;
    if !common.json {
        writeln!(
            anstream::stderr(),
            "{}; nothing was started",
            diagnostic::summary(diagnostics)
        )?;
        let code = diagnostics
            .iter()
            .find(|it| it.is_error())
            .map(|it| it.code.as_str());
        if let Some(code) = code {
            writeln!(
                anstream::stderr(),
                "for more about one of them: mozaiks-run explain {code}"
            )?;
        }
    }
    Ok(INVALID)
}
