//! What can be written after `mozaiks-run`.

use std::{net::SocketAddr, num::NonZeroU64, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::{budget::Limit, report::plan::Format, usage::Cost};

/// Runs work that an AI planner splits up, so that it can be trusted.
///
/// A planner emits tasks, agents, dependencies and owned paths. The whole plan is checked before anything starts; then workers run as soon as what they need is there, under limits, and every output is checked before it counts.
#[derive(Debug, Parser)]
#[command(
    name = "mozaiks-run",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES,
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: Run,
}

const EXAMPLES: &str = "\
Examples:
  mozaiks-run DocumentDigest --input @README.md    run a workflow on a file
  mozaiks-run check DocumentDigest                 find every mistake before anything runs
  mozaiks-run resume                               go on with the last run that was stopped or died
  mozaiks-run runs                                 the runs of this project, the newest first
  mozaiks-run show 6b0e --task service             everything about one task of a run
  mozaiks-run logs 6b0e -f                         what happens in a run, until it ends
  mozaiks-run prune --older-than 30d               forget runs that ended long ago
  mozaiks-run plan DocumentDigest --input @README.md   show what the planner would have done
  mozaiks-run dag dag.json --workflow TextDecomposition   carry out a DAG with a workflow's agents
  mozaiks-run init MyWorkflow                      begin one of your own
  mozaiks-run explain MZ406                        what a diagnostic means

Exit codes: 0 completed, 1 failed, 2 invalid input or plan, 3 partial or completed with errors, 4 deadline or budget, 5 waiting for a person, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by the end of its terminal";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a workflow (the same as naming it first)
    Run(Run),
    /// Carry out an ACMP DAG that somebody wrote
    Dag(Dag),
    /// Serve the capabilities of a workflow's agents to others, over ACMP
    Provide(Provide),
    /// Find every mistake in a workflow's files, and run nothing
    Check(Check),
    /// Go on with a run that was stopped or died, doing nothing again that was done
    Resume(Resume),
    /// List runs, the newest first
    Runs(Runs),
    /// Show what a run went through: turns, batches, tasks
    Show(Show),
    /// Print what happened in a run, line by line
    Logs(Logs),
    /// Stop a run from another terminal; what is done is kept
    Cancel(Cancel),
    /// Remove runs, with their files
    Rm(Rm),
    /// Remove runs that ended long ago, with their files
    Prune(Prune),
    /// Try the failed tasks of a run again, and what depends on them, or go on from an earlier agent; what was completed stays
    Retry(Retry),
    /// Ask the planner, show the plan it made or everything wrong with it, and run nothing else
    Plan(Plan),
    /// Run a workflow's tests, `tests/*.yaml` in its folder: no model, remote agent, provider or person is asked, but `command` agents without replies and the workflow's own tools run as ever
    Test(Test),
    /// Print or write the JSON Schemas of all files, for editors
    Schema(Schema),
    /// Make a new workflow that runs at once
    Init(Init),
    /// Say what a diagnostic means, and how to mend it
    Explain(Explain),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What every sub-command takes.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Common {
    /// The folder that holds the workflows [default: the nearest `workflows`, from here upwards]
    #[arg(long, value_name = "DIR")]
    pub(super) workflows: Option<PathBuf>,
    /// One machine-readable result on standard output
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Run {
    /// The workflow's name: that of its folder
    #[arg(required = true, value_name = "WORKFLOW")]
    pub(super) workflow: Option<String>,
    #[command(flatten)]
    pub(super) given: Given,
    /// A plan to carry out instead of asking the planner: a list of tasks, or the planner's whole answer, as YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// Keep every exchange with models, programs, tools and people in this file, without keys; refused if it is there already. Until the run has ended, and if it dies, it is named FILE.part; a run that is resumed is not recorded
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Answer from a recording instead of asking anybody; what is not recorded ends the run with exit code 2. Without an input of its own, the run is given what the recorded one was
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub(super) replay: Option<PathBuf>,
    #[command(flatten)]
    pub(super) session: Session,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Dag {
    /// The DAG: a JSON or YAML file with `dag_id`, `tasks` and `edges`
    pub(super) file: PathBuf,
    /// The workflow whose agents serve the DAG's capabilities
    #[arg(long, value_name = "NAME")]
    pub(super) workflow: Option<String>,
    /// A file as a workflow's `acmp.yaml`, to be used instead of it
    #[arg(long, visible_alias = "providers", value_name = "FILE")]
    pub(super) acmp: Option<PathBuf>,
    #[command(flatten)]
    pub(super) how: DagOptions,
    /// Show the DAG or everything wrong with it, and run nothing
    #[arg(long)]
    pub(super) check: bool,
    /// With `--check`: how to show the DAG
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "check")]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) session: Session,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Provide {
    /// The workflow's name
    pub(super) workflow: String,
    /// Serve whoever connects to this address, by WebSocket or Streamable HTTP; with port 0, any port that is free. Without it, serve whoever started the program, on standard input and output
    #[arg(long, value_name = "IP:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// The environment variable that holds the bearer token that buyers have to show
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub(super) token_env: Option<String>,
    /// Speak TLS, and show this certificate: a PEM file, with those after it that it is signed with
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    pub(super) tls_cert: Option<PathBuf>,
    /// The key to the certificate: a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// How a DAG is carried out, where it is to be other than `acmp.yaml` says.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Serialize, Deserialize)]
pub(super) struct DagOptions {
    /// Go on with branches that do not need a failed task
    #[arg(long)]
    pub(super) best_effort: bool,
    /// The most tasks that run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) concurrency: Option<u32>,
    /// How often a task is tried again after its first attempt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(super) retry_limit: Option<u32>,
    /// The most that all tasks together may cost, in CU: each has to say its `max_price_cu`, and a DAG that may cost more is refused before anything starts
    #[arg(long, value_name = "CU", value_parser = price)]
    pub(super) max_price_cu: Option<f64>,
}

fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if price.is_finite() && price >= 0.0 => Ok(price),
        _ => Err("a price is a number from 0".to_owned()),
    }
}

/// How a run is carried out and shown.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Session {
    /// Copy the files of the run here at its end; refused if one is there already
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// With `--out`: replace files that are there already
    #[arg(long, requires = "out")]
    pub(super) overwrite: bool,
    /// Write everything that happens to this file, one JSON object a line, after what is there already
    #[arg(long, value_name = "FILE")]
    pub(super) events: Option<PathBuf>,
    /// The most tokens that the run may use, all its sessions together, those that providers report as well
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub(super) budget_tokens: Option<NonZeroU64>,
    /// The most money that the run may spend, all its sessions together, in the currency of the prices
    #[arg(long, value_name = "X", value_parser = money)]
    pub(super) budget_cost: Option<Cost>,
    /// The most that providers may take for tasks of DAGs, in CU, all sessions together: tasks need no prices, and once so much is used no other starts
    #[arg(long, value_name = "CU", value_parser = money)]
    pub(super) budget_cu: Option<Cost>,
    /// Ask nobody: people's answers are their defaults; where there is none, the run stops and waits for `resume`
    #[arg(long)]
    pub(super) no_input: bool,
    /// How long attempts under way may go on after Ctrl-C or SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(super) grace: u32,
    /// Say nothing on standard error while it runs, nor at its end if it ends well; what comes of it goes to standard output as ever
    #[arg(long, short, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Say more while it runs
    #[arg(long, short)]
    pub(super) verbose: bool,
}

impl Session {
    /// What the run may spend, as far as it is said here.
    pub(super) fn budget(&self) -> Limit {
        Limit {
            tokens: self.budget_tokens.map(NonZeroU64::get),
            cost: self.budget_cost,
            cu: self.budget_cu,
        }
    }
}

/// A number of tokens that something can be asked with.
fn tokens(text: &str) -> Result<NonZeroU64, String> {
    text.parse()
        .map_err(|_| "it is not a whole number from 1 on".to_owned())
}

/// An amount of money that something can be bought for.
fn money(text: &str) -> Result<Cost, String> {
    let amount = text.parse().ok().filter(|it: &f64| it.is_finite());
    let cost = amount.map(Cost::new).filter(|it| *it > Cost::default());
    cost.ok_or_else(|| "it is not a number above 0".to_owned())
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Test {
    /// The workflow's name: that of its folder
    pub(super) workflow: String,
    /// Only the tests of these names: their files' without `.yaml`
    pub(super) names: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Resume {
    /// The run's id, or the beginning of it. Without it, the last run that is not finished
    pub(super) run: Option<String>,
    /// Go on although files of the workflow have changed: what is done stays as it was done with the old files
    #[arg(long)]
    pub(super) force: bool,
    /// What becomes of attempts that were under way: made again, or a reason not to resume
    #[arg(long, value_enum, default_value_t = InFlight::Retry, value_name = "WHAT")]
    pub(super) in_flight: InFlight,
    /// For a run of `dag`: a file as a workflow's `acmp.yaml`, to be used this time instead of the one that the run began with
    #[arg(long, visible_alias = "providers", value_name = "FILE")]
    pub(super) acmp: Option<PathBuf>,
    #[command(flatten)]
    pub(super) session: Session,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Retry {
    /// The run's id, or the beginning of it
    pub(super) run: String,
    /// Only this task, and what depends on it; may stand several times
    #[arg(long, value_name = "ID")]
    pub(super) task: Vec<String>,
    /// Ask this agent anew, where it spoke last, and go on from there: what came before stays as it is
    #[arg(long, value_name = "NAME", conflicts_with = "task")]
    pub(super) from_agent: Option<String>,
    /// Go on although files of the workflow have changed: what is done stays as it was done with the old files
    #[arg(long)]
    pub(super) force: bool,
    /// For a run of `dag`: a file as a workflow's `acmp.yaml`, to be used this time instead of the one that the run began with
    #[arg(long, visible_alias = "providers", value_name = "FILE")]
    pub(super) acmp: Option<PathBuf>,
    #[command(flatten)]
    pub(super) session: Session,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum InFlight {
    /// Make them again; they do not count as failed
    Retry,
    /// Refuse to resume, and name them
    Fail,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Runs {
    /// Those that stand so alone
    #[arg(long, value_parser = STATUSES)]
    pub(super) status: Option<String>,
    /// Those of this workflow alone
    #[arg(long, value_name = "NAME")]
    pub(super) workflow: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

/// How a run can stand. `interrupted` is one that died.
const STATUSES: [&str; 11] = [
    "running",
    "interrupted",
    "completed",
    "partial",
    "completed_with_errors",
    "failed",
    "invalid_plan",
    "deadline",
    "budget",
    "waiting",
    "cancelled",
];

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Show {
    /// The run's id, or the beginning of it. Without it, the last run
    pub(super) run: Option<String>,
    /// Everything about one task: as it was planned, each attempt, its output
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
    /// Everything about one turn: its prompts, its answer, its batches
    #[arg(long, value_name = "N", conflicts_with = "task")]
    pub(super) turn: Option<u32>,
    /// Every entry of the run's journal, one JSON object a line
    #[arg(long, conflicts_with_all = ["task", "turn"])]
    pub(super) events: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Logs {
    /// The run's id, or the beginning of it. Without it, the last run
    pub(super) run: Option<String>,
    /// Go on until the run ends
    #[arg(long, short)]
    pub(super) follow: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Cancel {
    /// The run's id, or the beginning of it
    pub(super) run: String,
    /// Cancel this task and what needs it, and let the rest of the run go on
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Rm {
    /// Their ids, or the beginnings of them
    #[arg(required = true, value_name = "RUN")]
    pub(super) runs: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Prune {
    /// How long ago they ended: `30d`, `12h`, `90m`. A run that died stays until it is resumed, or removed by its id
    #[arg(long, value_name = "AGE", value_parser = super::remove::age)]
    pub(super) older_than: Duration,
    /// Say which, and remove none
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What a run begins with.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Given {
    /// The input: a text, `@FILE` for a file's content, or `-` for standard input
    #[arg(long, short, value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    pub(super) input: Option<String>,
    /// A context variable and its first value: JSON, or a text
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Check {
    /// The workflow's name. Without it, every workflow there is
    pub(super) workflow: Option<String>,
    /// Count warnings as errors
    #[arg(long)]
    pub(super) strict: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Plan {
    /// The workflow's name
    pub(super) workflow: String,
    #[command(flatten)]
    pub(super) given: Given,
    /// A plan to check instead of asking the planner
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// The batch or conveyor the plan is for [default: the first]
    #[arg(long, value_name = "ID")]
    pub(super) batch: Option<String>,
    /// How to show the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Schema {
    /// The kind of file: task_batches, agents, agent, orchestrator, transition_graph, context_variables, structured_outputs, tools, middleware, ui_config, providers, plan, test, task_dag or acmp. Without it, all of them
    pub(super) kind: Option<String>,
    /// Narrow the schemas to one workflow: its agents, variables and models become the values an editor offers. Written to `.mozaiks/schemas/NAME`
    #[arg(long, value_name = "NAME")]
    pub(super) workflow: Option<String>,
    /// Write the schemas into this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    pub(super) write: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Init {
    /// The new workflow's name: a letter, then letters, digits, `_` and `-`
    pub(super) name: String,
    /// The form of its batch
    #[arg(long, value_enum, default_value_t = Template::Conveyor)]
    pub(super) template: Template,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Template {
    /// Two files: a planner, the agents it may use, and canonical values for the rest
    Conveyor,
    /// Every field spelled out, with a save step and models
    Batches,
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Explain {
    /// The code, such as MZ406. Without it, all codes
    pub(super) code: Option<String>,
}
