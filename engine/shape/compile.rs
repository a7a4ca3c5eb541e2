//! The models of `structured_outputs.yaml` become shapes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Alias, Extent, Fault, Field, Model, Shape, Type,
    fit::fit,
    order::order,
    word::{self, Around},
};
use crate::{
    contract::structured_outputs::{self as written, Definition, Entries, StructuredOutputs},
    source::pointer,
};

mod check;

/// The shapes of a workflow.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    models: BTreeMap<String, Shape>,
    agents: BTreeMap<String, Shape>,
}

impl Shapes {
    pub fn model(&self, name: &str) -> Option<&Shape> {
        self.models.get(name)
    }

    /// The shape of an agent's answers; none if it answers with a text.
    pub fn of_agent(&self, agent: &str) -> Option<&Shape> {
        self.agents.get(agent)
    }
}

/// Compiles every model. The shapes are those of models without a fault in them or in what they use; the faults are all there are.
pub fn compile(outputs: &StructuredOutputs) -> (Shapes, Vec<Fault>) {
    let definitions: Vec<(&str, &Definition)> = outputs.models.iter().collect();
    let (order, cycles) = order(&uses(&definitions));

    let mut compiler = Compiler {
        names: definitions.iter().map(|it| it.0).collect(),
        done: BTreeMap::new(),
        faults: Vec::new(),
    };
    for cycle in cycles {
        let names: Vec<&str> = cycle.iter().map(|it| definitions[*it].0).collect();
        compiler.faults.push(check::contains_itself(&names));
    }
    for (name, definition) in order.into_iter().map(|it| definitions[it]) {
        if let Some(of) = compiler.definition(name, definition) {
            compiler.done.insert(name, of);
        }
    }
    let shapes = compiler.register(outputs);
    (shapes, compiler.faults)
}

/// For each definition, the numbers of those it uses.
fn uses(definitions: &[(&str, &Definition)]) -> Vec<Vec<usize>> {
    let numbers: BTreeMap<&str, usize> = definitions.iter().map(|it| it.0).zip(0..).collect();
    let used = definitions.iter().map(|(_, definition)| {
        let words = types(definition).into_iter().map(|it| word::split(it).1);
        let words = words.filter(|it| !word::is_reserved(it));
        let used: BTreeSet<usize> = words.filter_map(|it| numbers.get(it).copied()).collect();
        used.into_iter().collect()
    });
    used.collect()
}

/// Every type that a definition writes.
fn types(definition: &Definition) -> Vec<&str> {
    match definition {
        Definition::Literal { .. } => Vec::new(),
        Definition::Union { variants, .. } => variants.iter().map(String::as_str).collect(),
        Definition::Model { fields, .. } => {
            let types = fields.iter().flat_map(|(_, field)| {
                let variants = field.variants.iter().flatten();
                [&field.kind]
                    .into_iter()
                    .chain(&field.items)
                    .chain(variants)
            });
            types.map(String::as_str).collect()
        }
    }
}

struct Compiler<'a> {
    names: BTreeSet<&'a str>,
    /// What compiled. A definition that others come after and that is not here has a fault, and so have they.
    done: BTreeMap<&'a str, Type>,
    faults: Vec<Fault>,
}

impl Compiler<'_> {
    fn definition(&mut self, name: &str, definition: &Definition) -> Option<Type> {
        let at = pointer("/models", name);
        let is_named = self.is_sound(check::model_name(name, &at));
        let of = match definition {
            Definition::Model {
                description,
                fields,
            } => {
                let fields = self.fields(fields, &pointer(&at, "fields"))?;
                let extent = Extent::around(fields.iter().map(|it| it.of.extent()));
                let model = Model {
                    name: name.to_owned(),
                    description: description.clone(),
                    fields,
                    extent,
                };
                Type::Model(model.into())
            }
            Definition::Literal {
                description,
                values,
            } => {
                let means = self.literal(values, &pointer(&at, "values"))?;
                alias(name, description, means)
            }
            Definition::Union {
                description,
                variants,
            } => {
                let means = self.union(variants, &pointer(&at, "variants"))?;
                alias(name, description, means)
            }
        };
        let is_bounded = self.is_sound(check::extent(of.extent(), name, &at));
        (is_named && is_bounded).then_some(of)
    }

    fn fields(&mut self, fields: &Entries<written::Field>, at: &str) -> Option<Vec<Field>> {
        let compiled = fields.iter();
        let compiled = compiled.map(|(name, field)| self.field(name, field, &pointer(at, name)));
        // All are compiled before a failure of one is a failure of all, so that no fault is missed.
        let compiled: Vec<Option<Field>> = compiled.collect();
        compiled.into_iter().collect()
    }

    fn field(&mut self, name: &str, field: &written::Field, at: &str) -> Option<Field> {
        let is_named = self.is_sound(check::field_name(name, at));
        let has_its_keys = self.is_sound(check::field_keys(field, at));
        let of = self.field_type(field, at)?;
        let default = match &field.default {
            None if is_null_by_default(field) => Some(Value::Null),
            None => None,
            // A null may mean "left out" where the type itself does not allow it.
            Some(Value::Null) => Some(Value::Null),
            Some(written) => Some(self.default(&of, written, &pointer(at, "default"))?),
        };
        (is_named && has_its_keys).then(|| Field {
            name: name.to_owned(),
            description: field.description.clone(),
            of,
            default,
        })
    }

    fn field_type(&mut self, field: &written::Field, at: &str) -> Option<Type> {
        let kind = field.kind.trim();
        match (kind, &field.items, &field.values, &field.variants) {
            ("list" | "optional_list", Some(items), _, _) => {
                let items = self.named(items, &pointer(at, "items"))?;
                let list = Around::List.put(items);
                match kind {
                    "list" => Some(list),
                    _ => Some(list.optional()),
                }
            }
            ("literal", _, Some(values), _) => self.literal(values, &pointer(at, "values")),
            ("union", _, _, Some(variants)) => self.union(variants, &pointer(at, "variants")),
            // What is missing here was said already.
            ("list" | "literal" | "union", ..) => None,
            _ => self.named(kind, &pointer(at, "type")),
        }
    }

    fn default(&mut self, of: &Type, written: &Value, at: &str) -> Option<Value> {
        match fit(of, written) {
            Ok(fitted) => Some(fitted.value),
            Err(misfits) => {
                let faults = misfits.into_iter().map(|it| check::default(it, at));
                self.faults.extend(faults);
                None
            }
        }
    }

    fn literal(&mut self, values: &[Value], at: &str) -> Option<Type> {
        let is_sound = self.is_sound(check::values(values, at));
        let mut seen = BTreeSet::new();
        let distinct = values.iter().filter(|it| seen.insert(it.to_string()));
        is_sound.then(|| Type::Literal(distinct.cloned().collect()))
    }

    fn union(&mut self, variants: &[String], at: &str) -> Option<Type> {
        let is_sound = self.is_sound(check::variants(variants, at));
        let compiled = variants.iter().enumerate();
        let compiled = compiled.map(|(ix, variant)| match variant.trim() {
            "null" => Some(Type::Null),
            variant => self.named(variant, &pointer(at, ix)),
        });
        let compiled: Vec<Option<Type>> = compiled.collect();
        let compiled: Option<Vec<Type>> = compiled.into_iter().collect();
        compiled
            .filter(|_| is_sound)
            .map(|it| Type::Union(it.into()))
    }

    /// The type that a text names: built in, or a definition, with what stands around it.
    fn named(&mut self, text: &str, at: &str) -> Option<Type> {
        let (around, word) = word::split(text);
        if !self.is_sound(check::nesting(around.len(), at)) {
            return None;
        }
        let of = match (word::built_in(word), self.done.get(word)) {
            (Some(of), _) => of,
            (None, Some(of)) => of.clone(),
            (None, None) => {
                if !self.names.contains(word) || word::is_reserved(word) {
                    self.faults.push(check::unknown(word, at, &self.names));
                }
                return None;
            }
        };
        let inside_out = around.into_iter().rev();
        Some(inside_out.fold(of, |of, around| around.put(of)))
    }

    /// Puts the models in place, and gives them to the agents that answer with them.
    fn register(&mut self, outputs: &StructuredOutputs) -> Shapes {
        let models = self.done.iter().filter_map(|(name, of)| match of {
            Type::Model(root) => Some(((*name).to_owned(), Shape { root: root.clone() })),
            _ => None,
        });
        let models: BTreeMap<String, Shape> = models.collect();
        let mut agents = BTreeMap::new();
        for (agent, model) in &outputs.registry {
            let Some(model) = model else { continue };
            if let Some(shape) = models.get(model.as_str()) {
                agents.insert(agent.to_string(), shape.clone());
            } else if let Some(fault) = check::answer(model, agent, outputs) {
                self.faults.push(fault);
            }
        }
        Shapes { models, agents }
    }

    /// Takes down the faults, and says whether there were none.
    fn is_sound(&mut self, faults: impl IntoIterator<Item = Fault>) -> bool {
        let before = self.faults.len();
        self.faults.extend(faults);
        self.faults.len() == before
    }
}

fn alias(name: &str, description: &Option<String>, means: Type) -> Type {
    let alias = Alias {
        name: name.to_owned(),
        description: description.clone(),
        extent: means.extent(),
        means,
    };
    Type::Alias(alias.into())
}

fn is_null_by_default(field: &written::Field) -> bool {
    let is_nullable = |it: &String| it.trim() == "null" || word::is_optional(it);
    match field.kind.trim() {
        "union" => field.variants.iter().flatten().any(is_nullable),
        kind => word::is_optional(kind),
    }
}
