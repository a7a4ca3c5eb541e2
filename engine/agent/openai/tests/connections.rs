use super::*;

#[tokio::test]
async fn connections() {
    check(
        String::new(),
        expect!["connection: the connection to the endpoint broke"],
    )
    .await;
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{".to_owned(),
        expect!["connection: the connection to the endpoint broke"],
    )
    .await;
    check(
        "what?\r\n\r\n".to_owned(),
        expect!["connection: the connection to the endpoint broke"],
    )
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let answer = model(&url, json!({})).ask(testing::question()).await;
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    let told = testing::show(&answer).replace(host, "HOST");
    let told = told.split(" (os error").next().unwrap_or_default();
    expect!["connection: cannot reach the endpoint at HOST: Connection refused"].assert_eq(told);
}

#[tokio::test]
async fn a_key_that_is_refused_and_was_not_set_is_named() {
    let refused = http("401 Unauthorized", r#"{"error": {"message": "no key"}}"#);
    let (url, served) = endpoint(refused).await;
    let runtime = json!({ "kind": "openai", "model": "m", "base_url": url, "api_key_env": "MINE" });
    let env = Env::fixed([("OPENAI_API_KEY", KEY)]);
    let agent = testing::agent(runtime, Path::new("."), &env).unwrap();
    let answer = agent.ask(testing::question()).await;
    expect!["authentication: the endpoint answered with status 401: no key; `MINE`, which is to hold the key, is not set"].assert_eq(&testing::show(&answer));
    served.await.unwrap();
}

#[tokio::test]
async fn a_response_without_end_is_not_read_to_its_end() {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n";
    let body = " ".repeat((5 << 20) + 1);
    check(
        format!("{head}\r\n{body}"),
        expect!["too_long: the endpoint's response is longer than 5242880 bytes"],
    )
    .await;
    // Nothing of it is waited for.
    check(
        format!("{head}content-length: 99999999999\r\n\r\n"),
        expect!["too_long: the endpoint's response is longer than 5242880 bytes"],
    )
    .await;
}
