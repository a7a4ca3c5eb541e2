//! Runs that are recorded, and answered from their recordings.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use crate::harness::{Project, Ran};

/// Everything that reaches outside, and each way in which it can end: good at once, good at the second attempt, never
/// good, never there; a function on an output, one on a prompt. Who is asked writes it down.
const FILES: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    retry_limit: 1
    timeout_seconds: 1
    failure_policy: continue_with_available
=== transition_graph.yaml
transition_rules:
  - {source_agent: Planner, target_agent: Writer, transition_type: after_turn}
  - {source_agent: Writer, target_agent: terminate, transition_type: after_turn}
=== agents.yaml
agents:
  - name: Planner
    runtime: {kind: command, argv: [sh, -c, "echo planner >> ../../asked; cat plan.json"]}
  - name: Worker
    prompt_sections: [{heading: "[ROLE]", content: "You work."}]
    runtime: {kind: command, argv: [sh, worker.sh], env: [THE_TOKEN]}
  - name: Writer
    runtime: {kind: template, output: json, template: '{"code_files": [{"filename": "all.json", "content": {{ work_results | tojson | tojson }}}]}'}
=== tools.yaml
tools:
  - {agent: Writer, file: notes.py, function: note, auto_tool_call: true}
=== tools/notes.py
def note(code_files, context_variables):
    with open("../../asked", "a") as asked:
        print("note", file=asked)
    context_variables.set("noted", len(code_files))
    return {"noted": True}
=== worker.sh
set -- $(cat | sed 's/^{"agent":"[^"]*","task_id":"\([^"]*\)","attempt":\([0-9]*\).*/\1 \2/')
echo "$1 $2" >> ../../asked
case "$1 $2" in
  "b 1") echo "not json {";;
  c*) echo "it is broken" >&2; exit 1;;
  d*) exec sleep 60;;
  *) printf '{"by": "%s", "was": "%s", "code_files": [{"filename": "out/%s.txt", "content": "%s"}]}' "$1" "$THE_TOKEN" "$1" "$1";;
esac
=== plan.json
{"DecompositionPlan": {"tasks": [
  {"task_id": "a", "execution_agent": "Worker", "task_prompt": "do a", "owned_paths": ["out/a.txt"]},
  {"task_id": "b", "execution_agent": "Worker", "task_prompt": "do b", "owned_paths": ["out/b.txt"], "depends_on": ["a"]},
  {"task_id": "c", "execution_agent": "Worker", "task_prompt": "do c", "owned_paths": ["out/c.txt"]},
  {"task_id": "d", "execution_agent": "Worker", "task_prompt": "do d", "owned_paths": ["out/d.txt"]}
]}}
"#;

/// What a run came to, but for its name and place.
fn result(ran: &Ran) -> Value {
    let mut value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    for key in ["run", "artifacts", "more"] {
        value[key] = json!(null);
    }
    value
}

fn asked(project: &Project) -> String {
    fs::read_to_string(project.path("asked")).unwrap_or_default()
}

fn recorded() -> (Project, Ran) {
    let project = Project::of(FILES);
    let ran = project.run_with(
        &[("THE_TOKEN", "open-sesame-42")],
        &["W", "--input", "go", "--record", "tape.jsonl", "--json"],
    );
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    (project, ran)
}

#[test]
fn a_replayed_run_is_the_recorded_one_and_asks_nobody() {
    let (project, first) = recorded();
    let before = asked(&project);
    let mut names: Vec<&str> = before.lines().collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "a 1", "b 1", "b 2", "c 1", "c 2", "d 1", "d 2", "note", "planner"
        ]
    );
    // Who would be asked is not there any more.
    fs::remove_file(project.path("workflows/W/worker.sh")).expect("it was there");
    for _ in 0..2 {
        let again = project.run(&["W", "--replay", "tape.jsonl", "--json"]);
        let wanted = {
            let mut wanted = result(&first);
            // The recording has no keys.
            for task in ["a", "b"] {
                wanted["context"]["work_results"][task]["was"] = json!("[key]");
            }
            wanted
        };
        let mut found = result(&again);
        // What a template made of it differs so as well.
        assert!(found["answer"].to_string().contains("[key]"));
        found["answer"] = wanted["answer"].clone();
        assert_eq!(found, wanted, "{}", again.stderr);
        assert_eq!(asked(&project), before);
    }
    let tape = fs::read_to_string(project.path("tape.jsonl")).expect("it was recorded");
    assert!(!tape.contains("open-sesame-42"), "{tape}");
}

#[test]
fn what_is_not_recorded_ends_the_run() {
    let (project, _) = recorded();
    let before = asked(&project);
    let tape = fs::read_to_string(project.path("tape.jsonl")).expect("it was recorded");
    let refused = |arguments: &[&str]| {
        let ran = project.run(&[&["W", "--quiet"], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert_eq!(asked(&project), before);
        // Nothing else is said.
        let of_it = ran.stderr.lines().filter(|it| !it.contains(" | "));
        of_it
            .map(|it| format!("{}\n", it.trim_end()))
            .collect::<String>()
    };
    expect![[r#"
        error[MZ605]: attempt 1 of `Planner`: the prompt is not the recorded one: line 1 was `go`, and is `stop`
         --> tape.jsonl:2:1
          |
          |
          = help: if the change is meant, record the run anew with `--record FILE`

    "#]].assert_eq(&refused(&["--replay", "tape.jsonl", "--input", "stop"]));
    let without = |what: &str| {
        let lines = tape.lines().filter(|it| !it.contains(what));
        lines.map(|it| format!("{it}\n")).collect::<String>()
    };
    project.write("less.jsonl", without("\"task_id\":\"b\",\"attempt\":2"));
    expect![[r#"
        error[MZ605]: attempt 2 of `Worker` on task `b` is not in the recording
         --> less.jsonl:1:1
          |
          |
          = help: if the change is meant, record the run anew with `--record FILE`

    "#]]
    .assert_eq(&refused(&["--replay", "less.jsonl"]));
    project.write("less.jsonl", without("\"kind\":\"called\""));
    expect![[r#"
        error[MZ605]: the call of `note` for `Writer` is not in the recording
         --> less.jsonl:1:1
          |
          |
          = help: if the change is meant, record the run anew with `--record FILE`

    "#]]
    .assert_eq(&refused(&["--replay", "less.jsonl"]));
    project.write("none.jsonl", "{\"kind\": \"recording\", \"version\": 1, \"workflow\": \"V\", \"given\": {}}\n{\"kind\": \"asked\"\n");
    expect![[r#"
        error[MZ501]: this is a recording of `V`
         --> none.jsonl:1:1
          |

        error[MZ501]: this is no line of a recording: EOF while parsing an object at line 2 column 0
         --> none.jsonl:2:1
          |

        2 errors; nothing was started
        for more about one of them: mozaiks-run explain MZ501
    "#]]
    .assert_eq(&refused(&["--replay", "none.jsonl"]));
    project.write("none.jsonl", "");
    expect![[r#"
        error[MZ501]: this is no recording: its first line does not say so
         --> none.jsonl:1:1
          |
        1 |
          |
          = help: make one with `--record FILE`

        1 error; nothing was started
        for more about one of them: mozaiks-run explain MZ501
    "#]]
    .assert_eq(&refused(&["--replay", "none.jsonl"]));
    let agents = fs::read_to_string(project.path("workflows/W/agents.yaml")).expect("it is there");
    project.write(
        "workflows/W/agents.yaml",
        agents.replace(
            "Planner\n",
            "Planner\n    prompt_sections: [{heading: x, content: You plan.}]\n",
        ),
    );
    expect![[r#"
        error[MZ605]: attempt 1 of `Planner`: the system text is not the recorded one: line 1 was nothing, and is `x`
         --> tape.jsonl:2:1
          |
          |
          = help: if the change is meant, record the run anew with `--record FILE`

    "#]].assert_eq(&refused(&["--replay", "tape.jsonl"]));
}

#[test]
fn a_recording_is_there_as_a_whole_or_not_at_all() {
    let (project, _) = recorded();
    let tape = fs::read(project.path("tape.jsonl")).expect("it was recorded");
    let killed = project.run_with(
        &[("MOZAIKS_CRASH_AT", "9")],
        &["W", "--input", "go", "--record", "other.jsonl"],
    );
    assert_ne!(killed.code, 3);
    assert!(!project.path("other.jsonl").exists());
    // What came before it died is there.
    let draft = fs::read_to_string(project.path("other.jsonl.part")).expect("it was begun");
    let kinds: Vec<Value> = draft
        .lines()
        .map(|it| serde_json::from_str(it).expect("a whole line"))
        .collect();
    assert_eq!(kinds[0]["kind"], "recording");
    assert_eq!(kinds[1]["agent"], "Planner");
    // One that is there may have been paid for.
    let ran = project.run(&["W", "--input", "go", "--record", "tape.jsonl"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("remove the one"), "{}", ran.stderr);
    assert_eq!(
        fs::read(project.path("tape.jsonl")).expect("it is there"),
        tape
    );
}

/// Two tasks, one of which is not done when the run is stopped; and one that would follow.
const STOPPED: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - {id: work, decomposition_agent: Planner, execution_agents: [Worker], timeout_seconds: 100, DEADLINE}
=== agents.yaml
agents:
  - name: Planner
    runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [
      {task_id: a, execution_agent: Worker, task_prompt: do},
      {task_id: b, execution_agent: Worker, task_prompt: do},
      {task_id: c, execution_agent: Worker, task_prompt: do, depends_on: [b]}]}}}]}
  - name: Worker
    runtime: {kind: command, argv: [sh, worker.sh]}
=== worker.sh
case $(cat) in *'"task_id":"a"'*) echo '{"done": true}'; echo >> ../../asked; exit;; esac
echo >> ../../asked
exec tail -f /dev/null
"#;

/// What came of the tasks.
fn came(project: &Project) -> String {
    let shown = project.run(&["show", "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("one JSON result");
    let tasks = shown["turns"][0]["batches"][0]["tasks"].as_array();
    let tasks = tasks.expect("there is a batch").iter();
    let tasks = tasks.map(|it| format!("{} {}", it["task_id"], it["status"]));
    format!(
        "{}: {}",
        shown["status"],
        tasks.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(unix)]
#[test]
fn a_run_that_was_stopped_is_stopped_again_when_it_is_replayed() {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    let project = Project::of(&STOPPED.replace("DEADLINE", ""));
    let mut running = project.start(&["W", "--grace", "0", "--record", "tape.jsonl"]);
    crate::harness::until("both are asked", || asked(&project).len() == 2);
    let pid = Pid::from_raw(running.id().try_into().expect("a process id"));
    kill(pid, Signal::SIGINT).expect("it is there");
    assert_eq!(running.wait().expect("it ends").code(), Some(130));
    let before = came(&project);
    assert!(before.starts_with("\"cancelled\""), "{before}");
    let ran = project.run(&["W", "--replay", "tape.jsonl"]);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(came(&project), before);
    assert_eq!(asked(&project).len(), 2);
    project.write(
        "workflows/W/tests/stopped.yaml",
        "recording: ../../../tape.jsonl\nexpect: {status: cancelled}\n",
    );
    let tested = project.run(&["test", "W"]);
    assert_eq!(tested.code, 0, "{}", tested.stderr);
}

#[test]
fn a_replayed_run_waits_for_no_deadline() {
    let project = Project::of(&STOPPED.replace("DEADLINE", "deadline_seconds: 1"));
    let ran = project.run(&["W", "--record", "tape.jsonl"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let before = came(&project);
    let path = "workflows/W/extended_orchestration/task_batches.yaml";
    let batches = fs::read_to_string(project.path(path)).expect("it is there");
    // Longer than anybody would wait.
    let longer = batches
        .replace("deadline_seconds: 1", "deadline_seconds: 90000")
        .replace("timeout_seconds: 100", "timeout_seconds: 100000");
    project.write(path, longer);
    let ran = project.run(&["W", "--replay", "tape.jsonl"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert_eq!(came(&project), before);
}
