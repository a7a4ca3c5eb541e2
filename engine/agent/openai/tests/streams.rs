use expect_test::{Expect, expect};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    super::{
        super::{Came, SoFar, Usage, testing},
        stream,
    },
    check, http, is_whole, model,
};

/// A response of these pieces, each on a line of its own.
fn streamed(pieces: &[&str]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let lines = pieces.iter().map(|it| format!("data: {it}\n\n"));
    format!("{head}: here it comes\r\n\r\n{}", lines.collect::<String>())
}

#[tokio::test]
async fn streams() {
    let hello = r#"{"choices": [{"index": 0, "delta": {"content": "hel"}}, {"index": 1, "delta": {"content": "x"}}], "usage": null}"#;
    let end = |reason: &str| {
        format!(r#"{{"choices": [{{"delta": {{"content": "lo"}}, "finish_reason": "{reason}"}}]}}"#)
    };
    let usage = r#"{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}"#;
    let refusal = r#"{"choices": [{"delta": {"refusal": "I cannot"}}]}"#;
    let error = r#"{"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"code": 429, "message": "slow"}}"#;
    let (stop, length, filter) = (end("stop"), end("length"), end("content_filter"));
    let cases: [(&[&str], Expect); 11] = [
        (
            &[hello, &stop, usage, "[DONE]"],
            expect!["hello Usage { input_tokens: 7, output_tokens: 2 }"],
        ),
        (
            &[hello, &stop],
            expect!["hello Usage { input_tokens: 0, output_tokens: 0 }"],
        ),
        (
            &[hello, "[DONE]", "what?"],
            expect!["hel Usage { input_tokens: 0, output_tokens: 0 }"],
        ),
        (
            &[hello],
            expect!["connection: the endpoint's stream ended before its answer did"],
        ),
        (
            &[],
            expect!["connection: the endpoint's stream ended before its answer did"],
        ),
        (
            &[hello, "{\"choi"],
            expect![
                "connection: a piece of the endpoint's stream is not JSON: EOF while parsing a string at line 1 column 6"
            ],
        ),
        (
            &[hello, &length, usage],
            expect![
                "truncated: the answer was cut off at the limit of output tokens Usage { input_tokens: 7, output_tokens: 2 }"
            ],
        ),
        (
            &[hello, &filter],
            expect!["refused: the endpoint's content filter held the answer back"],
        ),
        (
            &[refusal, "[DONE]"],
            expect!["refused: the model declined: I cannot"],
        ),
        (&["[DONE]"], expect!["empty: the model's answer is empty"]),
        (
            &[hello, error, &stop],
            expect!["rate_limited: the endpoint answered with status 429: slow"],
        ),
    ];
    for (pieces, expected) in cases {
        check(streamed(pieces), expected).await;
    }
    // Texts in parts, what was thought beside them, and an event of several lines.
    let parts = r#"{"choices": [{"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "hel"}]}}]}"#;
    let lines = "{\"choices\": [\ndata: {\"delta\": {\"content\":\ndata:\ndata: \"lo\"}}]}";
    check(
        streamed(&[parts, lines, "[DONE]"]),
        expect!["hello Usage { input_tokens: 0, output_tokens: 0 }"],
    )
    .await;
    check(
        streamed(&["{\"choices\": [\ndata: ]", "[DONE]"]),
        expect!["connection: a piece of the endpoint's stream is not JSON: EOF while parsing an object at line 2 column 1"],
    )
    .await;
    // A character that was cut in two, and half of one.
    let halves = |text: &str| format!(r#"{{"choices": [{{"delta": {{"content": "{text}"}}}}]}}"#);
    check(
        streamed(&[&halves(r"a\ud83d"), &halves(r"\ude00b\ud83d"), "[DONE]"]),
        expect!["a😀b\u{fffd} Usage { input_tokens: 0, output_tokens: 0 }"],
    )
    .await;
    let whole = r#"{"choices": [{"message": {"content": "\ud83d\ude00\ud83d"}}]}"#;
    check(
        http("200 OK", whole),
        expect!["😀\u{fffd} Usage { input_tokens: 0, output_tokens: 0 }"],
    )
    .await;
    let long = format!(
        r#"{{"choices": [{{"delta": {{"content": "{}"}}}}]}}"#,
        "x".repeat(1 << 20)
    );
    check(
        streamed(&[long.as_str(); 6]),
        expect!["too_long: the endpoint's response is longer than 5242880 bytes"],
    )
    .await;
    let one_line = streamed(&[&" ".repeat((5 << 20) + 1)]);
    check(
        one_line,
        expect!["connection: the endpoint's stream ended before its answer did"],
    )
    .await;
}

#[tokio::test]
async fn what_has_come_so_far_is_known() {
    let delta = |delta: &str| format!(r#"{{"choices": [{{"delta": {delta}}}]}}"#);
    let event = |kind: &str| format!(r#"{{"type": "response.{kind}", "delta": "12345"}}"#);
    let item = |kind: &str| {
        let item = json!({ "type": kind, "text": "x".repeat(100) });
        json!({ "type": "response.output_item.done", "item": item }).to_string()
    };
    let usage = r#"{"choices": [{"delta": {"content": "1234"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}"#;
    // How long all of it is, how much of that is thought, and how much came after the endpoint said what was used.
    let cases = [
        (vec![delta(r#"{"content": "123"}"#)], (3, 0, 3)),
        (
            vec![delta(
                r#"{"role": "assistant", "reasoning": "12", "reasoning_content": "12"}"#,
            )],
            (2, 2, 2),
        ),
        (
            vec![delta(r#"{"content": "123"}"#), usage.to_owned()],
            (7, 0, 0),
        ),
        (
            vec![usage.to_owned(), delta(r#"{"content": "123"}"#)],
            (7, 0, 3),
        ),
        (vec![event("output_text.delta")], (5, 0, 5)),
        (
            vec![event("reasoning_text.delta"), item("reasoning")],
            (5, 5, 5),
        ),
        (vec![item("message")], (172, 0, 172)),
    ];
    for (events, (bytes, thought, later)) in cases {
        let lines: Vec<String> = events.iter().map(|it| format!("data: {it}\n\n")).collect();
        let response = ::http::Response::new(lines.concat()).into();
        let so_far = SoFar::default();
        let idle = std::time::Duration::from_secs(60);
        let _ = stream::whole(response, 1 << 20, idle, &so_far).await;
        let expected = Came {
            bytes: Some(bytes),
            thought,
            later,
            ..so_far.came()
        };
        assert_eq!(so_far.came(), expected, "{events:?}");
        let is_said = so_far.came().usage != Usage::default();
        assert_eq!(is_said, events.iter().any(|it| it.contains("usage")));
    }
}

#[tokio::test]
async fn an_answer_is_stopped_while_it_comes() {
    let piece = r#"data: {"choices": [{"delta": {"content": "12345"}}]}

"#;
    let response = ::http::Response::new(piece.repeat(3)).into();
    let so_far = SoFar::watched(|it| Some(format!("{} bytes are enough", it.bytes?)));
    let idle = std::time::Duration::from_secs(60);
    let stopped = stream::whole(response, 1 << 20, idle, &so_far).await;
    let error = stopped.expect_err("it is stopped");
    let rejection = super::super::http::rejection(&error, &crate::endpoint::Secrets::default());
    assert_eq!(rejection.to_string(), "too_long: 15 bytes are enough");
}

#[tokio::test]
async fn silence_is_not_waited_out() {
    let begun = streamed(&[r#"{"choices": [{"delta": {"content": "hel"}}]}"#]);
    for said in [
        "",
        "HTTP/1.1 200 OK\r\n\r\n{",
        "HTTP/1.1 500 Error\r\n\r\n{",
        &begun,
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let said = said.to_owned();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !is_whole(&bytes) {
                assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
            }
            stream.write_all(said.as_bytes()).await.unwrap();
            // Nothing more comes until the client hangs up.
            let _ = stream.read_to_end(&mut bytes).await;
        });
        let model = model(&url, json!({ "idle_timeout_seconds": 1 }));
        let answer = model.ask(testing::question()).await;
        let expected = "idle_timeout: the endpoint sent nothing for 1 seconds";
        assert_eq!(testing::show(&answer), expected);
        served.await.unwrap();
    }
}

#[tokio::test]
async fn options_that_are_refused_are_left_out() {
    let refused = json!({ "error": { "message": "unknown field stream_options" } });
    let answer = json!({ "choices": [{ "message": { "content": "hi" } }] });
    let responses = [
        http("400 Bad", &refused.to_string()),
        http("200 OK", &answer.to_string()),
        http("200 OK", &answer.to_string()),
    ];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut asked_for = Vec::new();
        for response in responses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !is_whole(&bytes) {
                assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
            }
            stream.write_all(response.as_bytes()).await.unwrap();
            asked_for.push(String::from_utf8_lossy(&bytes).contains("stream_options"));
        }
        asked_for
    });
    let model = model(&url, json!({}));
    for _ in 0..2 {
        let answer = model.ask(testing::question()).await;
        assert_eq!(testing::show(&answer), "hi");
    }
    assert_eq!(served.await.unwrap(), [true, false, false]);
}
