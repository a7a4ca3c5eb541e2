//! Opens the file, and makes it.
//!
//! **Invariant:** whoever holds a [`Journal`] has a file of this format, whose beginning is sound.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::{Connection, MAIN_DB, OpenFlags, TransactionBehavior};

use super::trouble::{explain, is_busy};
use super::{Journal, Trouble};

/// The name of the file in its folder. SQLite keeps its newest part in two more, `-wal` and `-shm`.
pub const FILE: &str = "journal.sqlite";

/// `mozk`, where SQLite has room for whose file it is.
const APPLICATION: i32 = 0x6d6f_7a6b;

const VERSION: i32 = 1;

/// How long one waits for other processes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Short entries are most of it: they lie in the order they are read in. A long text has its own row, which the entries
/// know by a small number.
const TABLES: &str = "
CREATE TABLE runs (
    key           INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, so that no cursor finds itself in another run
    id            TEXT NOT NULL UNIQUE,
    workflow      TEXT NOT NULL,
    status        TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    ended_at_ms   INTEGER,
    link          INTEGER NOT NULL,
    header        TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_start ON runs (started_at_ms);

CREATE TABLE texts (
    key  INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE entries (
    run     INTEGER NOT NULL REFERENCES runs,
    seq     INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    batch   TEXT,
    task    INTEGER,
    attempt INTEGER,
    link    INTEGER NOT NULL,
    text    INTEGER REFERENCES texts, -- a long body
    body    TEXT,                     -- a short one
    data    TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_by_text ON entries (text) WHERE text IS NOT NULL;
";

/// Finds outputs by what equal work has the same of. Stores that were made before there were such keys get it later.
const INDEX: &str = "
CREATE INDEX IF NOT EXISTS entries_by_work ON entries (data ->> 'key') WHERE kind = 'accepted' AND data ->> 'key' IS NOT NULL;
";

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    Journal,
}

impl Journal {
    /// Opens the store of a folder to read and write it. What is missing is made: the folder, the file, the tables.
    pub fn open(folder: &Path) -> Result<Journal> {
        open_within(folder, PATIENCE)
    }

    /// Opens the store of a folder to read it, whoever writes it meanwhile. `None` if there is none yet.
    ///
    /// Where the folder cannot be written either, this works unless the last writer left a `-wal` file.
    pub fn open_to_read(folder: &Path) -> Result<Option<Journal>> {
        let store = folder.join(FILE);
        let opened = match read_only(&store) {
            Err(error) if is_denied(&error) && !has_wal(&store) => unchanging(&store),
            opened => opened,
        };
        let connection = explain(&store, opened)?;
        Ok(connection.map(|connection| Journal { connection, store }))
    }
}

pub(super) fn open_within(folder: &Path, patience: Duration) -> Result<Journal> {
    let store = folder.join(FILE);
    let opened = fs::create_dir_all(folder)
        .map_err(anyhow::Error::from)
        .and_then(|()| read_write(&store, patience));
    let connection = explain(&store, opened)?;
    Ok(Journal { connection, store })
}

fn read_write(store: &Path, patience: Duration) -> Result<Connection> {
    check_length(store)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(store, flags)?;
    if connection.is_readonly(MAIN_DB)? {
        let store = store.to_owned();
        return Err(Trouble::Denied { store }.into());
    }
    configure(&connection, patience)?;
    if check_content(&connection, store)? == Content::Nothing {
        create(&mut connection, store, patience)?;
    }
    connection.execute_batch(INDEX)?;
    Ok(connection)
}

fn read_only(store: &Path) -> Result<Option<Connection>> {
    if !store.try_exists()? {
        return Ok(None);
    }
    check_length(store)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    check_reader(Connection::open_with_flags(store, flags)?, store)
}

/// Opens a store that nobody writes, which is the one case in which SQLite needs no file beside it. Should somebody
/// start to all the same, the chain tells: reading fails.
fn unchanging(store: &Path) -> Result<Option<Connection>> {
    let mut uri = String::from("file:");
    for &byte in store.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(byte.into());
            }
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    check_reader(
        Connection::open_with_flags(uri + "?immutable=1", flags)?,
        store,
    )
}

fn check_reader(connection: Connection, store: &Path) -> Result<Option<Connection>> {
    configure(&connection, PATIENCE)?;
    let content = check_content(&connection, store)?;
    Ok((content == Content::Journal).then_some(connection))
}

fn configure(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(patience)?;
    for (name, value) in [
        ("synchronous", "full"),
        // where `fsync` does not reach the disk itself
        ("fullfsync", "on"),
        ("checkpoint_fullfsync", "on"),
        ("foreign_keys", "on"),
        ("cell_size_check", "on"),
        ("trusted_schema", "off"),
    ] {
        connection.pragma_update(None, name, value)?;
    }
    Ok(())
}

/// SQLite reads what lacks of the last page as zeros, and takes an empty file for a new one whatever lies beside it.
///
/// While there is a `-wal` file the last page may be in there, so that half of it is no fault.
fn check_length(store: &Path) -> Result<()> {
    let has_wal = has_wal(store);
    let mut file = match File::open(store) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let length = file.metadata()?.len();
    let how = if length == 0 && has_wal {
        "it is empty, but its `-wal` file is not"
    } else if length == 0 || has_wal {
        return Ok(());
    } else if length < 18 {
        "it is too short"
    } else {
        let mut head = [0; 18];
        file.read_exact(&mut head)?;
        let page = u64::from(u16::from_be_bytes([head[16], head[17]]));
        // 1 stands for 65536, which no journal has; what is no database is left to SQLite to tell
        if !head.starts_with(b"SQLite format 3\0") || page < 512 || length % page == 0 {
            return Ok(());
        }
        "its last page is cut off"
    };
    Err(Trouble::Damaged {
        store: store.to_owned(),
        how: how.to_owned(),
    }
    .into())
}

fn check_content(connection: &Connection, store: &Path) -> Result<Content> {
    // All at one moment: another process may be making it.
    let moment = connection.is_autocommit();
    let moment = moment.then(|| connection.unchecked_transaction());
    let _moment = moment.transpose()?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let store = store.to_owned();
    Err(match (application, version, tables) {
        (APPLICATION, VERSION, _) => return Ok(Content::Journal),
        (0, 0, 0) => return Ok(Content::Nothing),
        (APPLICATION, version @ VERSION.., _) => Trouble::Newer { store, version },
        _ => Trouble::Foreign { store },
    }
    .into())
}

fn create(connection: &mut Connection, store: &Path, patience: Duration) -> Result<()> {
    // only before there is a page at all
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    use_wal(connection, Instant::now() + patience)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // another process may have been faster
    if check_content(&transaction, store)? == Content::Nothing {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}

/// Of two processes that do this at once, SQLite turns one away without waiting.
fn use_wal(connection: &Connection, until: Instant) -> rusqlite::Result<()> {
    loop {
        match connection.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())) {
            Err(error) if is_busy(&error) && Instant::now() < until => {
                thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

fn has_wal(store: &Path) -> bool {
    let mut wal = store.as_os_str().to_owned();
    wal.push("-wal");
    fs::metadata(PathBuf::from(wal)).is_ok_and(|it| it.len() > 0)
}

fn is_denied(error: &anyhow::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    let code = error
        .downcast_ref()
        .and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(CannotOpen | ReadOnly))
}
