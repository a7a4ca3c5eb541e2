//! Where a session is to write besides its own folder: asked before anything runs, since what a run finds out at its
//! end was paid for.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use super::args;
use crate::diagnostic::{Code, Diagnostic};

/// Why the files of a run cannot be copied to where `--out` says.
pub(super) fn out(args: &args::Session) -> Result<(), Box<Diagnostic>> {
    let Some(out) = &args.out else { return Ok(()) };
    let shown = out.display();
    // What is there of `out`; `notes/` is the same as `notes`, also where that is a file.
    let whole: PathBuf = out.components().collect();
    let is_there = |it: &&Path| it.symlink_metadata().is_ok();
    let there = whole.ancestors().find(is_there).unwrap_or(Path::new("."));
    if !there.is_dir() {
        let message = format!("`--out {shown}`: `{}` is no folder", there.display());
        let fault = Diagnostic::error(Code::Exists, message);
        return Err(Box::new(fault.help("name a folder with `--out`")));
    }
    if there == whole && !args.overwrite && there.read_dir().is_ok_and(|it| it.count() > 0) {
        let message = format!("the folder `{shown}` is not empty");
        let fault = Diagnostic::error(Code::Exists, message);
        let help = "name another with `--out`, or add `--overwrite`";
        return Err(Box::new(fault.help(help)));
    }
    match tempfile::tempfile_in(there) {
        Ok(_) => Ok(()),
        Err(error) => Err(unwritable("out", out, &error)),
    }
}

/// The file of `--events`, whose lines come after those that are there.
pub(super) fn events(args: &args::Session) -> Result<Option<File>, Box<Diagnostic>> {
    let Some(path) = &args.events else {
        return Ok(None);
    };
    let file = File::options().create(true).append(true).open(path);
    file.map(Some).map_err(|it| unwritable("events", path, &it))
}

/// Why nothing can be recorded to where `--record` says.
pub(super) fn record(path: &Path) -> Result<(), Box<Diagnostic>> {
    if path.symlink_metadata().is_ok() {
        let message = format!("`{}` is there already", path.display());
        let help =
            "name another file with `--record`; to record anew, remove the one that is there first";
        return Err(Box::new(
            Diagnostic::error(Code::Exists, message).help(help),
        ));
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    match tempfile::tempfile_in(folder.unwrap_or(Path::new("."))) {
        Ok(_) => Ok(()),
        Err(error) => Err(unwritable("record", path, &error)),
    }
}

fn unwritable(option: &str, path: &Path, error: &io::Error) -> Box<Diagnostic> {
    let path = path.display();
    let message = format!("`--{option} {path}` cannot be written: {error}");
    let help = format!(
        "name a place with `--{option}` that can be written; the folder of a file has to be there"
    );
    Box::new(Diagnostic::error(Code::Unwritable, message).help(help))
}
