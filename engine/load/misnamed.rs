//! Files that are not read, though their names are nearly those of files that are.

use std::{fs, path::Path, sync::Arc};

use super::Project;
use crate::{
    diagnostic::{Code, Diagnostic, File, Place, is_slip},
    schema::FileKind,
};

/// A shorter name is too like others.
const LONG: usize = 6;

/// Warns of such files in a workflow's folder.
pub(super) fn of_workflow(project: &Project, folder: &Path) -> Vec<Diagnostic> {
    let known = FileKind::ALL.iter().filter_map(|it| it.path());
    let known: Vec<String> = known.collect();
    let inner = ["", "extended_orchestration/"];
    let found = inner.into_iter().flat_map(|inner| {
        let mut names = names(&folder.join(inner));
        names.sort();
        names.into_iter().map(move |it| format!("{inner}{it}"))
    });
    let misnamed = found.filter_map(|it| {
        let meant = meant(&it, &known)?;
        // Where case makes no difference to the disk, it is read.
        let is_read = it.eq_ignore_ascii_case(meant) && folder.join(meant).exists();
        (!is_read).then(|| warning(project, &folder.join(&it), meant))
    });
    misnamed.collect()
}

/// Warns of tests that are not run for their names.
pub(super) fn of_tests(project: &Project, folder: &Path) -> Vec<Diagnostic> {
    let tests = names(folder).into_iter().filter_map(|it| {
        let name = it.strip_suffix(".yml")?;
        Some(warning(project, &folder.join(&it), &format!("{name}.yaml")))
    });
    tests.collect()
}

/// The file of a workflow that a name is nearly that of.
fn meant<'a>(found: &str, known: &'a [String]) -> Option<&'a str> {
    let as_json = FileKind::TaskDag.path()?.replace(".yaml", ".json");
    if known.iter().any(|it| it == found) || found == as_json {
        return None;
    }
    let found = plain(found)?;
    let is_near = |it: &&String| {
        plain(it).is_some_and(|it| it == found || it.len() >= LONG && is_slip(&it, &found))
    };
    known.iter().find(is_near).map(String::as_str)
}

/// The name of a YAML or JSON file without what people get wrong in it: case, what joins words, and the plural.
fn plain(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.to_lowercase();
    let (stem, _) = name
        .rsplit_once('.')
        .filter(|(_, it)| ["yaml", "yml", "json"].contains(it))?;
    let letters: String = stem.chars().filter(|it| it.is_alphanumeric()).collect();
    let one = letters.trim_end_matches('s');
    Some(one.trim_end_matches('e').to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|it| it.path().is_file());
    files
        .filter_map(|it| it.file_name().into_string().ok())
        .collect()
}

fn warning(project: &Project, path: &Path, meant: &str) -> Diagnostic {
    let name = project.shown(path);
    let message = format!("`{name}` is not read");
    let file = Arc::new(File {
        name,
        text: String::new(),
    });
    Diagnostic::warning(Code::NotActedOn, message)
        .at(Place::start_of(&file))
        .help(format!(
            "name it `{meant}`, seen from the workflow's folder, if it is meant to be that file"
        ))
}
