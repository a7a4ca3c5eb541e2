//! What the last lines of a run say.

use expect_test::expect;

use crate::harness::Project;

#[test]
fn the_end_of_a_run_says_what_it_was() {
    let run = |agents: &str, more: &[&str]| {
        let project = Project::of(&format!(
            "\
=== extended_orchestration/task_batches.yaml
conveyors: [{{id: c, decomposition_agent: P, execution_agents: [A, B]}}]
=== orchestrator.yaml
limits: {{plan_repair_limit: 2}}
=== agents.yaml
agents:
{agents}"
        ));
        let ran = project.run(&[&["W"], more].concat());
        let said = ran.stderr.lines().filter_map(|it| {
            let said = it.split_once("s] ").map_or(it, |it| it.1);
            let is_end = ["run  ", "batch ", "cancelled ", "for more"];
            is_end.iter().any(|it| said.starts_with(it)).then_some(said)
        });
        let said = said.filter(|it| !it.contains(" of W")).map(|it| {
            let it = it.split_once("show ").map_or(it, |it| it.0);
            it.to_owned() + "\n"
        });
        format!("exit {}\n{}", ran.code, said.collect::<String>())
    };
    let plan = "{json: {DecompositionPlan: {tasks: [{task_id: a, execution_agent: A, task_prompt: x}, {task_id: b, execution_agent: B, task_prompt: x, depends_on: [a]}]}}}";
    let planner = format!("  - {{name: P, runtime: {{kind: scripted, replies: [{plan}]}}}}\n");
    let other = "  - {name: B, runtime: {kind: scripted, replies: ['{}']}}\n";
    let fails = "  - {name: A, runtime: {kind: template, template: '{{ x.y.z }}'}}\n";
    expect![[r#"
        exit 1
        cancelled b: the batch stopped when `a` failed
        batch     c failed: 0 completed, 1 failed, 1 cancelled
        run       failed: a batch of `P` failed: task `a` failed: template_failed: line 1: undefined value: `x` is undefined; there are `c_result…t_task`, `current_task_batch_id`, `current_task_id`, `decomposition_plan`, `dependency_task_outputs`, `input`, `task_run_mode`; no transition of `P` has a condition that holds then (1 turn)
        for more: mozaiks-run 
    "#]].assert_eq(&run(&[&planner, other, fails].concat(), &[]));
    let person = "  - {name: A, runtime: {kind: human, question: q}}\n";
    expect![[r#"
        exit 5
        cancelled a: a person has to answer before the run goes on
        cancelled b: a person has to answer before the run goes on
        batch     c waits for a person: 0 completed, 0 failed, 2 open
        run       waiting: `A` has to answer for task `a`, and nobody can be asked here (1 turn)
    "#]]
    .assert_eq(&run(&[&planner, other, person].concat(), &["--no-input"]));
    let bad = planner.replace("execution_agent: A", "execution_agent: C");
    expect![[r#"
        exit 2
        run       invalid_plan: the plan of batch `c` was refused, and nothing of it started: its planner was asked again, and answered the same (1 turn)
        for more: mozaiks-run 
    "#]].assert_eq(&run(&[&bad, other, fails].concat(), &[]));
}

/// What is printed when the last agent, of these lines, has answered.
fn printed(runtime: &str, more: &str) -> String {
    let project = Project::of(&format!(
        "\
=== orchestrator.yaml
initial_agent: A
=== agents.yaml
agents: [{{name: A, runtime: {{{runtime}}}}}]
{more}"
    ));
    let ran = project.run(&["W"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout
}

#[test]
fn a_text_is_printed_whatever_it_looks_like() {
    let text = |template: &str| format!("kind: template, output: text, template: '{template}'");
    let json = |template: &str| format!("kind: template, template: '{template}'");
    let file = r#"{"files": [{"filename": "a", "content": "x"}]}"#;
    let model = "\
=== structured_outputs.yaml
registry: {A: M}
models: {M: {type: model, fields: {a: {type: int}}}}
";
    let cases = [
        (text("hello"), "", "hello\n"),
        (text(r#"{"a":1}"#), "", "{\"a\":1}\n"),
        (
            "kind: template, output: text, template: \"See:\\n```json\\n[1]\\n```\\n\\n\"".into(),
            "",
            "See:\n```json\n[1]\n```\n",
        ),
        // It wrote files, or it is for programs.
        (text(file), "", ""),
        (text(r#"{"a":1}"#), model, ""),
        (json(r#"{"a":1}"#), "", ""),
        (json(r#""hello""#), "", "\"hello\"\n"),
    ];
    for (runtime, more, expected) in cases {
        assert_eq!(printed(&runtime, more), expected, "{runtime}");
    }
    let person = "kind: human, question: q, default: '[1]'";
    assert_eq!(printed(person, ""), "[1]\n");
}

/// What a model says is read by people at a terminal, and by others as it is.
#[cfg(unix)]
#[test]
fn what_a_model_says_does_nothing_to_a_terminal() {
    let project = Project::of(
        r#"=== orchestrator.yaml
initial_agent: A
=== agents.yaml
agents: [{name: A, runtime: {kind: scripted, replies: ["a\x1b]0;x\x07\x1b[2Jb\n\tc"]}}]
"#,
    );
    let ran = project.run(&["W"]);
    assert_eq!(ran.stdout, "a\u{1b}]0;x\u{7}\u{1b}[2Jb\n\tc\n");
    let spawn = "import pty, sys; pty.spawn(sys.argv[1:])";
    let terminal = std::process::Command::new("python3")
        .args(["-c", spawn, env!("CARGO_BIN_EXE_mozaiks-run"), "W", "-v"])
        .current_dir(project.path("."))
        .output()
        .expect("there is Python");
    let shown = String::from_utf8_lossy(&terminal.stdout);
    assert!(shown.contains("a ]0;x  [2Jb\r\n\tc\r\n"), "{shown:?}");
    assert!(!shown.contains("\u{1b}]0;x"), "{shown:?}");
}
