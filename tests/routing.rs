//! Who speaks after whom. A case is a line: the rules of `A`, the value of `k`, and the turns that follow.

use expect_test::{Expect, expect};

use crate::harness::Project;

/// `A` speaks first; `B` and `C` end the run; `a` is another agent than `A`.
fn turns(rules: &str, value: &str) -> String {
    let project = Project::of(&format!(
        "\
=== orchestrator.yaml
initial_agent: A
max_turns: 3
=== agents.yaml
agents:
  - {{name: A, runtime: {{kind: scripted, replies: [x]}}}}
  - {{name: a, runtime: {{kind: scripted, replies: [x]}}}}
  - {{name: B, runtime: {{kind: scripted, replies: [x]}}}}
  - {{name: C, runtime: {{kind: scripted, replies: [x]}}}}
=== context_variables.yaml
definitions:
  k: {{source: {{type: state, default: {value}}}}}
=== transition_graph.yaml
transition_rules:
{rules}  - {{source_agent: B, target_agent: terminate, transition_type: after_turn}}
  - {{source_agent: C, target_agent: terminate, transition_type: after_turn}}
"
    ));
    let ran = project.run(&["W", "--json"]);
    let lines = ran.stderr.lines();
    let spoken = lines.filter_map(|it| it.split_once("] turn ")?.1.split_once(": "));
    let spoken: Vec<&str> = spoken.map(|(_, agent)| agent).collect();
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    match value.as_array() {
        Some(faults) => format!("refused: {}", faults[0]["message"]),
        None => format!(
            "{}: {}, {}",
            spoken.join(" "),
            value["status"],
            value["reason"]
        ),
    }
}

/// Each case is the rules of `A`, one a word: `B` for an `after_turn` rule, `B?1` for one that asks whether `k` is 1.
#[track_caller]
fn check(cases: &[(&str, &str)], expect: Expect) {
    let mut text = String::new();
    for (words, value) in cases {
        let rules = words.split_whitespace().map(rule);
        let rules: String = rules.collect();
        text.push_str(&format!(
            "{words} with {value} -> {}\n",
            turns(&rules, value)
        ));
    }
    expect.assert_eq(&text);
}

fn rule(word: &str) -> String {
    let (source, word) = word.split_once('>').unwrap_or(("A", word));
    let (target, kind) = match word.split_once('?') {
        None => (word, "transition_type: after_turn".to_owned()),
        Some((target, value)) => (
            target,
            format!(
                "transition_type: condition, condition_type: context_equals, condition_key: k, condition_value: {value}"
            ),
        ),
    };
    format!("  - {{source_agent: {source}, target_agent: {target}, {kind}}}\n")
}

#[test]
fn conditions_come_first_and_then_the_order_of_the_file() {
    check(
        &[
            ("B", "null"),
            ("B C", "null"),
            ("B C?1", "1"),
            ("B?1 C?1", "1"),
            ("B?1 C", "2"),
            ("A?1", "1"),
            ("Zed>C B", "null"),
            ("a>C B", "null"),
            ("a>C", "null"),
            ("terminate", "null"),
            ("TERMINATE", "null"),
            ("User", "null"),
            ("B?1", "null"),
            ("Nope", "null"),
        ],
        expect![[r#"
            B with null -> A B: "completed", null
            B C with null -> A B: "completed", null
            B C?1 with 1 -> A C: "completed", null
            B?1 C?1 with 1 -> A B: "completed", null
            B?1 C with 2 -> A C: "completed", null
            A?1 with 1 -> A A A: "failed", "`A` would take turn 4, but `max_turns` is 3"
            Zed>C B with null -> A B: "completed", null
            a>C B with null -> A B: "completed", null
            a>C with null -> A: "failed", "no transition of `A` holds"
            terminate with null -> A: "completed", null
            TERMINATE with null -> A: "completed", null
            User with null -> A user: "waiting", "`user` has to answer, and nobody can be asked here"
            B?1 with null -> A: "failed", "no transition of `A` holds"
            Nope with null -> refused: "no file defines an agent `Nope`"
        "#]],
    );
}

#[test]
fn equality_is_that_of_numbers_and_of_what_they_stand_in() {
    check(
        &[
            ("B?true", "1"),
            ("B?1", "1.0"),
            ("B?true", "'true'"),
            ("B?null", "null"),
            ("B?[1]", "[1]"),
            ("B?[1]", "[true]"),
            ("B?9007199254740993", "9007199254740992"),
        ],
        expect![[r#"
            B?true with 1 -> A B: "completed", null
            B?1 with 1.0 -> A B: "completed", null
            B?true with 'true' -> A: "failed", "no transition of `A` holds"
            B?null with null -> A B: "completed", null
            B?[1] with [1] -> A B: "completed", null
            B?[1] with [true] -> A B: "completed", null
            B?9007199254740993 with 9007199254740992 -> A: "failed", "no transition of `A` holds"
        "#]],
    );
}
