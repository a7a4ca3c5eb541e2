//! Models that stand in for others, and what is sent along.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    super::super::{env::Env, testing},
    KEY, http, model,
    tools::{calls, endpoint, question, says},
};
use crate::accept::Failure;

fn error(message: &str) -> String {
    json!({ "error": { "message": message } }).to_string()
}

#[tokio::test]
async fn another_model_is_asked_where_the_endpoint_is_the_trouble() {
    for (status, is_asked) in [
        ("429 Slow", true),
        ("402 Payment", true),
        ("503 Busy", true),
        ("408 Timeout", true),
        ("401 Unauthorized", true),
        ("404 Not Found", true),
        ("400 Bad", false),
        ("413 Too Large", false),
    ] {
        let mut responses = vec![http(status, "")];
        responses.extend(is_asked.then(|| says("done")));
        let (url, served) = endpoint(responses).await;
        let agent = model(&url, json!({ "fallback": [{ "model": "n" }] }));
        let answer = agent.ask(testing::question()).await;
        let bodies = served.await.unwrap();
        let asked: Vec<&str> = bodies
            .iter()
            .filter_map(|it| it["model"].as_str())
            .collect();
        match is_asked {
            true => {
                assert_eq!(asked, ["m", "n"], "{status}");
                assert_eq!(answer.unwrap().model.as_deref(), Some("n"), "{status}");
            }
            false => {
                assert_eq!(asked, ["m"], "{status}");
                assert!(answer.is_err(), "{status}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_called_before_is_not_called_again() {
    let responses = vec![
        calls(&[("find", r#"{"q": "a"}"#)]),
        http("503 Busy", ""),
        says("done"),
    ];
    let (url, served) = endpoint(responses).await;
    let (request, told) = question(&[("find", "cat")]);
    let agent = model(&url, json!({ "fallback": [{ "model": "n" }] }));
    let reply = agent.ask(request).await.unwrap();
    let bodies = served.await.unwrap();
    assert_eq!(bodies[2]["messages"], bodies[1]["messages"]);
    assert_eq!(*told.lock().unwrap(), ["find ok"]);
    assert_eq!(reply.usage.input_tokens, 20);
}

#[tokio::test]
async fn as_long_as_one_may_answer_another_time_it_is_tried_again() {
    let slow = http("429 Slow\r\nretry-after: 7", &error("slow"));
    let key = http("401 Unauthorized", &error(&format!("no {KEY}")));
    let (url, served) = endpoint(vec![slow, key]).await;
    let agent = model(&url, json!({ "fallback": [{ "model": "n" }] }));
    let rejection = agent.ask(testing::question()).await.unwrap_err();
    served.await.unwrap();
    assert_eq!(rejection.failure, Failure::RateLimited);
    assert_eq!(rejection.retry_after.map(|it| it.as_secs()), Some(7));
    assert_eq!(
        rejection.message,
        "`m`: rate_limited: the endpoint answered with status 429: slow; `n`: authentication: the endpoint answered with status 401: no [key]"
    );
}

#[tokio::test]
async fn another_endpoint_is_sent_neither_key_nor_headers() {
    let (first, failed) = super::endpoint(http("503 Busy", "")).await;
    let (other, answered) = super::endpoint(says("done")).await;
    let agent = model(
        &first,
        json!({
            "headers": { "X-Team": "blue", "X-Api-Key": { "env": "OPENAI_API_KEY", "prefix": "k " } },
            "fallback": [{ "model": "n", "base_url": other, "api_key_env": "NOWHERE" }],
        }),
    );
    let answer = agent.ask(testing::question()).await;
    assert_eq!(testing::show(&answer), "done");
    let (failed, answered) = (failed.await.unwrap(), answered.await.unwrap());
    let failed = failed.to_lowercase();
    assert!(failed.contains("x-team: blue"), "{failed}");
    assert!(
        failed.contains(&format!("x-api-key: k {}", KEY.to_lowercase())),
        "{failed}"
    );
    let answered = answered.to_lowercase();
    assert!(
        !answered.contains("x-team") && !answered.contains(&KEY.to_lowercase()),
        "{answered}"
    );
}

#[tokio::test]
async fn a_key_that_the_first_model_names_goes_to_no_other_endpoint() {
    const OWN: &str = "sk-first-5EcReT";
    // The variable of the first, that of the other, and the key that the other is sent.
    let cases = [
        (json!("OWN_KEY"), json!(null), Some(KEY)),
        (json!("OWN_KEY"), json!("OWN_KEY"), Some(OWN)),
        (json!("OPENAI_API_KEY"), json!(null), None),
        (json!("OPENAI_API_KEY"), json!("OWN_KEY"), Some(OWN)),
        (json!(null), json!(null), Some(KEY)),
    ];
    for (own, others, sent) in cases {
        let (first, failed) = super::endpoint(http("503 Busy", "")).await;
        let (other, answered) = super::endpoint(says("done")).await;
        let env = Env::fixed([("OPENAI_API_KEY", KEY), ("OWN_KEY", OWN)]);
        let runtime: Value = json!({
            "kind": "openai", "model": "m", "base_url": first, "api_key_env": own,
            "fallback": [{ "model": "n", "base_url": other, "api_key_env": others }],
        });
        let agent = testing::agent(runtime, Path::new("."), &env).unwrap();
        let answer = agent.ask(testing::question()).await;
        assert_eq!(testing::show(&answer), "done");
        failed.await.unwrap();
        let answered = answered.await.unwrap();
        for key in [KEY, OWN] {
            let is_sent = answered.contains(key);
            assert_eq!(is_sent, sent == Some(key), "{own} {others}: {answered}");
        }
    }
}
