//! Whatever is cut off or overwritten, what is read is how the run began, or there is an error.

use super::*;

/// The bytes of the store and of its newest part.
#[derive(Clone)]
struct Files {
    store: Vec<u8>,
    wal: Vec<u8>,
}

impl Files {
    fn of(folder: &Path) -> Files {
        let store = folder.join(FILE);
        Files {
            wal: fs::read(wal(&store)).unwrap_or_default(),
            store: fs::read(store).unwrap(),
        }
    }

    fn put(&self) -> TempDir {
        let folder = folder();
        let store = folder.path().join(FILE);
        if !self.wal.is_empty() {
            fs::write(wal(&store), &self.wal).unwrap();
        }
        fs::write(store, &self.store).unwrap();
        folder
    }
}

fn wal(store: &Path) -> PathBuf {
    store.with_extension("sqlite-wal")
}

/// How much of a store lies in its newest part.
#[derive(Debug, Clone, Copy)]
enum Wal {
    /// All since the tables were made.
    All,
    /// All, but half of it has been copied to where it belongs.
    Copied,
    /// Nothing.
    Gone,
}

/// Writes a run with short and long texts in small steps, and gives the files as they are after a crash.
fn write_run(wal: Wal) -> (Vec<Entry>, Files) {
    let folder = folder();
    let mut journal = open(&folder);
    let connection = &journal.connection;
    let sql = "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_autocheckpoint = 0";
    connection.execute_batch(sql).unwrap();
    let mut cursor = begin(&mut journal, "a");
    let entries: Vec<Entry> = (0..40)
        .map(|i| {
            let length = [0, 9, 400, 900, 5000, 9000][i % 6];
            let body = format!("{i} body").repeat(length / 6);
            let data = format!("{i} data").repeat([1, 1, 90, 400][i % 4]);
            entry(&data, (length > 0).then_some(body.as_str()))
        })
        .collect();
    for (i, some) in entries.chunks(3).enumerate() {
        journal.append(&mut cursor, some).unwrap();
        if i == 6 && matches!(wal, Wal::Copied) {
            journal
                .connection
                .execute_batch("PRAGMA wal_checkpoint")
                .unwrap();
        }
    }
    if matches!(wal, Wal::Gone) {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        journal.connection.execute_batch(sql).unwrap();
    }
    (entries, Files::of(folder.path()))
}

/// Reads what there is, as a reader and as a writer, and tells how many entries that were without an error.
fn check(written: &[Entry], files: &Files, what: &str) -> Vec<Option<usize>> {
    let folder = files.put();
    let opened = [
        Journal::open_to_read(folder.path()),
        Journal::open(folder.path()).map(Some),
    ];
    opened
        .into_iter()
        .map(|opened| {
            let journal = opened.ok().flatten()?;
            // nothing here outlives a power cut
            let fast = journal.connection.pragma_update(None, "synchronous", "off");
            fast.ok()?;
            let (entries, error) = read(&journal, "a");
            assert!(written.starts_with(&entries), "{what}: {entries:#?}");
            if let Ok(found) = journal.header("a") {
                assert_eq!(found, header(), "{what}");
            }
            error.is_none().then_some(entries.len())
        })
        .collect()
}

#[test]
fn what_is_cut_off() {
    for state in [Wal::All, Wal::Copied, Wal::Gone] {
        let (written, files) = write_run(state);
        let whole = check(&written, &files, "whole");
        assert_eq!(whole, [Some(40), Some(40)], "{state:?}");
        let mut prefixes = vec![];
        for step in 0..20 {
            let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() * step / 20 + step % 3);
            let what = format!("{state:?} cut at {step}/20");

            let mut shorter = files.clone();
            cut(&mut shorter.store);
            let read = check(&written, &shorter, &what);
            // with no newest part, SQLite misses every page
            if matches!(state, Wal::Gone) {
                assert_eq!(read, [None, None], "{what}");
            }
            let mut shorter = files.clone();
            cut(&mut shorter.wal);
            prefixes.extend(check(&written, &shorter, &what));
        }
        // while nothing is copied, the newest part is good up to where it is cut
        if matches!(state, Wal::All) {
            assert!(prefixes.is_sorted(), "{prefixes:?}");
            prefixes.dedup();
            assert!(prefixes.len() > 8, "{prefixes:?}");
        }
    }
}

#[test]
fn what_is_overwritten() {
    for state in [Wal::All, Wal::Gone] {
        let (written, files) = write_run(state);
        for step in 0..30 {
            for byte in [0, b'7'] {
                let what = format!("{state:?} overwritten at {step}/30 with {byte}");
                let mut other = files.clone();
                let bytes = match state {
                    Wal::Gone => &mut other.store,
                    _ => &mut other.wal,
                };
                let from = bytes.len() * step / 30;
                bytes[from..][..50].fill(byte);
                check(&written, &other, &what);
            }
        }
    }
}
