//! `structured_outputs.yaml`: what agents answer with.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::{Value, json};

use super::name::Name;

/// The models of a workflow, and which agent answers with which.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Structured outputs", example = example())]
pub struct StructuredOutputs {
    /// The version of this file's format. There is only `mozaiks.structured_outputs.v1`.
    #[serde(default)]
    pub schema_version: SchemaVersion,
    /// The model each agent answers with: the agent's name, and the name of a model below. An agent with null, or without an entry, answers with a text.
    #[serde(default)]
    pub registry: BTreeMap<Name, Option<Name>>,
    /// The models, each with a name of its own: letters, digits, `_` and `-`. One model may use another, but no model may contain itself.
    #[serde(default)]
    pub models: Entries<Definition>,
}

/// The version of this file's format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum SchemaVersion {
    #[default]
    #[serde(rename = "mozaiks.structured_outputs.v1")]
    V1,
}

/// What a name of this file stands for.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Definition {
    /// An object with named fields. Only a model can be an agent's answer.
    #[schemars(title = "model")]
    Model {
        /// What the object is, told to the agent that has to write it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The fields of the object, in the order in which they are asked for. A name may not begin with `_`, nor be `model_config`.
        fields: Entries<Field>,
    },
    /// One of a few fixed values, under a name that fields can use as their type.
    #[schemars(title = "literal")]
    Literal {
        /// What the value says, told to the agent that has to write it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The values there are: texts, numbers, `true`, `false` or null. The number 1 and the text `"1"` are different values.
        #[schemars(length(min = 1))]
        values: Vec<Value>,
    },
    /// One of several types, under a name that fields can use as their type.
    #[schemars(title = "union")]
    Union {
        /// What the value says, told to the agent that has to write it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The types a value may have. Where several fit, the one that leaves out the fewest keys counts, then the first. `"null"` among them, in quotes, allows null.
        #[schemars(length(min = 1))]
        variants: Vec<String>,
    },
}

/// One field of a model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// What stands in the field: a built-in type, the name of another entry of `models`, or `list[...]` or `Optional[...]` around one of them. Values are not converted: the text `"3"` is not an int.
    #[serde(rename = "type")]
    #[schemars(length(min = 1), extend("examples" = FIELD_TYPES))]
    pub kind: String,
    /// What the field says, told to the agent that has to write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The value of the field where an answer leaves it out. With a default a field is optional; without one it is required, unless its type is an `optional_` one, `Optional[...]`, or a `union` with `"null"`: these are null where they are left out.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Value")]
    pub default: Option<Value>,
    /// The type of every item of a `list` or `optional_list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// The values a `literal` may have: texts, numbers, `true`, `false` or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Value>", length(min = 1))]
    pub values: Option<Vec<Value>>,
    /// The types a `union` may have. Where several fit, the one that leaves out the fewest keys counts, then the first. `"null"` among them, in quotes, allows null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub variants: Option<Vec<String>>,
}

/// The types that every workflow has.
pub const FIELD_TYPES: &[&str] = &[
    "str",
    "string",
    "int",
    "integer",
    "float",
    "bool",
    "dict",
    "Dict",
    "list",
    "List",
    "literal",
    "union",
    "optional_str",
    "optional_dict",
    "optional_list",
];

/// Named things in the order in which they were written. **Invariant:** no name stands twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries<T>(Vec<(String, T)>);

impl<T> Entries<T> {
    /// # Errors
    /// The first name that stands twice.
    pub fn new(entries: Vec<(String, T)>) -> Result<Entries<T>, String> {
        let mut names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(pair[0].to_owned()),
            None => Ok(Entries(entries)),
        }
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, it)| (name.as_str(), it))
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Entries<T> {
        Entries(Vec::new())
    }
}

impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries<T>, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

struct InOrder<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Entries::new(entries)
            .map_err(|name| A::Error::custom(format!("the key `{name}` stands twice")))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Entries_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// Keeps a null that was written apart from a key that was not.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn example() -> Value {
    json!({
        "schema_version": "mozaiks.structured_outputs.v1",
        "registry": { "Reviewer": "Review", "Chat": null },
        "models": {
            "Severity": { "type": "literal", "values": ["low", "high"] },
            "Finding": {
                "type": "model",
                "description": "One thing to mend.",
                "fields": {
                    "file": { "type": "str", "description": "The file it is in." },
                    "severity": { "type": "Severity" },
                    "line": { "type": "union", "variants": ["int", "null"] },
                },
            },
            "Review": {
                "type": "model",
                "fields": {
                    "summary": { "type": "str", "description": "The review in one sentence." },
                    "verdict": { "type": "literal", "values": ["accept", "mend"] },
                    "findings": { "type": "list", "items": "Finding", "default": [] },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(file: Value, expect: Expect) {
        let actual = match serde_json::from_value::<StructuredOutputs>(file) {
            Ok(read) => json!(read).to_string(),
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&actual);
    }

    #[test]
    fn reads_what_it_writes() {
        check(
            json!({}),
            expect![[
                r#"{"schema_version":"mozaiks.structured_outputs.v1","registry":{},"models":{}}"#
            ]],
        );
        check(
            json!({ "models": {
                "B": { "type": "model", "fields": {
                    "z": { "type": "str", "default": null },
                    "a": { "type": "union", "variants": ["int", "null"] },
                } },
                "A": { "type": "literal", "description": "One.", "values": [1] },
            } }),
            expect![[
                r#"{"schema_version":"mozaiks.structured_outputs.v1","registry":{},"models":{"B":{"type":"model","fields":{"z":{"type":"str","default":null},"a":{"type":"union","variants":["int","null"]}}},"A":{"type":"literal","description":"One.","values":[1]}}}"#
            ]],
        );
        let read: StructuredOutputs = serde_json::from_value(example()).expect("it is an example");
        assert_eq!(json!(read)["models"], example()["models"]);
    }

    #[test]
    fn refuses_what_is_not_in_the_contract() {
        check(
            json!({ "schema_version": "1" }),
            expect!["unknown variant `1`, expected `mozaiks.structured_outputs.v1`"],
        );
        check(
            json!({ "model": {} }),
            expect![
                "unknown field `model`, expected one of `schema_version`, `registry`, `models`"
            ],
        );
        check(
            json!({ "models": { "A": { "type": "enum" } } }),
            expect!["unknown variant `enum`, expected one of `model`, `literal`, `union`"],
        );
        check(
            json!({ "models": { "A": { "type": "model" } } }),
            expect!["missing field `fields`"],
        );
        let field = json!({ "type": "str", "foo": 1 });
        check(
            json!({ "models": { "A": { "type": "model", "fields": { "f": field } } } }),
            expect![
                "unknown field `foo`, expected one of `type`, `description`, `default`, `items`, `values`, `variants`"
            ],
        );
        check(
            json!({ "models": { "A": { "type": "literal", "values": [1], "fields": {} } } }),
            expect!["unknown field `fields`, expected `description` or `values`"],
        );
        let twice = r#"{"models": {"A": {"type": "literal", "values": []}, "A": {"type": "literal", "values": []}}}"#;
        let error = serde_json::from_str::<StructuredOutputs>(twice).expect_err("`A` stands twice");
        expect!["the key `A` stands twice at line 1 column 91"].assert_eq(&error.to_string());
    }
}
