//! All that the tasks of a plan own.

use super::{
    file::FilePath,
    key::Key,
    owned::{OwnedPath, overlap},
};

/// How many conflicts are told.
const MAX_CONFLICTS: usize = 100;

/// The owned paths of all tasks.
///
/// **Invariant:** sorted by key, so what may overlap stands close together.
#[derive(Debug, Clone)]
pub struct Claims {
    entries: Vec<Entry>,
}

/// One owned path: `path` is its place in the list of the task, which is the one at `task`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    pub task: usize,
    pub path: usize,
}

/// Two owned paths that overlap. `first` comes before `second` in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    pub first: Claim,
    pub second: Claim,
}

/// The conflicts of a plan in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// A hundred at most.
    pub found: Vec<Conflict>,
    /// Whether there are others.
    pub more: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    key: Key,
    claim: Claim,
    path: OwnedPath,
}

impl Claims {
    /// Takes the owned paths of tasks, each with the index of the task. A path that a task has twice counts once.
    pub fn new<'a>(tasks: impl IntoIterator<Item = (usize, &'a [OwnedPath])>) -> Claims {
        let mut entries = Vec::new();
        for (task, paths) in tasks {
            entries.extend(paths.iter().enumerate().map(|(at, path)| Entry {
                key: path.key(),
                claim: Claim { task, path: at },
                path: path.clone(),
            }));
        }
        entries.sort_by(|a, b| (&a.key, a.claim).cmp(&(&b.key, b.claim)));
        entries.dedup_by(|b, a| a.claim.task == b.claim.task && a.path == b.path);
        Claims { entries }
    }

    /// Finds the paths of different tasks that overlap, and those of one task that differ by case only.
    ///
    /// Takes the time of a walk over the sorted paths, and compares those globs that start with the same folders.
    pub fn conflicts(&self) -> Conflicts {
        let mut conflicts = Conflicts::default();
        // The entries whose key holds the one at hand.
        let mut around: Vec<&Entry> = Vec::new();
        'entries: for entry in &self.entries {
            while around.pop_if(|it| !it.key.holds(&entry.key)).is_some() {}
            for other in around.iter().filter(|it| it.conflicts_with(entry)) {
                if conflicts.found.len() == MAX_CONFLICTS {
                    conflicts.more = true;
                    break 'entries;
                }
                let (a, b) = (other.claim, entry.claim);
                let (first, second) = (a.min(b), a.max(b));
                conflicts.found.push(Conflict { first, second });
            }
            around.push(entry);
        }
        conflicts.found.sort();
        conflicts
    }

    /// A path of another task that stands in the way of `task` writing the file, and that task.
    pub(super) fn owner_other_than(
        &self,
        task: usize,
        file: &FilePath,
    ) -> Option<(usize, &OwnedPath)> {
        let key = Key::new(file.as_str());
        let written = OwnedPath::from(file);
        let is_in_the_way =
            |it: &&Entry| it.claim.task != task && overlap((&it.path, &it.key), (&written, &key));
        let mut above = key.folders().flat_map(|it| self.at(&it));
        let same = self.at(&key).iter();
        let owner = above
            .find(is_in_the_way)
            .or_else(|| same.chain(self.inside(&key)).find(is_in_the_way))?;
        Some((owner.claim.task, &owner.path))
    }

    fn at(&self, key: &Key) -> &[Entry] {
        let from = self.entries.partition_point(|it| it.key < *key);
        let length = self.entries[from..].partition_point(|it| it.key == *key);
        &self.entries[from..from + length]
    }

    fn inside<'a>(&'a self, key: &Key) -> impl Iterator<Item = &'a Entry> {
        let first = key.first_inside();
        let from = self.entries.partition_point(|it| it.key < first);
        self.entries[from..]
            .iter()
            .take_while(move |it| key.holds(&it.key))
    }
}

impl Entry {
    fn conflicts_with(&self, other: &Entry) -> bool {
        if self.claim.task == other.claim.task {
            let spelled = |it: &Entry| Key::new(&it.path.to_string());
            return self.key == other.key
                && self.path != other.path
                && spelled(self) == spelled(other);
        }
        overlap((&self.path, &self.key), (&other.path, &other.key))
    }
}
