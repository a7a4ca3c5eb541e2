//! The model that the planner of a DAG answers with when no file gives it one (Task Decomposition Format, *DAG Format*).
//!
//! It is narrower than the format, so that a model that is held to it can get less wrong: ids are simple words, and a literal is what the strict form of a schema has room for. What is not in it may be in a DAG all the same.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde_json::Value;

use super::{Extent, Field, Model, Pattern, Shape, Type};

static ID: Pattern = Pattern {
    regex: LazyLock::new(|| regex(r"^[A-Za-z0-9][A-Za-z0-9_-]*$")),
    means: "a name of letters, digits, `-` and `_`",
};
static FIELD: Pattern = Pattern {
    regex: LazyLock::new(|| regex(r"^data(\.[A-Za-z_][A-Za-z0-9_-]*|\[(0|[1-9][0-9]*)\])*$")),
    means: "a path such as `data.items[0].name`",
};

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("it is written here")
}

/// The shape of an answer with a DAG at a dotted path, whose tasks name some of these capabilities. Where the DAG has a ceiling, each task has a price.
pub fn dag(path: &str, capabilities: &[String], has_ceiling: bool) -> Shape {
    let parts = path.split('.').map(str::trim).filter(|it| !it.is_empty());
    let parts: Vec<&str> = parts.collect();
    let dag = document(capabilities, has_ceiling);
    let answer = parts.iter().rev().fold(dag, |inner, part| {
        let about = "Where the work stands, split up.";
        model(
            "Answer",
            about,
            vec![field(part, about, Type::Model(inner))],
        )
    });
    Shape { root: answer }
}

fn document(capabilities: &[String], has_ceiling: bool) -> Arc<Model> {
    let about = "Whether the task that waits can begin with the beginning of the whole output of the other. It makes nothing but the time shorter; false if in doubt.";
    let streams = Field {
        default: Some(Value::Bool(false)),
        ..field("stream_eligible", about, Type::Boolean)
    };
    let edge = model(
        "Edge",
        "One task waits for another.",
        vec![
            field(
                "from",
                "The `task_id` of the task that is waited for.",
                id(),
            ),
            field("to", "The `task_id` of the task that waits.", id()),
            streams,
        ],
    );
    let tasks = list(Type::Model(task(capabilities, has_ceiling)));
    model(
        "Dag",
        "Work, split up: tasks, and which of them need the output of which.",
        vec![
            field("dag_id", "A name for the whole.", id()),
            field("tasks", "The tasks.", tasks),
            field(
                "edges",
                "Which task waits for which. One for each task that an input comes from; no circles.",
                list(Type::Model(edge)),
            ),
        ],
    )
}

fn task(capabilities: &[String], has_ceiling: bool) -> Arc<Model> {
    let capability = match capabilities {
        [] => Type::Text,
        some => literal(some.iter().map(String::as_str)),
    };
    let price = match has_ceiling {
        true => Type::Number,
        false => Type::Number.optional(),
    };
    model(
        "Task",
        "One task.",
        vec![
            field("task_id", "A name for the task, unique in the DAG.", id()),
            field(
                "capability",
                "What whoever carries it out has to be capable of.",
                capability,
            ),
            field(
                "input",
                "What the task works on: data, or the output of other tasks.",
                input(),
            ),
            field(
                "output_type",
                "The type of the output.",
                literal(["json", "text"]),
            ),
            field(
                "max_price_cu",
                "The most that the task may cost, in CU.",
                price,
            ),
        ],
    )
}

fn input() -> Type {
    let one = model(
        "FromTask",
        "The output of one task.",
        vec![
            field(
                "from_task",
                "Its `task_id`. An edge leads from it to this task.",
                id(),
            ),
            field(
                "field",
                "The part of the output that is meant; null for all of it.",
                Type::Pattern(&FIELD).optional(),
            ),
        ],
    );
    let several = model(
        "FromTasks",
        "The outputs of several tasks, as a list.",
        vec![field(
            "from_tasks",
            "Their `task_id`s, in this order. An edge leads from each to this task.",
            list(id()),
        )],
    );
    let source = union([Type::Model(one), Type::Model(several)]);
    let reference = model(
        "Reference",
        "The output of other tasks.",
        vec![field("source", "Whose output it is.", source)],
    );
    let text = model(
        "Text",
        "A text, as it stands.",
        vec![
            field("type", "Its type.", literal(["text"])),
            field("data", "The text.", Type::Text),
        ],
    );
    let scalars = [Type::Text, Type::Number, Type::Boolean];
    let items = || union(scalars.iter().cloned().chain([Type::Null]));
    // Rows of a table.
    let lists = [list(items()), list(list(items()))];
    let data = model(
        "Data",
        "Data, as it stands.",
        vec![
            field("type", "Its type.", literal(["json"])),
            field(
                "data",
                "The data.",
                union(scalars.iter().cloned().chain(lists)),
            ),
        ],
    );
    union([reference, text, data].map(Type::Model))
}

fn id() -> Type {
    Type::Pattern(&ID)
}

fn list(of: Type) -> Type {
    Type::List(of.into())
}

fn union(variants: impl IntoIterator<Item = Type>) -> Type {
    Type::Union(variants.into_iter().collect())
}

fn literal<'a>(values: impl IntoIterator<Item = &'a str>) -> Type {
    Type::Literal(values.into_iter().map(Value::from).collect())
}

fn field(name: &str, description: &str, of: Type) -> Field {
    let default = match &of {
        Type::Union(variants) if variants.iter().any(|it| matches!(it, Type::Null)) => {
            Some(Value::Null)
        }
        _ => None,
    };
    Field {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        of,
        default,
    }
}

fn model(name: &str, description: &str, fields: Vec<Field>) -> Arc<Model> {
    Arc::new(Model {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        extent: Extent::around(fields.iter().map(|it| it.of.extent())),
        fields,
    })
}
