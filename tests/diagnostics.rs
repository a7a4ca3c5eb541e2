//! Every mistake has a code and a place. A case is a line: the workflow's files, and what is found.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::harness::Project;

#[track_caller]
fn check(files: &str, expect: Expect) {
    let project = Project::of(files);
    expect.assert_eq(&found(&project));
}

fn found(project: &Project) -> String {
    let ran = project.run(&["check", "W", "--json"]);
    let faults: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    let lines = faults.as_array().into_iter().flatten().map(|it| {
        let file = it["file"]
            .as_str()
            .unwrap_or("-")
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let near = it["suggestion"]
            .as_str()
            .map(|it| format!(" ({it}?)"))
            .unwrap_or_default();
        format!(
            "{} {} {file}:{}:{} {}{near}\n",
            it["severity"].as_str().unwrap_or("?"),
            it["code"].as_str().unwrap_or("?"),
            it["line"],
            it["column"],
            it["message"].as_str().unwrap_or("?")
        )
    });
    let text: String = lines.collect();
    let has_error = text.contains("error ");
    assert_eq!(ran.code, if has_error { 2 } else { 0 }, "{text}");
    text
}

/// The agents that the documents below name.
const AGENTS: &str = "
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: ['{}']}}
  - {name: A, runtime: {kind: scripted, replies: ['{}']}}
  - {name: Z, runtime: {kind: scripted, replies: ['x']}}
";

#[track_caller]
fn check_batches(text: &str, expect: Expect) {
    check(
        &format!("=== extended_orchestration/task_batches.yaml\n{text}{AGENTS}"),
        expect,
    );
}

#[test]
fn all_mistakes_of_a_file_are_found_at_once() {
    check_batches(
        "\
version: '1'
conveyors:
  - id: c
    decomposition_agnt: P
    execution_agents: [A]
    concurrency: 0
    failure_policy: fail_bach
    retry_limit: '2'
    require_owned_paths: yes
    timeout_seconds: 4.0
",
        expect![[r#"
            error MZ203 task_batches.yaml:1:10 expected an integer, found the text `1`
            error MZ202 task_batches.yaml:3:5 the key `decomposition_agent` is missing
            error MZ201 task_batches.yaml:4:5 unknown key `decomposition_agnt` (decomposition_agent?)
            error MZ205 task_batches.yaml:6:18 `0` is below the least allowed, 1
            error MZ204 task_batches.yaml:7:21 `fail_bach` is not allowed here (fail_batch?)
            error MZ203 task_batches.yaml:8:18 expected an integer, found the text `2`
            error MZ203 task_batches.yaml:9:26 expected `true` or `false`, found the text `yes`
            error MZ203 task_batches.yaml:10:22 expected an integer, found the number `4.0`
        "#]],
    );
}

#[test]
fn what_files_say_of_each_other_is_checked() {
    check_batches(
        "\
batches:
  - id: b
    trigger_agent: Q
    source: {kind: context_variable, path: items, task_model: M}
    result: {context_key: k, status_key: k}
conveyors:
  - {id: b, decomposition_agent: P, execution_agents: [A, Bee]}
",
        expect![[r#"
            warning MZ308 task_batches.yaml:2:9 batch `b` has no allow-list: its tasks may go to any agent of the workflow, also to `Q`, which plans it
            error MZ302 task_batches.yaml:3:20 no file defines an agent `Q`
            warning MZ308 task_batches.yaml:4:44 batch `b` has no save step: nothing writes `items`
            warning MZ308 task_batches.yaml:4:63 batch `b` has no task model: `M` is not defined
            error MZ305 task_batches.yaml:5:42 the context key `k` has two writers; one would erase the other's results
            error MZ303 task_batches.yaml:7:10 the batch id `b` stands twice
            error MZ302 task_batches.yaml:7:59 no file defines an agent `Bee`
        "#]],
    );
}

#[test]
fn transitions_are_checked() {
    check(
        &format!(
            "=== extended_orchestration/task_batches.yaml
conveyors:
  - {{id: c, decomposition_agent: P, execution_agents: [A], failure_policy: continue_with_available}}
=== transition_graph.yaml
transition_rules:
  - {{source_agent: P, target_agent: Z, transition_type: condition, condition_type: context_expression, context_expression: \"${{c_status}} == 'completed'\"}}
  - {{source_agent: Z, target_agent: Y, transition_type: after_turn, condition_key: x}}
  - {{source_agent: Z, target_agent: terminate, transition_type: condition, condition_type: context_expression, context_expression: \"${{a}} == true\"}}
{AGENTS}"
        ),
        expect![[r#"
            warning MZ307 task_batches.yaml:2:34 no transition of `P` handles batch `c` ending as `partial`
            error MZ302 transition_graph.yaml:3:37 no file defines an agent `Y`
            error MZ207 transition_graph.yaml:3:69 `condition_key` has no use in a rule of this type
            error MZ311 transition_graph.yaml:4:141 `true` is not a value
        "#]],
    );
}

#[test]
fn what_only_another_engine_acts_on_is_a_warning() {
    check(
        &format!(
            "=== context_variables.yaml
definitions:
  a: {{source: {{type: data_reference, database_name: d, collection: c, query_template: {{}}, fields: [f], refresh_strategy: once}}}}
  b: {{source: {{type: data_entity, schema: {{}}, indexes: [], write_strategy: immediate, search_by: id}}}}
  c: {{source: {{type: computed, computation: x, inputs: [a], output_type: string, persist_to: {{k: v}}}}}}
  d: {{source: {{type: external, service: s, operation: o, params: {{}}, auth: {{}}, cache: {{}}, retry: {{}}}}}}
  e: {{source: {{type: state, default: 1, persist: true, triggers: [{{type: user_text}}]}}}}
  f: {{source: {{type: file, path: f.txt, format: text, encoding: latin-1}}}}
  g: {{source: {{type: external}}}}
  h: {{source: {{type: file, path: f.txt, format: toml}}}}
=== tools.yaml
tools:
  - agent: A
    file: t.py
    function: f
    outcome: {{context_key: a, attempts_key: b, values: [ok, bad], error_value: bad}}
lifecycle_tools:
  - {{trigger: on_start, file: t.py, function: f, tool_type: UI_Tool, ui: {{mode: inline}}, ui_contract: {{actions_schema: []}}}}
=== ui_config.yaml
visual_agents: [A]
{AGENTS}"
        ),
        expect![[r#"
            warning MZ208 context_variables.yaml:2:16 `type: data_reference` is accepted but not acted on: only `config`, `state`, `file` and `runtime` sources are read, so the variable begins as null
            warning MZ208 context_variables.yaml:3:16 `type: data_entity` is accepted but not acted on: only `config`, `state`, `file` and `runtime` sources are read, so the variable begins as null
            warning MZ208 context_variables.yaml:4:32 `computation` is accepted but not acted on: variables change by `writes` of an agent and by batches
            warning MZ208 context_variables.yaml:4:48 `inputs` is accepted but not acted on: variables change by `writes` of an agent and by batches
            warning MZ208 context_variables.yaml:4:61 `output_type` is accepted but not acted on: values are not held against a type
            warning MZ208 context_variables.yaml:4:82 `persist_to` is accepted but not acted on: nothing is written to a database
            warning MZ208 context_variables.yaml:5:16 `type: external` is accepted but not acted on (2 places): only `config`, `state`, `file` and `runtime` sources are read, so the variable begins as null
            warning MZ208 context_variables.yaml:6:41 `persist` is accepted but not acted on: each run begins with the first values
            warning MZ208 context_variables.yaml:6:56 `triggers` is accepted but not acted on: variables change by `writes` of an agent and by batches
            warning MZ208 context_variables.yaml:7:55 `encoding` is accepted but not acted on: files are read as UTF-8
            error MZ204 context_variables.yaml:9:49 `toml` is not allowed here
            warning MZ208 ui_config.yaml:1:1 `visual_agents` is accepted but not acted on: there is no user interface
        "#]],
    );
}

#[test]
fn yaml_is_read_strictly() {
    for (text, wanted) in [
        ("version: 1\nversion: 1\n", "MZ104"),
        ("conveyors:\n\t- id: c\n", "MZ105"),
        ("version: 1\n---\nversion: 1\n", "MZ106"),
        ("version: [1\n", "MZ103"),
        ("version: !weird 1\n", "MZ103"),
        (
            "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n",
            "MZ107",
        ),
    ] {
        let project = Project::of(&format!(
            "=== extended_orchestration/task_batches.yaml\n{text}{AGENTS}"
        ));
        let found = found(&project);
        assert!(
            found.starts_with(&format!("error {wanted} task_batches.yaml:")),
            "{text}: {found}"
        );
    }
}

#[test]
fn what_a_file_may_be_written_in() {
    let path = "workflows/W/extended_orchestration/task_batches.yaml";
    let project = Project::of(&format!(
        "=== extended_orchestration/task_batches.yaml\n{AGENTS}"
    ));
    for good in [
        "\u{feff}version: 1\n",
        "version: 1\r\nbatches: []\r\n",
        "base: &b {id: x}\n",
        "# only a comment\n",
        "",
    ] {
        project.write(path, good);
        let found = found(&project);
        let is_fine = found.is_empty() || (good.starts_with("base") && found.contains("MZ201"));
        assert!(is_fine, "{good:?}: {found}");
    }
    project.write(path, b"version: 1\nbatches: \xff\n");
    assert_eq!(
        found(&project),
        "error MZ102 task_batches.yaml:2:10 not UTF-8: byte 0xff at byte offset 20\n"
    );
    let large = format!("version: 1\n# {}\n", "x".repeat(10 << 20));
    project.write(path, large);
    assert_eq!(found(&project), "");
}

#[test]
fn a_merge_key_merges() {
    check_batches(
        "\
conveyors:
  - &first {id: c, decomposition_agent: P, execution_agents: [A]}
  - {<<: *first, id: d}
",
        expect![[""]],
    );
}

#[test]
fn an_unknown_workflow_is_told_from_a_known_one() {
    let project = Project::of("=== agents.yaml\nagents: []\n");
    let ran = project.run(&["Wx"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("there is no workflow `Wx`"),
        "{}",
        ran.stderr
    );
    for name in ["../W", "/etc", "W/../W"] {
        assert_eq!(project.run(&["check", name]).code, 2, "{name}");
    }
}

#[test]
fn what_this_machine_does_not_have_is_a_warning() {
    check(
        "\
=== agents.yaml
agents:
  - {name: A, runtime: {kind: command, argv: [no-such-program]}}
  - {name: B, runtime: {kind: command, argv: [./greet.sh]}}
  - {name: C, runtime: {kind: command, argv: [./greet.py]}}
  - {name: D, runtime: {kind: command, argv: [sh], cwd: nowhere}}
  - {name: E, runtime: {kind: command, argv: [sh, no-such-file]}}
=== greet.sh
#!/bin/sh
=== acmp.yaml
providers:
  - {name: there, endpoint: {kind: stdio, argv: [sh]}, capabilities: [a]}
  - {name: gone, endpoint: {kind: stdio, argv: [no-such-provider]}, capabilities: [b]}
  - {name: far, endpoint: {kind: http, url: 'http://a.example/'}, capabilities: [c]}
=== tools.yaml
tools:
  - {agent: A, name: t, command: [no-such-tool]}
  - {agent: A, name: u, command: [sh, -c, ls]}
mcp_servers:
  - {name: s, agent: A, command: [./no-such-server], tools: [x]}
=== orchestrator.yaml
providers:
  local: {base_url: 'localhost:8080/v1'}
  other: {base_url: 'http://models.example/v1'}
  third: {base_url: models.example/v1}
",
        expect![[r#"
            warning MZ316 acmp.yaml:3:5 the program `no-such-provider` of the provider `gone` cannot be started here: no folder of `PATH` has it
            error MZ501 acmp.yaml:4:5 the provider `far` cannot be asked: `http://a.example/`: plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise
            warning MZ316 agents.yaml:2:12 the program `no-such-program` of `A` cannot be started here: no folder of `PATH` has it
            warning MZ316 agents.yaml:3:12 the program `./greet.sh` of `B` cannot be started here: the file may not be executed
            warning MZ316 agents.yaml:4:12 the program `./greet.py` of `C` cannot be started here: there is no such file
            warning MZ316 agents.yaml:5:12 the program `sh` of `D` cannot be started here: the folder that it is to run in is not there
            error MZ501 orchestrator.yaml:2:21 the `base_url` of the provider `local` is none: `localhost:8080/v1`: `localhost` is neither `https` nor `http`
            error MZ501 orchestrator.yaml:4:21 the `base_url` of the provider `third` is none: `models.example/v1`: relative URL without a base
            warning MZ316 tools.yaml:2:5 the program `no-such-tool` of the tool `t` cannot be started here: no folder of `PATH` has it
            warning MZ208 tools.yaml:2:13 `t` is never called by `A`: what is `kind: command` calls no tools
            warning MZ208 tools.yaml:3:13 `u` is never called by `A`: what is `kind: command` calls no tools
            warning MZ316 tools.yaml:5:5 the program `./no-such-server` of the tool server `s` cannot be started here: there is no such file
            warning MZ208 tools.yaml:5:22 no tool of `s` is ever called by `A`: what is `kind: command` calls no tools
        "#]],
    );
}

#[test]
fn python_is_compiled_and_not_run() {
    let project = Project::of(
        "\
=== agents.yaml
agents: [{name: A, runtime: {kind: template, output: text, template: x}}]
=== tools.yaml
tools:
  - {agent: A, file: good.py, function: f}
  - {agent: A, file: bad.py, function: g}
lifecycle_tools:
  - {trigger: on_start, file: worse.py, function: h}
  - {trigger: on_start, file: bad.py, function: i}
=== tools/good.py
open('it-ran', 'w')
def f(): return '\\d'
=== bad.py
def i(): pass
def g(ö, b)
    pass
=== tools/worse.py
def h(): pass
  return 1
",
    );
    let said = found(&project);
    // What exactly is wrong, interpreters say in different words.
    let lines = said
        .lines()
        .filter_map(|it| Some(it.split_once(" file: ")?.0.to_owned() + "\n"));
    expect![[r#"
        warning MZ317 bad.py:2:12 Python cannot compile this
        warning MZ317 worse.py:2:2 Python cannot compile this
    "#]]
    .assert_eq(&lines.collect::<String>());
    let own = project.write("workflows/W/.venv/bin/python", "#!/bin/sh\ntouch it-ran\n");
    assert_eq!(said, found(&project));
    // The interpreter of a workflow is a program of somebody else's.
    for name in ["it-ran", "workflows/W/it-ran"] {
        assert!(!project.path(name).exists());
    }
    let check = ["check", "W"];
    let without = [("MOZAIKS_PYTHON", "no-such-python")];
    let ran = project.run_with(&without, &check);
    assert!(!ran.stderr.contains("MZ316"), "it has one: {}", ran.stderr);
    std::fs::remove_file(own).expect("it was written");
    let ran = project.run_with(&without, &check);
    assert!(ran.stderr.contains("MZ316"), "{}", ran.stderr);
    assert!(ran.stderr.contains("no-such-python"), "{}", ran.stderr);
}

#[test]
fn limits_and_prices_are_numbers_that_make_sense() {
    let orchestrator = "
=== orchestrator.yaml
initial_agent: P
budget: {tokens: 0, cost: 0}
providers:
  a: {max_concurrency: 0, requests_per_minute: -1, tokens_per_minute: 1.5}
  b: {prices: {small: {input: -1, output: 1, cached_input: -0.5}, big: {input: 1}}}
  c: {max_concurency: 3, prices: {'*': {input: free, output: 1}}}
";
    check(
        &format!("{orchestrator}{AGENTS}"),
        expect![[r#"
        error MZ205 orchestrator.yaml:2:18 `0` is below the least allowed, 1
        error MZ205 orchestrator.yaml:2:27 `0` is not above 0
        error MZ205 orchestrator.yaml:4:24 `0` is below the least allowed, 1
        error MZ205 orchestrator.yaml:4:48 `-1` is below the least allowed, 1
        error MZ203 orchestrator.yaml:4:71 expected null or an integer, found the number `1.5`
        error MZ205 orchestrator.yaml:5:31 `-1` is below the least allowed, 0
        error MZ205 orchestrator.yaml:5:60 `-0.5` is below the least allowed, 0
        error MZ202 orchestrator.yaml:5:67 the key `output` is missing
        error MZ201 orchestrator.yaml:6:7 unknown key `max_concurency` (max_concurrency?)
        error MZ203 orchestrator.yaml:6:48 expected a number, found the text `free`
    "#]],
    );
    let orchestrator = "
=== orchestrator.yaml
providers: {a: {prices: {small: {input: .nan, output: .inf}}}}
";
    check(
        &format!("{orchestrator}{AGENTS}"),
        expect![[r#"
        error MZ103 orchestrator.yaml:1:41 `.nan` is not a finite number
    "#]],
    );
    // Of a provider that no file defines, and in the file that all workflows share.
    let project = Project::of(
        "=== agents.yaml
agents: [{name: P, runtime: {kind: scripted, provider: lokal, replies: ['{}']}}]
",
    );
    project.write("providers.yaml", "providers: {local: {max_concurrency: 2}}");
    expect![[r#"
        error MZ320 agents.yaml:1:56 no file defines a provider `lokal` (local?)
    "#]]
    .assert_eq(&found(&project));
    project.write(
        "providers.yaml",
        "providers: {local: {max_concurrency: no}}",
    );
    expect![[r#"
        error MZ203 providers.yaml:1:38 expected null or an integer, found the text `no`
    "#]]
    .assert_eq(&found(&project));
}

#[test]
fn a_fallback_elsewhere_says_which_key_is_its_own() {
    let agents = |key: &str| {
        format!(
            "=== agents.yaml
agents: [{{name: P, system_message: x, runtime: {{kind: openai, api_key_env: OPENAI_API_KEY, fallback: [{{model: n, base_url: 'https://n.example/v1'{key}}}]}}}}]
"
        )
    };
    check(
        &agents(""),
        expect![[r#"
            error MZ502 agents.yaml:1:17 a `fallback` of `P` is at another endpoint and does not say where its key is; the one in `OPENAI_API_KEY` is for the first
        "#]],
    );
    check(&agents(", api_key_env: OPENAI_API_KEY"), expect![""]);
}

#[test]
fn files_whose_names_are_nearly_right_are_named() {
    let names = [
        "tools.yml",
        "Agents.yaml",
        "agents.yml",
        "middlewares.yaml",
        "structured-outputs.yaml",
        "orchestator.yaml",
        "task_batch.yaml",
        "extended_orchestration/acmp.yaml",
        "extended_orchestration/task_dag.yml",
        "tests/one.yml",
        // What lies beside is nobody's business.
        "agents_old.yaml",
        "notes.yaml",
        "agents.py",
        "prices.yaml",
        "tools.md",
        "pools.json",
    ];
    let files = names.map(|it| format!("=== {it}\nx: 1\n"));
    let agents = "=== agents.yaml\nagents: [{name: A, runtime: {kind: scripted, replies: [x]}}]\n=== orchestrator.yaml\ninitial_agent: A\n";
    check(
        &[agents, &files.concat()].concat(),
        expect![[r#"
        warning MZ208 agents.yml:1:1 `workflows/W/agents.yml` is not read
        warning MZ208 acmp.yaml:1:1 `workflows/W/extended_orchestration/acmp.yaml` is not read
        warning MZ208 task_dag.yml:1:1 `workflows/W/extended_orchestration/task_dag.yml` is not read
        warning MZ208 middlewares.yaml:1:1 `workflows/W/middlewares.yaml` is not read
        warning MZ208 orchestator.yaml:1:1 `workflows/W/orchestator.yaml` is not read
        warning MZ208 structured-outputs.yaml:1:1 `workflows/W/structured-outputs.yaml` is not read
        warning MZ208 task_batch.yaml:1:1 `workflows/W/task_batch.yaml` is not read
        warning MZ208 one.yml:1:1 `workflows/W/tests/one.yml` is not read
        warning MZ208 tools.yml:1:1 `workflows/W/tools.yml` is not read
    "#]],
    );
}
