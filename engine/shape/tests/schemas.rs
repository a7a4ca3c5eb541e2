use expect_test::{Expect, expect};

use super::*;

const REVIEW: &str = r#"
    Review: {"type": "model", "description": "A review.", "fields": {"verdict": {"type": "Verdict", "description": "Yes or no."}, "findings": {"type": "list", "items": "Finding", "default": []}, "line": {"type": "union", "variants": ["int", "null"], "description": "Where."}, "weight": {"type": "float", "default": 1.5}}}
    Verdict: {"type": "literal", "description": "A verdict.", "values": ["yes", "no", "no"]}
    Finding: {"type": "model", "description": "One thing.", "fields": {"file": {"type": "str", "description": "Its file."}, "level": {"type": "literal", "values": [1, 2, null]}}}
"#;

#[track_caller]
fn check(schema: &Value, expect: Expect) {
    expect.assert_eq(&format!("{schema:#}"));
}

#[test]
fn a_schema_keeps_names_and_descriptions() {
    check(
        &shape(REVIEW).json_schema(),
        expect![[r##"
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "Review",
          "description": "A review.",
          "type": "object",
          "properties": {
            "verdict": {
              "$ref": "#/$defs/Verdict",
              "description": "Yes or no."
            },
            "findings": {
              "type": "array",
              "items": {
                "$ref": "#/$defs/Finding"
              },
              "default": []
            },
            "line": {
              "anyOf": [
                {
                  "type": "integer"
                },
                {
                  "type": "null"
                }
              ],
              "description": "Where.",
              "default": null
            },
            "weight": {
              "type": "number",
              "default": 1.5
            }
          },
          "required": [
            "verdict"
          ],
          "$defs": {
            "Verdict": {
              "title": "Verdict",
              "description": "A verdict.",
              "type": "string",
              "enum": [
                "yes",
                "no"
              ]
            },
            "Finding": {
              "title": "Finding",
              "description": "One thing.",
              "type": "object",
              "properties": {
                "file": {
                  "type": "string",
                  "description": "Its file."
                },
                "level": {
                  "type": [
                    "integer",
                    "null"
                  ],
                  "enum": [
                    1,
                    2,
                    null
                  ]
                }
              },
              "required": [
                "file",
                "level"
              ]
            }
          }
        }"##]],
    );
}

#[test]
fn a_strict_schema_is_closed_and_requires_all() {
    let strict = shape(REVIEW).strict_schema();
    check(
        &strict.expect("nothing in it is free-form"),
        expect![[r#"
            {
              "type": "object",
              "properties": {
                "verdict": {
                  "type": "string",
                  "enum": [
                    "yes",
                    "no"
                  ],
                  "description": "Yes or no."
                },
                "findings": {
                  "type": "array",
                  "items": {
                    "type": "object",
                    "properties": {
                      "file": {
                        "type": "string",
                        "description": "Its file."
                      },
                      "level": {
                        "type": [
                          "integer",
                          "null"
                        ],
                        "enum": [
                          1,
                          2,
                          null
                        ]
                      }
                    },
                    "required": [
                      "file",
                      "level"
                    ],
                    "additionalProperties": false,
                    "description": "One thing."
                  }
                },
                "line": {
                  "anyOf": [
                    {
                      "type": "integer"
                    },
                    {
                      "type": "null"
                    }
                  ],
                  "description": "Where."
                },
                "weight": {
                  "type": "number"
                }
              },
              "required": [
                "verdict",
                "findings",
                "line",
                "weight"
              ],
              "additionalProperties": false,
              "description": "A review."
            }"#]],
    );
}

#[test]
fn what_is_free_form_has_no_strict_form() {
    let strict = |models: &str| shape(models).strict_schema();
    let lines = [
        strict(r#"R: {"f": "dict"}"#),
        strict(r#"R: {"f": "list[optional_dict]"}"#),
        strict("R: {\"a\": \"str\", \"f\": \"I\"}\nI: {\"g\": \"List\"}"),
        strict("R: {\"f\": \"U\"}\nU: {\"type\": \"union\", \"variants\": [\"str\", \"list\"]}"),
    ];
    expect![[r#"[Err("R.f"), Err("R.f"), Err("I.g"), Err("R.f")]"#]]
        .assert_eq(&format!("{lines:?}"));
}

#[test]
fn the_built_in_plan_allows_only_its_agents() {
    let agents = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let plan = decomposition_plan(&agents(&["Writer", "A \"b\" ~/"]));
    let strict = plan.strict_schema().expect("nothing in it is free-form");
    let task = "/properties/DecompositionPlan/properties/tasks/items";
    check(
        strict.pointer(task).expect("a plan has tasks"),
        expect![[r#"
            {
              "type": "object",
              "properties": {
                "task_id": {
                  "type": "string",
                  "description": "A name for the task, unique in the plan."
                },
                "execution_agent": {
                  "type": "string",
                  "enum": [
                    "Writer",
                    "A \"b\" ~/"
                  ],
                  "description": "The agent that does the task."
                },
                "task_prompt": {
                  "type": "string",
                  "description": "What that agent is told to do."
                },
                "depends_on": {
                  "anyOf": [
                    {
                      "type": "array",
                      "items": {
                        "type": "string"
                      }
                    },
                    {
                      "type": "null"
                    }
                  ],
                  "description": "The task_id of every task whose output this one needs."
                },
                "owned_paths": {
                  "anyOf": [
                    {
                      "type": "array",
                      "items": {
                        "type": "string"
                      }
                    },
                    {
                      "type": "null"
                    }
                  ],
                  "description": "The files, folders or patterns that only this task may write."
                }
              },
              "required": [
                "task_id",
                "execution_agent",
                "task_prompt",
                "depends_on",
                "owned_paths"
              ],
              "additionalProperties": false,
              "description": "One task of the plan."
            }"#]],
    );
    let anybody = decomposition_plan(&[]);
    let answer = json!({ "DecompositionPlan": { "tasks": [
        { "task_id": "a", "execution_agent": "Nobody", "task_prompt": "Go." },
    ] } });
    assert!(anybody.fit(&answer).is_ok());
    let misfits = plan
        .fit(&answer)
        .expect_err("nobody is no agent of the plan");
    expect![[r#"`/DecompositionPlan/tasks/0/execution_agent`: expected `"Writer"` or `"A \"b\" ~/"`, found the text `Nobody`"#]].assert_eq(&misfits[0].to_string());
}
