//! `explain` has something true to say of every code.

use std::{fs, path::PathBuf};

use mozaiks::diagnostic::Code;

use crate::harness::{home, run_in};

#[test]
fn every_code_is_explained_with_its_title_a_cure_and_an_example() {
    for code in Code::ALL {
        let ran = run_in(home(), &["explain", code.as_str()]);
        let heading = format!("## {} {}", code.as_str(), code.title());
        assert_eq!(ran.code, 0);
        assert!(
            ran.stdout.starts_with(&heading),
            "{heading}\n{}",
            ran.stdout
        );
        for part in ["Cure:", "Example:", "```"] {
            assert!(ran.stdout.contains(part), "{code:?} has no `{part}`");
        }
    }
}

#[test]
fn codes_are_unique() {
    let mut codes: Vec<&str> = Code::ALL.iter().map(|it| it.as_str()).collect();
    codes.sort_unstable();
    let all = codes.len();
    codes.dedup();
    assert_eq!(codes.len(), all);
}

#[test]
fn every_code_is_expected_by_a_test() {
    let texts: Vec<String> = tests()
        .iter()
        .map(|it| fs::read_to_string(it).expect("it can be read"))
        .collect();
    let is_expected = |code: &str| {
        let mut lines = texts.iter().flat_map(|it| it.lines());
        lines.any(|it| it.contains(code) && !it.trim_start().starts_with("//"))
    };
    let all = Code::ALL.iter().map(|it| it.as_str());
    let unmet: Vec<&str> = all.filter(|it| !is_expected(it)).collect();
    assert!(unmet.is_empty(), "nothing is known to raise {unmet:?}");
}

/// Every file of tests but this one.
fn tests() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![home().join("tests"), home().join("engine")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("it is a folder").flatten() {
            let path = entry.path();
            let is_test = path.components().any(|it| it.as_os_str() == "tests")
                || path.file_name().is_some_and(|it| it == "tests.rs");
            if path.is_dir() {
                open.push(path);
            } else if is_test && !path.ends_with("codes.rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn an_unknown_code_is_refused() {
    let ran = run_in(home(), &["explain", "MZ999"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("there is no code `MZ999`"),
        "{}",
        ran.stderr
    );
}
