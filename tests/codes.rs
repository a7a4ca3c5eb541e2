//! `explain` has something true to say of every code.

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
fn an_unknown_code_is_refused() {
    let ran = run_in(home(), &["explain", "MZ999"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("there is no code `MZ999`"),
        "{}",
        ran.stderr
    );
}
