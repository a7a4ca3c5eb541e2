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
                    set(property, &names.agents, &["user", "terminate"], name);
                } else if has(VARIABLES) {
                    set(property, &names.variables, &[], name);
                } else if has(MODELS) {
                    set(property, &names.models, &["DecomposedTask"], name);
                } else if name == "writes" {
                    property["propertyNames"] = json!({ "enum": names.variables });
                } else if name == "registry" {
                    property["propertyNames"] = json!({ "enum": names.agents });
                    property["additionalProperties"] = json!({ "enum": nullable(&names.models) });
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

fn set(property: &mut Value, names: &[String], special: &[&str], name: &str) {
    let is_transition = matches!(name, "source_agent" | "target_agent" | "initial_agent");
    let special = special
        .iter()
        .filter(|_| is_transition || name == "task_model");
    let mut all: Vec<Value> = names.iter().map(|it| json!(it)).collect();
    all.extend(special.map(|it| json!(it)));
    if all.is_empty() {
        return;
    }
    let target = match property.get_mut("items") {
        Some(items) => items,
        None => property,
    };
    if let Some(target) = target.as_object_mut() {
        let is_nullable = target.get("type").is_some_and(Value::is_array);
        target.shift_remove("pattern");
        if is_nullable {
            all.push(Value::Null);
        }
        target.insert("enum".to_owned(), Value::Array(all));
    }
}

fn nullable(names: &[String]) -> Vec<Value> {
    let names = names.iter().map(|it| json!(it));
    names.chain([Value::Null]).collect()
}
