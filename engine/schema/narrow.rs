//! Narrows a schema to one workflow: where a name is asked for, the names there are.
//!
//! A property is narrowed by its name, so a new field that names an agent has to be listed here.

use serde_json::{Value, json};

use super::WorkflowNames;

const AGENTS: &[&str] = &[
    "trigger_agent",
    "decomposition_agent",
    "execution_agents",
    "allowed_execution_agents",
    "execution_agent",
    "initial_agent",
    "source_agent",
    "target_agent",
    "agent",
];
const VARIABLES: &[&str] = &["condition_key", "context_key", "status_key", "variables"];
const MODELS: &[&str] = &["task_model"];

/// Puts enums where agents, context variables and models are named.
pub(super) fn narrow(schema: &mut Value, names: &WorkflowNames) {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for (name, property) in properties {
                let has = |list: &[&str]| list.contains(&name.as_str());
                if has(AGENTS) {
                    set(property, &names.agents, special(name));
                } else if has(VARIABLES) {
                    set(property, &names.variables, &[]);
                } else if has(MODELS) {
                    set(property, &names.models, &["DecomposedTask"]);
                } else if name == "writes" {
                    set_keys(property, &names.variables);
                } else if name == "registry" {
                    set_keys(property, &names.agents);
                    set_values(property, &names.models);
                }
            }
        }
        match schema {
            Value::Object(entries) => open.extend(entries.values_mut()),
            Value::Array(items) => open.extend(items),
            _ => (),
        }
    }
}

/// What may stand for an agent in a transition.
fn special(name: &str) -> &'static [&'static str] {
    match name {
        "target_agent" => &["user", "terminate"],
        "source_agent" | "initial_agent" => &["user"],
        _ => &[],
    }
}

fn set(property: &mut Value, names: &[String], special: &[&str]) {
    if names.is_empty() {
        return;
    }
    let target = match property.get_mut("items") {
        Some(items) => items,
        None => property,
    };
    if let Some(target) = target.as_object_mut() {
        let is_nullable = target.get("type").is_some_and(Value::is_array);
        target.shift_remove("pattern");
        let names = names.iter().map(String::as_str);
        let names = names.chain(special.iter().copied()).map(Value::from);
        let names = names.chain(is_nullable.then_some(Value::Null));
        target.insert("enum".to_owned(), names.collect());
    }
}

fn set_keys(property: &mut Value, names: &[String]) {
    if !names.is_empty() {
        property["propertyNames"] = json!({ "enum": names });
    }
}

/// Of a map, whose values have the schema of the keys that are not blank.
fn set_values(property: &mut Value, names: &[String]) {
    let values = property.get_mut("patternProperties");
    let values = values.and_then(Value::as_object_mut);
    for value in values.into_iter().flat_map(|it| it.values_mut()) {
        set(value, names, &[]);
    }
}
