use std::{future::Future, pin::pin, task::Poll};

use expect_test::expect;
use serde_json::json;

use super::*;

#[tokio::test]
async fn each_way_not_to_answer_is_a_kind_of_failure() {
    let error =
        |code: i64, message: &str| Reaction::Error(json!({"code": code, "message": message}));
    let raw = |status: &str, header: &str, body: &str| {
        let length = body.len();
        Reaction::Raw(format!(
            "HTTP/1.1 {status}\r\n{header}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ))
    };
    let events = |last: Value| Reaction::Events(vec![task("TASK_STATE_WORKING"), last]);
    let said = |state: &str| events(says(state, "because"));
    let boom = json!({"id": 1, "error": {"code": -32603, "message": format!("boom {KEY}")}});
    let cases = [
        said("TASK_STATE_FAILED"),
        said("TASK_STATE_REJECTED"),
        said("TASK_STATE_CANCELED"),
        said("TASK_STATE_INPUT_REQUIRED"),
        said("TASK_STATE_AUTH_REQUIRED"),
        events(status("TASK_STATE_FAILED")),
        events(status("TASK_STATE_COMPLETED")),
        Reaction::Events(vec![
            task("TASK_STATE_WORKING"),
            status("TASK_STATE_FAILED"),
            boom.clone(),
        ]),
        Reaction::Events(vec![boom]),
        error(-32603, &format!("raw {KEY}")),
        error(-32001, "no such task"),
        error(-32004, ""),
        error(-32009, "0.3 only"),
        error(-32601, "no such method"),
        error(-32602, "parts are missing"),
        raw("429 Too Many Requests", "retry-after: 7\r\n", ""),
        raw("503 Service Unavailable", "", "busy"),
        raw("401 Unauthorized", "", &format!("not {KEY}")),
        raw("404 Not Found", "", ""),
        raw("302 Found", "location: http://127.0.0.1:1/\r\n", ""),
    ];
    let mut shown = String::new();
    for reaction in cases {
        let over = Over::new([reaction]).await;
        let agent = over.agent(json!({"api_key_env": "THEIR_KEY"}));
        shown.push_str(&ask(&*agent, testing::question()).await);
        agent.close().await;
        let calls = over.methods();
        let calls = calls.strip_prefix("SendStreamingMessage").unwrap();
        shown.push_str(&format!("{calls}\n"));
    }
    expect![[r#"
        agent_failed: the agent failed: because
        refused: the agent declined: because
        agent_failed: the agent says that its task was cancelled: because
        asked_back: the agent asks back: because CancelTask
        authentication: the agent wants to be authorised: because CancelTask
        agent_failed: the agent failed
        empty: the agent's answer has neither a text nor data
        agent_failed: the agent failed (code -32603): boom [key]
        agent_failed: the agent failed (code -32603): boom [key]
        agent_failed: the agent failed (code -32603): raw [key]
        agent_failed: the agent does not know its task (code -32001): no such task
        bad_request: the agent cannot do that (code -32004)
        bad_request: the agent speaks another version (code -32009): 0.3 only
        bad_request: the agent does not understand us (code -32601): no such method
        bad_request: the agent does not understand us (code -32602): parts are missing
        rate_limited: the endpoint answered with status 429 (after 7s)
        overloaded: the endpoint answered with status 503: busy
        authentication: the endpoint answered with status 401: not [key]
        not_found: the endpoint answered with status 404
        bad_request: the endpoint answered with status 302
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn nobody_there_is_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let agent = agent(&url, json!({})).unwrap_or_else(|error| panic!("{error:?}"));
    let told = ask(&*agent, testing::question()).await;
    let told = told.split(" (os error").next().unwrap_or_default();
    assert_eq!(
        told,
        "connection: cannot reach the agent: Connection refused"
    );
}

#[tokio::test]
async fn a_lost_stream_is_made_up_for_by_asking_after_the_task() {
    let working = vec![
        task("TASK_STATE_WORKING"),
        piece("a", json!({"text": "ha"}), false),
    ];
    let whole = json!({
        "id": "t-1",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "a", "parts": [{"text": "half and half"}]}],
    });
    let script = [
        Reaction::Events(working),
        Reaction::Raw(
            "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
        ),
        Reaction::Result(whole),
    ];
    let over = Over::new(script).await;
    let agent = over.agent(json!({}));
    assert_eq!(ask(&*agent, testing::question()).await, "half and half");
    agent.close().await;
    assert_eq!(over.methods(), "SendStreamingMessage GetTask GetTask");
}

#[tokio::test]
async fn a_task_that_is_forgotten_over_there_is_a_failure() {
    let script = [
        Reaction::Events(vec![task("TASK_STATE_WORKING")]),
        Reaction::Error(json!({"code": -32001, "message": "no such task"})),
    ];
    let over = Over::new(script).await;
    assert_eq!(
        ask(&*over.agent(json!({})), testing::question()).await,
        "agent_failed: the agent does not know its task (code -32001): no such task"
    );
}

#[tokio::test]
async fn an_agent_that_falls_silent_is_given_up_and_told_so() {
    let cancelled = json!({"id": "t-1", "status": {"state": "TASK_STATE_CANCELED"}});
    let script = [
        Reaction::Silence(vec![task("TASK_STATE_WORKING")]),
        Reaction::Result(cancelled),
    ];
    let over = Over::new(script).await;
    let agent = over.agent(json!({"idle_timeout_seconds": 1}));
    assert_eq!(
        ask(&*agent, testing::question()).await,
        "idle_timeout: the agent sent nothing for 1 seconds"
    );
    agent.close().await;
    assert_eq!(over.methods(), "SendStreamingMessage CancelTask");
}

/// Asks until a method was called, and waits for the answer no more.
async fn give_up(agent: &dyn Agent, over: &Over, method: &str) {
    let answer = agent.ask(testing::question());
    tokio::select! {
        answer = answer => panic!("there is an answer: {answer:?}"),
        () = over.when_called(method) => (),
    }
}

#[tokio::test]
async fn a_task_nobody_waits_for_is_cancelled() {
    let working = || vec![task("TASK_STATE_WORKING")];
    let told = Arc::new(Notify::new());
    let streams = [
        Reaction::Silence(working()),
        // It has no name yet when nobody waits for it any more.
        Reaction::When(Arc::clone(&told), Box::new(Reaction::Silence(working()))),
    ];
    for stream in streams {
        let cancelled = json!({"id": "t-1", "status": {"state": "TASK_STATE_CANCELED"}});
        let over = Over::new([stream, Reaction::Result(cancelled)]).await;
        let agent = over.agent(json!({}));
        give_up(&*agent, &over, "SendStreamingMessage").await;
        told.notify_one();
        agent.close().await;
        assert_eq!(over.methods(), "SendStreamingMessage CancelTask");
        assert_eq!(over.called.borrow()[2].1, json!({"id": "t-1"}));
    }
}

#[tokio::test]
async fn a_task_that_is_asked_after_is_cancelled_too() {
    let working = json!({"id": "t-1", "status": {"state": "TASK_STATE_WORKING"}});
    let script = [
        Reaction::Result(task("TASK_STATE_SUBMITTED")),
        Reaction::Result(working.clone()),
        Reaction::Result(working.clone()),
        Reaction::Result(working),
    ];
    let over = Over::with_card(|url| card(url, false), script).await;
    let agent = over.agent(json!({}));
    give_up(&*agent, &over, "GetTask").await;
    agent.close().await;
    let methods = over.methods();
    assert!(methods.ends_with(" CancelTask"), "{methods}");
}

#[tokio::test]
async fn an_answer_that_is_over_or_was_never_asked_for_leaves_nothing_to_cancel() {
    let over = Over::new([Reaction::Events(vec![json!({"message": message("hi")})])]).await;
    let agent = over.agent(json!({}));
    assert_eq!(ask(&*agent, testing::question()).await, "hi");
    let mut unasked = pin!(agent.ask(testing::question()));
    drop(std::future::poll_fn(|cx| {
        Poll::Ready(unasked.as_mut().poll(cx).is_pending())
    }));
    agent.close().await;
    assert!(!over.methods().contains("Cancel"), "{}", over.methods());
}
