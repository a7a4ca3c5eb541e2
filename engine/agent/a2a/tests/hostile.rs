use expect_test::expect;
use serde_json::json;

use super::*;

/// What comes of a question whose answer may have a few bytes.
async fn short(over: &Over) -> String {
    let mut request = testing::question();
    request.max_output_bytes = 100;
    let agent = over.agent(json!({"api_key_env": "THEIR_KEY"}));
    let answer = ask(&*agent, request).await;
    agent.close().await;
    answer
}

#[tokio::test]
async fn what_is_not_to_be_believed_is_no_answer() {
    let done = "TASK_STATE_COMPLETED";
    let other = json!({"statusUpdate": {"taskId": "t-2", "status": {"state": done}}});
    let unnamed = json!({"task": {"status": {"state": done}}});
    let long = json!({"task": {"id": "x".repeat(2000), "status": {"state": done}}});
    let to_another = json!({"jsonrpc": "2.0", "id": 2, "result": {"message": message("hi")}});
    let stream = |text: &str| {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        Reaction::Raw(format!("{head}{text}"))
    };
    let huge = "x".repeat(2 << 20);
    let many = vec![says("TASK_STATE_WORKING", &"x".repeat(100_000)); 30];
    let cases = [
        (
            "another task",
            Reaction::Events(vec![task("TASK_STATE_WORKING"), other]),
        ),
        ("no id", Reaction::Events(vec![unnamed])),
        ("a long id", Reaction::Events(vec![long])),
        (
            "another request",
            Reaction::Raw(response("application/json", &to_another.to_string())),
        ),
        (
            "no JSON",
            Reaction::Raw(response("application/json", "<html>")),
        ),
        (
            "neither",
            Reaction::Raw(response("application/json", r#"{"id": 1}"#)),
        ),
        ("nothing at all", Reaction::Result(json!({}))),
        ("no JSON in a stream", stream("data: {\n\n")),
        ("half an event", stream("data: {\"id\": 1, \"resu")),
        ("not UTF-8", stream("data: \u{fffd}\n\n")),
        (
            "a longer answer",
            Reaction::Events(vec![says(done, &"x".repeat(101))]),
        ),
        (
            "a huge answer",
            Reaction::Raw(response("application/json", &huge)),
        ),
        ("a huge line", stream(&format!("data: {huge}"))),
        ("a huge comment", stream(&format!(": {huge}"))),
        ("many events", Reaction::Events(many)),
        (
            "deep",
            stream(&format!("data: {}\n\n", "[".repeat(100_000))),
        ),
        (
            "odd types",
            Reaction::Events(vec![json!([1]), json!({"task": {"id": 7, "status": "no"}})]),
        ),
    ];
    let mut shown = String::new();
    for (name, reaction) in cases {
        let over = Over::new([reaction]).await;
        shown.push_str(&format!("{name} -> {}\n", short(&over).await));
    }
    expect![[r#"
        another task -> bad_request: the agent does not understand us (code -32601)
        no id -> connection: the agent speaks of a task without an id
        a long id -> connection: the agent speaks of a task whose id is too long
        another request -> connection: the agent's response is to another request
        no JSON -> connection: the agent's response is not JSON
        neither -> connection: the agent's response has neither a result nor an error
        nothing at all -> connection: the agent's answer is neither a message nor a task
        no JSON in a stream -> connection: the agent's response is not JSON
        half an event -> connection: the agent's response is not JSON
        not UTF-8 -> connection: the agent's response is not JSON
        a longer answer -> too_long: the answer is 101 bytes long; 100 are allowed
        a huge answer -> too_long: the agent's response is longer than 1048976 bytes
        a huge line -> too_long: the agent's response is longer than 1048976 bytes
        a huge comment -> too_long: the agent's response is longer than 1048976 bytes
        many events -> too_long: the agent's response is longer than 1048976 bytes
        deep -> connection: the agent's response is not JSON
        odd types -> connection: the agent speaks of a task without an id
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn a_card_leads_nowhere_else() {
    let at = |url: &str| {
        let url = url.to_owned();
        move |_: &str| card(&url, true)
    };
    let raw = |text: &str| {
        let text = text.to_owned();
        move |_: &str| Value::String(text.clone())
    };
    type Cards = Vec<(&'static str, Box<dyn Fn(&str) -> Value>)>;
    let cards: Cards = vec![
        ("another host", Box::new(at("https://elsewhere.example"))),
        ("another port", Box::new(at("http://127.0.0.1:1"))),
        (
            "another name of this machine",
            Box::new(|own: &str| card(&own.replace("127.0.0.1", "127.0.0.2"), true)),
        ),
        (
            "as people say it",
            Box::new(|own: &str| card(&own.replace("127.0.0.1", "localhost"), true)),
        ),
        ("plain http", Box::new(at("http://elsewhere.example"))),
        ("no address", Box::new(at("nowhere"))),
        ("a name in it", Box::new(at("http://me:secret@127.0.0.1"))),
        ("nothing", Box::new(|_: &str| json!({}))),
        (
            "newer",
            Box::new(|_: &str| {
                json!({"supportedInterfaces": [
                    {"protocolBinding": "JSONRPC", "protocolVersion": "2.0", "url": "http://127.0.0.1"},
                ]})
            }),
        ),
        (
            "no JSON",
            Box::new(raw(&response("application/json", "<html>"))),
        ),
        (
            "huge",
            Box::new(raw(&response("application/json", &" ".repeat(2 << 20)))),
        ),
        (
            "moved",
            Box::new(raw(
                "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            )),
        ),
        (
            "gone",
            Box::new(raw("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")),
        ),
    ];
    let mut shown = String::new();
    for (name, card) in cards {
        let over = Over::with_card(card, []).await;
        shown.push_str(&format!("{name} -> {}\n", short(&over).await));
        assert_eq!(over.methods(), "", "{name}");
    }
    expect![[r#"
        another host -> not_found: the agent's card cannot be used: it names an endpoint that is not at its own host and port; `endpoint` of the runtime allows one
        another port -> not_found: the agent's card cannot be used: it names an endpoint that is not at its own host and port; `endpoint` of the runtime allows one
        another name of this machine -> not_found: the agent's card cannot be used: it names an endpoint that is not at its own host and port; `endpoint` of the runtime allows one
        as people say it -> not_found: the agent's card cannot be used: it names an endpoint that is not at its own host and port; `endpoint` of the runtime allows one
        plain http -> not_found: the agent's card cannot be used: plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise
        no address -> not_found: the agent's card cannot be used: relative URL without a base
        a name in it -> not_found: the agent's card cannot be used: a name or password in it would be shown; keys go into the environment
        nothing -> not_found: the agent's card cannot be used: it names no interface of A2A 1.0 or 0.3 over JSON-RPC
        newer -> not_found: the agent's card cannot be used: it names no interface of A2A 1.0 or 0.3 over JSON-RPC
        no JSON -> not_found: the agent's card cannot be used: it is not JSON
        huge -> too_long: the agent's response is longer than 1048576 bytes
        moved -> bad_request: the endpoint answered with status 302
        gone -> not_found: the endpoint answered with status 404
    "#]].assert_eq(&shown);
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_the_authors_to_name() {
    let answer = Reaction::Events(vec![json!({"message": message("hi")})]);
    let over = Over::with_card(|_| card("https://elsewhere.example", true), [answer]).await;
    let agent = over.agent(json!({"endpoint": format!("{}/here", over.url)}));
    assert_eq!(ask(&*agent, testing::question()).await, "hi");
}

#[test]
fn addresses_and_keys_that_cannot_be_used_are_refused_at_once() {
    let refused = |url: &str, more: Value| match agent(url, more) {
        Ok(_) => format!("{url}: taken\n"),
        Err(error) => format!("{url}: {error:?}\n"),
    };
    let none = || json!({});
    let shown = [
        refused("http://elsewhere.example", none()),
        refused(
            "http://elsewhere.example",
            json!({"allow_plain_http": true}),
        ),
        refused("ftp://elsewhere.example", none()),
        refused("https://me:secret@elsewhere.example", none()),
        refused("https://a.example", json!({"endpoint": "http://b.example"})),
        refused("https://a.example", json!({"api_key_env": "NO_KEY"})),
        refused(
            "https://a.example",
            json!({"headers": {"Authorization": "Bearer x"}}),
        ),
        refused("https://a.example", json!({"api_key_env": "THEIR_KEY"})),
    ];
    expect![[r#"
        http://elsewhere.example: BadUrl(BadUrl { url: "http://elsewhere.example/", why: "plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise" })
        http://elsewhere.example: taken
        ftp://elsewhere.example: BadUrl(BadUrl { url: "ftp://elsewhere.example/", why: "`ftp` is neither `https` nor `http`" })
        https://me:secret@elsewhere.example: BadUrl(BadUrl { url: "https://elsewhere.example/", why: "a name or password in it would be shown; keys go into the environment" })
        https://a.example: BadUrl(BadUrl { url: "http://b.example/", why: "plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise" })
        https://a.example: MissingKey { variable: "NO_KEY" }
        https://a.example: BadHeader(Written { name: "Authorization" })
        https://a.example: taken
    "#]].assert_eq(&shown.concat());
}
