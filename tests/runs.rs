//! What a run does, from the outside: status, exit code, results, files.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::harness::{Project, Ran};

/// A conveyor whose planner and workers follow a script. Places: batch options, plan, replies of worker `A`.
fn scripted(options: &str, plan: &str, replies: &str) -> Project {
    Project::of(&format!(
        "\
=== extended_orchestration/task_batches.yaml
conveyors:
  - {{id: c, decomposition_agent: P, execution_agents: [A], {options}}}
=== agents.yaml
agents:
  - {{name: P, runtime: {{kind: scripted, replies: [{{json: {{DecompositionPlan: {{tasks: [{plan}]}}}}}}]}}}}
  - {{name: A, runtime: {{kind: scripted, replies: [{replies}]}}}}
  - {{name: Z, runtime: {{kind: template, output: text, template: 'status {{{{ c_status }}}}'}}}}
"
    ))
}

fn task(id: &str, more: &str) -> String {
    format!("{{task_id: {id}, execution_agent: A, task_prompt: do it{more}}}")
}

/// Exit code, status, the batch's status, and of each task what became of it.
fn summary(ran: &Ran) -> String {
    let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    let results = &value["context"]["c_results"];
    let mut text = format!(
        "exit {}, {}, batch {}\n",
        ran.code,
        value["status"].as_str().unwrap_or(&ran.stderr),
        value["context"]["c_status"]
    );
    text.push_str(&format!(
        "completed {}\n",
        results["_meta"]["completed_tasks"]
    ));
    for (id, it) in results["_failed"].as_object().into_iter().flatten() {
        text.push_str(&format!(
            "{id} {} {} attempts {} blocked by {}\n",
            it["status"], it["failure_kind"], it["attempts"], it["blocked_by"]
        ));
    }
    text
}

#[track_caller]
fn check(project: &Project, expect: Expect) {
    let ran = project.run(&["W", "--json"]);
    expect.assert_eq(&summary(&ran));
}

#[test]
fn an_empty_plan_is_a_success() {
    check(
        &scripted("concurrency: 2", "", "'{}'"),
        expect![[r#"
            exit 0, completed, batch "completed"
            completed []
        "#]],
    );
}

#[test]
fn results_stand_in_plan_order_whatever_the_order_of_completion() {
    let plan = [task("late", ""), task("soon", "")].join(", ");
    let replies = "{json: {x: 1}, task_id: late, delay_seconds: 0.05}, {json: {x: 2}}";
    check(
        &scripted("concurrency: 2", &plan, replies),
        expect![[r#"
            exit 0, completed, batch "completed"
            completed ["late","soon"]
        "#]],
    );
}

#[test]
fn each_policy_has_its_status_and_its_exit_code() {
    let plan = [
        task("a", ""),
        task("bad", ""),
        task("c", ", depends_on: [bad]"),
        task("d", ", depends_on: [c]"),
        task("e", ", depends_on: [a]"),
    ]
    .join(", ");
    let replies = "{fail: authentication, task_id: bad}, {json: {x: 1}}";
    check(
        &scripted(
            "concurrency: 1, failure_policy: continue_with_available",
            &plan,
            replies,
        ),
        expect![[r#"
            exit 3, partial, batch "partial"
            completed ["a","e"]
            bad "failed" "authentication" attempts 1 blocked by []
            c "cancelled" "dependency_blocked" attempts 0 blocked by ["bad"]
            d "cancelled" "dependency_blocked" attempts 0 blocked by ["c"]
        "#]],
    );
    check(
        &scripted(
            "concurrency: 1, failure_policy: collect_errors",
            &plan,
            replies,
        ),
        expect![[r#"
            exit 3, completed_with_errors, batch "completed_with_errors"
            completed ["a","e"]
            bad "failed" "authentication" attempts 1 blocked by []
            c "cancelled" "dependency_blocked" attempts 0 blocked by ["bad"]
            d "cancelled" "dependency_blocked" attempts 0 blocked by ["c"]
        "#]],
    );
    check(
        &scripted("concurrency: 1", &plan, replies),
        expect![[r#"
            exit 1, failed, batch "failed"
            completed []
            a "cancelled" "batch_stopped" attempts 0 blocked by []
            bad "failed" "authentication" attempts 1 blocked by []
            c "cancelled" "batch_stopped" attempts 0 blocked by ["bad"]
            d "cancelled" "batch_stopped" attempts 0 blocked by ["c"]
            e "cancelled" "batch_stopped" attempts 0 blocked by ["a"]
        "#]],
    );
}

#[test]
fn a_worker_cannot_leave_what_it_owns_nor_forge_its_stamps() {
    let owned = task("a", ", owned_paths: [a.md]");
    let retry = "require_owned_paths: true, retry_limit: 1, retry: {initial_seconds: 0}, failure_policy: collect_errors";
    let outside = "{json: {files: [{path: ../a.md, content: x}]}}, {json: {files: [{path: b.md, content: x}]}}";
    check(
        &scripted(retry, &owned, outside),
        expect![[r#"
            exit 3, completed_with_errors, batch "completed_with_errors"
            completed []
            a "failed" "outside_owned_paths" attempts 2 blocked by []
        "#]],
    );
    let forged = "{json: {_worker_agent: root, _task_id: z, files: [{path: a.md, content: x}]}}";
    let ran = scripted(retry, &owned, forged).run(&["W", "--json"]);
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    let output = &value["context"]["c_results"]["a"];
    assert_eq!(
        (&output["_worker_agent"], &output["_task_id"]),
        (&Value::from("A"), &Value::from("a"))
    );
    assert_eq!(value["files"], serde_json::json!(["a.md"]));
}

#[test]
fn the_same_rejected_answer_twice_ends_the_retries() {
    let retry = "retry_limit: 5, retry: {initial_seconds: 0}, failure_policy: collect_errors";
    check(
        &scripted(retry, &task("a", ""), "{json: {task_id: other}}"),
        expect![[r#"
            exit 3, completed_with_errors, batch "completed_with_errors"
            completed []
            a "failed" "wrong_task" attempts 2 blocked by []
        "#]],
    );
}

#[test]
fn an_answer_that_is_no_object_stands_as_it_was_written() {
    for text in ["[1, 2]", "null", "just text", "```json\n[1]\n```"] {
        let reply = Value::from(text).to_string();
        let ran = scripted("concurrency: 1", &task("a", ""), &reply).run(&["W", "--json"]);
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        assert_eq!(value["context"]["c_results"]["a"]["agent_message"], text);
    }
}

#[test]
fn a_variable_that_a_run_needs_is_given_or_in_the_environment() {
    let project = Project::of(
        "\
=== context_variables.yaml
definitions:
  given: {source: {type: runtime, required: true}}
  found: {source: {type: config, env_var: PATH, required: true}}
  absent: {source: {type: config, env_var: MOZAIKS_TEST_UNSET, required: true}}
  made: {source: {type: computed, required: true}}
=== agents.yaml
agents:
  - {name: A, runtime: {kind: scripted, replies: [x]}}
",
    );
    let ran = project.run(&["W"]);
    assert_eq!(ran.code, 2);
    let wanted = ran.stderr.lines().filter(|it| it.contains("error["));
    assert_eq!(
        wanted.collect::<Vec<_>>(),
        [
            "error[MZ501]: the variable `absent` has to be given",
            "error[MZ501]: the variable `given` has to be given",
        ]
    );
    let ran = project.run(&["W", "--set", "given=1", "--set", "absent=1"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_panic_in_an_attempt_is_that_tasks_failure() {
    let plan = [task("a", ""), task("b", "")].join(", ");
    let replies = "{fail: panic, task_id: a}, {json: {x: 1}}";
    check(
        &scripted("failure_policy: continue_with_available", &plan, replies),
        expect![[r#"
            exit 3, partial, batch "partial"
            completed ["b"]
            a "failed" "internal" attempts 1 blocked by []
        "#]],
    );
}

#[test]
fn a_plan_that_is_refused_starts_nothing_and_exits_2() {
    let plan = "{task_id: a, execution_agent: Z, task_prompt: x}";
    let ran = scripted("concurrency: 2", plan, "'{}'").run(&["W", "--json"]);
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    assert_eq!(ran.code, 2);
    assert_eq!(value["status"], "invalid_plan");
    assert_eq!(value["faults"][0]["code"], "MZ407");
    assert!(!ran.stderr.contains("completed a"), "{}", ran.stderr);
}

#[test]
fn a_planner_is_shown_what_is_wrong_and_asked_again_a_few_times() {
    let answers = |plans: &[&str]| {
        let project = scripted("concurrency: 2", "", "'{}'");
        let agents = std::fs::read_to_string(project.path("workflows/W/agents.yaml"));
        let replies = plans
            .iter()
            .map(|it| format!("{{json: {{DecompositionPlan: {{tasks: [{it}]}}}}}}"));
        let replies = replies.collect::<Vec<_>>().join(", ");
        let agents = agents
            .expect("it was written")
            .replace("{json: {DecompositionPlan: {tasks: []}}}", &replies);
        project.write("workflows/W/agents.yaml", agents);
        let ran = project.run(&["W", "--json", "--events", "events"]);
        let events = std::fs::read_to_string(project.path("events")).expect("it was written");
        std::fs::remove_file(project.path("events")).expect("it was written");
        let kinds = events.lines().filter_map(|it| {
            let event: Value = serde_json::from_str(it).expect("a line is an object");
            let kind = event["event"].as_str()?.to_owned();
            Some(format!(
                "{kind} {}\n",
                event["report"].as_str().unwrap_or_default()
            ))
        });
        let kinds = kinds.filter(|it| it.starts_with("plan_"));
        kinds.collect::<String>() + &summary(&ran)
    };
    let bad = |agent: &str| format!("{{task_id: a, execution_agent: {agent}, task_prompt: x}}");
    expect![[r#"
        plan_rejected error[MZ407]: task `a` names the agent `Z`, which batch `c` does not allow
         --> answer of P:4:24
          |
        4 |     "execution_agent": "Z",
          |                        ^^^
          |
          = note: expected `A`


        plan_accepted 
        exit 0, completed, batch "completed"
        completed ["a"]
    "#]]
    .assert_eq(&answers(&[&bad("Z"), &bad("A")]));
    let all_bad = answers(&[&bad("Z"), &bad("Y"), &bad("X"), &bad("A")]);
    assert_eq!(all_bad.matches("plan_rejected").count(), 3, "{all_bad}");
    assert!(all_bad.contains("exit 2, invalid_plan"), "{all_bad}");
    let same = answers(&[&bad("Z"), &bad("Z"), &bad("A")]);
    assert_eq!(same.matches("plan_rejected").count(), 1, "{same}");
}

#[test]
fn an_agent_after_a_batch_speaks_though_there_was_nothing_to_do() {
    let ran = scripted("concurrency: 2", "", "'{}'").run(&["W", "--json"]);
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    assert_eq!(value["context"]["c_results"]["_meta"]["task_count"], 0);
    assert_eq!(value["turns"], 2);
}

#[test]
fn only_the_attempt_that_was_accepted_counts() {
    let project = scripted(
        "retry_limit: 2, retry: {initial_seconds: 0}",
        &task("a", ""),
        "{json: {task_id: b, x: 1}}, {json: {task_id: c, x: 2}}, {json: {x: 3}}",
    );
    let ran = project.run(&["W", "--json"]);
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    expect![[r#"{"a":{"x":3,"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]},"_meta":{"batch_id":"c","status":"completed","task_count":1,"concurrency":4,"completed_tasks":["a"],"failed_tasks":[],"result_context_key":"c_results"}}"#]].assert_eq(&value["context"]["c_results"].to_string());
}

#[test]
fn many_tasks_are_all_there_for_the_one_that_joins_them() {
    let ids: Vec<String> = (0..200).map(|it| format!("t{it}")).collect();
    let join = format!(", depends_on: [{}]", ids.join(", "));
    let mut plan: Vec<String> = ids.iter().map(|it| task(it, "")).collect();
    plan.push(task("join", &join));
    for concurrency in [1, 7, 1000] {
        let project = scripted(
            &format!("concurrency: {concurrency}"),
            &plan.join(", "),
            "'{}'",
        );
        let agents = std::fs::read_to_string(project.path("workflows/W/agents.yaml"));
        let agents = agents.expect("it was written").replace(
            "{kind: scripted, replies: ['{}']}",
            "{kind: template, output: text, template: '{{ dependency_task_outputs | length }}'}",
        );
        project.write("workflows/W/agents.yaml", agents);
        let ran = project.run(&["W", "--json"]);
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        let results = &value["context"]["c_results"];
        let completed = results["_meta"]["completed_tasks"].as_array().map(Vec::len);
        assert_eq!(
            (ran.code, completed),
            (0, Some(201)),
            "{concurrency}: {}",
            ran.stderr
        );
        assert_eq!(results["join"]["agent_message"], "200", "{concurrency}");
    }
}

#[test]
fn a_batch_has_a_deadline() {
    let options = "deadline_seconds: 1";
    let replies = "{json: {}, delay_seconds: 60}";
    check(
        &scripted(options, &task("a", ""), replies),
        expect![[r#"
            exit 4, deadline, batch "failed"
            completed []
            a "cancelled" "deadline" attempts 1 blocked by []
        "#]],
    );
}

#[test]
fn without_a_key_it_says_which_variable_and_what_needs_none() {
    let project = Project::of(
        "\
=== agents.yaml
agents:
  - {name: A, system_message: hello, runtime: {kind: openai, model: m}}
",
    );
    let ran = project.run(&["W"]);
    assert_eq!(ran.code, 2);
    for part in [
        "MZ502",
        "`OPENAI_API_KEY` is not set",
        "`template`, `command` and `scripted` need no key",
    ] {
        assert!(ran.stderr.contains(part), "no `{part}` in {}", ran.stderr);
    }
}

#[cfg(unix)]
mod programs {
    use super::*;

    /// Worker `A` is a shell with this script.
    fn program(options: &str, script: &str) -> Project {
        let replies = "'{}'";
        let project = scripted(options, &task("a", ""), replies);
        let agents = std::fs::read_to_string(project.path("workflows/W/agents.yaml"))
            .expect("it was written");
        let script = serde_json::to_string(script).expect("a text is JSON");
        let agents = agents.replace(
            "{kind: scripted, replies: ['{}']}",
            &format!("{{kind: command, argv: [sh, -c, {script}], env: [SHOWN]}}"),
        );
        project.write("workflows/W/agents.yaml", agents);
        project
    }

    #[test]
    fn a_program_answers_and_its_failures_have_a_kind() {
        let options = "failure_policy: collect_errors";
        for (script, kind) in [
            ("cat > /dev/null; echo '{\"x\": 1}'", ""),
            ("exec <&-; echo '{\"x\": 1}'", ""),
            ("echo oops >&2; exit 3", "program_failed"),
            ("true", "empty"),
            ("echo wrong >&2", "empty"),
            ("printf '\\377\\376'", "not_json"),
            ("head -c 20000000 /dev/zero", "too_long"),
            ("echo '{\"task_id\": \"b\"}'", "wrong_task"),
        ] {
            let ran = program(options, script).run(&["W", "--json"]);
            let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
            let failed = &value["context"]["c_results"]["_failed"]["a"]["failure_kind"];
            assert_eq!(
                failed.as_str().unwrap_or_default(),
                kind,
                "{script}: {}",
                ran.stderr
            );
        }
    }

    #[test]
    fn a_program_sees_only_the_environment_it_is_allowed() {
        let script =
            "printf '{\"home\": \"%s\", \"hidden\": \"%s\"}' \"$HOME\" \"$CARGO_MANIFEST_DIR\"";
        let ran = program("concurrency: 1", script).run(&["W", "--json"]);
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        assert_eq!(value["context"]["c_results"]["a"]["hidden"], "");
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_all_it_started() {
        let mark = format!("31.{}", std::process::id());
        let script = format!("sleep {mark} & sleep {mark}");
        let ran = program(
            "timeout_seconds: 1, failure_policy: collect_errors",
            &script,
        )
        .run(&["W", "--json"]);
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        assert_eq!(
            value["context"]["c_results"]["_failed"]["a"]["failure_kind"],
            "timeout"
        );
        let left = std::process::Command::new("sh")
            .args(["-c", &format!("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep {mark} ' || true")])
            .output()
            .expect("a shell is there");
        let count = String::from_utf8_lossy(&left.stdout);
        // The shell that looks has the words in its own arguments.
        assert!(
            count.trim().parse::<u32>().expect("a number") <= 1,
            "{count}"
        );
    }
}

#[test]
fn long_outputs_are_the_same_wherever_they_are_held() {
    let long = "é".repeat(2000);
    let plan = [
        task("a", ""),
        task("b", ", depends_on: [a]"),
        task("c", ""),
        task("d", ", depends_on: [b, c]"),
    ];
    let replies = format!("{{json: {{text: '{long}'}}}}");
    let last = "template: 'status {{ c_status }}'";
    let project = scripted("concurrency: 1", &plan.join(","), &replies);
    let agents = project.path("workflows/W/agents.yaml");
    let text = std::fs::read_to_string(&agents).expect("it was written");
    let text = text.replace(
        last,
        "template: '{{ c_results.b.text }} {{ c_results._meta.task_count }}'",
    );
    std::fs::write(&agents, text).expect("there is room");
    let ran = project.run(&["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    assert_eq!(value["answer"], format!("{long} 4"));
    let results = &value["context"]["c_results"];
    for id in ["a", "b", "c", "d"] {
        assert_eq!(results[id]["text"], long);
        assert_eq!(results[id]["_task_id"], id);
    }
    let left = std::fs::read_dir(project.path(".mozaiks/runs")).expect("it is there");
    for folder in left {
        let names = std::fs::read_dir(folder.expect("it can be read").path());
        let names = names
            .expect("it is there")
            .map(|it| it.expect("it can be read").file_name());
        let names: Vec<_> = names
            .filter(|it| it.to_string_lossy().starts_with(".tmp"))
            .collect();
        assert!(names.is_empty(), "{names:?}");
    }
}
