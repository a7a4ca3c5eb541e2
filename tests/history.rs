//! Runs that are looked at, stopped from outside, and removed.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use expect_test::{Expect, expect};

use crate::harness::{Project, command};

/// Three tasks, one after the other; `b` answers well at the second attempt only.
pub(crate) const FILES: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    concurrency: 1
    retry_limit: 2
    retry: {initial_seconds: 0.001, max_seconds: 0.001}
=== agents.yaml
agents:
  - name: Planner
    runtime: {kind: command, argv: [cat, plan.json]}
  - name: Worker
    runtime: {kind: command, argv: [sh, worker.sh]}
=== worker.sh
case "$(cat)" in
  '{"agent":"Worker","task_id":"b","attempt":1'*) echo "not yet" >&2; exit 1;;
  '{"agent":"Worker","task_id":"a"'*) echo '{"code_files": [{"filename": "out/a.txt", "content": "made"}]}';;
  *) echo '{"code_files": []}';;
esac
=== plan.json
{"DecompositionPlan": {"tasks": [
  {"task_id": "a", "execution_agent": "Worker", "task_prompt": "do", "owned_paths": ["out/a.txt"]},
  {"task_id": "b", "execution_agent": "Worker", "task_prompt": "do", "depends_on": ["a"]},
  {"task_id": "c", "execution_agent": "Worker", "task_prompt": "do", "depends_on": ["b"]}
]}}
"#;

/// A project with one run: completed, or dead at a place where it wrote.
fn project(dies_at: Option<u32>) -> (Project, String) {
    let project = Project::of(FILES);
    let at = dies_at.map_or("none".to_owned(), |it| it.to_string());
    let ran = project.run_with(&[("MOZAIKS_CRASH_AT", &at)], &["W"]);
    assert_eq!(ran.code == 0, dies_at.is_none(), "{}", ran.stderr);
    let id = ids(&project).remove(0);
    (project, id)
}

fn ids(project: &Project) -> Vec<String> {
    let runs = fs::read_dir(project.path(".mozaiks/runs"));
    let names = runs
        .into_iter()
        .flatten()
        .flatten()
        .map(|it| it.file_name());
    names.map(|it| it.to_string_lossy().into_owned()).collect()
}

/// Carries out commands, one a line, and shows what each printed and its exit code, with `RUN` for the id and `#` for
/// whatever depends on the time.
pub(crate) fn check(project: &Project, id: &str, commands: &[&str], expect: Expect) {
    let shown = commands.iter().map(|command| {
        let arguments = command.replace("RUN", id);
        let ran = project.run(&arguments.split(' ').collect::<Vec<_>>());
        let text = format!("$ {command}\n{}{}=> {}\n", ran.stdout, ran.stderr, ran.code);
        timeless(&text.replace(id, "RUN"))
    });
    expect.assert_eq(&shown.collect::<String>());
}

/// Without what a clock said.
fn timeless(text: &str) -> String {
    let time = regex::Regex::new(
        r#"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ?|\d+\.\ds|(_ms": ?)\d+|(_ms":)\d+"#,
    );
    let time = time.expect("it is well-formed");
    time.replace_all(text, "$1$2#").into_owned()
}

#[test]
fn a_run_is_listed_shown_and_told() {
    let (project, id) = project(None);
    let commands = [
        "runs",
        "runs --json --status completed --workflow W",
        "runs --status interrupted",
        "runs --limit 0",
    ];
    check(
        &project,
        &id,
        &commands,
        expect![[r##"
            $ runs
            RUN            WORKFLOW  STATUS     STARTED (UTC)        TOOK  TASKS  TOKENS  COST
            RUN  W         completed  #  #  3/3    -       -
            => 0
            $ runs --json --status completed --workflow W
            [
              {
                "run": "RUN",
                "workflow": "W",
                "status": "completed",
                "started_at": "#",
                "started_at_ms": #,
                "ended_at_ms": #,
                "took_ms": #,
                "tasks": 3,
                "completed": 3,
                "usage": {
                  "input_tokens": 0,
                  "output_tokens": 0,
                  "cached_input_tokens": 0,
                  "cost": null
                }
              }
            ]
            => 0
            $ runs --status interrupted
            there are no such runs
            => 0
            $ runs --limit 0
            there are no such runs
            => 0
        "##]],
    );
    let commands = [
        "show RUN",
        "show RUN --task b",
        "show RUN --task bb",
        "logs RUN",
    ];
    check(
        &project,
        &id,
        &commands,
        expect![[r#"
            $ show RUN
            run RUN of W
            status   completed
            started  # UTC, took #

            turn 1: Planner
              batch work: completed, 3 of 3 tasks completed
                TASK  AGENT   STATUS     ATTEMPTS  TOOK  TOKENS  COST  FILES
                a     Worker  completed  1         #  -       -     out/a.txt
                b     Worker  completed  2         #  -       -     -
                c     Worker  completed  1         #  -       -     -
                rejected  b attempt 1: program_failed: `sh` ended with exit status: 1; it said: not yet
            => 0
            $ show RUN --task b
            task b of batch work in turn 1 (Worker)
            status   completed, took #

            planned
              {
                "task_id": "b",
                "execution_agent": "Worker",
                "task_prompt": "do",
                "depends_on": [
                  "a"
                ]
              }

            attempt 1  # UTC, took #: program_failed: `sh` ended with exit status: 1; it said: not yet
            system
              INPUT:
            user
              do

              [TASK BATCH CONTEXT]
              Do only the task below. If you state `task_id` or `kind`, they are those of `current_task`.
              current_task_batch_id: "work"
              current_task_id: "b"
              current_task: {"task_id":"b","execution_agent":"Worker","task_prompt":"do","depends_on":["a"]}
              dependency_task_outputs:
              - "a": {"code_files":[{"filename":"out/a.txt","content":"made"}],"task_id":"a","_task_id":"a","_worker_agent":"Worker","_owned_paths":["out/a.txt"]}

            attempt 2  # UTC, took #: accepted
            system
              INPUT:
            user
              do

              [TASK BATCH CONTEXT]
              Do only the task below. If you state `task_id` or `kind`, they are those of `current_task`.
              current_task_batch_id: "work"
              current_task_id: "b"
              current_task: {"task_id":"b","execution_agent":"Worker","task_prompt":"do","depends_on":["a"]}
              dependency_task_outputs:
              - "a": {"code_files":[{"filename":"out/a.txt","content":"made"}],"task_id":"a","_task_id":"a","_worker_agent":"Worker","_owned_paths":["out/a.txt"]}

            output
              {
                "code_files": [],
                "task_id": "b",
                "_task_id": "b",
                "_worker_agent": "Worker",
                "_owned_paths": []
              }
            => 0
            $ show RUN --task bb
            error: run `RUN` has no task `bb`; did you mean `b`?
            `mozaiks-run show RUN` lists all of them
            => 2
            $ logs RUN
            #  turn      1: Planner
            #  batch     work: 3 tasks
            #  started   a (Worker)
            #  completed a
            #  started   b (Worker)
            #  rejected  b attempt 1: program_failed: `sh` ended with exit status: 1; it said: not yet
            #  waiting   b, attempt 2 in #
            #  started   b (Worker, attempt 2)
            #  completed b after 2 attempts
            #  started   c (Worker)
            #  completed c
            #  batch     work completed: 3 completed, 0 failed, 0 cancelled
            #  run       completed
            => 0
        "#]],
    );
}

#[test]
fn every_entry_is_an_event() {
    let (project, id) = project(None);
    let ran = project.run(&["show", &id[..6], "--events"]);
    let events = ran.stdout.lines().map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        let task = event["task_id"].as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} {task} {}",
            event["seq"], event["kind"], event["attempt"]
        )
    });
    expect![[r#"
        1 "asked" - 1
        2 "answered" - null
        3 "batch_begun" - null
        4 "system" - null
        5 "started" a 1
        6 "accepted" a 1
        7 "started" b 1
        8 "rejected" b 1
        9 "delayed" b 1
        10 "started" b 2
        11 "accepted" b 2
        12 "started" c 1
        13 "accepted" c 1
        14 "batch_ended" - null
        15 "run_ended" - null"#]]
    .assert_eq(&events.collect::<Vec<_>>().join("\n"));
    let logs = project.run(&["logs", &id, "--json"]);
    assert_eq!(logs.stdout, ran.stdout);
}

#[test]
fn a_run_that_died_is_interrupted() {
    let (project, id) = project(Some(8));
    let commands = [
        "runs --status interrupted",
        "runs --status running",
        "show RUN",
        "logs RUN -f",
        "cancel RUN",
    ];
    check(
        &project,
        &id,
        &commands,
        expect![[r#"
            $ runs --status interrupted
            RUN            WORKFLOW  STATUS       STARTED (UTC)        TOOK  TASKS  TOKENS  COST
            RUN  W         interrupted  #  #  1/3    -       -
            => 0
            $ runs --status running
            there are no such runs
            => 0
            $ show RUN
            run RUN of W
            status   interrupted
            started  # UTC, took #

            turn 1: Planner
              batch work: not at its end, 1 of 3 tasks completed
                TASK  AGENT   STATUS       ATTEMPTS  TOOK  TOKENS  COST  FILES
                a     Worker  completed    1         #  -       -     out/a.txt
                b     Worker  interrupted  1         #  -       -     -
                c     Worker  waiting      0         -     -       -     -
                rejected  b attempt 1: program_failed: `sh` ended with exit status: 1; it said: not yet
            => 0
            $ logs RUN -f
            #  turn      1: Planner
            #  batch     work: 3 tasks
            #  started   a (Worker)
            #  completed a
            #  started   b (Worker)
            #  rejected  b attempt 1: program_failed: `sh` ended with exit status: 1; it said: not yet
            run RUN is interrupted: nobody works on it
            => 0
            $ cancel RUN
            error: nobody works on run `RUN`: there is nothing to stop
            => 1
        "#]],
    );
    assert_eq!(project.run(&["resume"]).code, 0);
    check(
        &project,
        &id,
        &["runs --status completed"],
        expect![[r#"
            $ runs --status completed
            RUN            WORKFLOW  STATUS     STARTED (UTC)        TOOK  TASKS  TOKENS  COST
            RUN  W         completed  #  #  3/3    -       -
            => 0
        "#]],
    );
}

/// Stands for the process that works on a run: holds its lock, with the number of another process in it.
fn held(project: &Project, id: &str, holder: &str) -> File {
    let path = project.path(".mozaiks/runs").join(id).join("lock");
    fs::write(&path, holder).expect("it can be written");
    let file = File::open(&path).expect("it is there");
    file.lock().expect("it can be waited for");
    file
}

#[test]
#[cfg(unix)]
fn the_process_that_works_on_a_run_is_told_to_stop() {
    use std::os::unix::process::ExitStatusExt;
    let (project, id) = project(Some(8));
    let mut worker = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it can be started");
    let lock = held(&project, &id, &worker.id().to_string());
    let ran = project.run(&["cancel", &id, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains(&worker.id().to_string()),
        "{}",
        ran.stdout
    );
    let ended = worker.wait().expect("it was started");
    assert_eq!(ended.signal(), Some(15));
    drop(lock);
    for holder in ["0", "-1", "1", "", "x"] {
        let lock = held(&project, &id, holder);
        let ran = project.run(&["cancel", &id]);
        let wanted = format!("`{holder}` is no process");
        assert!(
            ran.code == 1 && ran.stderr.contains(&wanted),
            "{holder}: {}",
            ran.stderr
        );
        drop(lock);
    }
}

#[test]
fn a_run_is_followed_while_somebody_works_on_it() {
    let (project, id) = project(Some(8));
    let lock = held(&project, &id, "1");
    check(
        &project,
        &id,
        &["runs --status running"],
        expect![[r#"
            $ runs --status running
            RUN            WORKFLOW  STATUS   STARTED (UTC)        TOOK  TASKS  TOKENS  COST
            RUN  W         running  #  #  1/3    -       -
            => 0
        "#]],
    );
    let mut follower = command(&project.path("."), &["logs", &id, "-f"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut out = BufReader::new(follower.stdout.take().expect("it is a pipe"));
    let mut first = String::new();
    out.read_line(&mut first).expect("it can be read");
    assert!(first.ends_with("turn      1: Planner\n"), "{first}");
    assert!(follower.try_wait().expect("it was started").is_none());
    drop(lock);
    let mut rest = String::new();
    let mut err = follower.stderr.take().expect("it is a pipe");
    err.read_to_string(&mut rest).expect("it can be read");
    assert_eq!(
        rest,
        format!("run {id} is interrupted: nobody works on it\n")
    );
    assert!(follower.wait().expect("it was started").success());
}

#[test]
fn runs_are_removed_unless_somebody_works_on_them() {
    let (project, id) = project(None);
    let lock = held(&project, &id, "77");
    check(
        &project,
        &id,
        &["rm RUN"],
        expect![[r#"
        $ rm RUN
        error: process 77 works on run `RUN`; wait for it, or end it first
        => 1
    "#]],
    );
    drop(lock);
    let commands = [
        "rm RUN nobody",
        "prune --older-than 1d",
        "prune --older-than 0s --dry-run",
    ];
    check(
        &project,
        &id,
        &commands,
        expect![[r#"
        $ rm RUN nobody
        error[MZ601]: there is no run `nobody`

        1 error; nothing was started
        for more about one of them: mozaiks-run explain MZ601
        => 2
        $ prune --older-than 1d
        there is nothing to remove
        => 0
        $ prune --older-than 0s --dry-run
        would remove RUN
        => 0
    "#]],
    );
    assert_eq!(ids(&project).len(), 1);
    let commands = ["prune --older-than 0s", "runs"];
    check(
        &project,
        &id,
        &commands,
        expect![[r#"
        $ prune --older-than 0s
        removed RUN
        => 0
        $ runs
        there are no such runs
        => 0
    "#]],
    );
    assert!(ids(&project).is_empty());
    assert_eq!(project.run(&["W"]).code, 0);
    let ran = project.run(&["rm", &ids(&project)[0][..6], "--json"]);
    assert!(ran.code == 0 && ids(&project).is_empty(), "{}", ran.stderr);
}
