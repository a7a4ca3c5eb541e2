//! Who owns and who wrote what, while a batch runs.

use std::collections::BTreeMap;

use super::{claims::Claims, file::FilePath, key::Key, output::Violation};

/// What the tasks of a batch own, and the files of those that were accepted.
///
/// **Invariant:** no file in it clashes with a file or an owned path of another task.
#[derive(Debug, Clone)]
pub struct Ledger {
    claims: Claims,
    /// Each file with the index of the task that emitted it.
    emitted: BTreeMap<Key, (usize, FilePath)>,
}

impl Ledger {
    pub fn new(claims: Claims) -> Ledger {
        let emitted = BTreeMap::new();
        Ledger { claims, emitted }
    }

    /// Records the files of a task, all of them or none. Files of the same task may be recorded again.
    ///
    /// # Errors
    /// Every file that another task owns or has emitted.
    pub fn claim(&mut self, task: usize, files: &[FilePath]) -> Result<(), Vec<Violation>> {
        let mut violations = Vec::new();
        for path in files {
            if let Some((owner, owned)) = self.claims.owner_other_than(task, path) {
                let (path, owned) = (path.clone(), owned.clone());
                violations.push(Violation::OwnedByOther { path, owner, owned });
            }
            if let Some((owner, emitted)) = self.writer_other_than(task, path) {
                let (path, emitted) = (path.clone(), emitted.clone());
                violations.push(Violation::EmittedByOther {
                    path,
                    owner,
                    emitted,
                });
            }
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        let files = files.iter();
        self.emitted
            .extend(files.map(|it| (Key::new(it.as_str()), (task, it.clone()))));
        Ok(())
    }

    /// Forgets the files of a task: nothing comes of them.
    pub fn release(&mut self, task: usize) {
        self.emitted.retain(|_, (owner, _)| *owner != task);
    }

    /// A file of another task that is the same, a folder of this one, or inside of this one.
    fn writer_other_than(&self, task: usize, path: &FilePath) -> Option<(usize, &FilePath)> {
        let key = Key::new(path.as_str());
        let is_other = |it: &&(usize, FilePath)| it.0 != task;
        let around = key.folders().chain([key.clone()]);
        let mut around = around.filter_map(|it| self.emitted.get(&it));
        let writer = around.find(is_other).or_else(|| {
            let inside = self.emitted.range(key.first_inside()..);
            let inside = inside.take_while(|(it, _)| key.holds(it));
            inside.map(|(_, it)| it).find(is_other)
        });
        writer.map(|(task, path)| (*task, path))
    }
}
