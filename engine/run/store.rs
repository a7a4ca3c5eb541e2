//! The files of a run.
//!
//! **Invariant:** nothing is written outside the artifact folder, whatever links lie in it: every path is opened beneath it.
//! **Invariant:** a file is there whole or not at all: it is written under another name and renamed.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    slice,
};

use anyhow::Context as _;
use cap_std::{ambient_authority, fs::Dir};

use crate::accept::EmittedFile;

/// The artifact folder of one run. It is made when the first file is written.
pub struct Store {
    folder: PathBuf,
    artifacts: Option<Dir>,
    files: BTreeSet<String>,
}

impl Store {
    /// The files of the run whose folder this is.
    pub fn new(folder: &Path) -> Store {
        Store {
            folder: folder.to_owned(),
            artifacts: None,
            files: BTreeSet::new(),
        }
    }

    fn artifacts(&mut self) -> anyhow::Result<&Dir> {
        let artifacts = match self.artifacts.take() {
            Some(artifacts) => artifacts,
            None => {
                let path = self.folder.join("artifacts");
                fs::create_dir_all(&path)
                    .with_context(|| format!("cannot make the folder `{}`", path.display()))?;
                Dir::open_ambient_dir(&path, ambient_authority())
                    .with_context(|| format!("cannot open the folder `{}`", path.display()))?
            }
        };
        Ok(self.artifacts.insert(artifacts))
    }

    /// Writes files, each whole.
    ///
    /// # Errors
    /// The world does not let it: disk full, no permission, a link that leads outside.
    pub fn write(&mut self, files: &[EmittedFile]) -> anyhow::Result<()> {
        for file in files {
            let path = Path::new(file.path.as_str());
            put(self.artifacts()?, path, file.content.as_bytes())
                .with_context(|| format!("cannot write the artifact `{}`", file.path))?;
            self.files.insert(file.path.as_str().to_owned());
        }
        Ok(())
    }

    /// Writes those files that are not there, or not whole: a file is renamed into place, but nobody waits for the disk.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn restore(&mut self, files: &[EmittedFile]) -> anyhow::Result<()> {
        for file in files {
            let there = self.artifacts()?.metadata(file.path.as_str());
            match there.is_ok_and(|it| it.is_file() && it.len() == file.content.len() as u64) {
                true => drop(self.files.insert(file.path.as_str().to_owned())),
                false => self.write(slice::from_ref(file))?,
            }
        }
        Ok(())
    }

    /// Whether a file was written already.
    pub(super) fn has(&self, file: &EmittedFile) -> bool {
        self.files.contains(file.path.as_str())
    }

    /// The files written so far, in order.
    pub fn files(&self) -> Vec<String> {
        self.files.iter().cloned().collect()
    }

    /// A path in the run's folder, beside the artifacts, for what the engine itself hands to programs.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Copies files of an artifact folder into another folder, each whole. What lies there already is replaced, a link
/// itself and not what it leads to, if `replace` says so.
///
/// # Errors
/// The world does not let it; a file is there and may not be replaced; or a link leads out of the folder.
pub fn copy_out(
    artifacts: &Path,
    out: &Path,
    files: &[String],
    replace: Replace,
) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make `{}`", out.display()))?;
    let open = |it: &Path| {
        let dir = Dir::open_ambient_dir(it, ambient_authority());
        dir.with_context(|| format!("cannot open the folder `{}`", it.display()))
    };
    let to = open(out)?;
    for file in files {
        let shown = out.join(file);
        anyhow::ensure!(
            replace == Replace::Yes || to.symlink_metadata(file).is_err(),
            "`{}` is there already; `--overwrite` replaces it",
            shown.display()
        );
        let content = fs::read(artifacts.join(file));
        let content = content.with_context(|| format!("cannot read the artifact `{file}`"))?;
        put(&to, Path::new(file), &content)
            .with_context(|| format!("cannot write `{}`", shown.display()))?;
    }
    Ok(())
}

/// Whether files that are there may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    Yes,
    No,
}

fn put(artifacts: &Dir, path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        artifacts.create_dir_all(parent)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A long name may not be made longer.
    let short: String = name.chars().take(40).collect();
    let draft = path.with_file_name(format!(".{short}.part"));
    let mut file = artifacts.create(&draft)?;
    file.write_all(content)?;
    drop(file);
    artifacts.rename(&draft, artifacts, path)
}
