//! Bundles are made of texts: a line `=== name` begins a file, named as in a workflow's folder, or as `agents/Name` where it is shared.

use expect_test::{Expect, expect};
use serde::de::DeserializeOwned;

use super::*;
use crate::{diagnostic::File, schema::FileKind};

mod agents;
mod batches;
mod providers;
mod tools;
mod transitions;

/// Agents that a case need not be about: a planner, two workers, and one to speak after them.
const AGENTS: &str = "
=== agents
agents:
  - {name: P, runtime: {kind: scripted, replies: ['{}']}}
  - {name: A, runtime: {kind: scripted, replies: ['{}']}}
  - {name: B, runtime: {kind: scripted, replies: ['{}']}}
  - {name: Z, runtime: {kind: scripted, replies: ['x']}}
";

/// What is found in a workflow, and what becomes of it, where `show` says something of it.
#[track_caller]
fn check(files: &str, show: fn(&Workflow) -> String, expect: Expect) {
    let (workflow, mut faults) = compile(&bundle(files));
    assert_eq!(workflow.is_some(), !faults.iter().any(Diagnostic::is_error));
    crate::diagnostic::sort(&mut faults);
    let lines = faults.iter().map(|it| {
        let place = it.at.as_ref().expect("all that is found has a place");
        let level = if it.is_error() { "error" } else { "warning" };
        let near = it.suggestion.iter().map(|it| format!(" ({it}?)"));
        let related = it.related.iter().map(|(at, note)| format!("; {at} {note}"));
        let more: String = near.chain(related).collect();
        format!(
            "{level} {} {place} {}{more}\n",
            it.code.as_str(),
            it.message
        )
    });
    let mut text: String = lines.collect();
    if let Some(workflow) = &workflow {
        text.push_str(&show(workflow));
    }
    expect.assert_eq(&text);
}

fn nothing(_: &Workflow) -> String {
    String::new()
}

/// The workflow `W` of the project `/project`.
pub(crate) fn bundle(files: &str) -> Bundle {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut name = "";
    for line in files.split_inclusive('\n') {
        match line.strip_prefix("=== ") {
            Some(next) => name = next.trim(),
            None if name.is_empty() => (),
            None => texts.entry(name).or_default().push_str(line),
        }
    }
    let project = Project {
        root: "/project".into(),
        workflows: "/project/workflows".into(),
    };
    let shared = texts.iter().filter_map(|(name, text)| {
        let shared = name.strip_prefix("agents/")?;
        Some((shared.to_owned(), read(FileKind::Agent, name, text)))
    });
    let bundle = Bundle {
        name: "W".to_owned(),
        folder: project.workflows.join("W"),
        task_batches: part(FileKind::TaskBatches, &texts).unwrap_or_else(|| empty("task_batches")),
        agents: part(FileKind::Agents, &texts).unwrap_or_else(|| empty("agents")),
        shared_agents: shared.collect(),
        shared_providers: part(FileKind::Providers, &texts),
        orchestrator: part(FileKind::Orchestrator, &texts).unwrap_or_else(|| empty("orchestrator")),
        transition_graph: part(FileKind::TransitionGraph, &texts),
        context_variables: part(FileKind::ContextVariables, &texts),
        structured_outputs: part(FileKind::StructuredOutputs, &texts),
        tools: part(FileKind::Tools, &texts),
        middleware: part(FileKind::Middleware, &texts),
        acmp: part(FileKind::Acmp, &texts).unwrap_or_else(|| empty("acmp")),
        task_dag: None,
        project,
    };
    let mut names = texts.keys();
    let unknown = names.find(|it| FileKind::named(it).is_none() && !it.starts_with("agents/"));
    assert_eq!(unknown, None, "no file has this name");
    bundle
}

/// The only batch of a workflow without a mistake.
pub(crate) fn batch(files: &str) -> Batch {
    let (workflow, faults) = compile(&bundle(files));
    let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
    workflow
        .batches
        .into_iter()
        .next()
        .expect("there is a batch")
}

fn part<T: DeserializeOwned>(kind: FileKind, texts: &BTreeMap<&str, String>) -> Option<Part<T>> {
    let text = texts.get(kind.name())?;
    Some(read(kind, kind.name(), text))
}

fn read<T: DeserializeOwned>(kind: FileKind, name: &str, text: &str) -> Part<T> {
    let file = File {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let source = Source::parse(&Arc::new(file)).expect("it is YAML");
    let (value, faults) = kind.schema().read(&source);
    Part {
        value: value.unwrap_or_else(|| panic!("{faults:?}")),
        source,
        folder: "/project/folder".into(),
    }
}

fn empty<T: Default>(name: &str) -> Part<T> {
    let file = File {
        name: name.to_owned(),
        text: String::new(),
    };
    Part {
        value: T::default(),
        source: Source::parse(&Arc::new(file)).expect("nothing is YAML"),
        folder: PathBuf::new(),
    }
}

#[test]
fn who_begins() {
    fn show(workflow: &Workflow) -> String {
        format!("{:?}, {} turns\n", workflow.first, workflow.max_turns)
    }
    let check = |files: &str, expect: Expect| check(files, show, expect);
    check(
        "=== agents\nagents: []",
        expect![[r#"
        error MZ302 agents:1:1 there is no agent to begin with
    "#]],
    );
    check(
        AGENTS,
        expect![[r#"
        Agent("P"), 50 turns
    "#]],
    );
    check(
        &format!("=== orchestrator\n{{initial_agent: USER, max_turns: 3}}{AGENTS}"),
        expect![[r#"
            User, 3 turns
        "#]],
    );
    check(
        &format!("=== orchestrator\n{{initial_agent: Zz}}{AGENTS}"),
        expect![[r#"
            error MZ302 orchestrator:1:17 no file defines an agent `Zz` (Z?)
        "#]],
    );
    check(
        &format!(
            "=== task_batches\nconveyors: [{{id: c, decomposition_agent: B, execution_agents: [A]}}]{AGENTS}"
        ),
        expect![[r#"
            Agent("B"), 50 turns
        "#]],
    );
}

#[test]
fn the_name_of_a_workflow_is_that_of_its_folder() {
    check(
        &format!("=== orchestrator\nworkflow_name: w{AGENTS}"),
        nothing,
        expect![[""]],
    );
    check(
        &format!("=== orchestrator\nworkflow_name: V{AGENTS}"),
        nothing,
        expect![[r#"
            error MZ312 orchestrator:1:16 `workflow_name` is `V`, but the folder is `W`
        "#]],
    );
}

#[test]
fn an_outcome_is_acted_on_and_means_something() {
    check(
        "
=== agents
agents: [{name: A, runtime: {kind: scripted, replies: ['{}']}}]
=== context_variables
definitions: {verdict: {}, tries: {}}
=== orchestrator
initial_agent: A
=== tools
tools:
  - {agent: A, file: f.py, function: f, auto_tool_call: true, outcome: {context_key: verdict, attempts_key: tries, values: [good, poor], error_value: unchecked, retry_on: [poor, unchecked]}}
  - {agent: A, file: f.py, function: g, auto_tool_call: true, outcome: {context_key: input, attempts_key: trys, values: [good, poor], error_value: unchecked, retry_on: [por]}}
  - {agent: A, file: f.py, function: h, outcome: {context_key: verdict, attempts_key: current_task, values: [good], error_value: good}}
",
        nothing,
        expect![[r#"
            error MZ204 tools:3:86 only the engine writes the variable `input`
            warning MZ304 tools:3:107 the variable `trys` is not declared
            error MZ204 tools:3:170 `por` is no outcome of this tool (poor?)
            warning MZ208 tools:4:13 `h` is never called by `A`: what is `kind: scripted` calls no tools
            warning MZ208 tools:4:50 an `outcome` is accepted but not acted on without `auto_tool_call: true`: what a model calls tells the model alone
            error MZ204 tools:4:87 only the engine writes the variable `current_task`
        "#]],
    );
}

#[test]
fn tools_belong_to_agents() {
    check(
        &format!(
            "\
=== tools
tools:
  - {{agent: A, file: x.py, function: f}}
  - {{agent: a, file: x.py, function: f}}
  - {{agent: [A, C, B], file: x.py, function: f}}
  - {{agent: A, file: x.py, name: g}}
  - {{agent: A, command: [x]}}
  - {{agent: A, file: ../x.py, function: h}}
  - {{agent: A, file: x.py, function: i, tool_type: UI_Tool}}
  - {{agent: A, command: [x], name: j, auto_tool_call: true}}
{AGENTS}"
        ),
        nothing,
        expect![[r#"
            warning MZ208 tools:2:13 `f` is never called by `A`: what is `kind: scripted` calls no tools
            error MZ302 tools:3:13 no file defines an agent `a` (A?)
            error MZ303 tools:4:5 an agent has two tools named `f`
            warning MZ208 tools:4:14 `f` is never called by `A`: what is `kind: scripted` calls no tools
            error MZ302 tools:4:17 no file defines an agent `C`
            warning MZ208 tools:4:20 `f` is never called by `B`: what is `kind: scripted` calls no tools
            error MZ207 tools:5:5 a tool has either `file` and `function`, or `command` and `name`
            warning MZ208 tools:5:13 `g` is never called by `A`: what is `kind: scripted` calls no tools
            error MZ207 tools:6:5 a tool has either `file` and `function`, or `command` and `name`
            warning MZ208 tools:7:13 `h` is never called by `A`: what is `kind: scripted` calls no tools
            error MZ204 tools:7:22 the file of a tool lies in the workflow's folder, not at `../x.py`
            warning MZ208 tools:8:52 a tool that is shown to a person is accepted but not acted on: nobody looks at a run of this version
        "#]],
    );
}

#[test]
fn tools_of_servers_belong_to_agents() {
    check(
        &format!(
            "\
=== tools
tools:
  - {{agent: A, command: [x], name: weigh}}
mcp_servers:
  - {{name: s, agent: [A, C], command: [x], tools: [weigh, burn]}}
  - {{name: t, agent: A, url: 'https://a.example', tools: [weigh], prefix: t_}}
  - {{name: u, agent: A, url: 'https://a.example', command: [x], tools: [x]}}
  - {{name: v, agent: A, command: [x], headers: {{A: b}}, tools: [x]}}
=== transition_graph
transition_rules:
  - {{source_agent: A, target_agent: B, transition_type: condition, condition_type: tool_called, tool_name: t_weigh}}
  - {{source_agent: A, target_agent: B, transition_type: condition, condition_type: tool_called, tool_name: t_burn}}
  - {{source_agent: B, target_agent: terminate, transition_type: after_turn}}
=== orchestrator
initial_agent: A
{AGENTS}"
        ),
        nothing,
        expect![[r#"
            warning MZ208 tools:2:13 `weigh` is never called by `A`: what is `kind: scripted` calls no tools
            warning MZ208 tools:4:23 no tool of `s` is ever called by `A`: what is `kind: scripted` calls no tools
            error MZ302 tools:4:26 no file defines an agent `C`
            error MZ303 tools:4:52 an agent has two tools named `weigh`
            warning MZ208 tools:5:22 no tool of `t` is ever called by `A`: what is `kind: scripted` calls no tools
            error MZ207 tools:6:5 a tool server has either `command`, or `url`
            warning MZ208 tools:6:22 no tool of `u` is ever called by `A`: what is `kind: scripted` calls no tools
            error MZ207 tools:7:5 a tool server has either `command`, or `url`
            warning MZ208 tools:7:22 no tool of `v` is ever called by `A`: what is `kind: scripted` calls no tools
            error MZ303 tools:7:64 an agent has two tools named `x`
            warning MZ315 transition_graph:3:108 `A` has no tool `t_burn`, so this rule never holds (burn?)
        "#]],
    );
}

#[test]
fn variables_and_who_sees_them() {
    fn show(workflow: &Workflow) -> String {
        let variables = workflow.variables.iter();
        let variables = variables.map(|it| format!("{} {:?} {}\n", it.name, it.source, it.default));
        let agents = workflow.agents.values();
        let agents = agents.map(|it| format!("{} sees {:?}\n", it.name, it.sees));
        variables.chain(agents).collect()
    }
    check(
        &format!(
            "\
=== context_variables
definitions:
  flag: {{type: boolean, source: {{type: state, default: ' Yes '}}}}
  off: {{type: bool, source: {{type: config, default: '0'}}}}
  odd: {{type: bool, source: {{type: state, default: maybe}}}}
  n: {{type: integer, source: {{type: state, default: '-7'}}}}
  x: {{type: integer, source: {{type: state, default: '7.5'}}}}
  text: {{type: string, source: {{type: state, default: '7'}}}}
  made: {{source: {{type: computed, default: 3}}}}
  bare: {{}}
agents:
  A: {{variables: [flag, flga, flag]}}
  Nobody: {{variables: []}}
  User: {{variables: [n]}}
  Z: {{variables: [input]}}
{AGENTS}"
        ),
        show,
        expect![[r#"
            error MZ304 context_variables:11:25 the variable `flga` is not declared (flag?)
            warning MZ302 context_variables:12:3 no file defines the agent `Nobody` that variables are listed for
        "#]],
    );
    check(
        &format!(
            "\
=== context_variables
definitions: {{n: {{source: {{type: state, default: 1}}}}, c_results: {{}}, c_status: {{}}}}
agents:
  A: {{variables: [n]}}
=== agents/S
{{name: S, runtime: {{kind: scripted, replies: [x]}}}}
=== task_batches
conveyors: [{{id: c, decomposition_agent: P, execution_agents: [A]}}]
{AGENTS}"
        ),
        show,
        expect![[r#"
            c_results Computed null
            c_status Computed null
            n State 1
            A sees Only({"n"})
            B sees Only({})
            P sees Only({})
            S sees Only({"c_results", "c_status"})
            Z sees Only({})
        "#]],
    );
}

#[test]
fn faults_of_models_are_those_of_their_file() {
    check(
        &format!(
            "\
=== structured_outputs
registry: {{A: M, C: M, B: N}}
models:
  M: {{type: model, fields: {{a: {{type: strng}}, b: {{type: literal}}, c: {{type: str, items: x}}}}}}
  _x: {{type: model, fields: {{_a: {{type: str}}}}}}
  R: {{type: model, fields: {{r: {{type: R}}}}}}
{AGENTS}"
        ),
        nothing,
        expect![[r#"
            warning MZ302 structured_outputs:1:18 no file defines the agent `C` that a model is registered for
            error MZ309 structured_outputs:1:27 there is no model `N`
            error MZ309 structured_outputs:3:39 `strng` is not a type (string?)
            error MZ207 structured_outputs:3:50 the type `literal` needs the key `values`
            error MZ207 structured_outputs:3:89 `items` means nothing for the type `str`
            error MZ204 structured_outputs:4:34 `_a` cannot name a field: names with `_` in front are reserved
            error MZ309 structured_outputs:5:6 a model cannot contain itself: `R` -> `R`
        "#]],
    );
}
