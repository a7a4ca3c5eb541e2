//! Models are written one a line, `Name: {..}`: an object with a `type` as in the file; any other is the fields of a model, where a text stands for a field of that type.

use serde_json::{Map, Value, json};

use super::*;
use crate::contract::structured_outputs::StructuredOutputs;

mod dags;
mod faults;
mod fit;
mod paths;
mod schemas;

fn outputs(models: &str) -> StructuredOutputs {
    let models: Map<String, Value> = models
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .map(|line| {
            let (name, definition) = line.split_once(": ").expect("a line is `name: {..}`");
            let definition = serde_json::from_str(definition).expect("a definition is JSON");
            (name.to_owned(), written_out(definition))
        })
        .collect();
    serde_json::from_value(json!({ "models": models })).expect("the definitions are well-formed")
}

fn written_out(definition: Value) -> Value {
    let Value::Object(mut fields) = definition else {
        panic!("a definition is an object");
    };
    if fields.get("type").is_some_and(Value::is_string) {
        return Value::Object(fields);
    }
    for field in fields.values_mut().filter(|it| it.is_string()) {
        *field = json!({ "type": *field });
    }
    json!({ "type": "model", "fields": fields })
}

/// The shape of the first model.
#[track_caller]
fn shape(models: &str) -> Shape {
    let outputs = outputs(models);
    let (shapes, faults) = compile(&outputs);
    assert_eq!(faults, [], "the models have faults");
    let (root, _) = outputs.models.iter().next().expect("there is a model");
    shapes.model(root).expect("it has no faults").clone()
}
