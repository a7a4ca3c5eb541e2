use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::thread;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

mod damage;
mod world;

fn folder() -> TempDir {
    tempfile::tempdir().expect("there is a folder for temporary files")
}

fn open(folder: &TempDir) -> Journal {
    Journal::open(folder.path()).expect("the store opens")
}

/// Longer than a page.
fn header() -> String {
    format!(r#"{{"input":"{}"}}"#, "words ".repeat(1000))
}

fn begin(journal: &mut Journal, id: &str) -> Cursor {
    let run = NewRun {
        id,
        workflow: "Flow",
        started_at_ms: 1,
        header: &header(),
    };
    journal.begin(&run).expect("the run is new")
}

/// An entry about a task, which is all in its data and its body.
fn entry(data: &str, body: Option<&str>) -> Entry {
    Entry {
        at_ms: 1_700_000_000_000,
        kind: "task_ended".into(),
        batch: Some("build".into()),
        task: Some(7),
        attempt: Some(1),
        data: data.to_owned(),
        body: body.map(Arc::from),
    }
}

/// Everything of a run, as far as it can be read, and the error that ended it.
fn read(journal: &Journal, run: &str) -> (Vec<Entry>, Option<anyhow::Error>) {
    let mut entries = Vec::new();
    let done = journal.cursor(run, 0).and_then(|mut cursor| {
        journal.read(&mut cursor, &mut |row| {
            entries.push(row.entry);
            assert_eq!(row.seq, entries.len() as u64);
            Ok(())
        })
    });
    (entries, done.err())
}

fn count(journal: &Journal, table: &str) -> i64 {
    journal
        .connection
        .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
        .unwrap()
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let name = || prop::option::of("\\PC{0,9}".prop_map(Arc::from));
    let body = prop::option::of(("[\0-é]{0,3}", 0..400usize));
    let number = || prop::option::of(any::<u32>());
    let parts = (
        any::<i64>(),
        name(),
        number(),
        number(),
        "[\0-é]{0,40}",
        body,
    );
    parts.prop_map(|(at_ms, batch, task, attempt, data, body)| Entry {
        at_ms,
        kind: format!("kind_{}", at_ms % 3).into(),
        batch,
        task,
        attempt,
        data,
        body: body.map(|(text, times)| Arc::from(text.repeat(times))),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_appended_is_read(writes in prop::collection::vec(
        (0..2usize, prop::collection::vec(any_entry(), 0..6), any::<bool>()),
        0..8,
    )) {
        let folder = folder();
        let mut journal = open(&folder);
        let ids = ["a", "b"];
        let mut cursors = ids.map(|id| begin(&mut journal, id));
        let mut written = [vec![], vec![]];
        for (run, entries, reopen) in writes {
            journal.append(&mut cursors[run], &entries).unwrap();
            written[run].extend(entries);
            if reopen {
                // as if the process had ended without a word
                std::mem::forget(std::mem::replace(&mut journal, open(&folder)));
            }
        }
        drop(journal);
        let journal = Journal::open_to_read(folder.path()).unwrap().unwrap();
        for (run, id) in ids.into_iter().enumerate() {
            prop_assert_eq!(cursors[run].seq(), written[run].len() as u64);
            let (read, error) = read(&journal, id);
            prop_assert!(error.is_none());
            prop_assert_eq!(&read, &written[run]);
        }
    }
}

#[test]
fn reading_goes_on_at_a_cursor() {
    let folder = folder();
    let mut journal = open(&folder);
    let mut writer = begin(&mut journal, "a");
    let mut follower = journal.cursor("a", 0).unwrap();
    let follow = |journal: &Journal, follower: &mut Cursor, until: &str| {
        let mut seen = String::new();
        let done = journal.read(follower, &mut |row| {
            anyhow::ensure!(row.entry.data != until, "stop");
            write!(seen, "{}={} ", row.seq, row.entry.data)?;
            Ok(())
        });
        let error = done.err().map(|it| it.to_string());
        format!("{seen}{}", error.unwrap_or_default())
    };
    for (append, until, seen) in [
        ("", "", ""),
        ("x y", "", "1=x 2=y "),
        ("z u v", "u", "3=z stop"),
        ("w", "", "4=u 5=v 6=w "),
    ] {
        let entries: Vec<Entry> = append
            .split_whitespace()
            .map(|it| entry(it, None))
            .collect();
        journal.append(&mut writer, &entries).unwrap();
        assert_eq!(follow(&journal, &mut follower, until), seen);
    }
    let mut later = journal.cursor("a", 4).unwrap();
    assert_eq!(follow(&journal, &mut later, ""), "5=v 6=w ");
    let mut end = journal.cursor("a", 6).unwrap();
    journal.append(&mut end, &[entry("t", None)]).unwrap();
    assert_eq!((end.run(), end.seq()), ("a", 7));
    assert_eq!(
        journal.cursor("a", 8).unwrap_err().to_string(),
        "run `a` has no entry 8"
    );
}

/// Draws the runs of a list, and what the beginnings of ids name.
fn check_runs(journal: &Journal, filters: &[Filter], prefixes: &[&str], expect: Expect) {
    let mut drawn = String::new();
    for filter in filters {
        let runs = journal.runs(filter).unwrap();
        let ids: Vec<_> = runs.iter().map(|it| &it.id).collect();
        writeln!(drawn, "{filter:?}: {ids:?}").unwrap();
    }
    for prefix in prefixes {
        let found = match journal.find(prefix).unwrap() {
            Found::One(run) => format!("{run:?}"),
            found => format!("{found:?}"),
        };
        writeln!(drawn, "{prefix:?}: {found}").unwrap();
    }
    expect.assert_eq(&drawn);
}

#[test]
fn runs_are_listed_and_found() {
    let folder = folder();
    let mut journal = open(&folder);
    for (id, workflow, started_at_ms) in [
        ("ab1", "Build", 10),
        ("ab2", "Write", 30),
        ("ab", "Build", 20),
        ("b\u{10ffff}x", "Write", 30),
    ] {
        let header = "{}";
        let run = NewRun {
            id,
            workflow,
            started_at_ms,
            header,
        };
        let mut cursor = journal.begin(&run).unwrap();
        let mark = Mark {
            status: "completed",
            ended_at_ms: Some(started_at_ms + 5),
        };
        if workflow == "Build" {
            journal.append_and_mark(&mut cursor, &[], &mark).unwrap();
        }
    }
    let filter = |status, workflow, limit| Filter {
        status,
        workflow,
        limit,
    };
    check_runs(
        &journal,
        &[
            filter(None, None, 9),
            filter(None, None, 2),
            filter(Some("running"), None, 9),
            filter(None, Some("Build"), 1),
            filter(Some("running"), Some("Build"), 9),
        ],
        &["ab1", "ab", "a", "b", "", "c", "ab3"],
        expect![[r#"
            Filter { status: None, workflow: None, limit: 9 }: ["b\u{10ffff}x", "ab2", "ab", "ab1"]
            Filter { status: None, workflow: None, limit: 2 }: ["b\u{10ffff}x", "ab2"]
            Filter { status: Some("running"), workflow: None, limit: 9 }: ["b\u{10ffff}x", "ab2"]
            Filter { status: None, workflow: Some("Build"), limit: 1 }: ["ab"]
            Filter { status: Some("running"), workflow: Some("Build"), limit: 9 }: []
            "ab1": Run { id: "ab1", workflow: "Build", status: "completed", started_at_ms: 10, ended_at_ms: Some(15) }
            "ab": Run { id: "ab", workflow: "Build", status: "completed", started_at_ms: 20, ended_at_ms: Some(25) }
            "a": Several(["ab", "ab1", "ab2"])
            "b": Run { id: "b\u{10ffff}x", workflow: "Write", status: "running", started_at_ms: 30, ended_at_ms: None }
            "": Several(["ab", "ab1", "ab2", "b\u{10ffff}x"])
            "c": None
            "ab3": None
        "#]],
    );
    assert_eq!(journal.removable(25).unwrap(), ["ab1"]);
    assert_eq!(journal.removable(26).unwrap(), ["ab1", "ab"]);
}

#[test]
fn many_runs_are_listed_at_once() {
    let folder = folder();
    let mut journal = open(&folder);
    let last = begin(&mut journal, "last");
    journal
        .connection
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n LIMIT 9999)
             INSERT INTO runs (id, workflow, status, started_at_ms, link, header)
             SELECT 'run' || i || '-', 'Flow', 'completed', i, 0, '{}' FROM n",
        )
        .unwrap();
    let mut filter = Filter {
        status: None,
        workflow: None,
        limit: 3,
    };
    let ids = |filter: &Filter| {
        let runs = journal.runs(filter).unwrap();
        runs.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&filter), ["run10000-", "run9999-", "run9998-"]);
    filter.limit = 20_000;
    assert_eq!(ids(&filter).len(), 10_000);
    filter.status = Some("running");
    assert_eq!(ids(&filter), [last.run()]);
    let Found::Several(ids) = journal.find("run9").unwrap() else {
        panic!("several begin with it");
    };
    assert_eq!((ids.len(), ids[0].as_str()), (10, "run9-"));
}

#[test]
fn texts_are_kept_once_and_while_they_are_named() {
    let folder = folder();
    let mut journal = open(&folder);
    let long = "x".repeat(513);
    let same = "y".repeat(200_000);
    for id in ["a", "b", "c"] {
        let mut cursor = begin(&mut journal, id);
        let own = format!("{id}{long}");
        let entries = [&same, &same, &own, &long[1..]].map(|it| entry("{}", Some(it)));
        journal.append(&mut cursor, &entries).unwrap();
    }
    assert_eq!(count(&journal, "texts"), 4);
    let mut sizes = vec![];
    let removed = ["a", "b", "a", "c"].map(|id| {
        let removed = journal.remove(id).unwrap();
        journal.compact().unwrap();
        sizes.push(fs::metadata(&journal.store).unwrap().len());
        let (runs, entries) = (count(&journal, "runs"), count(&journal, "entries"));
        (removed, runs, entries, count(&journal, "texts"))
    });
    let expected = [
        (true, 2, 8, 3),
        (true, 1, 4, 2),
        (false, 1, 4, 2),
        (true, 0, 0, 0),
    ];
    assert_eq!(removed, expected);
    assert!(sizes[0] > 200_000 && sizes[3] < 60_000, "{sizes:?}");
}

#[test]
fn ten_thousand_tasks_are_small() {
    let folder = folder();
    let mut journal = open(&folder);
    let mut cursor = begin(&mut journal, "a");
    let mut outputs = 0;
    for tasks in 0..100 {
        let entries: Vec<Entry> = (0..100)
            .flat_map(|task| {
                let output = format!("{tasks} {task} ").repeat(40);
                outputs += output.len();
                let started = entry(r#"{"agent":"worker"}"#, None);
                let ended = r#"{"usage":{"in":1200,"out":300,"calls":1},"files":2}"#;
                [started, entry(ended, Some(&output))]
            })
            .collect();
        journal.append(&mut cursor, &entries).unwrap();
    }
    let store = journal.store.clone();
    drop(journal);
    let each = (fs::metadata(store).unwrap().len() as usize - outputs) / 10_000;
    assert!((100..300).contains(&each), "{each} bytes for a task");
}

#[test]
fn a_hash_is_that_of_everybody_else() {
    expect!["ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"]
        .assert_eq(&hash("abc"));
}
