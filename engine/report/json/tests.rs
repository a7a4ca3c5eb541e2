use std::{sync::Mutex, time::Duration};

use expect_test::{Expect, expect};

use super::*;
use crate::diagnostic::{Code, File};

fn place(text: &str, what: &str) -> Place {
    let start = text.find(what).unwrap();
    let file = File {
        name: "agents.yaml".to_owned(),
        text: text.to_owned(),
    };
    Place {
        file: Arc::new(file),
        span: start..start + what.len(),
    }
}

#[test]
fn a_diagnostic_keeps_all_that_is_known() {
    let text = "first: 1\r\nsecönd: [Plannr]\r\n";
    let diagnostic = Diagnostic::error(Code::UnknownAgent, "`Plannr` is no agent")
        .at(place(text, "Plannr"))
        .found("Plannr")
        .allowed(["Planner", "Writer"])
        .help("define it in `agents.yaml`")
        .related(place(text, "first"), "named here");
    let value = diagnostics(&[diagnostic]);
    expect![[r#"
        [
          {
            "code": "MZ302",
            "title": "an agent that no file defines",
            "severity": "error",
            "message": "`Plannr` is no agent",
            "file": "agents.yaml",
            "line": 2,
            "column": 10,
            "end_line": 2,
            "end_column": 16,
            "offset": 20,
            "length": 6,
            "excerpt": "secönd: [Plannr]",
            "found": "Plannr",
            "allowed": [
              "Planner",
              "Writer"
            ],
            "suggestion": "Planner",
            "help": "define it in `agents.yaml`",
            "more": "mozaiks-run explain MZ302",
            "related": [
              {
                "file": "agents.yaml",
                "line": 1,
                "column": 1,
                "note": "named here"
              }
            ]
          }
        ]"#]]
    .assert_eq(&format!("{value:#}"));
}

#[test]
fn what_is_not_known_is_null() {
    let value = diagnostics(&[Diagnostic::warning(Code::NoPlan, "no plan")]);
    expect![[r#"[{"code":"MZ401","title":"no task list where the batch looks for it","severity":"warning","message":"no plan","file":null,"line":null,"column":null,"end_line":null,"end_column":null,"offset":null,"length":null,"excerpt":null,"found":null,"allowed":[],"suggestion":null,"help":null,"more":"mozaiks-run explain MZ401","related":[]}]"#]].assert_eq(&value.to_string());
}

#[test]
fn an_excerpt_is_the_line_or_what_is_near() {
    let check = |text: &str, expected: Expect| expected.assert_eq(excerpt(&place(text, "HERE")));
    check("a\n  b: HERE # c\nd", expect!["  b: HERE # c"]);
    check("HERE", expect!["HERE"]);
    let long = format!("{}HERE{}", "ü".repeat(500), "ü".repeat(500));
    assert_eq!(
        excerpt(&place(&long, "HERE")),
        format!("{}HERE{}", "ü".repeat(50), "ü".repeat(48))
    );
}

/// Takes so many lines, then breaks.
struct Leaky(usize, Arc<Mutex<Vec<u8>>>);

impl Write for Leaky {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(1) {
            Some(left) => self.0 = left,
            None => return Err(io::Error::other("the disk is full")),
        }
        self.1.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn events_are_one_object_a_line_until_a_write_fails() {
    let check = |capacity: usize, expected: Expect| {
        let written = Arc::new(Mutex::new(Vec::new()));
        let out = Box::new(Leaky(capacity, Arc::clone(&written)));
        let mut events = Events::new(out, Arc::new(|| Duration::from_millis(1234)));
        events.hear(&RunEvent::TaskStarted {
            batch: "chunks".into(),
            task: "a\n\"b\"".into(),
            agent: "Analyst".into(),
            attempt: 1,
        });
        events.hear(&RunEvent::Warning {
            message: "odd".to_owned(),
        });
        let finished = events.finish();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        expected.assert_eq(&format!("{text}{finished:?}"));
    };
    check(
        9,
        expect![[r#"
        {"elapsed_ms":1234,"event":"task_started","batch":"chunks","task":"a\n\"b\"","agent":"Analyst","attempt":1}
        {"elapsed_ms":1234,"event":"warning","message":"odd"}
        Ok(())"#]],
    );
    check(
        1,
        expect![[r#"
        {"elapsed_ms":1234,"event":"task_started","batch":"chunks","task":"a\n\"b\"","agent":"Analyst","attempt":1}
        Err(Custom { kind: Other, error: "the disk is full" })"#]],
    );
}
