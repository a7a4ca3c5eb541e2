//! The files that an answer carries, whichever of the known lists they stand in.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{EmittedFile, Failure, Rejection};
use crate::ownership::FilePath;

/// Lists of files an answer may carry. The same path in a later list replaces the earlier one.
const LANES: &[&str] = &[
    "code_files",
    "python_files",
    "database_files",
    "model_files",
    "service_foundation_bundle",
    "js_files",
    "files",
];

/// Collects the files in the order of their paths.
///
/// # Errors
/// A path that cannot be a file of the run, or a file that is too long, is a rejection that names it, never left out.
pub(super) fn collect(answer: &Value, max_bytes: usize) -> Result<Vec<EmittedFile>, Rejection> {
    let answer = unwrapped(answer);
    let mut files: BTreeMap<String, (FilePath, String)> = BTreeMap::new();
    let mut faults = Vec::new();
    let mut too_long = Vec::new();
    for lane in LANES {
        let list = match answer.get(*lane) {
            Some(Value::Object(bundle)) => bundle.get("files"),
            other => other,
        };
        let mut seen = Vec::new();
        for item in list.and_then(Value::as_array).into_iter().flatten() {
            let Some((path, content)) = named(item) else {
                continue;
            };
            if content.len() > max_bytes {
                let length = content.len();
                let path = shown(path);
                too_long.push(format!(
                    "`{path}` is {length} bytes long; {max_bytes} are allowed"
                ));
                continue;
            }
            match FilePath::parse(path) {
                Ok(path) if seen.contains(&path) => {
                    faults.push(format!("`{path}` stands twice in `{lane}`"))
                }
                Ok(path) => {
                    seen.push(path.clone());
                    files.insert(path.as_str().to_owned(), (path, content.to_owned()));
                }
                Err(fault) => {
                    let path = shown(path);
                    faults.push(format!("the path `{path}` cannot be written: {fault}"));
                }
            }
        }
    }
    let failure = match (faults.is_empty(), too_long.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Failure::TooLong),
        (false, _) => Some(Failure::OutsideOwnedPaths),
    };
    if let Some(failure) = failure {
        faults.append(&mut too_long);
        return Err(Rejection::new(failure, faults.join("; ")));
    }
    let files = files.into_values();
    Ok(files
        .map(|(path, content)| EmittedFile { path, content })
        .collect())
}

/// An item that has a path and a text. Others are data of the domain, not files.
fn named(item: &Value) -> Option<(&str, &str)> {
    let text = |keys: [&str; 2]| keys.into_iter().find_map(|it| item.get(it)?.as_str());
    Some((
        text(["filename", "path"])?,
        text(["content", "filecontent"])?,
    ))
}

/// `{XxxOutput: {...}}` stands for what is inside.
pub(super) fn unwrapped(answer: &Value) -> &Value {
    let object = answer.as_object().filter(|it| it.len() == 1);
    let only = object.and_then(|it| it.iter().next());
    match only {
        Some((key, inner)) if key.ends_with("Output") && inner.is_object() => inner,
        _ => answer,
    }
}

/// A path as a message shows it: on one line.
fn shown(path: &str) -> String {
    let shown = |it: char| match it {
        it if it.is_control() => it.escape_debug().collect::<String>(),
        it => it.to_string(),
    };
    path.chars().map(shown).collect()
}
