//! What goes wrong outside, in words; and what several processes do to one store.

use std::time::Duration;

use rusqlite::TransactionBehavior::Immediate;

use super::*;

/// Draws an error with the folder cut away, and whether its trouble can be told.
fn draw(folder: &TempDir, error: &anyhow::Error) -> String {
    let name = error.downcast_ref::<Trouble>().map_or_else(
        || "no trouble".to_owned(),
        |it| format!("{it:?}").split(' ').next().unwrap().to_owned(),
    );
    let text = error.to_string();
    format!(
        "{name}: {}\n",
        text.replace(&*folder.path().to_string_lossy(), ".mozaiks")
    )
}

#[track_caller]
fn check(folder: &TempDir, error: anyhow::Error, expect: Expect) {
    expect.assert_eq(&draw(folder, &error));
}

#[test]
fn two_writers_of_a_run_clash() {
    let folder = folder();
    let (mut one, mut two) = (open(&folder), open(&folder));
    let mut first = begin(&mut one, "a");
    one.append(&mut first, &[entry("1", None)]).unwrap();
    let mut second = two.cursor("a", 1).unwrap();
    let mut early = two.cursor("a", 0).unwrap();
    two.append(&mut second, &[entry("2", None)]).unwrap();

    let mark = Mark {
        status: "completed",
        ended_at_ms: Some(9),
    };
    let errors = [
        one.append(&mut first, &[entry("x", None)]),
        one.append_and_mark(&mut first, &[], &mark),
        two.append(&mut early, &[entry("x", None), entry("y", None)]),
    ];
    let mut drawn = String::new();
    for error in errors {
        drawn += &draw(&folder, &error.unwrap_err());
    }
    expect![[r#"
        Clash: run `a` has entries that this process neither wrote nor read, so another process goes on with it; end one of the two
        Clash: run `a` has entries that this process neither wrote nor read, so another process goes on with it; end one of the two
        Clash: run `a` has entries that this process neither wrote nor read, so another process goes on with it; end one of the two
    "#]].assert_eq(&drawn);
    assert_eq!((first.seq(), early.seq()), (1, 0));
    let (entries, error) = read(&one, "a");
    assert!(error.is_none());
    assert_eq!(entries, [entry("1", None), entry("2", None)]);
    assert_eq!(one.run("a").unwrap().unwrap().status, "running");
}

#[test]
fn a_run_is_begun_once_and_gone_when_removed() {
    let folder = folder();
    let mut journal = open(&folder);
    let mut cursor = begin(&mut journal, "a");
    let run = NewRun {
        id: "a",
        workflow: "Other",
        started_at_ms: 2,
        header: "{}",
    };
    check(
        &folder,
        journal.begin(&run).unwrap_err(),
        expect![[r#"
        Taken: there is a run `a` in the journal already; remove it, or give the new run another id
    "#]],
    );
    assert_eq!(journal.header("a").unwrap(), header());
    journal.remove("a").unwrap();
    // the same id, but not the same run
    begin(&mut journal, "a");
    let error = journal.append(&mut cursor, &[entry("x", None)]);
    check(
        &folder,
        error.unwrap_err(),
        expect![[r#"
        NoRun: there is no run `a` in the journal
    "#]],
    );
    check(
        &folder,
        journal.header("b").unwrap_err(),
        expect![[r#"
        NoRun: there is no run `b` in the journal
    "#]],
    );
}

#[test]
fn one_reads_while_another_writes() {
    let folder = folder();
    assert!(Journal::open_to_read(folder.path()).unwrap().is_none());
    let mut writer = open(&folder);
    let mut cursor = begin(&mut writer, "a");
    writer.append(&mut cursor, &[entry("1", None)]).unwrap();
    let mut reader = Journal::open_to_read(folder.path()).unwrap().unwrap();

    let transaction = writer
        .connection
        .transaction_with_behavior(Immediate)
        .unwrap();
    transaction.execute("DELETE FROM entries", []).unwrap();
    assert_eq!(read(&reader, "a").0.len(), 1);
    drop(transaction);
    writer.append(&mut cursor, &[entry("2", None)]).unwrap();
    assert_eq!(read(&reader, "a").0.len(), 2);

    let error = reader.append(&mut cursor, &[entry("3", None)]);
    check(
        &folder,
        error.unwrap_err(),
        expect![[r#"
        Denied: the journal `.mozaiks/journal.sqlite` cannot be opened; let this user read and write it and its folder
    "#]],
    );
}

#[test]
fn a_store_that_is_locked_for_too_long() {
    let folder = folder();
    let mut holder = open(&folder);
    let mut cursor = begin(&mut holder, "a");
    let mut other = store::open_within(folder.path(), Duration::ZERO).unwrap();
    let transaction = holder.connection.transaction_with_behavior(Immediate);
    let error = other.append(&mut cursor, &[entry("1", None)]);
    check(
        &folder,
        error.unwrap_err(),
        expect![[r#"
        Locked: another process keeps the journal `.mozaiks/journal.sqlite` locked; wait for that process or end it, then try again
    "#]],
    );
    drop(transaction);
    other.append(&mut cursor, &[entry("1", None)]).unwrap();
}

#[test]
fn a_full_disk_loses_nothing() {
    let folder = folder();
    let mut journal = open(&folder);
    let mut cursor = begin(&mut journal, "a");
    journal.append(&mut cursor, &[entry("1", None)]).unwrap();
    let limit = |journal: &Journal, pages: i64| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        journal.connection.query_row(&sql, [], |_| Ok(())).unwrap();
    };
    limit(&journal, 1);
    let long = "x".repeat(50_000);
    let entries = [entry("2", None), entry("3", Some(&long))];
    let error = journal.append(&mut cursor, &entries).unwrap_err();
    check(
        &folder,
        error,
        expect![[r#"
        Full: no space is left for the journal `.mozaiks/journal.sqlite`; free some and go on, all that was committed is there
    "#]],
    );
    assert_eq!(read(&journal, "a").0.len(), 1);
    limit(&journal, 1000);
    journal.append(&mut cursor, &entries).unwrap();
    assert_eq!(read(&journal, "a").0.len(), 3);
}

/// Changes a store from outside, and draws what opening it says then.
fn draw_open(change: &dyn Fn(&Path)) -> String {
    let folder = folder();
    let mut journal = open(&folder);
    begin(&mut journal, "a");
    let store = journal.store.clone();
    drop(journal);
    change(&store);
    let draw_opened = |opened| match opened {
        Ok(Some(journal)) => format!("{} runs\n", count(&journal, "runs")),
        Ok(None) => "no store\n".to_owned(),
        Err(error) => draw(&folder, &error),
    };
    let reader = draw_opened(Journal::open_to_read(folder.path()));
    let writer = draw_opened(Journal::open(folder.path()).map(Some));
    match reader == writer {
        true => reader,
        false => format!("to read: {reader}to write: {writer}"),
    }
}

#[test]
fn files_that_are_no_journals() {
    let sql = |store: &Path, sql: &str| {
        let connection = Connection::open(store).unwrap();
        connection.execute_batch(sql).unwrap();
    };
    let write = |store: &Path, bytes: &[u8]| fs::write(store, bytes).unwrap();
    let changes: &[&dyn Fn(&Path)] = &[
        &|_| {},
        &|store| sql(store, "PRAGMA user_version = 2"),
        &|store| sql(store, "PRAGMA application_id = 2"),
        &|store| write(store, &[b'x'; 4096]),
        &|store| write(store, b"short"),
        // SQLite makes such a file before it writes to it
        &|store| write(store, b""),
        &|store| {
            write(store, b"");
            write(&store.with_extension("sqlite-wal"), b"something");
        },
        &|store| {
            let bytes = fs::read(store).unwrap();
            write(store, &bytes[..bytes.len() - 100]);
        },
        &|store| {
            fs::remove_file(store).unwrap();
            fs::create_dir(store).unwrap();
        },
    ];
    let drawn: String = changes.iter().map(|change| draw_open(change)).collect();
    expect![[r#"
        1 runs
        Newer: the journal `.mozaiks/journal.sqlite` has format 2 and was written by a newer mozaiks-run; use that one, or move `.mozaiks/journal.sqlite` away
        Foreign: `.mozaiks/journal.sqlite` is a database, but not a journal; move it away
        Damaged: the journal `.mozaiks/journal.sqlite` is damaged: it does not begin as a database does; move it and `.mozaiks/journal.sqlite-wal` away, and put a copy there or start anew
        Damaged: the journal `.mozaiks/journal.sqlite` is damaged: it is too short; move it and `.mozaiks/journal.sqlite-wal` away, and put a copy there or start anew
        to read: no store
        to write: 0 runs
        Damaged: the journal `.mozaiks/journal.sqlite` is damaged: it is empty, but its `-wal` file is not; move it and `.mozaiks/journal.sqlite-wal` away, and put a copy there or start anew
        Damaged: the journal `.mozaiks/journal.sqlite` is damaged: its last page is cut off; move it and `.mozaiks/journal.sqlite-wal` away, and put a copy there or start anew
        Broken: the journal `.mozaiks/journal.sqlite` cannot be read or written; check its folder and the disk
    "#]].assert_eq(&drawn);
}

#[test]
fn a_folder_that_cannot_be_made() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Journal::open(&file.join("in")).unwrap_err();
    check(
        &folder,
        error,
        expect![[r#"
        Broken: the journal `.mozaiks/file/in/journal.sqlite` cannot be read or written; check its folder and the disk
    "#]],
    );
}

/// For root there is no folder that is read-only, so that root tests nothing here.
#[cfg(unix)]
#[test]
fn a_read_only_folder() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = folder();
    let inside = TempDir::with_prefix_in("100% #1? é", &folder).unwrap();
    let mut journal = open(&inside);
    begin(&mut journal, "a");
    let store = journal.store.clone();
    drop(journal);
    set_permissions(&store, Permissions::from_mode(0o444)).unwrap();
    set_permissions(inside.path(), Permissions::from_mode(0o555)).unwrap();
    if fs::write(inside.path().join("probe"), "").is_err() {
        let journal = Journal::open_to_read(inside.path()).unwrap().unwrap();
        assert!(journal.run("a").unwrap().is_some());
        let drawn: String = [inside.path(), &inside.path().join("below")]
            .map(|folder| draw(&inside, &Journal::open(folder).unwrap_err()))
            .concat();
        expect![[r#"
            Denied: the journal `.mozaiks/journal.sqlite` cannot be opened; let this user read and write it and its folder
            Denied: the journal `.mozaiks/below/journal.sqlite` cannot be opened; let this user read and write it and its folder
        "#]]
        .assert_eq(&drawn);
    }
    set_permissions(inside.path(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_store_is_made_once_by_many() {
    let folder = folder();
    thread::scope(|scope| {
        for id in ["a", "b", "c", "d", "e", "f"] {
            let folder = &folder;
            scope.spawn(move || begin(&mut open(folder), id));
        }
    });
    assert_eq!(count(&open(&folder), "runs"), 6);
}
