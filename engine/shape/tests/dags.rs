use expect_test::expect;

use super::*;

#[test]
fn the_built_in_dag_is_as_tight_as_a_strict_schema_can_be() {
    let capabilities = ["split", "join"].map(str::to_owned);
    let dag = dag("plan.dag", &capabilities, true);
    let strict = dag.strict_schema().expect("nothing in it is free-form");
    let inner = "/properties/plan/properties/dag";
    let inner = strict.pointer(inner).expect("it is there");
    expect![[r#"
        {
          "type": "object",
          "properties": {
            "dag_id": {
              "type": "string",
              "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
              "description": "A name for the whole."
            },
            "tasks": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {
                  "task_id": {
                    "type": "string",
                    "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
                    "description": "A name for the task, unique in the DAG."
                  },
                  "capability": {
                    "type": "string",
                    "enum": [
                      "split",
                      "join"
                    ],
                    "description": "What whoever carries it out has to be capable of."
                  },
                  "input": {
                    "anyOf": [
                      {
                        "type": "object",
                        "properties": {
                          "source": {
                            "anyOf": [
                              {
                                "type": "object",
                                "properties": {
                                  "from_task": {
                                    "type": "string",
                                    "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
                                    "description": "Its `task_id`. An edge leads from it to this task."
                                  },
                                  "field": {
                                    "anyOf": [
                                      {
                                        "type": "string",
                                        "pattern": "^data(\\.[A-Za-z_][A-Za-z0-9_-]*|\\[(0|[1-9][0-9]*)\\])*$"
                                      },
                                      {
                                        "type": "null"
                                      }
                                    ],
                                    "description": "The part of the output that is meant; null for all of it."
                                  }
                                },
                                "required": [
                                  "from_task",
                                  "field"
                                ],
                                "additionalProperties": false,
                                "description": "The output of one task."
                              },
                              {
                                "type": "object",
                                "properties": {
                                  "from_tasks": {
                                    "type": "array",
                                    "items": {
                                      "type": "string",
                                      "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$"
                                    },
                                    "description": "Their `task_id`s, in this order. An edge leads from each to this task."
                                  }
                                },
                                "required": [
                                  "from_tasks"
                                ],
                                "additionalProperties": false,
                                "description": "The outputs of several tasks, as a list."
                              }
                            ],
                            "description": "Whose output it is."
                          }
                        },
                        "required": [
                          "source"
                        ],
                        "additionalProperties": false,
                        "description": "The output of other tasks."
                      },
                      {
                        "type": "object",
                        "properties": {
                          "type": {
                            "type": "string",
                            "enum": [
                              "text"
                            ],
                            "description": "Its type."
                          },
                          "data": {
                            "type": "string",
                            "description": "The text."
                          }
                        },
                        "required": [
                          "type",
                          "data"
                        ],
                        "additionalProperties": false,
                        "description": "A text, as it stands."
                      },
                      {
                        "type": "object",
                        "properties": {
                          "type": {
                            "type": "string",
                            "enum": [
                              "json"
                            ],
                            "description": "Its type."
                          },
                          "data": {
                            "anyOf": [
                              {
                                "type": "string"
                              },
                              {
                                "type": "number"
                              },
                              {
                                "type": "boolean"
                              },
                              {
                                "type": "array",
                                "items": {
                                  "anyOf": [
                                    {
                                      "type": "string"
                                    },
                                    {
                                      "type": "number"
                                    },
                                    {
                                      "type": "boolean"
                                    },
                                    {
                                      "type": "null"
                                    }
                                  ]
                                }
                              },
                              {
                                "type": "array",
                                "items": {
                                  "type": "array",
                                  "items": {
                                    "anyOf": [
                                      {
                                        "type": "string"
                                      },
                                      {
                                        "type": "number"
                                      },
                                      {
                                        "type": "boolean"
                                      },
                                      {
                                        "type": "null"
                                      }
                                    ]
                                  }
                                }
                              }
                            ],
                            "description": "The data."
                          }
                        },
                        "required": [
                          "type",
                          "data"
                        ],
                        "additionalProperties": false,
                        "description": "Data, as it stands."
                      }
                    ],
                    "description": "What the task works on: data, or the output of other tasks."
                  },
                  "output_type": {
                    "type": "string",
                    "enum": [
                      "json",
                      "text"
                    ],
                    "description": "The type of the output."
                  },
                  "max_price_cu": {
                    "type": "number",
                    "description": "The most that the task may cost, in CU."
                  }
                },
                "required": [
                  "task_id",
                  "capability",
                  "input",
                  "output_type",
                  "max_price_cu"
                ],
                "additionalProperties": false,
                "description": "One task."
              },
              "description": "The tasks."
            },
            "edges": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {
                  "from": {
                    "type": "string",
                    "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
                    "description": "The `task_id` of the task that is waited for."
                  },
                  "to": {
                    "type": "string",
                    "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
                    "description": "The `task_id` of the task that waits."
                  },
                  "stream_eligible": {
                    "type": "boolean",
                    "description": "Whether the task that waits can begin with the beginning of the whole output of the other. It makes nothing but the time shorter; false if in doubt."
                  }
                },
                "required": [
                  "from",
                  "to",
                  "stream_eligible"
                ],
                "additionalProperties": false,
                "description": "One task waits for another."
              },
              "description": "Which task waits for which. One for each task that an input comes from; no circles."
            }
          },
          "required": [
            "dag_id",
            "tasks",
            "edges"
          ],
          "additionalProperties": false,
          "description": "Where the work stands, split up."
        }"#]]
    .assert_eq(&format!("{inner:#}"));
    // Without a ceiling a task needs no price, and where nobody serves anything, no word is the right one.
    let price = "/properties/tasks/items/properties/max_price_cu/anyOf/1/type";
    let free = super::dag("", &[], false);
    let strict = free.strict_schema().expect("nothing in it is free-form");
    assert_eq!(strict.pointer(price), Some(&json!("null")));
}

#[test]
fn a_text_of_the_wrong_form_does_not_fit() {
    let dag = dag("", &["split".to_owned()], false);
    let of = |id: &str, field: &str| {
        let source = json!({ "from_task": id, "field": field });
        let task = json!({
            "task_id": id,
            "capability": "split",
            "input": { "source": source },
            "output_type": "json",
        });
        dag.fit(&json!({ "dag_id": "d", "tasks": [task], "edges": [] }))
    };
    for field in ["data", "data.a-b[0].c[12]"] {
        assert!(of("a", field).is_ok(), "{field}");
        assert!(crate::dag::Field::parse(field).is_ok(), "{field}");
    }
    for field in [
        "", "a", "data.", "data[01]", "data[*]", "data.a b", "data\n",
    ] {
        assert!(of("a", field).is_err(), "{field}");
    }
    for id in ["", "_meta", "a b", "a\n", "ä"] {
        let misfits = of(id, "data").expect_err(id);
        assert_eq!(misfits[0].pointer, "/tasks/0/task_id");
        assert!(
            misfits[0].message.contains("a name of letters"),
            "{misfits:?}"
        );
    }
}

#[test]
fn an_edge_that_may_stream_says_so_and_data_may_be_a_list_or_a_table() {
    let dag = dag("", &["split".to_owned()], false);
    let of = |data: Value, edge: Value| {
        let task = json!({
            "task_id": "a",
            "capability": "split",
            "input": { "type": "json", "data": data },
            "output_type": "json",
        });
        dag.fit(&json!({ "dag_id": "d", "tasks": [task], "edges": [edge] }))
    };
    let edge = |more: Value| {
        let mut edge = json!({ "from": "a", "to": "b" });
        edge["stream_eligible"] = more;
        edge
    };
    for data in [
        json!(1),
        json!([]),
        json!(["a", 1, true, null]),
        json!([["a", 1], [], [null]]),
    ] {
        let fitted = of(data.clone(), edge(json!(true))).expect("it fits");
        assert_eq!(fitted.value["tasks"][0]["input"]["data"], data);
        assert_eq!(fitted.value["edges"][0]["stream_eligible"], true);
    }
    let fitted = of(json!(1), json!({ "from": "a", "to": "b" })).expect("it fits");
    assert_eq!(fitted.value["edges"][0]["stream_eligible"], false);
    assert!(of(json!(1), edge(json!("yes"))).is_err());
    for data in [json!({}), json!([{}]), json!([[[1]]]), Value::Null] {
        assert!(of(data.clone(), edge(json!(true))).is_err(), "{data}");
    }
}
