//! The map of the engine: which module names which, and which crates. An arrow is added here and nowhere else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::harness::home;

/// In reading order: a module, the modules it may name besides itself, and the crates it may name.
const MAP: &[(&str, &[&str], &[&str])] = &[
    ("diagnostic", &[], &["annotate_snippets", "strsim"]),
    (
        "source",
        &["diagnostic"],
        &["serde", "serde_json", "serde_saphyr"],
    ),
    ("contract", &[], &["serde", "serde_json", "schemars"]),
    (
        "schema",
        &["diagnostic", "source", "contract"],
        &["serde", "serde_json", "schemars", "jsonschema"],
    ),
    (
        "shape",
        &["diagnostic", "source", "contract", "schema"],
        &["regex", "serde_json"],
    ),
    ("context", &[], &["serde", "serde_json", "serde_transcode"]),
    ("graph", &[], &[]),
    (
        "dag",
        &[
            "diagnostic",
            "source",
            "contract",
            "schema",
            "context",
            "graph",
            "shape",
        ],
        &["serde", "serde_json", "sha2"],
    ),
    ("ownership", &[], &[]),
    ("schedule", &["graph"], &[]),
    ("usage", &[], &["serde"]),
    ("lane", &["schedule"], &[]),
    ("budget", &["usage"], &["serde"]),
    (
        "load",
        &["diagnostic", "source", "contract", "schema"],
        &["serde"],
    ),
    (
        "compile",
        &[
            "diagnostic",
            "source",
            "contract",
            "shape",
            "context",
            "dag",
            "schedule",
            "usage",
            "lane",
            "budget",
            "load",
        ],
        &["serde_json"],
    ),
    (
        "plan",
        &[
            "diagnostic",
            "source",
            "contract",
            "schema",
            "context",
            "graph",
            "dag",
            "ownership",
            "compile",
        ],
        &["serde_json"],
    ),
    (
        "accept",
        &["ownership", "shape", "usage"],
        &["serde", "serde_json"],
    ),
    ("prompt", &["accept", "context"], &["serde", "serde_json"]),
    ("child", &["contract"], &["process_wrap", "tokio"]),
    (
        "endpoint",
        &["child", "contract"],
        &["reqwest", "rustls", "serde_json", "tokio"],
    ),
    (
        "acmp",
        &["contract", "prompt", "child", "endpoint"],
        &[
            "futures_util",
            "reqwest",
            "rustls",
            "serde",
            "serde_json",
            "serde_json_canonicalizer",
            "sha2",
            "tokio",
            "tokio_tungstenite",
        ],
    ),
    (
        "tool",
        &[
            "compile",
            "contract",
            "diagnostic",
            "child",
            "endpoint",
            "prompt",
        ],
        &[
            "jsonschema",
            "reqwest",
            "rmcp",
            "serde",
            "serde_json",
            "tokio",
        ],
    ),
    (
        "agent",
        &[
            "accept",
            "acmp",
            "compile",
            "context",
            "contract",
            "dag",
            "diagnostic",
            "child",
            "endpoint",
            "prompt",
            "shape",
            "tool",
            "usage",
        ],
        &[
            "async_openai",
            "http",
            "minijinja",
            "regex",
            "reqwest",
            "serde",
            "serde_json",
            "tokio",
            "tower",
        ],
    ),
    (
        "recording",
        &[
            "accept",
            "agent",
            "compile",
            "contract",
            "diagnostic",
            "endpoint",
            "prompt",
            "tool",
        ],
        &["anyhow", "fastrand", "serde", "serde_json", "tokio_util"],
    ),
    (
        "provide",
        &[
            "accept",
            "acmp",
            "agent",
            "compile",
            "context",
            "diagnostic",
            "prompt",
            "tool",
        ],
        &[
            "anyhow",
            "futures_util",
            "http_body_util",
            "hyper",
            "hyper_util",
            "rustls",
            "serde_json",
            "subtle",
            "tokio",
            "tokio_rustls",
            "tokio_tungstenite",
            "tokio_util",
        ],
    ),
    ("event", &["agent"], &["serde"]),
    ("journal", &[], &["anyhow", "rusqlite", "sha2"]),
    (
        "run",
        &[
            "accept",
            "agent",
            "budget",
            "compile",
            "context",
            "contract",
            "dag",
            "diagnostic",
            "event",
            "graph",
            "journal",
            "lane",
            "ownership",
            "plan",
            "prompt",
            "schedule",
            "shape",
            "source",
            "tool",
            "usage",
        ],
        &[
            "anyhow",
            "cap_std",
            "fastrand",
            "serde",
            "serde_json",
            "sha2",
            "tokio",
            "tokio_util",
        ],
    ),
    (
        "report",
        &[
            "accept",
            "agent",
            "compile",
            "context",
            "diagnostic",
            "event",
            "graph",
            "journal",
            "plan",
            "prompt",
            "run",
        ],
        &[
            "clap",
            "console",
            "humantime",
            "indicatif",
            "serde",
            "serde_json",
        ],
    ),
    (
        "program",
        &[
            "acmp",
            "agent",
            "budget",
            "compile",
            "context",
            "contract",
            "diagnostic",
            "endpoint",
            "event",
            "journal",
            "lane",
            "load",
            "plan",
            "prompt",
            "provide",
            "recording",
            "report",
            "run",
            "schedule",
            "schema",
            "source",
            "tool",
            "usage",
        ],
        &[
            "anstream",
            "anyhow",
            "clap",
            "clap_complete",
            "fastrand",
            "humantime",
            "nix",
            "serde",
            "serde_json",
            "tokio",
            "tokio_util",
        ],
    ),
];

const CRATES: &[&str] = &[
    "annotate_snippets",
    "anstream",
    "anyhow",
    "async_openai",
    "cap_std",
    "clap",
    "clap_complete",
    "fastrand",
    "futures_util",
    "http",
    "http_body_util",
    "humantime",
    "hyper",
    "hyper_util",
    "indicatif",
    "jsonschema",
    "minijinja",
    "nix",
    "process_wrap",
    "regex",
    "reqwest",
    "rmcp",
    "rustls",
    "schemars",
    "serde",
    "serde_json",
    "serde_json_canonicalizer",
    "serde_saphyr",
    "serde_transcode",
    "strsim",
    "subtle",
    "tokio",
    "tokio_tungstenite",
    "tokio_util",
    "tower",
];

/// What a module above `child` does not touch: time, threads, the environment, and, but for `load`, the disk.
const IMPURE: &[&str] = &[
    "std::env",
    "env::var",
    "std::process",
    "std::thread",
    "Instant",
    "SystemTime",
    "async fn",
    ".await",
];
const DISK: &[&str] = &["fs::", "File::open", "File::create"];

#[test]
fn modules_name_only_what_the_map_allows() {
    let mut errors = Vec::new();
    for (ix, (module, modules, crates)) in MAP.iter().enumerate() {
        for (file, line, text) in lines(module) {
            let mut error =
                |what: String| errors.push(format!("{}:{line}: {what}", file.display()));
            for (other, ..) in MAP {
                if other != module && !modules.contains(other) && names(&text, other) {
                    error(format!("`{module}` may not name `{other}`"));
                }
            }
            for other in CRATES.iter().filter(|it| !crates.contains(it)) {
                if text.contains(&format!("{other}::"))
                    && !names(&text, other)
                    && starts_path(&text, other)
                {
                    error(format!("`{module}` may not name the crate `{other}`"));
                }
            }
            let is_above = ix
                < MAP
                    .iter()
                    .position(|it| it.0 == "child")
                    .expect("it is on the map");
            if is_above {
                for word in IMPURE.iter().filter(|it| text.contains(**it)) {
                    error(format!("`{module}` is pure: no `{word}`"));
                }
                for word in DISK
                    .iter()
                    .filter(|it| *module != "load" && text.contains(**it))
                {
                    error(format!(
                        "only `load` reads the disk: no `{word}` in `{module}`"
                    ));
                }
            }
        }
    }
    assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
}

#[test]
fn the_map_has_every_module_once_and_arrows_to_modules_alone() {
    let text = fs::read_to_string(home().join("engine/lib.rs")).expect("the library has a root");
    let declared: Vec<&str> = text
        .lines()
        .filter_map(|it| it.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let mapped: Vec<&str> = MAP.iter().map(|it| it.0).collect();
    assert_eq!(declared, mapped, "`lib.rs` and the map are in one order");
    for (module, modules, _) in MAP {
        for other in *modules {
            assert!(
                mapped.contains(other),
                "`{module}` names `{other}`, which is no module"
            );
        }
    }
}

#[test]
fn every_file_opens_with_its_job_and_keeps_to_500_lines() {
    let mut errors = Vec::new();
    for file in files(&home().join("engine")) {
        let text = fs::read_to_string(&file).expect("it can be read");
        let is_test =
            file.components().any(|it| it.as_os_str() == "tests") || file.ends_with("tests.rs");
        if !text.starts_with("//! ") && !is_test && !file.ends_with("lib.rs") {
            errors.push(format!(
                "{}: the first line does not say its job",
                file.display()
            ));
        }
        let lines = text.lines().count();
        if lines > 500 {
            errors.push(format!("{}: {lines} lines", file.display()));
        }
    }
    assert!(errors.is_empty(), "\n{}\n", errors.join("\n"));
}

/// The lines of code of a module, without comments and tests.
fn lines(module: &str) -> Vec<(PathBuf, usize, String)> {
    let engine = home().join("engine");
    let mut all = vec![engine.join(format!("{module}.rs"))];
    all.extend(files(&engine.join(module)));
    let all = all.into_iter().filter(|it| {
        !it.components()
            .any(|it| matches!(it.as_os_str().to_str(), Some("tests" | "tests.rs")))
    });
    let lines = all.flat_map(|file| {
        let text = fs::read_to_string(&file).expect("each module on the map is a file");
        let code = text
            .split("#[cfg(test)]")
            .next()
            .unwrap_or_default()
            .to_owned();
        let lines: Vec<_> = (1..).zip(code.lines().map(str::to_owned)).collect();
        lines
            .into_iter()
            .map(move |(number, line)| (file.clone(), number, line))
    });
    lines
        .filter(|(.., line)| !line.trim_start().starts_with("//"))
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path if path.extension().is_some_and(|it| it == "rs") => found.push(path),
                _ => (),
            }
        }
    }
    found.sort();
    found
}

/// Whether a line names a module of ours: `crate::name`, or `name::` in a `use crate::{...}` list.
fn names(line: &str, name: &str) -> bool {
    let by_path =
        line.contains(&format!("crate::{name}::")) || line.contains(&format!("crate::{name};"));
    let indented = line.starts_with("    ") && !line.starts_with("     ");
    let in_list = indented
        && (line.trim_start().starts_with(&format!("{name}::"))
            || line.trim() == format!("{name},"))
        && line.ends_with(',');
    by_path || in_list
}

/// Whether a path in the line begins with a crate's name.
fn starts_path(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|it| !it.is_alphanumeric() && it != '_' && it != ':')
    })
}
