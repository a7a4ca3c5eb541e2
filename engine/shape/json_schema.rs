//! Shapes as JSON Schemas, for people, editors and model providers.

use serde_json::{Map, Value, json};

use super::{Alias, Field, Model, Pattern, Type};

/// Draft 2020-12, with `$defs`.
pub(super) fn open(root: &Model) -> Value {
    let mut defs = Map::new();
    let mut schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" });
    merge(&mut schema, open_model(root, &mut defs));
    if !defs.is_empty() {
        schema["$defs"] = Value::Object(defs);
    }
    schema
}

/// The strict form of OpenAI's structured outputs.
///
/// Definitions are written out where they are used: in that form a reference may have no description beside it.
pub(super) fn strict(root: &Model) -> Result<Value, String> {
    let mut properties = Map::new();
    for field in &root.fields {
        let at = || format!("{}.{}", root.name, field.name);
        let schema = strict_type(&field.of).map_err(|inner| inner.unwrap_or_else(at))?;
        let schema = described(schema, field.description.as_deref());
        properties.insert(field.name.clone(), schema);
    }
    let required: Vec<&String> = root.fields.iter().map(|it| &it.name).collect();
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    Ok(described(schema, root.description.as_deref()))
}

/// Depth is bounded by that of the shape. An error without a place is in the field at hand.
fn strict_type(of: &Type) -> Result<Value, Option<String>> {
    match of {
        Type::AnyMapping | Type::AnyList => Err(None),
        Type::List(items) => Ok(json!({ "type": "array", "items": strict_type(items)? })),
        Type::Union(variants) => {
            let variants: Result<Vec<Value>, _> = variants.iter().map(strict_type).collect();
            Ok(json!({ "anyOf": variants? }))
        }
        Type::Model(model) => strict(model).map_err(Some),
        Type::Alias(alias) => {
            let schema = strict_type(&alias.means)?;
            Ok(described(schema, alias.description.as_deref()))
        }
        Type::Literal(values) => Ok(literal(values)),
        Type::Pattern(it) => Ok(pattern(it)),
        scalar => Ok(json!({ "type": type_name(scalar) })),
    }
}

fn open_model(model: &Model, defs: &mut Map<String, Value>) -> Value {
    let mut schema = named(&model.name, model.description.as_deref());
    let mut properties = Map::new();
    for field in &model.fields {
        properties.insert(field.name.clone(), open_field(field, defs));
    }
    let required = model.fields.iter().filter(|it| it.default.is_none());
    let required: Vec<&String> = required.map(|it| &it.name).collect();
    schema["type"] = json!("object");
    schema["properties"] = Value::Object(properties);
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn open_field(field: &Field, defs: &mut Map<String, Value>) -> Value {
    let schema = open_type(&field.of, defs);
    let mut schema = described(schema, field.description.as_deref());
    if let Some(default) = &field.default {
        schema["default"] = default.clone();
    }
    schema
}

fn open_type(of: &Type, defs: &mut Map<String, Value>) -> Value {
    match of {
        Type::List(items) => json!({ "type": "array", "items": open_type(items, defs) }),
        Type::Union(variants) => {
            let variants: Vec<Value> = variants.iter().map(|it| open_type(it, defs)).collect();
            json!({ "anyOf": variants })
        }
        Type::Model(model) => define(&model.name, defs, |defs| open_model(model, defs)),
        Type::Alias(alias) => define(&alias.name, defs, |defs| open_alias(alias, defs)),
        Type::Literal(values) => literal(values),
        Type::Pattern(it) => pattern(it),
        scalar => json!({ "type": type_name(scalar) }),
    }
}

fn open_alias(alias: &Alias, defs: &mut Map<String, Value>) -> Value {
    let mut schema = named(&alias.name, alias.description.as_deref());
    merge(&mut schema, open_type(&alias.means, defs));
    schema
}

/// A reference to a definition, which is made if there is none yet. Names need no escaping: `compile` sees to that.
fn define(
    name: &str,
    defs: &mut Map<String, Value>,
    make: impl FnOnce(&mut Map<String, Value>) -> Value,
) -> Value {
    if !defs.contains_key(name) {
        // Holds the place, so that definitions stand in the order in which they are met.
        defs.insert(name.to_owned(), Value::Null);
        let schema = make(defs);
        defs.insert(name.to_owned(), schema);
    }
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn literal(values: &[Value]) -> Value {
    let mut types: Vec<&str> = Vec::new();
    for value in values {
        let name = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(it) if it.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if !types.contains(&name) {
            types.push(name);
        }
    }
    match types.as_slice() {
        [one] => json!({ "type": one, "enum": values }),
        several => json!({ "type": several, "enum": values }),
    }
}

fn pattern(pattern: &Pattern) -> Value {
    json!({ "type": "string", "pattern": pattern.regex.as_str() })
}

fn type_name(scalar: &Type) -> &'static str {
    match scalar {
        Type::Text | Type::Pattern(_) => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::Null => "null",
        Type::AnyList | Type::List(_) => "array",
        _ => "object",
    }
}

fn named(name: &str, description: Option<&str>) -> Value {
    described(json!({ "title": name }), description)
}

/// A description nearer to the use takes the place of one further away.
fn described(mut schema: Value, description: Option<&str>) -> Value {
    if let Some(description) = description {
        schema["description"] = json!(description);
    }
    schema
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
