//! The interpreters that Python functions run in: how many there are, and what ends one.

use super::*;

#[tokio::test]
async fn calls_run_side_by_side_each_in_an_interpreter_of_its_own() {
    let world = functions(&["meet", "slowly", "where"]);
    for name in ["meet", "slowly"] {
        let [me, other] = ["a", "b"].map(|it| world.folder.path().join(format!("{name}.{it}")));
        let (there, back) = (
            json!({"me": me, "other": other}),
            json!({"me": other, "other": me}),
        );
        let (there, back) = (there.to_string(), back.to_string());
        let (one, two) = tokio::join!(world.call(name, &there), world.call(name, &back));
        assert_ne!(one, two);
        let next = world.call("where", "").await;
        assert!([one, two].contains(&next), "{next} has nothing to do");
    }
}

#[tokio::test]
async fn calls_one_after_the_other_have_the_same_interpreter() {
    let names = [
        "keeps",
        "runs",
        "closes",
        "runs",
        "reads_own",
        "left",
        "floods",
        "each",
        "keeps",
    ];
    let world = functions(&names);
    let mut said = Vec::new();
    for name in names {
        said.push(world.call(name, "").await);
    }
    let each = "error: TypeError: a async_generator cannot be written as JSON";
    let expected = ["1", "inner", "/", "inner", "\n", "1", "done", each, "2"];
    assert_eq!(
        said, expected,
        "what one leaves behind does the next no harm"
    );
}

#[tokio::test]
async fn whoever_ends_an_interpreter_fails_alone_and_the_next_call_has_another() {
    let names = ["dies", "overflows", "mutes", "forks", "leaves_a_child"];
    let world = functions(&[&names[..], &["meet", "where"]].concat());
    let mut text = String::new();
    for name in names {
        let [me, other] = ["a", "b"].map(|it| world.folder.path().join(format!("{name}.{it}")));
        let meet = json!({"me": me, "other": other}).to_string();
        let beside = world.call("meet", &meet);
        let dies = async {
            while !me.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let died = world.call(name, "").await;
            fs::write(other, "").unwrap();
            died
        };
        let (beside, died) = tokio::join!(beside, dies);
        assert!(beside.parse::<u32>().is_ok(), "{name}: {beside}");
        let next = world.call("where", "").await;
        assert!(next.parse::<u32>().is_ok(), "{name}: {next}");
        text.push_str(&format!("{name}: {died}\n"));
    }
    expect![[r#"
        dies: error: it ended the Python interpreter: exit status: 7; it said: last words
        overflows: error: it ended the Python interpreter: signal: 11 (SIGSEGV)
        mutes: error: it ended the Python interpreter: exit status: 1; it said: the function closed files that it had not opened
        forks: parent
        leaves_a_child: error: it ended the Python interpreter: exit status: 5
    "#]].assert_eq(&text);
}

#[tokio::test]
async fn a_call_that_hangs_is_given_up_and_ended() {
    for name in ["hangs", "blocks"] {
        let mut slow = function(name);
        slow.timeout = Duration::from_millis(500);
        slow.parameters = Some(Map::new());
        slow.description = Some(String::new());
        let world = world(vec![slow, function("where")]);
        let before = world.call("where", "").await;
        let begun = Instant::now();
        let error = world.call(name, "").await;
        assert_eq!(error, "error: no result within 0.5 seconds");
        assert!(begun.elapsed() < Duration::from_secs(20));
        let after = world.call("where", "").await;
        assert!(after.parse::<u32>().is_ok() && after != before, "{after}");
        ends(&before).await;
    }
}

/// Waits for the end of a process.
async fn ends(pid: &str) {
    let is_there = || {
        let mut kill = std::process::Command::new("kill");
        let kill = kill.args(["-0", pid]).stderr(std::process::Stdio::null());
        kill.status().unwrap().success()
    };
    while is_there() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
