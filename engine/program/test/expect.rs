//! Whether a run came to what a test says.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use crate::{
    contract::test::{Expected, ExpectedFile},
    prompt::cut,
    run::{Ending, Status},
};

/// How much is shown of a value.
const SHOWN_BYTES: usize = 200;

/// What is not as it was to be, for people.
pub(super) fn faults(expected: &Expected, ending: &Ending, artifacts: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let wanted = expected.status.as_str();
    let reason = ending.reason.as_deref().unwrap_or_default();
    if wanted != ending.status.as_str() {
        let because = if reason.is_empty() { "" } else { ": " };
        let status = ending.status.as_str();
        faults.push(format!(
            "the run is {wanted} in the test, and {status} in fact{because}{reason}"
        ));
        if ending.status == Status::Waiting {
            faults.push(
                "  write what they answer under `replies` of the test: `NAME: [{text: ...}]`"
                    .to_owned(),
            );
        }
        faults.extend(ending.faults.iter().map(|it| format!("  {}", it.message)));
    }
    if let Some(part) = expected
        .reason
        .as_ref()
        .filter(|it| !reason.contains(&***it))
    {
        faults.push(format!("the reason has no `{part}`: it is `{reason}`"));
    }
    if let Some(answer) = &expected.answer {
        let found = ending.answer.as_ref().map(|it| it.to_value());
        compare("answer", answer, found.as_ref(), &mut faults);
    }
    for (name, value) in &expected.context {
        let found = ending.context.get(name);
        compare(
            &format!("context.{name}"),
            value,
            found.as_deref(),
            &mut faults,
        );
    }
    if let Some(files) = &expected.files {
        let found: BTreeSet<&str> = ending.files.iter().map(String::as_str).collect();
        for extra in found.iter().filter(|it| !files.contains_key(**it)) {
            faults.push(format!(
                "the file `{extra}` is written, and the test does not name it"
            ));
        }
        for (path, content) in files {
            match found.contains(&**path) {
                true => faults.extend(of_file(path, content, &artifacts.join(path))),
                false => faults.push(format!("the file `{path}` is not written")),
            }
        }
    }
    faults
}

fn of_file(path: &str, expected: &ExpectedFile, at: &Path) -> Vec<String> {
    let text = match fs::read_to_string(at) {
        Ok(text) => text,
        Err(error) => return vec![format!("the file `{path}` cannot be read: {error}")],
    };
    match expected {
        ExpectedFile::Content(wanted) if *wanted == text => Vec::new(),
        ExpectedFile::Content(wanted) => {
            let lines = wanted.lines().zip(text.lines());
            let alike = lines.take_while(|(wanted, found)| wanted == found).count();
            let shown = |it: &str| match it.lines().nth(alike) {
                Some(line) => format!("`{}`", cut(line, SHOWN_BYTES)),
                None => "nothing more".to_owned(),
            };
            let number = alike + 1;
            let (wanted, found) = (shown(wanted), shown(&text));
            vec![format!(
                "the file `{path}`, line {number}: expected {wanted}, found {found}"
            )]
        }
        ExpectedFile::Parts(parts) => {
            let missing = parts.contains.iter().filter(|it| !text.contains(&***it));
            missing
                .map(|it| format!("the file `{path}` does not contain `{it}`"))
                .collect()
        }
    }
}

/// Objects are compared by the fields that are expected, everything else as a whole.
fn compare(at: &str, wanted: &Value, found: Option<&Value>, faults: &mut Vec<String>) {
    match (wanted, found) {
        (wanted, Some(found)) if wanted == found => (),
        (Value::Object(wanted), Some(Value::Object(found))) => {
            for (key, value) in wanted {
                compare(&format!("{at}.{key}"), value, found.get(key), faults);
            }
        }
        (Value::Array(wanted), Some(Value::Array(found))) if wanted.len() == found.len() => {
            for (ix, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                compare(&format!("{at}[{ix}]"), wanted, Some(found), faults);
            }
        }
        (wanted, found) => {
            let shown = |it: &Value| cut(&it.to_string(), SHOWN_BYTES);
            let found = found.map_or_else(|| "nothing".to_owned(), shown);
            faults.push(format!("{at}: expected {}, found {found}", shown(wanted)));
        }
    }
}
