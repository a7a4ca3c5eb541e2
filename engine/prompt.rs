//! What one attempt is told.
//!
//! **Invariant:** stable text comes first, so that an endpoint can reuse what it has read before.
//! **Invariant:** what a worker wrote is quoted as JSON, but for its own answer that was rejected, which comes last. Nothing in it is expanded, and each part has a limit.

use serde::Serialize;
use serde_json::Value;

use crate::{
    accept::Rejection,
    context::{Json, View},
};

/// The most bytes of dependency outputs in one prompt, shared fairly.
pub const MAX_DEPENDENCY_BYTES: usize = 64 << 10;
/// The most bytes of context variables in one prompt, shared fairly.
pub const MAX_VARIABLE_BYTES: usize = 64 << 10;
/// The most bytes of a rejected answer, and of the reason, in the prompt of the next attempt.
pub const MAX_FEEDBACK_BYTES: usize = 16 << 10;

/// An instruction, and a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Prompt {
    /// The agent's own instruction and the variables it may see.
    pub system: String,
    /// What it is asked now.
    pub user: String,
}

/// The prompt of an agent outside a batch: its message is the run's input.
pub fn turn(instruction: &str, message: &str, view: &View) -> Prompt {
    let variables = view.variables().filter(|(name, _)| *name != "input");
    Prompt {
        system: join(instruction, &variable_lines(variables)),
        user: message.to_owned(),
    }
}

/// The prompt of a task: the task's own text, then what it is and what its dependencies made.
pub fn task(instruction: &str, text: &str, view: &View) -> Prompt {
    let mut user = text.trim().to_owned();
    if let Some(task) = view.task() {
        user.push_str("\n\n[TASK BATCH CONTEXT]\n");
        user.push_str("Do only the task below. If you state `task_id` or `kind`, they are those of `current_task`.\n");
        user.push_str(&format!(
            "current_task_batch_id: {}\n",
            quoted(&task.batch_id)
        ));
        user.push_str(&format!("current_task_id: {}\n", quoted(&task.task_id)));
        user.push_str(&format!("current_task: {}\n", task.task()));
        let outputs: Vec<Part> = task
            .dependency_outputs()
            .map(|(id, output)| Part {
                name: id.to_string(),
                length: output.length(),
                beginning: output.beginning(MAX_DEPENDENCY_BYTES).into_owned(),
            })
            .collect();
        user.push_str("dependency_task_outputs:");
        user.push_str(if outputs.is_empty() { " {}" } else { "" });
        for (id, output) in shared(outputs, MAX_DEPENDENCY_BYTES) {
            user.push_str(&format!("\n- {}: {output}", quoted(&id)));
        }
    }
    Prompt {
        system: join(instruction, &variable_lines(view.variables())),
        user,
    }
}

/// The prompt of a task of a DAG: its message is its input.
pub fn input(instruction: &str, input: &Json, view: &View) -> Prompt {
    match &input.value().as_ref()["data"] {
        Value::String(text) => turn(instruction, text, view),
        data => turn(instruction, &data.to_string(), view),
    }
}

/// The prompt again, with what was wrong with the last answer.
pub fn after(prompt: &Prompt, rejection: &Rejection) -> Prompt {
    let mut user = prompt.user.clone();
    user.push_str("\n\n[VALIDATION FEEDBACK]\nYour last answer was not accepted:\n");
    user.push_str(&cut(&rejection.message, MAX_FEEDBACK_BYTES));
    if let Some(answer) = &rejection.answer {
        user.push_str("\n\n[REJECTED ANSWER]\n");
        user.push_str(&cut(answer, MAX_FEEDBACK_BYTES));
    }
    Prompt {
        system: prompt.system.clone(),
        user,
    }
}

fn join(instruction: &str, variables: &str) -> String {
    match (instruction.trim(), variables) {
        ("", variables) => variables.to_owned(),
        (instruction, "") => instruction.to_owned(),
        (instruction, variables) => format!("{instruction}\n\n{variables}"),
    }
}

fn variable_lines<'a>(variables: impl Iterator<Item = (&'a str, &'a Json)>) -> String {
    let lines = variables.map(|(name, value)| {
        let name = name.to_uppercase();
        let beginning = value.beginning(MAX_VARIABLE_BYTES);
        if beginning.starts_with('"')
            && let Value::String(text) = &*value.value()
            // A text of several lines would look like other variables.
            && !text.contains(char::is_control)
        {
            return Part::whole(name, text.clone());
        }
        Part {
            name,
            length: value.length(),
            beginning: beginning.into_owned(),
        }
    });
    let lines = shared(lines.collect(), MAX_VARIABLE_BYTES);
    let lines = lines.map(|(name, value)| format!("{name}: {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A text that may have to be cut.
struct Part {
    name: String,
    length: usize,
    /// Where it is not the whole text, it is as much as there is room for.
    beginning: String,
}

impl Part {
    fn whole(name: String, text: String) -> Part {
        Part {
            name,
            length: text.len(),
            beginning: text,
        }
    }
}

/// Cuts texts so that together they keep to `budget` bytes, max-min fair: a short one is kept whole, the long ones share what is left.
fn shared(parts: Vec<Part>, budget: usize) -> impl Iterator<Item = (String, String)> {
    let mut lengths: Vec<usize> = parts.iter().map(|it| it.length).collect();
    lengths.sort_unstable();
    let mut left = budget;
    let mut share = budget;
    for (ix, length) in lengths.iter().enumerate() {
        share = left / (lengths.len() - ix);
        if *length > share {
            break;
        }
        left -= length;
        share = usize::MAX;
    }
    let parts = parts.into_iter();
    parts.map(move |it| (it.name, cut_of(&it.beginning, it.length, share)))
}

/// The first `limit` bytes of a text at most, on a character boundary, with a mark where it was cut.
pub fn cut(text: &str, limit: usize) -> String {
    cut_of(text, text.len(), limit)
}

/// As [`cut`], of a text of `length` bytes whose `beginning` is enough.
fn cut_of(beginning: &str, length: usize, limit: usize) -> String {
    if length <= limit {
        return beginning.to_owned();
    }
    let end = beginning.floor_char_boundary(limit);
    let shown = &beginning[..end];
    format!("{shown} [cut: {end} of {length} bytes shown]")
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}

#[cfg(test)]
mod tests;
