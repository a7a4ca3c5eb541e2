//! A value and its schema, side by side.

use serde_json::Value;

use crate::source::pointer;

/// Shows every part of a value, with its JSON pointer, next to each schema that speaks of it.
///
/// Depth is bounded by that of the value, which `source` bounds.
pub(super) fn visit<'a>(
    root: &'a Value,
    value: &Value,
    see: &mut impl FnMut(&'a Value, &Value, &str),
) {
    Walk { root, see }.visit(root, value, "");
}

struct Walk<'a, 'f, F> {
    root: &'a Value,
    see: &'f mut F,
}

impl<'a, F: FnMut(&'a Value, &Value, &str)> Walk<'a, '_, F> {
    fn visit(&mut self, schema: &'a Value, value: &Value, at: &str) {
        for schema in self.parts(schema, value) {
            (self.see)(schema, value, at);
            match value {
                Value::Object(entries) => {
                    for (key, value) in entries {
                        let property = schema.pointer(&pointer("/properties", key));
                        if let Some(property) = property.or_else(|| any_property(schema)) {
                            self.visit(property, value, &pointer(at, key));
                        }
                    }
                }
                Value::Array(items) => {
                    let Some(schema) = schema.get("items") else {
                        continue;
                    };
                    for (ix, item) in items.iter().enumerate() {
                        self.visit(schema, item, &pointer(at, ix));
                    }
                }
                _ => (),
            }
        }
    }

    /// The schema itself, what it refers to, and those of its branches that the value's constants fit.
    fn parts(&self, schema: &'a Value, value: &Value) -> Vec<&'a Value> {
        let mut parts = Vec::new();
        let mut open = vec![schema];
        while let Some(schema) = open.pop() {
            let reference = schema.get("$ref").and_then(Value::as_str);
            open.extend(reference.and_then(|it| self.root.pointer(it.strip_prefix('#')?)));
            for keyword in ["oneOf", "anyOf", "allOf"] {
                let branches = schema.get(keyword).and_then(Value::as_array);
                open.extend(branches.into_iter().flatten().filter(|it| fits(it, value)));
            }
            parts.push(schema);
        }
        parts
    }
}

/// The schema of properties that are not named: a map's values.
fn any_property(schema: &Value) -> Option<&Value> {
    let by_pattern = schema.get("patternProperties").and_then(Value::as_object);
    let by_pattern = by_pattern.and_then(|it| it.values().next());
    by_pattern.or_else(|| schema.get("additionalProperties"))
}

/// Whether no constant of a branch speaks against the value.
fn fits(branch: &Value, value: &Value) -> bool {
    let properties = branch.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().all(|(key, property)| {
        let constant = property.get("const");
        constant.is_none_or(|it| value.get(key) == Some(it))
    })
}
