use std::sync::Arc;

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::{contract::structured_outputs::StructuredOutputs, shape};

/// A question whose answer has a model.
fn structured() -> Request {
    let text = json!({
        "models": {"Score": {"type": "model", "fields": {"score": {"type": "int"}}}},
        "registry": {"Worker": "Score"},
    });
    let outputs: StructuredOutputs = serde_json::from_value(text).unwrap();
    let (shapes, _) = shape::compile(&outputs);
    let mut request = testing::question();
    request.shape = Some(Arc::new(shapes.of_agent("Worker").unwrap().clone()));
    request
}

#[tokio::test]
async fn what_an_agent_makes_or_says_is_its_answer() {
    let done = "TASK_STATE_COMPLETED";
    let data = |artifact| piece(artifact, json!({"data": {"score": 3.0}}), false);
    let text = |it: &str| piece("a", json!({"text": it}), false);
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("a message", vec![json!({"message": message("hi")})]),
        (
            "a status",
            vec![task("TASK_STATE_SUBMITTED"), says(done, "done")],
        ),
        (
            "pieces",
            vec![
                task("TASK_STATE_WORKING"),
                piece("a", json!({"text": "one "}), false),
                piece("a", json!({"text": "two"}), true),
                says(done, "see above"),
            ],
        ),
        (
            "a piece in place of another",
            vec![text("draft"), text("final"), status(done)],
        ),
        (
            "text and data",
            vec![text("the score is 3"), data("b"), status(done)],
        ),
        ("data alone", vec![data("b"), says(done, "here it is")]),
        (
            "words on the way",
            vec![says("TASK_STATE_WORKING", "thinking"), says(done, "done")],
        ),
        (
            "a file",
            vec![
                piece("a", json!({"raw": "aGk=", "filename": "a"}), false),
                status(done),
            ],
        ),
    ];
    let mut shown = String::new();
    for (name, events) in cases {
        for request in [testing::question(), structured()] {
            let with = if request.shape.is_some() {
                ", with a model"
            } else {
                ""
            };
            let over = Over::new([Reaction::Events(events.clone())]).await;
            let answer = ask(&*over.agent(json!({})), request).await;
            shown.push_str(&format!("{name}{with} -> {answer}\n"));
        }
    }
    expect![[r#"
        a message -> hi
        a message, with a model -> hi
        a status -> done
        a status, with a model -> done
        pieces -> one two
        pieces, with a model -> one two
        a piece in place of another -> final
        a piece in place of another, with a model -> final
        text and data -> the score is 3
        text and data, with a model -> {"score":3}
        data alone -> {"score":3}
        data alone, with a model -> {"score":3}
        words on the way -> done
        words on the way, with a model -> done
        a file -> empty: the agent's answer has neither a text nor data
        a file, with a model -> empty: the agent's answer has neither a text nor data
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn an_agent_that_does_not_stream_is_asked_after() {
    let done = json!({
        "id": "t-1",
        "status": {"state": "TASK_STATE_COMPLETED", "message": message("done")},
    });
    let script = [
        Reaction::Result(task("TASK_STATE_SUBMITTED")),
        Reaction::Result(json!({"id": "t-1", "status": {"state": "TASK_STATE_WORKING"}})),
        Reaction::Result(done),
    ];
    let over = Over::with_card(|url| card(url, false), script).await;
    let answer = ask(&*over.agent(json!({})), testing::question()).await;
    assert_eq!(
        (answer.as_str(), over.methods().as_str()),
        ("done", "SendMessage GetTask GetTask")
    );
    let sent = over.called.borrow()[1].1.to_string();
    expect![[r#"{"message":{"messageId":"run:turn:1","role":"ROLE_USER","parts":[{"text":"be brief\n\nhello"}]},"configuration":{"returnImmediately":true}}"#]].assert_eq(&sent);
}

#[tokio::test]
async fn an_older_agent_is_asked_as_it_expects() {
    let card = |url: &str| {
        json!({
            "protocolVersion": "0.3.0",
            "preferredTransport": "JSONRPC",
            "url": format!("{url}/old"),
            "capabilities": {"streaming": true},
        })
    };
    let status = |state: &str| json!({"state": state});
    let events = vec![
        json!({"kind": "task", "id": "t-1", "status": status("submitted")}),
        json!({"kind": "artifact-update", "taskId": "t-1", "artifact": {
            "artifactId": "a", "parts": [{"kind": "text", "text": "old "}, {"kind": "text", "text": "news"}],
        }}),
        json!({"kind": "status-update", "taskId": "t-1", "final": true, "status": status("completed")}),
    ];
    let over = Over::with_card(card, [Reaction::Events(events)]).await;
    assert_eq!(
        ask(&*over.agent(json!({})), testing::question()).await,
        "old news"
    );
    let called = over.called.borrow()[1].clone();
    expect![[r#"message/stream {"message":{"kind":"message","messageId":"run:turn:1","role":"user","parts":[{"kind":"text","text":"be brief\n\nhello"}]}}"#]].assert_eq(&format!("{} {}", called.0, called.1));
    let heads = over.heads.borrow().to_lowercase();
    assert!(heads.contains("post /old"), "{heads}");
    assert!(heads.contains("a2a-version: 0.3"), "{heads}");
}

#[tokio::test]
async fn a_key_and_headers_are_sent_along_and_the_card_is_read_once() {
    let events = || Reaction::Events(vec![json!({"message": message("hi")})]);
    let over = Over::new([events(), events()]).await;
    let headers = json!({
        "api_key_env": "THEIR_KEY",
        "headers": {"X-Tenant": "we", "X-Key": {"env": "THEIR_KEY", "prefix": "k "}},
    });
    let agent = over.agent(headers);
    for _ in 0..2 {
        assert_eq!(ask(&*agent, testing::question()).await, "hi");
    }
    let heads = over.heads.borrow().to_lowercase();
    for sent in [
        "get /.well-known/agent-card.json",
        "post /rpc",
        "a2a-version: 1.0",
        "authorization: bearer sk-test-5ecret",
        "x-tenant: we",
        "x-key: k sk-test-5ecret",
    ] {
        assert!(heads.contains(sent), "{sent}: {heads}");
    }
    assert_eq!(heads.matches("get /").count(), 1);
    // What the other side may know an attempt by.
    let ids = over
        .called
        .borrow()
        .iter()
        .map(|it| it.1.clone())
        .collect::<Vec<_>>();
    assert_eq!(ids[1]["message"]["messageId"], "run:turn:1");
}

#[tokio::test]
async fn a_question_with_a_model_says_what_has_to_fit() {
    let over = Over::new([Reaction::Events(vec![json!({"message": message("{}")})])]).await;
    ask(&*over.agent(json!({})), structured()).await;
    let text = over.called.borrow()[1].1["message"]["parts"][0]["text"].clone();
    let text = text.as_str().unwrap();
    assert!(text.starts_with("be brief\n\nhello\n\n"), "{text}");
    assert!(text.contains("\"score\""), "{text}");
}
