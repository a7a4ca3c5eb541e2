//! The same for programs.

use serde_json::{Value, json};

use crate::{
    diagnostic::{Diagnostic, Place, Severity},
    run::Ending,
};

/// Diagnostics as a list of objects; every key is always there.
pub fn diagnostics(diagnostics: &[Diagnostic]) -> Value {
    diagnostics.iter().map(diagnostic).collect()
}

fn diagnostic(it: &Diagnostic) -> Value {
    let line = it.at.as_ref().map(|at| {
        let text = &at.file.text;
        let start = text[..at.span.start].rfind('\n').map_or(0, |it| it + 1);
        crate::prompt::cut(text[start..].lines().next().unwrap_or_default(), 200)
    });
    let related: Vec<Value> = it
        .related
        .iter()
        .map(|(place, note)| {
            let mut value = at(Some(place));
            value["note"] = json!(note);
            value
        })
        .collect();
    let mut value = json!({
        "code": it.code.as_str(),
        "title": it.code.title(),
        "severity": match it.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "message": it.message,
        "excerpt": line,
        "found": it.found,
        "allowed": it.allowed,
        "suggestion": it.suggestion,
        "help": it.help,
        "related": related,
    });
    if let (Some(value), Value::Object(place)) = (value.as_object_mut(), at(it.at.as_ref())) {
        value.extend(place);
    }
    value
}

fn at(place: Option<&Place>) -> Value {
    let Some(place) = place else {
        return json!({ "file": null, "line": null, "column": null, "offset": null, "length": null });
    };
    let (line, column) = place.line_column();
    json!({
        "file": place.file.name,
        "line": line,
        "column": column,
        "offset": place.span.start,
        "length": place.span.len(),
    })
}

/// How a run ended, with all it knows at its end.
pub fn ending(run: &str, workflow: &str, artifacts: &str, ending: &Ending) -> Value {
    let batches = ending
        .batches
        .iter()
        .map(|(id, status)| (id.clone(), json!(status.as_str())));
    json!({
        "run": run,
        "workflow": workflow,
        "status": ending.status.as_str(),
        "exit_code": ending.status.exit_code(),
        "reason": ending.reason,
        "turns": ending.turns,
        "batches": batches.collect::<serde_json::Map<_, _>>(),
        "usage": ending.usage,
        "artifacts": artifacts,
        "files": ending.files,
        "faults": diagnostics(&ending.faults),
        "context": ending.context.to_value(),
    })
}
