//! What holds for all paths.

use globset::{Glob, GlobBuilder};
use proptest::{prelude::*, test_runner::RngSeed};

use super::*;

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(1000)
    }
}

/// Texts over few characters, so that they meet often.
fn text(alphabet: &'static str, most: usize) -> impl Strategy<Value = String> {
    let chars: Vec<char> = alphabet.chars().collect();
    let char = prop::sample::select(chars);
    prop::collection::vec(char, 1..=most).prop_map(|it| it.into_iter().collect())
}

fn paths() -> impl Strategy<Value = FilePath> {
    let parts = prop::collection::vec(text("aAbé", 2), 1..4);
    parts.prop_map(|it| file(&it.join("/")))
}

fn owned_paths() -> impl Strategy<Value = OwnedPath> {
    let parts = prop::sample::select(vec![
        "a", "b", "*", "?", "**", "a*", "*b", "[ab]", "[!a]", "{a,b}", "{a,b/*}", "é", "[é]", "A",
    ]);
    let parts = prop::collection::vec(parts, 1..4).prop_map(|it| it.join("/"));
    let texts = prop_oneof![
        text("ab*/", 6),
        text("aAbé*?/[]!{,}-", 9),
        parts.clone(),
        parts.prop_map(|it| it + "/")
    ];
    texts.prop_filter_map("not owned", |it| OwnedPath::parse(&it).ok())
}

/// What the glob crate says, where paths have one case, bytes are characters, and braces are whole.
fn by_globset(glob: &str) -> Glob {
    let mut builder = GlobBuilder::new(glob);
    builder.literal_separator(true).backslash_escape(false);
    builder.build().expect("a well-formed glob")
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn parsing_is_total_and_never_escapes(written in prop_oneof![any::<String>(), text("a./\\:{},*[]!C \0", 12)]) {
        if let Ok(path) = FilePath::parse(&written) {
            let text = path.as_str();
            prop_assert!(text.split('/').all(|it| !matches!(it, "" | "." | "..")), "{}", text);
            prop_assert!(!text.contains(['\\', '\0']) && !text.starts_with('/'));
            prop_assert_eq!(FilePath::parse(text), Ok(path.clone()));
            let owned = OwnedPath::parse(&written);
            prop_assert!(owned.is_err() || owned.is_ok_and(|it| it.covers(&path)), "a path covers itself");
        }
        if let Ok(path) = OwnedPath::parse(&written) {
            prop_assert_eq!(OwnedPath::parse(&path.to_string()), Ok(path));
        }
    }

    #[test]
    fn overlapping_is_symmetric(a in owned_paths(), b in owned_paths()) {
        prop_assert!(overlaps(&a, &a));
        prop_assert_eq!(overlaps(&a, &b), overlaps(&b, &a));
    }

    #[test]
    fn paths_that_cover_one_file_overlap(a in owned_paths(), b in owned_paths(), paths in prop::collection::vec(paths(), 30)) {
        for path in paths {
            if a.covers(&path) && b.covers(&path) {
                prop_assert!(overlaps(&a, &b), "{} and {} both cover {}", a, b, path);
            }
            let upper = file(&path.as_str().to_uppercase());
            if a.covers(&path) && b.covers(&upper) {
                prop_assert!(overlaps(&a, &b), "{} covers {}, {} covers {}", a, path, b, upper);
            }
            if a.covers(&path) {
                prop_assert!(overlaps(&a, &OwnedPath::from(&path)), "{} covers {}", a, path);
            }
        }
    }

    #[test]
    fn conflicts_are_the_pairs_that_overlap(paths in prop::collection::vec(owned_paths(), 2..6)) {
        let tasks: Vec<Vec<OwnedPath>> = paths.into_iter().map(|it| vec![it]).collect();
        let mut pairs = Vec::new();
        for second in 0..tasks.len() {
            for first in (0..second).filter(|it| overlaps(&tasks[*it][0], &tasks[second][0])) {
                pairs.push((first, second));
            }
        }
        let conflicts = claims(&tasks).conflicts().found;
        let mut found: Vec<_> = conflicts.iter().map(|it| (it.first.task, it.second.task)).collect();
        found.sort_by_key(|(first, second)| (*second, *first));
        prop_assert_eq!(found, pairs);
    }

    #[test]
    fn globs_mean_what_they_mean_elsewhere(parts in prop::collection::vec(prop::sample::select(vec!["a", "*", "?", "**", "a*b", "[a-c]", "[!a]", "{a,b}c", "{ab,c}"]), 1..5), path in text("abc/", 7)) {
        let glob = parts.join("/");
        if let Ok(path) = FilePath::parse(&path) {
            let expected = by_globset(&glob).compile_matcher().is_match(path.as_str());
            prop_assert_eq!(owned(&glob).covers(&path), expected, "{} {}", glob, path);
        }
    }

    #[test]
    fn a_ledger_keeps_tasks_apart(outputs in prop::collection::vec((0usize..3, prop::collection::vec(paths(), 1..4)), 1..6)) {
        let mut ledger = Ledger::new(claims(&[]));
        let mut written: Vec<(usize, FilePath)> = Vec::new();
        for (task, files) in outputs {
            let clash = |it: &&(usize, FilePath)| it.0 != task && files.iter().any(|file| overlaps(&file.into(), &(&it.1).into()));
            prop_assert_eq!(ledger.claim(task, &files).is_err(), written.iter().find(clash).is_some());
            if ledger.claim(task, &files).is_ok() {
                written.extend(files.into_iter().map(|it| (task, it)));
            }
        }
    }
}
