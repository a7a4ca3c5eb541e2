//! Keys that are too short to be hidden in what others say.

use std::sync::Arc;

use crate::{
    agent::env::Env,
    compile::Workflow,
    contract::runtime::Runtime,
    diagnostic::{Code, Diagnostic, File, Place},
    endpoint::MIN_KEY_BYTES,
};

/// A warning for each of them, where it is named in the files that may name variables.
pub(super) fn short<'a, F: Iterator<Item = &'a Arc<File>>>(
    workflow: &Workflow,
    files: impl Fn() -> F,
    env: &Env,
) -> Vec<Diagnostic> {
    let short = workflow.keys().into_iter().filter(|it| {
        let length = env.text(it).map_or(0, |it| it.len());
        (1..MIN_KEY_BYTES).contains(&length)
    });
    let warnings = short.filter_map(|name| {
        let named = files().find_map(|it| place(name, it));
        let at = named.or_else(|| usual(name, workflow))?;
        let message = format!(
            "the key in `{name}` is shorter than {MIN_KEY_BYTES} characters: where somebody quotes it, it is not hidden"
        );
        Some(Diagnostic::warning(Code::ShortKey, message).at(at))
    });
    warnings.collect()
}

/// Where a file names a variable first, comments aside.
fn place(name: &str, file: &Arc<File>) -> Option<Place> {
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    let text = &file.text;
    let mut found = text.match_indices(name).map(|it| it.0);
    let start = found.find(|start| {
        let (before, after) = (&text[..*start], &text[start + name.len()..]);
        let line = before.rsplit('\n').next().unwrap_or_default();
        !before.ends_with(is_word) && !after.starts_with(is_word) && !line.contains('#')
    })?;
    Some(Place {
        file: Arc::clone(file),
        span: start..start + name.len(),
    })
}

/// The first agent that takes its key from where it is without a word.
fn usual(name: &str, workflow: &Workflow) -> Option<Place> {
    let mut agents = workflow.agents.values();
    let spec = agents.find(|it| {
        matches!(
            it.runtime,
            Runtime::Openai {
                api_key_env: None,
                ..
            }
        )
    });
    spec.filter(|_| name == "OPENAI_API_KEY")
        .map(|it| it.at.clone())
}
