//! Whether the files that one task emits are the ones it may.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

use super::{file::FilePath, key::Key, owned::OwnedPath};

/// How many owned paths a text names.
const SHOWN: usize = 8;

/// What is asked of the output of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Require {
    /// `require_owned_paths`: all files are inside the owned paths, and every file that is owned exactly is there.
    Declared,
    /// Owned paths are there to keep others out; the task itself may write elsewhere.
    Nothing,
}

/// Why the files of an output cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A file outside the owned paths, which are `owned`.
    Escape {
        path: FilePath,
        owned: Arc<[OwnedPath]>,
    },
    /// A file that the task owns exactly and did not emit.
    Missing { path: FilePath },
    /// A file that is emitted twice, perhaps in another case.
    DuplicateEmitted { path: FilePath, first: FilePath },
    /// A file that has to be a folder too, for `inside`.
    FileAndFolder { path: FilePath, inside: FilePath },
    /// A file that the task at the index `owner` owns.
    OwnedByOther {
        path: FilePath,
        owner: usize,
        owned: OwnedPath,
    },
    /// A file that the task at the index `owner` emitted before; or one that clashes with it, being the same in another
    /// case, or a folder of it, or inside of it.
    EmittedByOther {
        path: FilePath,
        owner: usize,
        emitted: FilePath,
    },
}

/// Checks what a task emits against what it owns and against itself. All that is wrong is found.
pub fn check_output(emitted: &[FilePath], owned: &[OwnedPath], require: Require) -> Vec<Violation> {
    let mut violations = Vec::new();
    if require == Require::Declared {
        let all: Arc<[OwnedPath]> = owned.into();
        let outside = emitted
            .iter()
            .filter(|path| !owned.iter().any(|it| it.covers(path)));
        violations.extend(outside.map(|path| Violation::Escape {
            path: path.clone(),
            owned: Arc::clone(&all),
        }));
        let there: HashSet<&FilePath> = emitted.iter().collect();
        let mut told = HashSet::new();
        let missing = owned.iter().filter_map(OwnedPath::as_file);
        let missing = missing.filter(|it| !there.contains(it) && told.insert(*it));
        violations.extend(missing.map(|path| Violation::Missing { path: path.clone() }));
    }

    let mut files: BTreeMap<Key, &FilePath> = BTreeMap::new();
    for path in emitted {
        if let Some(first) = files.insert(Key::new(path.as_str()), path) {
            let (path, first) = (path.clone(), first.clone());
            violations.push(Violation::DuplicateEmitted { path, first });
        }
    }
    for (key, inside) in &files {
        if let Some(path) = key.folders().find_map(|it| files.get(&it)) {
            let (path, inside) = (FilePath::clone(path), FilePath::clone(inside));
            violations.push(Violation::FileAndFolder { path, inside });
        }
    }
    violations
}

impl Violation {
    /// The violation in words, where `name` says what a task is called, as "the task `a`".
    pub fn describe(&self, name: impl Fn(usize) -> String) -> String {
        match self {
            Violation::Escape { path, owned } if owned.is_empty() => {
                format!("the file `{path}` is emitted by a task that owns no paths")
            }
            Violation::Escape { path, owned } => {
                let shown: Vec<String> = owned
                    .iter()
                    .take(SHOWN)
                    .map(|it| format!("`{it}`"))
                    .collect();
                let more = match owned.len() - shown.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!(
                    "the file `{path}` is outside the owned paths, which are {}{more}",
                    shown.join(", ")
                )
            }
            Violation::Missing { path } => format!("the owned file `{path}` is not emitted"),
            Violation::DuplicateEmitted { path, first } if path == first => {
                format!("the file `{path}` is emitted twice")
            }
            Violation::DuplicateEmitted { path, first } => {
                format!("the files `{first}` and `{path}` differ by case only")
            }
            Violation::FileAndFolder { path, inside } => {
                format!("the file `{path}` would have to be a folder too, for `{inside}`")
            }
            Violation::OwnedByOther { path, owner, owned } => {
                format!(
                    "the file `{path}` belongs to {}, which owns `{owned}`",
                    name(*owner)
                )
            }
            Violation::EmittedByOther {
                path,
                owner,
                emitted,
            } if path == emitted => {
                format!("the file `{path}` was already emitted by {}", name(*owner))
            }
            Violation::EmittedByOther {
                path,
                owner,
                emitted,
            } => {
                format!(
                    "the file `{path}` clashes with `{emitted}`, already emitted by {}",
                    name(*owner)
                )
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(|index| format!("the task at index {index}")))
    }
}
