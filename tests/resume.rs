//! Runs that stop, and go on.

use std::{
    fs,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::harness::{Project, Ran};

/// Two chains of tasks. Every worker writes down that it was asked; `b` answers well at the second attempt only.
const FILES: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    concurrency: 2
    retry_limit: 2
    retry: {initial_seconds: 0.001, max_seconds: 0.001}
=== agents.yaml
agents:
  - name: Planner
    runtime:
      kind: command
      argv: [sh, -c, "echo planner >> ../../asked; cat plan.json"]
  - name: Worker
    runtime:
      kind: command
      argv: [sh, worker.sh]
  - name: Writer
    runtime:
      kind: template
      output: json
      template: '{"code_files": [{"filename": "all.json", "content": {{ work_results | tojson | tojson }}}]}'
=== worker.sh
request=$(cat)
set -- $(printf %s "$request" | sed 's/^{"agent":"[^"]*","task_id":"\([^"]*\)","attempt":\([0-9]*\).*/\1 \2/')
task=$1 attempt=$2
echo "$task $attempt" >> ../../asked
case "$task $attempt" in "b 1") echo "not json {"; exit 1;; esac
printf '{"by": "%s", "code_files": [{"filename": "out/%s.txt", "content": "made by %s"}]}' "$task" "$task" "$task"
=== plan.json
{"DecompositionPlan": {"tasks": [
  {"task_id": "a", "execution_agent": "Worker", "task_prompt": "do", "owned_paths": ["out/a.txt"]},
  {"task_id": "b", "execution_agent": "Worker", "task_prompt": "do", "owned_paths": ["out/b.txt"]},
  {"task_id": "c", "execution_agent": "Worker", "task_prompt": "do", "owned_paths": ["out/c.txt"], "depends_on": ["a"]},
  {"task_id": "d", "execution_agent": "Worker", "task_prompt": "do", "owned_paths": ["out/d.txt"], "depends_on": ["b", "c"]}
]}}
"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

fn crashing(project: &Project, at: u32, arguments: &[&str]) -> Ran {
    project.run_with(&[("MOZAIKS_CRASH_AT", &at.to_string())], arguments)
}

/// What the workers themselves wrote down.
fn asked(project: &Project) -> Vec<String> {
    let text = fs::read_to_string(project.path("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The files of the only run, and what became of it.
fn made(project: &Project) -> String {
    let runs = fs::read_dir(project.path(".mozaiks/runs")).expect("there was a run");
    let run = runs.map(|it| it.expect("it can be read").path()).next();
    let run = run.expect("there was a run");
    let mut text = String::new();
    for name in [
        "out/a.txt",
        "out/b.txt",
        "out/c.txt",
        "out/d.txt",
        "all.json",
    ] {
        let content = fs::read_to_string(run.join("artifacts").join(name));
        text += &format!("{name}: {}\n", content.unwrap_or_else(|it| it.to_string()));
    }
    text
}

#[test]
fn wherever_it_dies_the_run_ends_as_if_it_had_not() {
    let whole = Project::of(FILES);
    let ran = whole.run(&["W"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let wanted = made(&whole);
    let mut deaths = 0;
    for at in 0.. {
        let project = Project::of(FILES);
        if crashing(&project, at, &["W"]).code == 0 {
            break;
        }
        deaths += 1;
        let before = asked(&project);
        let ran = project.run(&["resume", "--json"]);
        assert_eq!(ran.code, 0, "killed at {at}: {}", ran.stderr);
        assert_eq!(made(&project), wanted, "killed at {at}");
        // The four tasks, one of them twice, the planner; and at most what was under way once more.
        let asked = asked(&project);
        assert!(
            asked.len() <= 6 + 2 + 1,
            "killed at {at}: {before:?} then {asked:?}"
        );
    }
    // Answers that are there together are committed together, so how many places there are depends on the machine.
    assert!(deaths > 12, "{deaths} places to die at");
}

/// A day, in milliseconds.
const DAY: i64 = 86_400_000;

#[test]
fn a_clock_that_is_set_between_two_sessions_changes_nothing() {
    let files = FILES.replace("0.001", "0.3");
    let whole = Project::of(&files);
    assert_eq!(whole.run(&["W"]).code, 0);
    let wanted = made(&whole);
    // Where `b` waits for its second attempt, the journal says until when.
    let is_waiting = |project: &Project| {
        let events = project.run(&["show", "--events", &id(project)]).stdout;
        let entries: Vec<Value> = events.lines().map(json).collect();
        entries.iter().any(|it| it["kind"] == "delayed")
            && !entries
                .iter()
                .any(|it| it["kind"] == "started" && it["attempt"] == 2)
    };
    for (ahead, name) in [(DAY, "back"), (-DAY, "forward")] {
        let ahead = ahead.to_string();
        let project = (0..)
            .map(|at: u32| {
                let project = Project::of(&files);
                let at = at.to_string();
                let places = [
                    ("MOZAIKS_CRASH_AT", &*at),
                    ("MOZAIKS_CLOCK_AHEAD_MS", &ahead),
                ];
                assert_ne!(project.run_with(&places, &["W"]).code, 0, "nothing waits");
                project
            })
            .find(is_waiting)
            .expect("it is endless");
        let ran = project.run(&["resume"]);
        assert_eq!(ran.code, 0, "set {name}: {}", ran.stderr);
        assert_eq!(made(&project), wanted, "set {name}");
        let listed = json(&project.run(&["runs", "--json"]).stdout);
        let took = listed[0]["took_ms"].as_i64().expect("a span");
        assert!((0..DAY / 2).contains(&took), "set {name}: took {took} ms");
    }
}

fn check_refused(project: &Project, arguments: &[&str], expect: Expect) {
    let ran = project.run(arguments);
    let text = ran.stderr.lines().take_while(|it| !it.is_empty());
    let text: Vec<&str> = text.collect();
    let text = format!("{}: {}", ran.code, text.join("\n"));
    expect.assert_eq(&text.replace(&id(project), "RUN"));
}

/// The id of the only run, if there is one.
fn id(project: &Project) -> String {
    let runs = fs::read_dir(project.path(".mozaiks/runs"));
    let mut runs = runs.into_iter().flatten().flatten();
    let run = runs.next().map(|it| it.file_name());
    run.map_or("no run".to_owned(), |it| it.to_string_lossy().into_owned())
}

#[test]
fn what_cannot_go_on_says_why() {
    let project = Project::of(FILES);
    check_refused(
        &project,
        &["resume"],
        expect!["2: error[MZ601]: there is RUN that is not finished"],
    );
    assert_ne!(crashing(&project, 8, &["W"]).code, 0);
    check_refused(
        &project,
        &["resume", "nobody"],
        expect!["2: error[MZ601]: there is no run `nobody`"],
    );
    project.write("workflows/W/worker.sh", "echo '{}'");
    check_refused(
        &project,
        &["resume"],
        expect![[r#"
            2: error[MZ603]: `workflows/W/worker.sh` has changed since the run began
             |
             = help: put it back as it was; `--force` goes on all the same: what is done stays as it was done, and what is not is done by the files as they are now"#]],
    );
    let ran = project.run(&["resume", "--force"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_refused(
        &project,
        &["resume", &id(&project)],
        expect!["2: error[MZ602]: run `RUN` has come to its end: it is `completed`"],
    );
}

/// A worker that is there for ever the first time, and answers the second.
const STUCK: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - {id: work, decomposition_agent: Planner, execution_agents: [Worker]}
=== agents.yaml
agents:
  - name: Planner
    runtime:
      kind: scripted
      replies:
        - json: {DecompositionPlan: {tasks: [{task_id: a, execution_agent: Worker, task_prompt: do}]}}
  - name: Worker
    runtime: {kind: command, argv: [sh, worker.sh]}
=== worker.sh
read -r request
if [ -e ../../worker ]; then echo '{"done": true}'; exit; fi
echo $$ > ../../draft; mv ../../draft ../../worker
exec sleep 1000
"#;

/// The program and its worker, which has just been asked.
#[cfg(target_os = "linux")]
fn stuck(project: &Project) -> (Child, String) {
    let running = project.start(&["W", "--grace", "0"]);
    (running, worker(project))
}

/// The worker, as soon as it is there.
#[cfg(target_os = "linux")]
fn worker(project: &Project) -> String {
    loop {
        match fs::read_to_string(project.path("worker")) {
            Ok(pid) => return pid.trim().to_owned(),
            Err(_) => thread::yield_now(),
        }
    }
}

/// Kills the program when its worker has just been asked, and waits until both are gone.
#[cfg(target_os = "linux")]
fn killed(project: &Project) {
    let (mut running, worker) = stuck(project);
    signal("-KILL", &running.id().to_string());
    running.wait().expect("it ends");
    wait_until_gone(&worker);
}

#[cfg(target_os = "linux")]
fn signal(what: &str, pid: &str) {
    // The shell's own: a bare machine has no other.
    let kill = format!("kill {what} {pid}");
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.expect("there is a shell").success());
}

/// Whether a process is gone, or dead and waiting for somebody who asks how it ended.
#[cfg(target_os = "linux")]
fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_err() || stat.is_ok_and(|it| it.contains(") Z "))
}

/// One that does not go would hold up everything after it.
#[cfg(target_os = "linux")]
fn wait_until_gone(pid: &str) {
    let begun = Instant::now();
    while !is_gone(pid) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{pid} goes on");
        thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_terminated_leaves_nothing_running_and_goes_on() {
    let project = Project::of(STUCK);
    let (mut running, worker) = stuck(&project);
    signal("-TERM", &running.id().to_string());
    assert_eq!(running.wait().expect("it ends").code(), Some(143));
    wait_until_gone(&worker);
    let ran = project.run(&["resume", "--json"]);
    let value = json(&ran.stdout);
    let done = &value["context"]["work_results"]["a"]["done"];
    assert_eq!((ran.code, done), (0, &true.into()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_stops_with_its_terminal_unless_it_is_to_outlive_it() {
    let project = Project::of(STUCK);
    let (mut running, worker) = stuck(&project);
    signal("-HUP", &running.id().to_string());
    assert_eq!(running.wait().expect("it ends").code(), Some(129));
    wait_until_gone(&worker);
    let listed = project.run(&["runs", "--json"]).stdout;
    assert!(listed.contains("\"cancelled\""), "{listed}");
    // As `nohup` does it.
    let project = Project::of(STUCK);
    let program = env!("CARGO_BIN_EXE_mozaiks-run");
    let script = format!("trap '' HUP; exec {program} W --grace 0");
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &script]).current_dir(project.path("."));
    let mut running = shell.spawn().expect("there is a shell");
    self::worker(&project);
    let id = running.id().to_string();
    signal("-HUP", &id);
    signal("-TERM", &id);
    assert_eq!(running.wait().expect("it ends").code(), Some(143));
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_killed_leaves_nothing_running() {
    let project = Project::of(STUCK);
    killed(&project);
    assert_eq!(project.run(&["resume"]).code, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_under_way_is_made_again_unless_somebody_wants_to_look_first() {
    let project = Project::of(STUCK);
    killed(&project);
    check_refused(
        &project,
        &["resume", "--in-flight", "fail"],
        expect![[r#"
            2: error[MZ604]: attempt 1 on task `a` of batch `work` was under way when run `RUN` stopped
             |
             = help: look whether it did what it was to do; without `--in-flight fail` it is made again"#]],
    );
    assert_eq!(project.run(&["resume"]).code, 0);
}

#[test]
fn one_process_works_on_a_run() {
    let project = Project::of(FILES);
    assert_ne!(crashing(&project, 8, &["W"]).code, 0);
    let path = project
        .path(".mozaiks/runs")
        .join(id(&project))
        .join("lock");
    let lock = fs::File::open(path).expect("a run has a lock");
    lock.lock().expect("nobody holds it");
    let ran = project.run(&["resume"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("works on run"), "{}", ran.stderr);
    drop(lock);
    assert_eq!(project.run(&["resume"]).code, 0);
}

/// `b` fails until it is allowed to succeed, and `d` depends on it.
const FLAKY: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - {id: work, decomposition_agent: Planner, execution_agents: [Worker], failure_policy: continue_with_available}
=== agents.yaml
agents:
  - name: Planner
    runtime:
      kind: scripted
      replies:
        - json:
            DecompositionPlan:
              tasks:
                - {task_id: a, execution_agent: Worker, task_prompt: do}
                - {task_id: b, execution_agent: Worker, task_prompt: do}
                - {task_id: c, execution_agent: Worker, task_prompt: do, depends_on: [a]}
                - {task_id: d, execution_agent: Worker, task_prompt: do, depends_on: [b]}
  - name: Worker
    runtime: {kind: command, argv: [sh, worker.sh]}
  - name: Writer
    runtime: {kind: template, output: text, template: '{{ work_status }}'}
=== transition_graph.yaml
transition_rules:
  - {source_agent: Planner, target_agent: Writer, transition_type: after_turn}
  - {source_agent: Writer, target_agent: terminate, transition_type: after_turn}
=== worker.sh
request=$(cat)
key=$(printf %s "$request" | sed 's/.*"idempotency_key":"[^\/"]*\/\([^"]*\)".*/\1/')
echo "$key" >> ../../asked
case "$key" in work/b/*) [ -e ../../allowed ] || exit 1;; esac
echo '{"done": true}'
"#;

#[test]
fn failed_tasks_are_tried_again_and_what_depends_on_them() {
    let project = Project::of(FLAKY);
    assert_eq!(project.run(&["W"]).code, 3);
    let id = id(&project);
    check_refused(
        &project,
        &["retry", &id, "--task", "a"],
        expect![[r#"
        2: error[MZ601]: batch `work` has no failed task `a`
         |
         = note: expected `b` or `d`"#]],
    );
    assert_eq!(project.run(&["retry", &id]).code, 3, "it fails again");
    project.write("allowed", "");
    let before = asked(&project).len();
    assert_ne!(crashing(&project, 4, &["retry", &id]).code, 0);
    let ran = project.run(&["resume", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let value = json(&ran.stdout);
    assert_eq!(value["answer"], "completed");
    let asked = asked(&project);
    let (first, last) = asked.split_at(before);
    let mut first = first.to_vec();
    first.sort();
    expect!["work/a/1 work/b/1 work/b/2 work/c/1 then work/b/3 work/d/1"].assert_eq(&format!(
        "{} then {}",
        first.join(" "),
        last.join(" ")
    ));
    check_refused(
        &project,
        &["retry", &id],
        expect![[r#"
            2: error[MZ602]: no task of run `RUN` failed: it is `completed`
             |
             = help: `--from-agent NAME` has an agent speak anew"#]],
    );
    assert_eq!(project.run(&["show", &id]).code, 0);
}
