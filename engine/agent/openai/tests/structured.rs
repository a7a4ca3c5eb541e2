//! Ways to ask for a structured output.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    super::super::{Request, testing},
    http, model,
    tools::{endpoint, says},
};
use crate::shape;

fn question() -> Request {
    let mut request = testing::question();
    request.shape = Some(Arc::new(shape::decomposition_plan(&[])));
    request
}

/// By which ways it was asked, one after the other.
fn ways(bodies: &[Value]) -> Vec<&str> {
    let way = |it: &Value| match it["response_format"]["type"].as_str() {
        Some("json_schema") => "strict",
        Some("json_object") => "object",
        _ => "prompt",
    };
    for body in bodies {
        let words = body["messages"][0]["content"].as_str().unwrap_or_default();
        assert_eq!(words.contains("JSON Schema"), way(body) != "strict");
    }
    bodies.iter().map(way).collect()
}

fn refuses() -> String {
    http(
        "400 Bad",
        r#"{"error": {"message": "what is response_format?"}}"#,
    )
}

/// Asks an endpoint twice that answers so, and says by which ways.
async fn asked(more: Value, responses: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (url, served) = endpoint(responses).await;
    let agent = model(&url, more);
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(testing::show(&agent.ask(question()).await));
    }
    let bodies = served.await.unwrap();
    (
        ways(&bodies).into_iter().map(str::to_owned).collect(),
        answers,
    )
}

#[tokio::test]
async fn the_way_that_an_endpoint_takes_is_found_out_once() {
    let auto = || json!({ "structured": "auto" });
    let (ways, answers) = asked(auto(), vec![says("{}"), says("{}")]).await;
    assert_eq!(
        (ways, answers),
        (vec!["strict".into(); 2], vec!["{}".into(); 2])
    );

    let responses = vec![refuses(), says("{}"), says("{}")];
    let (ways, _) = asked(auto(), responses).await;
    assert_eq!(ways, ["strict", "object", "object"]);

    let responses = vec![refuses(), refuses(), says("{}"), says("{}")];
    let (ways, _) = asked(auto(), responses).await;
    assert_eq!(ways, ["strict", "object", "prompt", "prompt"]);

    // One that takes a schema and keeps to none is told it in words the next time.
    let (ways, answers) = asked(auto(), vec![says("here: {}"), says("{}")]).await;
    assert_eq!(ways, ["strict", "object"]);
    assert_eq!(answers, ["here: {}", "{}"]);
}

#[tokio::test]
async fn nothing_is_learnt_from_what_is_refused_every_way() {
    let responses = vec![refuses(), refuses(), refuses(), says("{}")];
    let (ways, answers) = asked(json!({}), responses).await;
    assert_eq!(ways, ["strict", "object", "prompt", "strict"]);
    assert_eq!(
        answers[0],
        "bad_request: the endpoint answered with status 400: what is response_format?"
    );
    // Nor from what is no refusal.
    let (ways, _) = asked(json!({}), vec![http("500 Error", ""), says("{}")]).await;
    assert_eq!(ways, ["strict", "strict"]);
}

#[tokio::test]
async fn a_way_can_be_forced() {
    for (forced, way) in [
        ("strict", "strict"),
        ("json_object", "object"),
        ("prompt", "prompt"),
    ] {
        let (ways, answers) =
            asked(json!({ "structured": forced }), vec![refuses(), says("no")]).await;
        assert_eq!(ways, [way, way]);
        assert!(answers[0].starts_with("bad_request"), "{answers:?}");
    }
}
