//! What the tasks of a batch may do to each other's files.

use super::*;

/// Owned paths of tasks, as in `a b/ | c`.
fn tasks(text: &str) -> Vec<Vec<OwnedPath>> {
    let tasks = text.split('|');
    tasks
        .map(|it| it.split_whitespace().map(owned).collect())
        .collect()
}

#[track_caller]
fn check_conflicts(text: &str, expect: Expect) {
    let tasks = tasks(text);
    let conflicts = claims(&tasks).conflicts();
    let name = |it: Claim| format!("{} {}", it.task, tasks[it.task][it.path]);
    let found = conflicts.found.iter();
    let lines = found.map(|it| format!("{} -- {}\n", name(it.first), name(it.second)));
    expect.assert_eq(&lines.collect::<String>());
    assert!(!conflicts.more);
}

#[test]
fn tasks_do_not_share_paths() {
    check_conflicts(
        "src/a.rs src/b/ | src/c.rs *.md | src/bb tests/**/*.rs | docs/*.md",
        expect![[""]],
    );
    check_conflicts("a ./a a | b", expect![[""]]);
    check_conflicts(
        "a A | b",
        expect![[r#"
        0 a -- 0 A
    "#]],
    );
    check_conflicts("a/ a/b a/*.rs | b", expect![[""]]);
    check_conflicts(
        "x a/b/c | a/B/c | A/b | ./ | a-b",
        expect![[r#"
        0 x -- 3 ./
        0 a/b/c -- 1 a/B/c
        0 a/b/c -- 2 A/b
        0 a/b/c -- 3 ./
        1 a/B/c -- 2 A/b
        1 a/B/c -- 3 ./
        2 A/b -- 3 ./
        3 ./ -- 4 a-b
    "#]],
    );
    check_conflicts(
        "a/*.rs | a/b.rs | a/x/ | **/*.rs | a/**/y | b",
        expect![[r#"
            0 a/*.rs -- 1 a/b.rs
            0 a/*.rs -- 3 **/*.rs
            1 a/b.rs -- 3 **/*.rs
            2 a/x/ -- 3 **/*.rs
            2 a/x/ -- 4 a/**/y
        "#]],
    );
}

#[test]
fn conflicts_are_counted_to_a_hundred() {
    let same = vec![vec![owned("a")]; 1000];
    let conflicts = claims(&same).conflicts();
    assert_eq!((conflicts.found.len(), conflicts.more), (100, true));
}

#[test]
fn many_tasks_are_compared_quickly() {
    let paths =
        |task| ["src/m", "tests/m", "docs/m"].map(|it| owned(&format!("{it}{task}/a/b.rs")));
    let folder = |task| owned(&format!("assets/{task}/**/*.png"));
    let tasks: Vec<Vec<OwnedPath>> = (0..10_000)
        .map(|task| [&paths(task)[..], &[folder(task)]].concat())
        .collect();
    assert_eq!(claims(&tasks).conflicts(), Conflicts::default());
}

/// Draws what is wrong with what a task emits.
#[track_caller]
fn check_emitted(emitted: &str, paths: &str, expect: Expect) {
    let paths: Vec<OwnedPath> = paths.split_whitespace().map(owned).collect();
    let draw = |require| {
        let violations = check_output(&files(emitted), &paths, require);
        violations
            .iter()
            .map(|it| format!("{it}\n"))
            .collect::<String>()
    };
    let (declared, nothing) = (draw(Require::Declared), draw(Require::Nothing));
    assert!(declared.ends_with(&nothing), "{nothing}");
    expect.assert_eq(&format!(
        "{declared}{} of them whatever is required\n",
        nothing.lines().count()
    ));
}

#[test]
fn outputs_stay_inside_what_is_owned() {
    check_emitted(
        "a.rs src/x src/y/z",
        "a.rs src/",
        expect![[r#"
        0 of them whatever is required
    "#]],
    );
    check_emitted(
        "A.rs b/c src",
        "a.rs b.rs b.rs src/ t/*.rs",
        expect![[r#"
        the file `A.rs` is outside the owned paths, which are `a.rs`, `b.rs`, `b.rs`, `src/`, `t/*.rs`
        the file `b/c` is outside the owned paths, which are `a.rs`, `b.rs`, `b.rs`, `src/`, `t/*.rs`
        the file `src` is outside the owned paths, which are `a.rs`, `b.rs`, `b.rs`, `src/`, `t/*.rs`
        the owned file `a.rs` is not emitted
        the owned file `b.rs` is not emitted
        0 of them whatever is required
    "#]],
    );
    check_emitted(
        "x",
        "1 2 3 4 5 6 7/ 8/ 9/ 10/",
        expect![[r#"
        the file `x` is outside the owned paths, which are `1`, `2`, `3`, `4`, `5`, `6`, `7/`, `8/` and 2 more
        the owned file `1` is not emitted
        the owned file `2` is not emitted
        the owned file `3` is not emitted
        the owned file `4` is not emitted
        the owned file `5` is not emitted
        the owned file `6` is not emitted
        0 of them whatever is required
    "#]],
    );
    check_emitted(
        "a",
        "",
        expect![[r#"
        the file `a` is emitted by a task that owns no paths
        0 of them whatever is required
    "#]],
    );
    check_emitted(
        "",
        "src/",
        expect![[r#"
        0 of them whatever is required
    "#]],
    );
    check_emitted(
        "s/a ./s/a s/B s/b s/a/c",
        "s/",
        expect![[r#"
        the file `s/a` is emitted twice
        the files `s/B` and `s/b` differ by case only
        the file `s/a` would have to be a folder too, for `s/a/c`
        3 of them whatever is required
    "#]],
    );
}

/// Lets tasks claim files one after the other, as in `0: a b`, or give all of them back, as in `0 gives back`, and draws
/// what each is told.
#[track_caller]
fn check_ledger(paths: &str, outputs: &str, expect: Expect) {
    let mut ledger = Ledger::new(claims(&tasks(paths)));
    let mut drawn = String::new();
    for line in outputs.lines().map(str::trim) {
        drawn += &format!("{line}\n");
        if let Some(task) = line.strip_suffix(" gives back") {
            ledger.release(task.parse().expect("a task"));
            continue;
        }
        let (task, emitted) = line.split_once(':').expect("a task and its files");
        if let Err(violations) = ledger.claim(task.parse().expect("a task"), &files(emitted)) {
            let name = |index| format!("the task `{}`", ["a", "b", "c", "d"][index]);
            drawn.extend(
                violations
                    .iter()
                    .map(|it| format!("   {}\n", it.describe(name))),
            );
        }
    }
    expect.assert_eq(&drawn);
}

#[test]
fn tasks_write_no_file_of_another() {
    check_ledger(
        "src/ x | lib/a.rs | docs/*.md |",
        "0: src/a x y
         1: lib/a.rs src/b LIB/A.rs
         1: docs/a.md docs/a.rs lib/a.rs
         1: Docs/A.MD
         1: src
         2: lib docs
         3: X src/q lib/a.rs/x",
        expect![[r#"
            0: src/a x y
            1: lib/a.rs src/b LIB/A.rs
               the file `src/b` belongs to the task `a`, which owns `src/`
            1: docs/a.md docs/a.rs lib/a.rs
               the file `docs/a.md` belongs to the task `c`, which owns `docs/*.md`
            1: Docs/A.MD
               the file `Docs/A.MD` belongs to the task `c`, which owns `docs/*.md`
            1: src
               the file `src` belongs to the task `a`, which owns `src/`
               the file `src` clashes with `src/a`, already emitted by the task `a`
            2: lib docs
               the file `lib` belongs to the task `b`, which owns `lib/a.rs`
            3: X src/q lib/a.rs/x
               the file `X` belongs to the task `a`, which owns `x`
               the file `X` clashes with `x`, already emitted by the task `a`
               the file `src/q` belongs to the task `a`, which owns `src/`
               the file `lib/a.rs/x` belongs to the task `b`, which owns `lib/a.rs`
        "#]],
    );
}

#[test]
fn tasks_write_no_file_that_another_wrote() {
    check_ledger(
        "| | |",
        "0: a b/c
         1: d a
         2: d
         1: A B b/c/x b/d
         1: e
         0: a f
         3: F E/x
         0 gives back
         2: a b F
         1: d/e",
        expect![[r#"
            0: a b/c
            1: d a
               the file `a` was already emitted by the task `a`
            2: d
            1: A B b/c/x b/d
               the file `A` clashes with `a`, already emitted by the task `a`
               the file `B` clashes with `b/c`, already emitted by the task `a`
               the file `b/c/x` clashes with `b/c`, already emitted by the task `a`
            1: e
            0: a f
            3: F E/x
               the file `F` clashes with `f`, already emitted by the task `a`
               the file `E/x` clashes with `e`, already emitted by the task `b`
            0 gives back
            2: a b F
            1: d/e
               the file `d/e` clashes with `d`, already emitted by the task `c`
        "#]],
    );
}
