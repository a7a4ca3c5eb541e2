//! How an agent is asked, as far as its fields have to go together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{AgentSpec, Compiler};
use crate::{
    contract::runtime::{Choice, ChoiceOfValue, Runtime},
    diagnostic::{Code, Diagnostic, Place},
    source::pointer,
};

/// The fields of a request's body that are the engine's, and where to say what they are for. What is counted and paid
/// follows from them.
const OWNED: [(&str, &str); 13] = [
    ("model", "name the model under `model` of the runtime"),
    ("messages", PROMPT),
    ("input", PROMPT),
    ("instructions", PROMPT),
    ("stream", "say so under `stream` of the runtime"),
    (
        "stream_options",
        "the endpoint is asked for its usage as it is",
    ),
    ("tools", TOOLS),
    ("functions", TOOLS),
    ("response_format", FORMAT),
    ("text.format", FORMAT),
    ("n", ONE),
    ("best_of", ONE),
    ("background", "an answer is waited for"),
];
const PROMPT: &str = "say it in `prompt_sections` or `system_message` of the agent";
const TOOLS: &str = "list the agent's tools in `tools.yaml`";
const FORMAT: &str = "register a model for the agent in `structured_outputs.yaml`; `structured` of the runtime says how it is asked for";
const ONE: &str = "there is one answer";
/// The names that endpoints have for the longest answer.
pub(super) const LIMITS: [&str; 3] = ["max_completion_tokens", "max_tokens", "max_output_tokens"];

impl AgentSpec {
    /// The value that a choice of a person stands for, where this is its text.
    pub fn chosen(&self, text: &str) -> Option<&Value> {
        let Runtime::Human { choices, .. } = &self.runtime else {
            return None;
        };
        choices.iter().find_map(|it| match it {
            Choice::Value(ChoiceOfValue { json, .. }) if it.answer() == text => Some(json),
            _ => None,
        })
    }
}

impl Compiler<'_> {
    /// `place` says where a field of the runtime stands.
    pub(super) fn check_runtime(
        &mut self,
        name: &str,
        runtime: &Runtime,
        place: impl Fn(&str) -> Place,
    ) {
        match runtime {
            Runtime::Openai {
                extra_body,
                max_output_tokens,
                ..
            } => self.extra_body(extra_body, max_output_tokens.is_some(), &place),
            Runtime::Template {
                template,
                template_file,
                ..
            } if template.is_some() == template_file.is_some() => {
                let message = "a template agent has either `template` or `template_file`";
                self.push(Diagnostic::error(Code::Rule, message).at(place("")));
            }
            Runtime::Human {
                choices, default, ..
            } if !choices.is_empty() => {
                self.choices(name, choices, &place);
                let of_choices = |it: &str| choices.iter().any(|choice| choice.text() == it);
                if let Some(default) = default.as_ref().filter(|it| !of_choices(it)) {
                    let message = format!("the default of `{name}` is none of its choices");
                    let fault = Diagnostic::error(Code::NotAllowed, message).at(place("/default"));
                    let choices = choices.iter().map(Choice::text);
                    self.push(fault.found(default.as_str()).allowed(choices));
                }
            }
            _ => (),
        }
    }

    /// What an author adds to a request may not undo what the engine says in it.
    fn extra_body(
        &mut self,
        body: &BTreeMap<String, Value>,
        is_limited: bool,
        place: &impl Fn(&str) -> Place,
    ) {
        let at = |key: &str| place(&pointer("/extra_body", key));
        for (path, instead) in OWNED {
            let (key, part) = path.split_once('.').unwrap_or((path, ""));
            let found = body.get(key);
            if found.is_some_and(|it| part.is_empty() || it.get(part).is_some()) {
                let message = format!("`{path}` of a request is not for `extra_body`");
                let fault = Diagnostic::error(Code::NotAllowed, message).at(at(key));
                self.push(fault.help(instead));
            }
        }
        // Some endpoints know one of the names alone.
        let limits: Vec<&str> = LIMITS
            .into_iter()
            .filter(|it| body.contains_key(*it))
            .collect();
        for (n, key) in limits.iter().enumerate() {
            let message = match body[*key].as_u64() {
                None | Some(0) => {
                    format!("`{key}` is how many tokens an answer may have, from 1 on")
                }
                _ if is_limited || n > 0 => format!("`{key}` says again how long an answer may be"),
                _ => continue,
            };
            let fault = Diagnostic::error(Code::NotAllowed, message).at(at(key));
            self.push(fault.help("say it under `max_output_tokens` of the runtime, or here where the endpoint needs this name, and once"));
        }
    }

    /// A choice is made by its text or its number.
    fn choices(&mut self, name: &str, choices: &[Choice], place: &impl Fn(&str) -> Place) {
        for (ix, choice) in choices.iter().enumerate() {
            let text = choice.text();
            let at = place(&format!("/choices/{ix}"));
            if choices[..ix].iter().any(|it| it.text() == text) {
                let message = format!("`{name}` has the choice `{text}` twice");
                self.push(Diagnostic::error(Code::DuplicateName, message).at(at));
                continue;
            }
            let number: Option<usize> = text.parse().ok();
            let other = number.filter(|it| (1..=choices.len()).contains(it) && *it != ix + 1);
            if let Some(number) = other {
                let other = choices[number - 1].text();
                let message = format!(
                    "whoever types {number} chooses `{text}`, though {number} is shown before `{other}`"
                );
                let help = "put the choices in the order of their numbers, or into words";
                self.push(Diagnostic::warning(Code::Rule, message).at(at).help(help));
            }
        }
    }
}
