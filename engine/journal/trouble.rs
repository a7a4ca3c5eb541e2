//! What can go wrong with a store, in words, with the cure.

use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::{Error, ErrorCode};

/// Why the journal could not do what it was asked for. What was committed before is untouched by all of them but
/// `Damaged`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No space is left on the disk.
    Full { store: PathBuf },
    /// The file or its folder may not be written, or may not be opened.
    Denied { store: PathBuf },
    /// Another process has been writing for longer than one waits.
    Locked { store: PathBuf },
    /// The file is not what was written.
    Damaged { store: PathBuf, how: String },
    /// The file is a database of somebody else.
    Foreign { store: PathBuf },
    /// The file has a format of the future.
    Newer { store: PathBuf, version: i32 },
    /// The operating system failed to read or to write.
    Broken { store: PathBuf },
    /// The run has entries which its writer does not know.
    Clash { run: String },
    /// There is no such run, or no longer.
    NoRun { run: String },
    /// The id of a new run is the id of another one.
    Taken { run: String },
}

impl Display for Trouble {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Full { store } => write!(
                f,
                "no space is left for the journal `{}`; free some and go on, all that was committed is there",
                store.display()
            ),
            Trouble::Denied { store } => write!(
                f,
                "the journal `{}` cannot be opened; let this user read and write it and its folder",
                store.display()
            ),
            Trouble::Locked { store } => write!(
                f,
                "another process keeps the journal `{}` locked; wait for that process or end it, then try again",
                store.display()
            ),
            Trouble::Damaged { store, how } => write!(
                f,
                "the journal `{0}` is damaged: {how}; move it and `{0}-wal` away, and put a copy there or start anew",
                store.display()
            ),
            Trouble::Foreign { store } => write!(
                f,
                "`{}` is a database, but not a journal; move it away",
                store.display()
            ),
            Trouble::Newer { store, version } => write!(
                f,
                "the journal `{0}` has format {version} and was written by a newer mozaiks-run; use that one, or move \
                 `{0}` away",
                store.display()
            ),
            Trouble::Broken { store } => write!(
                f,
                "the journal `{}` cannot be read or written; check its folder and the disk",
                store.display()
            ),
            Trouble::Clash { run } => write!(
                f,
                "run `{run}` has entries that this process neither wrote nor read, so another process goes on with it; \
                 end one of the two"
            ),
            Trouble::NoRun { run } => write!(f, "there is no run `{run}` in the journal"),
            Trouble::Taken { run } => write!(
                f,
                "there is a run `{run}` in the journal already; remove it, or give the new run another id"
            ),
        }
    }
}

impl std::error::Error for Trouble {}

/// Gives an error of SQLite or of the file system its [`Trouble`]. One that has its own keeps it.
pub(super) fn explain<T, E: Into<anyhow::Error>>(
    store: &Path,
    result: Result<T, E>,
) -> anyhow::Result<T> {
    result.map_err(|error| {
        let error = error.into();
        if error.is::<Trouble>() {
            return error;
        }
        let trouble = match (error.downcast_ref(), error.downcast_ref()) {
            (Some(sql), _) => of_sql(store, sql),
            (_, Some(io)) => Some(of_io(store, io)),
            _ => None,
        };
        match trouble {
            Some(trouble) => error.context(trouble),
            None => error.context(format!("the journal `{}` failed", store.display())),
        }
    })
}

/// Whether another connection is in the way.
pub(super) fn is_busy(error: &Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseBusy | DatabaseLocked)
    )
}

fn of_sql(store: &Path, error: &Error) -> Option<Trouble> {
    use ErrorCode::{
        CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, PermissionDenied, ReadOnly,
        SystemIoFailure,
    };
    let store = store.to_owned();
    let damaged = |how: &str| Trouble::Damaged {
        store: store.clone(),
        how: how.to_owned(),
    };
    if is_busy(error) {
        return Some(Trouble::Locked { store });
    }
    Some(match error {
        Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::FromSqlConversionFailure(..)
        | Error::Utf8Error(..) => damaged("a column does not hold what belongs there"),
        _ => match error.sqlite_error_code()? {
            DiskFull => Trouble::Full { store },
            CannotOpen | PermissionDenied | ReadOnly => Trouble::Denied { store },
            DatabaseCorrupt => damaged("its pages do not fit together"),
            NotADatabase => damaged("it does not begin as a database does"),
            SystemIoFailure => Trouble::Broken { store },
            _ => return None,
        },
    })
}

fn of_io(store: &Path, error: &io::Error) -> Trouble {
    let store = store.to_owned();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Trouble::Full { store },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Trouble::Denied { store },
        _ => Trouble::Broken { store },
    }
}
