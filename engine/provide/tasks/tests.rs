use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::{super::peers::Peers, *};

fn done(bytes: usize) -> Done {
    Done {
        outcome: Ok(json!("x")),
        bytes,
    }
}

fn wanted(bytes: usize, mark: Mark) -> Wanted {
    let until = Instant::now();
    Wanted { bytes, mark, until }
}

fn mark(tasks: &Tasks) -> Mark {
    tasks.mark("what", Some(&json!("input")))
}

fn shown(coming: &Coming) -> Option<Result<Value, String>> {
    let shown = coming.shown(|it| it.outcome.clone());
    let shown = shown.and_then(|it| it).map_err(|it| it.message);
    (shown != Err("it is lost".to_owned())).then_some(shown)
}

#[test]
fn what_is_not_taken_is_not_kept_for_ever() {
    let limits = Limits {
        remembered_bytes: 100,
        ..Limits::default()
    };
    let (tasks, peers) = (Tasks::new(&limits), Peers::new(&limits));
    let peer = peers.at(Ipv4Addr::LOCALHOST.into());
    let mut enter = |id: &str| {
        tasks
            .enter(id, wanted(1, mark(&tasks)), &peer)
            .expect("there is room")
            .0
    };
    let [a, b] = ["a", "b"].map(&mut enter);
    assert_eq!(shown(&a), None);
    tasks.end("a", done(50));
    assert_eq!(shown(&a), Some(Ok(json!("x"))));
    tasks.end("b", done(50));
    // Whoever waits learns it, and asks anew.
    assert!(shown(&a).is_some_and(|it| it.is_err_and(|it| it.contains("not taken"))));
    assert_eq!(shown(&b), Some(Ok(json!("x"))));
    assert_eq!(shown(&enter("a")), None);
    assert_eq!(shown(&enter("b")), Some(Ok(json!("x"))));
}

#[tokio::test]
async fn a_task_is_stopped_for_those_who_wait_and_not_for_those_who_come_later() {
    let limits = Limits::default();
    let (tasks, peers) = (Tasks::new(&limits), Peers::new(&limits));
    let peer = peers.at(Ipv4Addr::LOCALHOST.into());
    let enter = |id: &str| {
        tasks
            .enter(id, wanted(1, mark(&tasks)), &peer)
            .expect("there is room")
    };
    let cancelled = Some(Err("it was cancelled".to_owned()));
    let (_, new) = enter("under way");
    tasks.cancel("under way", &peer);
    let why = new.expect("it is new").stopped.wait().await;
    assert_eq!(why.code, wire::CANCELLED);
    // It is done, and somebody takes what came of it.
    let (before, _) = enter("done");
    tasks.end("done", done(1));
    assert_eq!(shown(&before), Some(Ok(json!("x"))));
    tasks.cancel("done", &peer);
    assert_eq!(shown(&before), cancelled);
    assert_eq!(shown(&enter("done").0), Some(Ok(json!("x"))));
    tasks.cancel("nobody's", &peer);
}

#[test]
fn tasks_from_one_address_leave_room_for_those_from_others() {
    let limits = Limits {
        open_bytes: 80,
        ..Limits::default()
    };
    let (tasks, peers) = (Tasks::new(&limits), Peers::new(&limits));
    let [here, there] = [1, 2].map(|it| peers.at(Ipv4Addr::new(192, 0, 2, it).into()));
    let enters =
        |id: &str, bytes: usize, peer| tasks.enter(id, wanted(bytes, mark(&tasks)), peer).is_ok();
    assert!(enters("a", 60, &here) && !enters("b", 11, &here) && enters("b", 10, &here));
    assert!(!enters("c", 11, &there) && enters("c", 10, &there));
    // What is known already needs no room.
    assert!(enters("a", 60, &there));
    tasks.end("a", done(1));
    assert!(enters("d", 60, &here));
}

#[test]
fn an_id_is_of_one_task() {
    let limits = Limits::default();
    let (tasks, peers) = (Tasks::new(&limits), Peers::new(&limits));
    let peer = peers.at(Ipv4Addr::LOCALHOST.into());
    let (one, other) = (json!({ "a": 1, "b": 2 }), json!({ "a": 1, "b": 3 }));
    let enters = |what: &str, input: Option<&Value>| {
        let entered = tasks.enter("t", wanted(1, tasks.mark(what, input)), &peer);
        entered.map(|it| it.1.is_some()).map_err(|it| it.code)
    };
    assert_eq!(enters("x", Some(&one)), Ok(true));
    for is_done in [false, true] {
        if is_done {
            tasks.end("t", done(1));
        }
        assert_eq!(enters("x", Some(&json!({ "b": 2, "a": 1 }))), Ok(false));
        // What comes in chunks may be the same.
        assert_eq!(enters("x", None), Ok(false));
        assert_eq!(enters("x", Some(&other)), Err(wire::BAD_PARAMS));
        assert_eq!(enters("y", Some(&one)), Err(wire::BAD_PARAMS));
        assert_eq!(enters("y", None), Err(wire::BAD_PARAMS));
    }
}
