use std::{fs, path::Path, sync::Arc, time::Duration};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    super::{Agent, Request, env::Env, testing},
    child::KEPT,
};

/// An agent that runs `argv` in a folder of its own, in an environment with a secret.
fn program(argv: Value, more: Value) -> (Arc<dyn Agent>, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut runtime = json!({ "kind": "command", "argv": argv });
    runtime
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let path = std::env::var("PATH").unwrap();
    let env = Env::fixed([
        ("PATH", path.as_str()),
        ("SECRET", "s"),
        ("TOKEN", "t"),
        ("LANG", "C"),
    ]);
    let agent = testing::agent(runtime, home.path(), &env).unwrap();
    (agent, home)
}

fn shell(script: &str) -> (Arc<dyn Agent>, TempDir) {
    program(json!(["sh", "-c", script]), json!({}))
}

/// A request that no pipe can hold.
fn large() -> Request {
    let mut request = testing::question();
    request.prompt.user = "x".repeat(1 << 19);
    request
}

async fn check(script: &str, expected: Expect) {
    let (agent, _home) = shell(script);
    expected.assert_eq(&testing::show(&agent.ask(large()).await));
}

#[tokio::test]
async fn requests() {
    let (agent, _home) = shell("cat");
    let read = async |request| {
        let text = agent.ask(request).await.unwrap().text;
        let value: Value = serde_json::from_str(&text).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    };
    expect![[r#"
        {
          "agent": "Worker",
          "task_id": null,
          "attempt": 1,
          "idempotency_key": "run:turn:1",
          "prompt": {
            "system": "be brief",
            "user": "hello"
          },
          "context": {
            "input": "hello",
            "names": [
              "Ada",
              "Ben"
            ]
          }
        }"#]]
    .assert_eq(&read(testing::question()).await);
    expect![[r#"
        {
          "agent": "Worker",
          "task_id": "b",
          "attempt": 1,
          "idempotency_key": "run:turn:1",
          "prompt": {
            "system": "be brief",
            "user": "hello"
          },
          "context": {
            "current_task": {
              "task_id": "b"
            },
            "current_task_batch_id": "batch",
            "current_task_id": "b",
            "dependency_task_outputs": {
              "a": {
                "done": true
              }
            },
            "goal": "more",
            "input": "hello",
            "names": [
              "Ada",
              "Ben"
            ],
            "status": "running",
            "task_run_mode": true,
            "decomposition_plan_file": "/run/plan.json",
            "completed_task_outputs_file": "/run/outputs.jsonl",
            "completed_task_outputs_count": 1
          }
        }"#]]
    .assert_eq(&read(testing::task()).await);

    let (agent, _home) = program(json!(["cat"]), json!({ "inline": true }));
    assert!(!agent.reads_files());
    let text = agent.ask(testing::task()).await.unwrap().text;
    let value: Value = serde_json::from_str(&text).unwrap();
    let large = ["decomposition_plan", "completed_task_outputs", "results"];
    let large = large.map(|it| value["context"][it].to_string());
    expect![[r#"
        {"batch_id":"batch","tasks":[{"task_id":"a"},{"task_id":"b"}]}
        {"a":{"done":true}}
        {"a":{"done":true}}"#]]
    .assert_eq(&large.join("\n"));
}

#[tokio::test]
async fn input_that_is_not_read() {
    check(
        "echo '{}'",
        expect![[r#"
        {}
    "#]],
    )
    .await;
    check(
        "exec 0<&-; echo '{}'",
        expect![[r#"
        {}
    "#]],
    )
    .await;
    check(
        "head -c 1 >/dev/null; exec 0<&-; echo 1",
        expect![[r#"
            1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn much_in_and_much_out() {
    let (agent, _home) = shell("tee /dev/stderr");
    let reply = agent.ask(large()).await.unwrap();
    assert!(reply.text.len() > 1 << 19);
}

#[tokio::test]
async fn ends() {
    check(
        "cat > /dev/null; echo bad >&2; exit 3",
        expect!["program_failed: `sh` ended with exit status: 3; it said: bad"],
    )
    .await;
    check(
        "kill -9 $$",
        expect!["program_failed: `sh` ended with signal: 9 (SIGKILL)"],
    )
    .await;
    check(
        "true",
        expect!["empty: `sh` printed nothing on its standard output"],
    )
    .await;
    check(
        "echo said >&2; echo",
        expect!["empty: `sh` printed nothing on its standard output; it said: said"],
    )
    .await;
    check(
        r"printf 'ab\377'",
        expect!["not_json: `sh` printed what is not UTF-8, from byte 2 on"],
    )
    .await;
    check(
        "yes",
        expect!["too_long: `sh` printed more than the 1048576 bytes that are allowed"],
    )
    .await;
    check(
        "exec 1>&- 2>&-; cat > /dev/null; exit 4",
        expect!["program_failed: `sh` ended with exit status: 4"],
    )
    .await;
}

#[tokio::test]
async fn long_complaints_keep_both_ends() {
    let (agent, _home) = shell("echo first >&2; yes | head -c 100000 >&2; echo last >&2; exit 1");
    let rejection = agent.ask(testing::question()).await.unwrap_err();
    let message = rejection.message;
    assert!(message.len() < 2 * KEPT + 200, "{}", message.len());
    assert!(
        message.contains("it said: first\n") && message.ends_with("last"),
        "{message}"
    );
    assert!(message.contains(" [91820 bytes left out]\n"), "{message}");
}

#[tokio::test]
async fn programs_that_do_not_start() {
    let shown = async |argv: &str, more| {
        let (agent, home) = program(json!([argv]), more);
        fs::write(home.path().join("plain"), "").unwrap();
        let shown = testing::show(&agent.ask(testing::question()).await);
        shown.replace(&*home.path().to_string_lossy(), "HOME")
    };
    expect!["not_found: cannot start `no-such-program`: No such file or directory (os error 2)"]
        .assert_eq(&shown("no-such-program", json!({})).await);
    expect![
        "not_found: cannot start `HOME/./no-such-program`: No such file or directory (os error 2)"
    ]
    .assert_eq(&shown("./no-such-program", json!({})).await);
    expect!["not_found: cannot start `HOME/./plain`: Permission denied (os error 13)"]
        .assert_eq(&shown("./plain", json!({})).await);
    expect!["not_found: cannot start `sh`: there is no folder `HOME/nowhere` to run it in"]
        .assert_eq(&shown("sh", json!({ "cwd": "nowhere" })).await);
}

#[tokio::test]
async fn folders_and_environment() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("sub")).unwrap();
    // A link, because a program that was just written may be busy.
    std::os::unix::fs::symlink("/bin/sh", home.path().join("run")).unwrap();
    let script = "echo \\\"$(basename \"$PWD\") $0 $LANG-$TOKEN-$SECRET\\\"";
    let runtime = json!({
        "kind": "command",
        "argv": ["./run", "-c", script, "$HOME"],
        "cwd": "sub",
        "env": ["TOKEN", "UNSET"],
    });
    let path = std::env::var("PATH").unwrap();
    let env = Env::fixed([
        ("PATH", path.as_str()),
        ("SECRET", "s"),
        ("TOKEN", "t"),
        ("LANG", "C"),
    ]);
    let agent = testing::agent(runtime, home.path(), &env).unwrap();
    let shown = testing::show(&agent.ask(testing::question()).await);
    expect![[r#""sub $HOME C-t-"
"#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn what_is_left_running_does_not_hold_the_answer_up() {
    let (agent, home) = shell("sleep 60 & echo $$ > group; echo '{}'");
    let answer = tokio::time::timeout(Duration::from_secs(30), agent.ask(testing::question()));
    assert_eq!(testing::show(&answer.await.unwrap()), "{}\n");
    let group = group(home.path()).await;
    until(|| members(&group).is_empty().then_some(())).await;
}

/// On a paused clock, the wait for a process that left its group is over at once.
#[tokio::test(start_paused = true)]
async fn nor_does_what_left_the_group() {
    let (agent, _home) = shell("setsid sleep 3 & echo '{}'");
    let answer = agent.ask(testing::question()).await;
    assert_eq!(testing::show(&answer), "{}\n");
}

#[tokio::test]
async fn dropped_answers_leave_nothing_running() {
    let (agent, home) = shell("sleep 60 & echo $$ > group; sleep 60");
    let answer = tokio::spawn(agent.ask(testing::question()));
    let group = group(home.path()).await;
    assert_ne!(members(&group), Vec::<String>::new());
    answer.abort();
    assert!(answer.await.unwrap_err().is_cancelled());
    until(|| members(&group).is_empty().then_some(())).await;
}

/// The number of the process group that the script wrote down.
async fn group(home: &Path) -> String {
    let read = || fs::read_to_string(home.join("group")).ok();
    until(|| Some(read()?.strip_suffix('\n')?.to_owned())).await
}

/// Asks again until there is an answer, for half a minute at most.
async fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(answer) = ask() {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to be");
}

/// The processes of a group that are still running.
fn members(group: &str) -> Vec<String> {
    let stats = fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    let stats = stats.filter(|stat| {
        // After the name in brackets: state, parent, group.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        fields.get(2) == Some(&group) && !matches!(fields[0], "Z" | "X")
    });
    stats.collect()
}
