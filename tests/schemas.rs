//! `schemas/` is what the contract says, and each of its examples fits.

use std::fs;

use mozaiks::schema::{FileKind, text};
use serde_json::Value;

use crate::harness::home;

#[test]
fn the_published_schemas_are_those_of_the_contract() {
    for kind in FileKind::ALL {
        let path = home().join("schemas").join(kind.schema_file());
        let published = fs::read_to_string(&path).unwrap_or_default();
        let wanted = text(&kind.json_schema());
        if published != wanted && std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &wanted).expect("the schema can be written");
            continue;
        }
        let name = kind.schema_file();
        assert!(
            published == wanted,
            "schemas/{name} is out of date: run `cargo run -- schema --write schemas`"
        );
    }
}

#[test]
fn every_schema_has_an_example_that_fits_it() {
    for kind in FileKind::ALL {
        let schema = kind.json_schema();
        let examples = schema["examples"].as_array().cloned().unwrap_or_default();
        assert!(!examples.is_empty(), "{kind:?} has no example");
        let validator = jsonschema::draft202012::new(&schema).expect("it is a schema");
        for example in examples {
            let errors: Vec<String> = validator
                .iter_errors(&example)
                .map(|it| it.to_string())
                .collect();
            assert!(
                errors.is_empty(),
                "the example of {kind:?} does not fit: {errors:?}"
            );
        }
    }
}

#[test]
fn every_field_is_described() {
    let mut silent = Vec::new();
    for kind in FileKind::ALL {
        let schema = kind.json_schema();
        let mut open = vec![(format!("{kind:?}"), &schema)];
        while let Some((at, schema)) = open.pop() {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                for (name, property) in properties {
                    let is_tag = property.get("const").is_some();
                    if !is_tag && property.get("description").is_none() {
                        silent.push(format!("{at}.{name}"));
                    }
                }
            }
            match schema {
                Value::Object(entries) => open.extend(
                    entries
                        .iter()
                        .filter(|it| it.0 != "examples" && it.0 != "default")
                        .map(|(key, it)| (format!("{at}/{key}"), it)),
                ),
                Value::Array(items) => open.extend(items.iter().map(|it| (at.clone(), it))),
                _ => (),
            }
        }
    }
    assert!(silent.is_empty(), "no description: {silent:#?}");
}
