//! A run of sixty tasks is killed, stopped, starved of disk and robbed of its journal, over and over: in the end it is as
//! if nothing had happened, and nobody was asked again whose answer had been recorded.
//!
//! `MOZAIKS_CRASH_ROUNDS` says how often each is done, each time with other places to die at; once without it.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    env, fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use crate::harness::{self, Project, Ran};

/// Says something to whoever reads along with `--nocapture`.
macro_rules! tell {
    ($($said:tt)*) => {
        writeln!(std::io::stderr(), $($said)*).expect("somebody listens")
    };
}

const TASKS: usize = 60;
/// Enough to keep two cores busy with what mostly waits.
const AT_ONCE: usize = 4;

/// Every fifth task fails at its first attempt, and every seventh answers no JSON. All who are asked write it down
/// before they answer, with what only the shell itself has.
const WORKFLOW: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    concurrency: 4
    retry_limit: 2
    retry: {initial_seconds: 0.001, max_seconds: 0.002}
=== agents.yaml
agents:
  - name: Planner
    runtime: {kind: command, argv: [sh, planner.sh]}
  - name: Worker
    runtime: {kind: command, argv: [sh, worker.sh]}
  - name: Writer
    runtime:
      kind: template
      output: json
      template: '{"code_files": [{"filename": "all.json", "content": {{ work_results | tojson | tojson }}}]}'
=== planner.sh
echo "planner 1" >> ../../asked
while read -r line; do echo "$line"; done < plan.json
=== worker.sh
read -r request
task=${request#*\"task_id\":\"} task=${task%%\"*}
attempt=${request#*\"attempt\":} attempt=${attempt%%,*}
echo "$task $attempt" >> ../../asked
n=${task#t}
if [ "$attempt" = 1 ]; then
  [ $((n % 5)) = 0 ] && exit 1
  [ $((n % 7)) = 0 ] && echo "no json" && exit 0
fi
echo "{\"by\": \"$task\", \"code_files\": [{\"filename\": \"out/$task.txt\", \"content\": \"made by $task\"}]}"
"#;

/// The tasks that a task depends on.
fn before(n: usize) -> impl Iterator<Item = usize> {
    let before = [
        n.checked_sub(3),
        n.checked_sub(7).filter(|_| n.is_multiple_of(2)),
    ];
    before.into_iter().flatten()
}

fn project() -> Project {
    let tasks = (0..TASKS).map(|n| {
        json!({
            "task_id": format!("t{n}"),
            "execution_agent": "Worker",
            "task_prompt": "do",
            "owned_paths": [format!("out/t{n}.txt")],
            "depends_on": before(n).map(|it| format!("t{it}")).collect::<Vec<_>>(),
        })
    });
    let project = Project::of(WORKFLOW);
    let plan = json!({ "DecompositionPlan": { "tasks": tasks.collect::<Vec<_>>() } });
    project.write("workflows/W/plan.json", format!("{plan}\n"));
    project
}

/// All that a run leaves: its context, and its files with what is in them.
fn left(project: &Project, ran: &Ran) -> String {
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    let folder = project.path(result["artifacts"].as_str().expect("a folder"));
    let mut left = format!("{}\n", result["context"]);
    files(&folder, &mut |path| {
        let name = path.strip_prefix(&folder).expect("it lies in it");
        let content = fs::read_to_string(path).expect("it can be read");
        left += &format!("{}: {content}\n", name.display());
    });
    left
}

fn files(folder: &Path, each: &mut impl FnMut(&Path)) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|it| it.path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => files(&path, each),
            false => each(&path),
        }
    }
}

/// What those who were asked wrote down.
fn asked(project: &Project) -> Vec<String> {
    let text = fs::read_to_string(project.path("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whose answers are recorded in the only run.
pub(crate) fn recorded(project: &Project) -> BTreeSet<String> {
    let runs: Value = json(&project.run(&["runs", "--json"]));
    let Some(id) = runs[0]["run"].as_str() else {
        return BTreeSet::new();
    };
    let events = project.run(&["show", id, "--events"]);
    assert_eq!(events.code, 0, "{}", events.stderr);
    let events = events.stdout.lines();
    let events = events.map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
    let who = events.filter_map(|it| match it["kind"].as_str()? {
        "accepted" => Some(it["task_id"].as_str()?.to_owned()),
        "answered" => Some("planner".to_owned()),
        _ => None,
    });
    who.collect()
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Something that ends a session of a run before its time.
#[derive(Debug, Clone, Copy)]
enum Death {
    /// At a place where the program writes.
    Crash(usize),
    /// By a signal, when so many were asked since the start of the session.
    Signal(&'static str, usize),
    /// No file may be longer than so many blocks.
    Full(usize),
}

impl Death {
    /// A session that dies so, or gets to its end all the same.
    fn session(self, project: &Project, arguments: &[&str]) -> Ran {
        match self {
            Death::Crash(at) => {
                project.run_with(&[("MOZAIKS_CRASH_AT", &at.to_string())], arguments)
            }
            Death::Signal(signal, after) => {
                let after = asked(project).len() + after;
                let mut command = harness::command(&project.path(""), arguments);
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                let running = command.spawn().expect("the program is built");
                let pid = running.id();
                thread::scope(|scope| {
                    let ending = scope.spawn(|| harness::ended(running));
                    while !ending.is_finished() && asked(project).len() < after {
                        thread::yield_now();
                    }
                    if !ending.is_finished() {
                        let kill = format!("kill -{signal} {pid}");
                        let mut sent = Command::new("sh");
                        sent.args(["-c", &kill]).stderr(Stdio::null());
                        // It may have ended in this very moment.
                        let _ = sent.status();
                    }
                    ending.join().expect("it ends")
                })
            }
            Death::Full(blocks) => {
                let program = env!("CARGO_BIN_EXE_mozaiks-run");
                let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {program} \"$@\"");
                let mut command = Command::new("sh");
                command.args(["-c", &script, "sh"]).args(arguments);
                command.current_dir(project.path("")).stdin(Stdio::null());
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                harness::ended(command.spawn().expect("there is a shell"))
            }
        }
    }

    /// Whether a session that died so says what it should.
    fn check(self, ran: &Ran) {
        let said = &ran.stderr;
        match self {
            Death::Crash(_) | Death::Signal("KILL", _) => assert_eq!(ran.code, -1, "{said}"),
            Death::Signal(..) => {
                assert_eq!(ran.code, 143, "{said}");
                assert!(said.contains("mozaiks-run resume"), "{said}");
            }
            Death::Full(_) => {
                assert_eq!(ran.code, 1, "{said}");
                // SQLite calls a file that may not grow an error of the disk.
                let names_it = said.contains("disk") || said.contains("File too large");
                assert!(names_it && said.contains("error: "), "{said}");
                assert!(!said.contains("told to stop"), "{said}");
            }
        }
    }
}

/// Counts deaths, and looks that nothing comes of them.
struct Harness {
    wanted: String,
    deaths: AtomicUsize,
}

impl Harness {
    fn new() -> Harness {
        let whole = project();
        let wanted = left(&whole, &whole.run(&["W", "--json"]));
        Harness {
            wanted,
            deaths: AtomicUsize::new(0),
        }
    }

    /// A session that is to die. Whether it did; if not, it has come to its end as it should.
    fn dies(&self, project: &Project, arguments: &[&str], death: Death) -> bool {
        let before = (recorded(project), asked(project).len());
        let ran = death.session(project, arguments);
        self.check_asked(project, before, death);
        if ran.code == 0 {
            assert_eq!(left(project, &ran), self.wanted, "{death:?}");
            return false;
        }
        death.check(&ran);
        self.check_order(project, death);
        self.deaths.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A session that comes to the end as it should.
    fn ends(&self, project: &Project, after: &impl std::fmt::Debug) {
        let before = (recorded(project), asked(project).len());
        // Nothing of a run that died before it was begun is there to go on with.
        let arguments = match project.path(".mozaiks/journal.sqlite").exists()
            && json(&project.run(&["runs", "--json"])) != json!([])
        {
            true => ["resume", "--json"],
            false => ["W", "--json"],
        };
        let ran = project.run(&arguments);
        assert_eq!(left(project, &ran), self.wanted, "{after:?}");
        self.check_asked(project, before, after);
    }

    /// Nobody was asked before the answers that come before theirs were recorded.
    fn check_order(&self, project: &Project, why: Death) {
        let asked = asked(project);
        if asked.is_empty() {
            return;
        }
        let recorded = recorded(project);
        for line in asked {
            let who = line.split(' ').next().unwrap_or_default();
            let Some(n) = who.strip_prefix('t').and_then(|it| it.parse().ok()) else {
                continue;
            };
            for before in before(n) {
                let is_recorded = recorded.contains(&format!("t{before}"));
                assert!(
                    is_recorded,
                    "{why:?}: {line}, and t{before} is not recorded"
                );
            }
        }
    }

    fn check_asked(
        &self,
        project: &Project,
        (recorded, n): (BTreeSet<String>, usize),
        why: impl std::fmt::Debug,
    ) {
        for line in &asked(project)[n..] {
            let who = line.split(' ').next().unwrap_or_default();
            assert!(!recorded.contains(who), "{why:?}: {line} was asked again");
        }
    }
}

/// Does something for each number of a range, several at once, as often as the environment says.
pub(crate) fn each(
    numbers: std::ops::Range<usize>,
    what: impl Fn(usize, &mut fastrand::Rng) + Sync,
) {
    let rounds = env::var("MOZAIKS_CRASH_ROUNDS").ok();
    let rounds: usize = rounds.map_or(1, |it| it.parse().expect("a number of rounds"));
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= rounds * numbers.len() {
                        break;
                    }
                    let mut chance = fastrand::Rng::with_seed(n as u64);
                    what(numbers.start + n % numbers.len(), &mut chance);
                }
            });
        }
    });
}

#[test]
fn killed_at_every_place_and_again_in_the_resumed_run() {
    let harness = Harness::new();
    let places = AtomicUsize::new(0);
    each(0..220, |at, chance| {
        let project = project();
        if !harness.dies(&project, &["W", "--json"], Death::Crash(at)) {
            return;
        }
        places.fetch_max(at, Ordering::Relaxed);
        if project.run(&["runs", "--json"]).stdout.trim() != "[]" {
            let again = Death::Crash(chance.usize(..160));
            if !harness.dies(&project, &["resume", "--json"], again) {
                return;
            }
        }
        harness.ends(&project, &at);
    });
    let (deaths, places) = (harness.deaths.into_inner(), places.into_inner());
    tell!("{deaths} deaths, the last place is {places}");
    assert!(
        deaths > 150 && (60..219).contains(&places),
        "{deaths} deaths, {places} places"
    );
}

#[test]
fn killed_and_terminated_at_any_time() {
    let harness = Harness::new();
    each(0..24, |n, chance| {
        let project = project();
        let mut arguments = ["W", "--json"];
        for _ in 0..3 {
            let signal = if n % 2 == 0 { "TERM" } else { "KILL" };
            let death = Death::Signal(signal, chance.usize(1..30));
            if !harness.dies(&project, &arguments, death) {
                return;
            }
            arguments = ["resume", "--json"];
        }
        harness.ends(&project, &n);
    });
    let deaths = harness.deaths.into_inner();
    tell!("{deaths} deaths");
    assert!(deaths > 48, "{deaths} deaths");
}

#[test]
fn out_of_disk_at_any_length() {
    let harness = Harness::new();
    each(0..24, |n, chance| {
        let project = project();
        let death = Death::Full(n * 16 + chance.usize(..16));
        if harness.dies(&project, &["W", "--json"], death) {
            harness.ends(&project, &death);
        }
    });
    let deaths = harness.deaths.into_inner();
    tell!("{deaths} deaths");
    assert!(deaths > 12, "{deaths} deaths");
}

#[test]
fn with_a_damaged_journal_it_is_right_or_says_why_not() {
    let harness = Harness::new();
    let refused = AtomicUsize::new(0);
    each(0..48, |n, chance| {
        let project = project();
        let death = Death::Crash(chance.usize(4..60));
        if !harness.dies(&project, &["W", "--json"], death) {
            return;
        }
        let name = ["journal.sqlite", "journal.sqlite-wal"][n % 2];
        let path = project.path(".mozaiks").join(name);
        let mut bytes = fs::read(&path).expect("it is there");
        if bytes.is_empty() {
            return;
        }
        let at = chance.usize(..bytes.len());
        match n % 4 < 2 {
            true => bytes.truncate(at),
            false => bytes[at..]
                .iter_mut()
                .take(64)
                .for_each(|it| *it = chance.u8(..)),
        }
        fs::write(&path, bytes).expect("it can be written");
        let ran = project.run(&["resume", "--json"]);
        let said = ran.stderr.clone() + &ran.stdout;
        match ran.code {
            0 => assert_eq!(left(&project, &ran), harness.wanted, "{n}"),
            1 | 2 => {
                refused.fetch_add(1, Ordering::Relaxed);
                assert!(
                    !said.is_empty() && !said.contains("panicked"),
                    "{n}: {said}"
                );
            }
            code => panic!("{n}: {code}: {said}"),
        }
    });
    let refused = refused.into_inner();
    tell!("{} deaths, {refused} refused", harness.deaths.into_inner());
    assert!(refused > 0, "nothing was damaged so that it showed");
}

#[test]
fn of_two_who_resume_one_works() {
    let harness = Harness::new();
    each(0..8, |n, chance| {
        let project = project();
        let death = Death::Crash(chance.usize(8..40));
        assert!(harness.dies(&project, &["W", "--json"], death));
        let recorded = recorded(&project);
        let n_before = asked(&project).len();
        let start = || {
            let mut command = harness::command(&project.path(""), &["resume", "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("the program is built")
        };
        let both = [start(), start()].map(harness::ended);
        harness.check_asked(&project, (recorded, n_before), n);
        let lines: BTreeSet<String> = asked(&project).split_off(n_before).into_iter().collect();
        assert_eq!(
            lines.len(),
            asked(&project).len() - n_before,
            "asked by both"
        );
        let (done, other): (Vec<Ran>, Vec<Ran>) = both.into_iter().partition(|it| it.code == 0);
        assert_eq!((done.len(), other.len()), (1, 1));
        assert_eq!(left(&project, &done[0]), harness.wanted);
        let said = &other[0].stderr;
        let says_who = other[0].code == 1 && said.contains("works on run");
        // It came when the other was done already.
        let is_late = other[0].code == 2 && said.contains("not finished");
        assert!(says_who || is_late, "{said}");
    });
}
