use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::contract::structured_outputs::StructuredOutputs;

/// The terms of the task `a` of agent `A`, which owns these paths and is held to them.
fn terms(owned: &[&str]) -> Terms {
    let paths = owned.iter().map(|it| OwnedPath::parse(it));
    Terms {
        task_id: "a".into(),
        agent: "A".into(),
        kind: None,
        owned: paths.map(|it| it.expect("it can be owned")).collect(),
        owned_as_written: Some(Arc::new(json!(owned))),
        require: Require::Declared,
        max_file_bytes: 20,
    }
}

/// Of a task that is not held to paths.
fn free() -> Terms {
    Terms {
        require: Require::Nothing,
        ..terms(&[])
    }
}

/// A model of two fields, `task_id` and `text`.
fn shape() -> Shape {
    let outputs = json!({"models": {"M": {"type": "model", "fields": {
        "task_id": {"type": "optional_str"},
        "text": {"type": "str"},
    }}}});
    let outputs: StructuredOutputs = serde_json::from_value(outputs).expect("it is well-formed");
    let (shapes, faults) = crate::shape::compile(&outputs);
    assert_eq!(faults, []);
    shapes.model("M").expect("it is there").clone()
}

fn shown(outcome: &Result<Output, Rejection>) -> String {
    match outcome {
        Ok(output) => {
            let files: Vec<&str> = output.files.iter().map(|it| it.path.as_str()).collect();
            format!(
                "-> {} files {files:?} dropped {:?}\n",
                output.value, output.dropped
            )
        }
        Err(rejection) => format!("-- {rejection}\n"),
    }
}

#[track_caller]
fn check(shape: Option<&Shape>, terms: &Terms, answers: &[&str], expect: Expect) {
    let lines = answers.iter().map(|answer| {
        let outcome = task(answer, shape, terms);
        if let Err(rejection) = &outcome {
            assert_eq!(rejection.answer.as_deref(), Some(*answer));
        }
        format!("{answer:?} {}", shown(&outcome))
    });
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn without_a_model_an_answer_is_json_or_a_text() {
    check(
        None,
        &free(),
        &[
            "{\"x\": 1}",
            "```json\n{\"x\": 1}\n```",
            "Here: {\"x\": 1}.",
            "[1, 2]",
            "7",
            "\"text\"",
            "null",
            "just words",
            "{\"x\": 1",
            "{\"x\": 1, \"x\": 2}",
            " \u{feff}\n",
            "",
        ],
        expect![[r#"
            "{\"x\": 1}" -> {"x":1,"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "```json\n{\"x\": 1}\n```" -> {"x":1,"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "Here: {\"x\": 1}." -> {"agent_message":"Here: {\"x\": 1}.","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "[1, 2]" -> {"agent_message":"[1, 2]","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "7" -> {"agent_message":"7","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "\"text\"" -> {"agent_message":"\"text\"","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "null" -> {"agent_message":"null","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "just words" -> {"agent_message":"just words","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"x\": 1" -> {"agent_message":"{\"x\": 1","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"x\": 1, \"x\": 2}" -> {"agent_message":"{\"x\": 1, \"x\": 2}","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            " \u{feff}\n" -- empty: the answer is empty
            "" -- empty: the answer is empty
        "#]],
    );
}

#[test]
fn with_a_model_an_answer_fits_it() {
    check(
        Some(&shape()),
        &free(),
        &[
            "{\"text\": \"x\"}",
            "{\"text\": \"x\", \"more\": {\"a\": 1}}",
            "Sure:\n```json\n{\"text\": \"```\"}\n```\n",
            "I think {\"text\": \"}\"} is it",
            "{\"text\": 3}",
            "{}",
            "[]",
            "no",
            "",
            "{\"text\": \"x",
            "{\"text\": \"a\", \"text\": \"b\"}",
            "```\n{\"text\": \"a\"}\n```\n```\n{\"text\": \"b\"}\n```",
            "\0\u{fffd}{",
        ],
        expect![[r#"
            "{\"text\": \"x\"}" -> {"task_id":"a","text":"x","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"text\": \"x\", \"more\": {\"a\": 1}}" -> {"task_id":"a","text":"x","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped ["/more"]
            "Sure:\n```json\n{\"text\": \"```\"}\n```\n" -> {"task_id":"a","text":"```","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "I think {\"text\": \"}\"} is it" -> {"task_id":"a","text":"}","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"text\": 3}" -- wrong_shape: `/text`: expected a text, found the number `3`
            "{}" -- wrong_shape: `/text`: missing, expected a text
            "[]" -- wrong_shape: the answer: expected a mapping (`M`), found a list of 0
            "no" -- not_json: not JSON: expected ident at line 1 column 2, near `no`
            "" -- empty: the answer is empty
            "{\"text\": \"x" -- truncated: cut off: the value starting at byte 0 never ends, near `{"text": "x`
            "{\"text\": \"a\", \"text\": \"b\"}" -- not_json: the key `text` stands twice, at line 1 column 20, near `{"text": "a", "text": "b"}`
            "```\n{\"text\": \"a\"}\n```\n```\n{\"text\": \"b\"}\n```" -- not_json: two blocks of JSON that differ, in lines 2 and 5, near `` {"text": "a"} ``` ``` {"text": "b"} ```
            "\0�{" -- truncated: cut off: the value starting at byte 4 never ends, near `�{`
        "#]],
    );
}

#[test]
fn an_answer_is_for_this_task_and_of_its_kind() {
    check(
        None,
        &free(),
        &[
            "{\"task_id\": \"a\"}",
            "{\"task_id\": \" a \"}",
            "{\"task_id\": null}",
            "{\"task_id\": \" \"}",
            "{\"task_id\": \"A\"}",
            "{\"task_id\": \"b\"}",
            "{\"task_id\": 1}",
            "{\"task_id\": false}",
            "{\"task_id\": [\"a\"]}",
            "{\"kind\": \"anything\"}",
        ],
        expect![[r#"
            "{\"task_id\": \"a\"}" -> {"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"task_id\": \" a \"}" -> {"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"task_id\": null}" -> {"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"task_id\": \" \"}" -> {"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"task_id\": \"A\"}" -- wrong_task: the answer says `task_id` is "A", but the task's is "a"
            "{\"task_id\": \"b\"}" -- wrong_task: the answer says `task_id` is "b", but the task's is "a"
            "{\"task_id\": 1}" -- wrong_task: the answer says `task_id` is 1, but the task's is "a"
            "{\"task_id\": false}" -- wrong_task: the answer says `task_id` is false, but the task's is "a"
            "{\"task_id\": [\"a\"]}" -- wrong_task: the answer says `task_id` is ["a"], but the task's is "a"
            "{\"kind\": \"anything\"}" -> {"kind":"anything","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
        "#]],
    );
    let kind = Terms {
        kind: Some(Arc::new(json!("page"))),
        ..free()
    };
    check(
        None,
        &kind,
        &[
            "{}",
            "{\"kind\": \"\"}",
            "{\"kind\": \" page\"}",
            "{\"kind\": \"Page\"}",
            "{\"kind\": {}}",
        ],
        expect![[r#"
            "{}" -> {"task_id":"a","kind":"page","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"kind\": \"\"}" -> {"kind":"page","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"kind\": \" page\"}" -> {"kind":"page","task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"kind\": \"Page\"}" -- wrong_task: the answer says `kind` is "Page", but the task's is "page"
            "{\"kind\": {}}" -- wrong_task: the answer says `kind` is {}, but the task's is "page"
        "#]],
    );
    // A model that has no room for it does not make another task's answer this one's.
    let outputs = json!({"models": {"M": {"type": "model", "fields": {"x": {"type": "int"}}}}});
    let outputs: StructuredOutputs = serde_json::from_value(outputs).expect("it is well-formed");
    let shape = crate::shape::compile(&outputs).0.model("M").cloned();
    check(
        shape.as_ref(),
        &kind,
        &[
            "{\"x\": 1}",
            "{\"x\": 1, \"task_id\": \"a\"}",
            "{\"x\": 1, \"task_id\": \"b\"}",
            "{\"x\": 1, \"kind\": \"row\"}",
        ],
        expect![[r#"
            "{\"x\": 1}" -> {"x":1,"task_id":"a","kind":"page","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"x\": 1, \"task_id\": \"a\"}" -> {"x":1,"task_id":"a","kind":"page","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped ["/task_id"]
            "{\"x\": 1, \"task_id\": \"b\"}" -- wrong_task: the answer says `task_id` is "b", but the task's is "a"
            "{\"x\": 1, \"kind\": \"row\"}" -- wrong_task: the answer says `kind` is "row", but the task's is "page"
        "#]],
    );
    check(
        None,
        &kind,
        &[
            "{\"PageOutput\": {\"task_id\": \"b\", \"files\": []}}",
            "{\"PageOutput\": {\"task_id\": \"a\", \"kind\": \"page\"}}",
        ],
        expect![[r#"
            "{\"PageOutput\": {\"task_id\": \"b\", \"files\": []}}" -- wrong_task: the answer says `task_id` is "b", but the task's is "a"
            "{\"PageOutput\": {\"task_id\": \"a\", \"kind\": \"page\"}}" -> {"PageOutput":{"task_id":"a","kind":"page"},"task_id":"a","kind":"page","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
        "#]],
    );
}

#[test]
fn stamps_are_the_engines() {
    check(
        None,
        &terms(&["x.md"]),
        &[
            "{\"_task_id\": \"z\", \"_worker_agent\": \"root\", \"_owned_paths\": [\"/\"], \"code_files\": [{\"path\": \"x.md\", \"content\": \"1\"}]}",
        ],
        expect![[r#"
            "{\"_task_id\": \"z\", \"_worker_agent\": \"root\", \"_owned_paths\": [\"/\"], \"code_files\": [{\"path\": \"x.md\", \"content\": \"1\"}]}" -> {"_task_id":"a","_worker_agent":"A","_owned_paths":["x.md"],"code_files":[{"filename":"x.md","content":"1"}],"task_id":"a"} files ["x.md"] dropped []
        "#]],
    );
}

#[test]
fn files_stand_in_any_of_the_known_lists() {
    check(
        None,
        &free(),
        &[
            "{\"files\": [{\"path\": \"b\", \"content\": \"1\"}, {\"filename\": \"a\", \"filecontent\": \"2\"}]}",
            "{\"code_files\": [{\"path\": \"a\", \"content\": \"1\"}], \"files\": [{\"path\": \"./a\", \"content\": \"2\"}]}",
            "{\"service_foundation_bundle\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}}",
            "{\"XOutput\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}}",
            "{\"XOutput\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}, \"y\": 1}",
            "{\"files\": [{\"path\": \"a\", \"size\": 3}, {\"name\": \"a\", \"content\": \"1\"}, 3, null, [\"a\"]]}",
            "{\"files\": {\"a\": \"1\"}, \"js_files\": \"text\", \"deep\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}}",
            "{\"files\": [{\"path\": \"\", \"filename\": \"a\", \"content\": \"\"}]}",
        ],
        expect![[r#"
            "{\"files\": [{\"path\": \"b\", \"content\": \"1\"}, {\"filename\": \"a\", \"filecontent\": \"2\"}]}" -> {"files":[{"path":"b","content":"1"},{"filename":"a","filecontent":"2"}],"task_id":"a","code_files":[{"filename":"a","content":"2"},{"filename":"b","content":"1"}],"_task_id":"a","_worker_agent":"A","_owned_paths":[]} files ["a", "b"] dropped []
            "{\"code_files\": [{\"path\": \"a\", \"content\": \"1\"}], \"files\": [{\"path\": \"./a\", \"content\": \"2\"}]}" -> {"code_files":[{"filename":"a","content":"2"}],"files":[{"path":"./a","content":"2"}],"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files ["a"] dropped []
            "{\"service_foundation_bundle\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}}" -> {"service_foundation_bundle":{"files":[{"path":"a","content":"1"}]},"task_id":"a","code_files":[{"filename":"a","content":"1"}],"_task_id":"a","_worker_agent":"A","_owned_paths":[]} files ["a"] dropped []
            "{\"XOutput\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}}" -> {"XOutput":{"files":[{"path":"a","content":"1"}]},"task_id":"a","code_files":[{"filename":"a","content":"1"}],"_task_id":"a","_worker_agent":"A","_owned_paths":[]} files ["a"] dropped []
            "{\"XOutput\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}, \"y\": 1}" -> {"XOutput":{"files":[{"path":"a","content":"1"}]},"y":1,"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"files\": [{\"path\": \"a\", \"size\": 3}, {\"name\": \"a\", \"content\": \"1\"}, 3, null, [\"a\"]]}" -> {"files":[{"path":"a","size":3},{"name":"a","content":"1"},3,null,["a"]],"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"files\": {\"a\": \"1\"}, \"js_files\": \"text\", \"deep\": {\"files\": [{\"path\": \"a\", \"content\": \"1\"}]}}" -> {"files":{"a":"1"},"js_files":"text","deep":{"files":[{"path":"a","content":"1"}]},"task_id":"a","_task_id":"a","_worker_agent":"A","_owned_paths":[]} files [] dropped []
            "{\"files\": [{\"path\": \"\", \"filename\": \"a\", \"content\": \"\"}]}" -> {"files":[{"path":"","filename":"a","content":""}],"task_id":"a","code_files":[{"filename":"a","content":""}],"_task_id":"a","_worker_agent":"A","_owned_paths":[]} files ["a"] dropped []
        "#]],
    );
}

#[test]
fn files_are_refused_with_every_reason() {
    check(
        None,
        &free(),
        &[
            "{\"files\": [{\"path\": \"../x\", \"content\": \"1\"}, {\"path\": \"/etc/passwd\", \"content\": \"1\"}, {\"path\": \"C:\\\\x\", \"content\": \"1\"}]}",
            "{\"files\": [{\"path\": \"a\\u0000\", \"content\": \"1\"}, {\"path\": \"dir/\", \"content\": \"1\"}, {\"path\": \" \", \"content\": \"1\"}]}",
            "{\"files\": [{\"path\": \"a\", \"content\": \"1\"}, {\"path\": \"./a\", \"content\": \"2\"}]}",
            "{\"files\": [{\"path\": \"a\", \"content\": \"123456789012345678901\"}]}",
            "{\"files\": [{\"path\": \"a\", \"content\": \"12345678901234567890\"}]}",
            "{\"files\": [{\"path\": \"a\", \"content\": \"123456789012345678901\"}, {\"path\": \"../b\", \"content\": \"1\"}]}",
            "{\"files\": [{\"path\": \"a/b\", \"content\": \"1\"}, {\"path\": \"a\", \"content\": \"1\"}]}",
            "{\"files\": [{\"path\": \"a.md\", \"content\": \"1\"}, {\"path\": \"A.md\", \"content\": \"1\"}]}",
        ],
        expect![[r#"
            "{\"files\": [{\"path\": \"../x\", \"content\": \"1\"}, {\"path\": \"/etc/passwd\", \"content\": \"1\"}, {\"path\": \"C:\\\\x\", \"content\": \"1\"}]}" -- outside_owned_paths: the path `../x` cannot be written: it has a part `..`; the path `/etc/passwd` cannot be written: it is absolute; the path `C:\x` cannot be written: it starts with the letter of a drive
            "{\"files\": [{\"path\": \"a\\u0000\", \"content\": \"1\"}, {\"path\": \"dir/\", \"content\": \"1\"}, {\"path\": \" \", \"content\": \"1\"}]}" -- outside_owned_paths: the path `a\0` cannot be written: it has the control character `\0`; the path `dir/` cannot be written: it names a folder, not a file; the path ` ` cannot be written: it is blank
            "{\"files\": [{\"path\": \"a\", \"content\": \"1\"}, {\"path\": \"./a\", \"content\": \"2\"}]}" -- outside_owned_paths: `a` stands twice in `files`
            "{\"files\": [{\"path\": \"a\", \"content\": \"123456789012345678901\"}]}" -- too_long: `a` is 21 bytes long; 20 are allowed
            "{\"files\": [{\"path\": \"a\", \"content\": \"12345678901234567890\"}]}" -> {"files":[{"path":"a","content":"12345678901234567890"}],"task_id":"a","code_files":[{"filename":"a","content":"12345678901234567890"}],"_task_id":"a","_worker_agent":"A","_owned_paths":[]} files ["a"] dropped []
            "{\"files\": [{\"path\": \"a\", \"content\": \"123456789012345678901\"}, {\"path\": \"../b\", \"content\": \"1\"}]}" -- outside_owned_paths: the path `../b` cannot be written: it has a part `..`; `a` is 21 bytes long; 20 are allowed
            "{\"files\": [{\"path\": \"a/b\", \"content\": \"1\"}, {\"path\": \"a\", \"content\": \"1\"}]}" -- outside_owned_paths: the file `a` would have to be a folder too, for `a/b`
            "{\"files\": [{\"path\": \"a.md\", \"content\": \"1\"}, {\"path\": \"A.md\", \"content\": \"1\"}]}" -- outside_owned_paths: the files `A.md` and `a.md` differ by case only
        "#]],
    );
}

#[test]
fn files_stay_inside_what_the_task_owns() {
    let answer = |path: &str| {
        json!({"files": [{"path": path, "content": "1"}, {"path": "x.md", "content": "1"}]})
            .to_string()
    };
    let answers = [
        "out/a.md",
        "out/deep/er/a.md",
        "out\\a.md",
        "out/./a.md",
        "out/../x.md",
        "./out/a.md",
        "Out/a.md",
        "out",
        "out ",
        "out/a.md ",
        "out/a.md.",
        "out../a.md",
        "outer/a.md",
        "out/caf\u{e9}",
        "ou\u{74}/a",
        "o\u{301}ut/a",
        "out/a\u{202e}dm",
        "X.md",
        "docs/a.md",
        "docs/a.txt",
    ]
    .map(answer);
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let terms = terms(&["x.md", "out/", "docs/*.md"]);
    let lines = answers
        .iter()
        .map(|answer| match task(answer, None, &terms) {
            Ok(output) => {
                let files: Vec<&str> = output.files.iter().map(|it| it.path.as_str()).collect();
                format!("{files:?}\n")
            }
            Err(rejection) => format!("-- {rejection}\n"),
        });
    expect![[r#"
        ["out/a.md", "x.md"]
        ["out/deep/er/a.md", "x.md"]
        ["out/a.md", "x.md"]
        ["out/a.md", "x.md"]
        -- outside_owned_paths: the path `out/../x.md` cannot be written: it has a part `..`
        ["out/a.md", "x.md"]
        -- outside_owned_paths: the file `Out/a.md` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`
        -- outside_owned_paths: the file `out` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`
        -- outside_owned_paths: the file `out` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`
        ["out/a.md", "x.md"]
        ["out/a.md.", "x.md"]
        -- outside_owned_paths: the file `out../a.md` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`
        -- outside_owned_paths: the file `outer/a.md` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`
        ["out/café", "x.md"]
        ["out/a", "x.md"]
        -- outside_owned_paths: the file `óut/a` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`
        ["out/a\u{202e}dm", "x.md"]
        -- outside_owned_paths: the file `X.md` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`; the files `X.md` and `x.md` differ by case only
        ["docs/a.md", "x.md"]
        -- outside_owned_paths: the file `docs/a.txt` is outside the owned paths, which are `x.md`, `out/`, `docs/*.md`
    "#]].assert_eq(&lines.collect::<String>());
}

#[test]
fn a_task_that_is_held_to_its_paths_writes_all_of_them() {
    check(
        None,
        &terms(&["a.md", "b.md", "c/"]),
        &[
            "{}",
            "words",
            "{\"files\": [{\"path\": \"b.md\", \"content\": \"\"}]}",
        ],
        expect![[r#"
            "{}" -- outside_owned_paths: the owned file `a.md` is not emitted; the owned file `b.md` is not emitted
            "words" -- outside_owned_paths: the owned file `a.md` is not emitted; the owned file `b.md` is not emitted
            "{\"files\": [{\"path\": \"b.md\", \"content\": \"\"}]}" -- outside_owned_paths: the owned file `a.md` is not emitted
        "#]],
    );
}

#[test]
fn a_turn_outside_a_batch() {
    let check = |shape: Option<&Shape>, answers: &[&str], expect: Expect| {
        let lines = answers.iter().map(|answer| match turn(answer, shape) {
            Ok(said) => {
                let read = said.read.map(How::as_str);
                format!(
                    "{answer:?} -> {} dropped {:?} {read:?}\n",
                    said.value, said.dropped
                )
            }
            Err(rejection) => format!("{answer:?} -- {rejection}\n"),
        });
        expect.assert_eq(&lines.collect::<String>());
    };
    check(
        None,
        &[
            "{\"x\": 1}",
            "7",
            "so {\"x\": 1}",
            "",
            "<think>hm</think>{\"x\": 1}",
        ],
        expect![[r#"
            "{\"x\": 1}" -> {"x":1} dropped [] Some("strict")
            "7" -> "7" dropped [] None
            "so {\"x\": 1}" -> "so {\"x\": 1}" dropped [] None
            "" -> "" dropped [] None
            "<think>hm</think>{\"x\": 1}" -> "<think>hm</think>{\"x\": 1}" dropped [] None
        "#]],
    );
    check(
        Some(&shape()),
        &[
            "{\"text\": \"x\", \"y\": 1}",
            "words",
            "",
            "<think>{\"text\": \"wrong\"}</think>{\"text\": \"right\"}",
            "<think>{\"text\": \"wrong\"}",
            "<think>hm</think>",
        ],
        expect![[r#"
            "{\"text\": \"x\", \"y\": 1}" -> {"task_id":null,"text":"x"} dropped ["/y"] Some("strict")
            "words" -- not_json: not JSON: expected value at line 1 column 1, near `words`
            "" -- empty: the answer is empty
            "<think>{\"text\": \"wrong\"}</think>{\"text\": \"right\"}" -> {"task_id":null,"text":"right"} dropped [] Some("after_thought")
            "<think>{\"text\": \"wrong\"}" -- truncated: cut off: the `<think>` at byte 0 never ends, near `<think>{"text": "wrong"}`
            "<think>hm</think>" -- empty: the answer is empty
        "#]],
    );
    let file = json!({"files": [{"path": "a", "content": "1"}]});
    let files = Output::files_of(&file, 1).expect("it can be written");
    assert_eq!(files.len(), 1);
    assert!(Output::files_of(&file, 0).is_err());
    assert_eq!(json("```\n[1]\n```").expect("it is JSON").value, json!([1]));
}

#[test]
fn a_large_answer_is_judged_in_time() {
    let long = "x".repeat(8 << 20);
    let answer = json!({ "text": long }).to_string();
    let output = task(&answer, Some(&shape()), &free()).expect("it fits");
    assert_eq!(output.value["text"].as_str().map(str::len), Some(8 << 20));
    let noise = "{[\"`".repeat(1 << 20);
    let rejection = task(&noise, Some(&shape()), &free()).expect_err("it is no JSON");
    assert!(rejection.message.len() < 400, "{}", rejection.message);
}
