//! Models that call tools.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use super::{
    super::super::{Request, Usage, Witness, Word, env::Env, testing},
    http, is_whole, model,
};
use crate::{
    accept::Failure,
    compile::tools::{Does, Reached, ServerSpec, ToolSpec, ToolSpecs},
    diagnostic::{File, Place},
    endpoint::Secrets,
    tool::{Given, Tools},
};

/// An endpoint that gives one response after the other, each on a connection of its own, and hands over the requests'
/// bodies.
pub(super) async fn endpoint(responses: Vec<String>) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut bodies = Vec::new();
        for response in responses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !is_whole(&bytes) {
                assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
            }
            let _ = stream.write_all(response.as_bytes()).await;
            let text = String::from_utf8(bytes).unwrap();
            let (_, body) = text.split_once("\r\n\r\n").unwrap();
            bodies.push(serde_json::from_str(body).unwrap());
        }
        bodies
    });
    (url, served)
}

fn ok(body: Value) -> String {
    http("200 OK", &body.to_string())
}

/// A completion that used 10 tokens and made 1.
fn completion(message: Value, reason: &str) -> String {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 1 });
    let choice = json!({ "message": message, "finish_reason": reason });
    ok(json!({ "choices": [choice], "usage": usage }))
}

pub(super) fn says(text: &str) -> String {
    completion(json!({ "content": text }), "stop")
}

pub(super) fn calls(calls: &[(&str, &str)]) -> String {
    let calls = calls.iter().map(|(name, arguments)| {
        json!({ "id": format!("id-{name}"), "type": "function", "function": { "name": name, "arguments": arguments } })
    });
    let calls: Vec<Value> = calls.collect();
    completion(
        json!({ "content": null, "tool_calls": calls }),
        "tool_calls",
    )
}

/// A tool that is a line of the shell's.
fn tool(name: &str, line: &str) -> ToolSpec {
    let parameters =
        json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
    ToolSpec {
        name: name.into(),
        agents: vec!["Worker".to_owned()],
        does: Does::Program {
            argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
        },
        description: Some(format!("the tool {name}")),
        parameters: parameters.as_object().cloned(),
        auto: false,
        bound: true,
        outcome: None,
        timeout: std::time::Duration::from_millis(2_000),
        max_result_bytes: 40,
        at: Place::start_of(&Arc::new(File {
            name: String::new(),
            text: String::new(),
        })),
    }
}

/// A question to a model with these tools, and where its calls are told.
pub(super) fn question(tools: &[(&str, &str)]) -> (Request, Arc<Mutex<Vec<String>>>) {
    let tools = tools.iter().map(|(name, line)| tool(name, line));
    let specs = ToolSpecs {
        tools: tools.collect(),
        folder: Path::new(".").to_owned(),
        ..ToolSpecs::default()
    };
    let path = std::env::var("PATH").unwrap();
    let tools = Tools::new(&specs, Secrets::default(), &Env::fixed([("PATH", &*path)]));
    let told = Arc::<Mutex<Vec<String>>>::default();
    let mut request = testing::question();
    request.tools = tools.toolbox("Worker", Given::default);
    let heard = Arc::clone(&told);
    request.witness = Witness::new(move |word| {
        let Word::Called(call) = word else { return };
        let ok = if call.ok { "ok" } else { "failed" };
        heard.lock().unwrap().push(format!("{} {ok}", call.tool));
    });
    (request, told)
}

/// What came of a conversation, the last request's messages without the first two, and the calls that were told.
async fn check(responses: Vec<String>, tools: &[(&str, &str)], expected: Expect) {
    let (url, served) = endpoint(responses).await;
    let (request, told) = question(tools);
    let witness = request.witness.clone();
    let answer = model(&url, json!({ "max_tool_rounds": 2 }))
        .ask(request)
        .await;
    let usage = answer.as_ref().map_or_else(|it| it.usage, |it| it.usage);
    assert_eq!(witness.used(), usage, "what is used is told meanwhile");
    let bodies = served.await.unwrap();
    let last = bodies.last().unwrap()["messages"].as_array().unwrap();
    let mut shown = format!("{} {usage:?}\n", testing::show(&answer));
    last.iter()
        .skip(2)
        .for_each(|it| shown.push_str(&format!("{it}\n")));
    shown.push_str(&told.lock().unwrap().join(", "));
    expected.assert_eq(&shown);
}

#[tokio::test]
async fn a_model_calls_tools_and_is_told_their_results() {
    let tools = [
        ("find", "cat; echo ' found'"),
        ("fail", "echo no luck >&2; exit 3"),
        ("hang", "sleep 1000"),
    ];
    let responses = vec![
        calls(&[("find", r#"{"q": "a"}"#), ("fail", r#"{"q": "b"}"#)]),
        calls(&[
            ("find", "{\"q\": "),
            ("find", r#"{"q": 1}"#),
            ("lose", "{}"),
            ("hang", r#"{"q": ""}"#),
        ]),
        says("done"),
    ];
    check(responses, &tools, expect![[r#"
        done Usage { input_tokens: 30, output_tokens: 3, cached_input_tokens: 0, cost: None, cu: None, estimated: false, cu_estimated: false }
        {"role":"assistant","content":null,"tool_calls":[{"id":"id-find","type":"function","function":{"name":"find","arguments":"{\"q\": \"a\"}"}},{"id":"id-fail","type":"function","function":{"name":"fail","arguments":"{\"q\": \"b\"}"}}]}
        {"role":"tool","tool_call_id":"id-find","content":"{\"q\":\"a\"} found"}
        {"role":"tool","tool_call_id":"id-fail","content":"error: it ended with exit status: 3; it said: no luck"}
        {"role":"assistant","content":null,"tool_calls":[{"id":"id-find","type":"function","function":{"name":"find","arguments":"{}"}},{"id":"id-find","type":"function","function":{"name":"find","arguments":"{\"q\": 1}"}},{"id":"id-lose","type":"function","function":{"name":"lose","arguments":"{}"}},{"id":"id-hang","type":"function","function":{"name":"hang","arguments":"{\"q\": \"\"}"}}]}
        {"role":"tool","tool_call_id":"id-find","content":"error: the arguments of `find` are not JSON: EOF while parsing a value at line 1 column 5"}
        {"role":"tool","tool_call_id":"id-find","content":"error: the arguments of `find` do not fit: /q: 1 is not of type \"string\""}
        {"role":"tool","tool_call_id":"id-lose","content":"error: there is no tool `lose`; there is fail, find, hang"}
        {"role":"tool","tool_call_id":"id-hang","content":"error: no result within 2 seconds"}
        find ok, fail failed, find failed, find failed, lose failed, hang failed"#]]).await;
}

#[tokio::test]
async fn results_are_cut_and_texts_beside_calls_are_kept() {
    let call = json!({ "function": { "name": "long", "arguments": { "q": "" } } });
    let beside = json!({ "content": "let me see", "tool_calls": [call] });
    let tools = [("long", "printf '%0100d' 0")];
    let responses = vec![completion(beside, "stop"), says("done")];
    check(responses, &tools, expect![[r#"
        done Usage { input_tokens: 20, output_tokens: 2, cached_input_tokens: 0, cost: None, cu: None, estimated: false, cu_estimated: false }
        {"role":"assistant","content":"let me see","tool_calls":[{"id":"call_1","type":"function","function":{"name":"long","arguments":"{\"q\":\"\"}"}}]}
        {"role":"tool","tool_call_id":"call_1","content":"0000000000000000000000000000000000000000 [cut: 40 of 100 bytes shown]"}
        long ok"#]]).await;
}

#[tokio::test]
async fn calls_without_end_are_ended() {
    let again = || calls(&[("find", r#"{"q": ""}"#)]);
    let tools = [("find", "echo")];
    check(vec![again(), again(), again()], &tools, expect![[r#"
        too_many_calls: the model called tools in 2 rounds and went on to call them; answer from what they said Usage { input_tokens: 30, output_tokens: 3, cached_input_tokens: 0, cost: None, cu: None, estimated: false, cu_estimated: false }
        {"role":"assistant","content":null,"tool_calls":[{"id":"id-find","type":"function","function":{"name":"find","arguments":"{\"q\": \"\"}"}}]}
        {"role":"tool","tool_call_id":"id-find","content":""}
        {"role":"assistant","content":null,"tool_calls":[{"id":"id-find","type":"function","function":{"name":"find","arguments":"{\"q\": \"\"}"}}]}
        {"role":"tool","tool_call_id":"id-find","content":""}
        find ok, find ok"#]]).await;
    let many = calls(&[("find", "{}"); 65]);
    check(vec![many], &tools, expect![[r#"
        too_many_calls: the model called more than 64 tools at once Usage { input_tokens: 10, output_tokens: 1, cached_input_tokens: 0, cost: None, cu: None, estimated: false, cu_estimated: false }
    "#]]).await;
    // Calls of nobody's tools are no answer, and calls that were cut off are not made.
    check(
        vec![again()],
        &[],
        expect![[r#"
            empty: the model called a tool, but it is offered none, and it said nothing Usage { input_tokens: 10, output_tokens: 1, cached_input_tokens: 0, cost: None, cu: None, estimated: false, cu_estimated: false }
        "#]],
    )
    .await;
    let cut_off =
        json!({ "tool_calls": [{ "function": { "name": "find", "arguments": "{\"q\"" } }] });
    check(vec![completion(cut_off, "length")], &tools, expect![[r#"
        truncated: the answer was cut off at the limit of output tokens Usage { input_tokens: 10, output_tokens: 1, cached_input_tokens: 0, cost: None, cu: None, estimated: false, cu_estimated: false }
    "#]]).await;
    check(vec![again(), http("429 Slow", "")], &tools, expect![[r#"
        rate_limited: the endpoint answered with status 429 Usage { input_tokens: 10, output_tokens: 1, cached_input_tokens: 0, cost: None, cu: None, estimated: false, cu_estimated: false }
        {"role":"assistant","content":null,"tool_calls":[{"id":"id-find","type":"function","function":{"name":"find","arguments":"{\"q\": \"\"}"}}]}
        {"role":"tool","tool_call_id":"id-find","content":""}
        find ok"#]]).await;
}

#[tokio::test]
async fn streamed_calls_are_put_together() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let streamed = |deltas: Value, reason: &str| {
        let deltas = deltas.as_array().unwrap().iter();
        let pieces = deltas.map(|it| json!({ "choices": [{ "delta": { "tool_calls": [it] } }] }));
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": reason }] });
        let lines = pieces
            .chain([end])
            .map(|it| format!("data: {it}\n\n"))
            .collect::<String>();
        format!("{head}{lines}data: [DONE]\n\n")
    };
    let piece = |index: Value, id: Value, name: Value, arguments: Value| json!({ "index": index, "id": id, "function": { "name": name, "arguments": arguments } });
    let null = || Value::Null;
    let q = |text: &str| json!(format!("{{\"q\": \"{text}\"}}"));
    let cases = [
        // As OpenAI does it.
        json!([
            piece(json!(0), json!("a"), json!("find"), json!("")),
            piece(json!(0), null(), null(), json!("{\"q\":")),
            piece(json!(1), json!("b"), json!("find"), null()),
            piece(json!(0), null(), null(), json!(" \"1\"}")),
            piece(json!(1), null(), null(), q("2")),
        ]),
        // Without numbers, each whole.
        json!([
            piece(null(), json!("a"), json!("find"), q("1")),
            piece(null(), json!("b"), json!("find"), q("2")),
        ]),
        // Without anything to tell them apart by.
        json!([
            piece(null(), null(), json!("find"), q("1")),
            piece(null(), null(), json!("find"), q("2")),
        ]),
        // All with one number.
        json!([
            piece(json!(0), json!("a"), json!("find"), q("1")),
            piece(json!(0), json!("b"), json!("find"), q("2")),
        ]),
    ];
    for deltas in cases {
        let (url, served) =
            endpoint(vec![streamed(deltas.clone(), "tool_calls"), says("done")]).await;
        let (request, _) = question(&[("find", "cat")]);
        let answer = model(&url, json!({})).ask(request).await;
        assert_eq!(testing::show(&answer), "done", "{deltas}");
        let bodies = served.await.unwrap();
        let messages = bodies[1]["messages"].as_array().unwrap();
        let results: Vec<&Value> = messages.iter().filter(|it| it["role"] == "tool").collect();
        let results: Vec<&Value> = results.iter().map(|it| &it["content"]).collect();
        assert_eq!(results, [r#"{"q":"1"}"#, r#"{"q":"2"}"#], "{deltas}");
    }
    let many: Vec<Value> = (0..100_000)
        .map(|n| piece(json!(n), null(), null(), null()))
        .collect();
    let (url, served) = endpoint(vec![streamed(many.into(), "tool_calls")]).await;
    let (request, _) = question(&[("find", "cat")]);
    let rejection = model(&url, json!({})).ask(request).await.unwrap_err();
    served.await.unwrap();
    assert_eq!(rejection.failure, Failure::TooManyCalls);
}

#[tokio::test]
async fn tools_are_described_by_names_that_endpoints_take() {
    let (url, served) = endpoint(vec![calls(&[("a_b_2", r#"{"q": "x"}"#)]), says("done")]).await;
    let (request, told) = question(&[("a b", "echo one"), ("a.b", "echo two")]);
    let answer = model(&url, json!({})).ask(request).await.unwrap();
    assert_eq!(answer.calls.tools, ["a.b"]);
    assert_eq!(*told.lock().unwrap(), ["a.b ok"]);
    let bodies = served.await.unwrap();
    assert_eq!(bodies[1]["messages"][3]["content"], "two");
    expect![[r#"[{"type":"function","function":{"name":"a_b","description":"the tool a b","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}},{"type":"function","function":{"name":"a_b_2","description":"the tool a.b","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}}]"#]].assert_eq(&bodies[0]["tools"].to_string());
}

#[tokio::test]
async fn what_a_call_sets_the_next_one_sees() {
    let folder = tempfile::tempdir().unwrap();
    let text = "def count(context_variables):\n    n = (context_variables.get('n') or 0) + 1\n    context_variables.set('n', n)\n    return n\n\ndef seize(context_variables):\n    context_variables.set('mine', 1)\n";
    fs::write(folder.path().join("f.py"), text).unwrap();
    let function = |name: &str| ToolSpec {
        does: Does::Function {
            file: "f.py".to_owned(),
            function: name.to_owned(),
        },
        parameters: None,
        timeout: std::time::Duration::from_secs(60),
        ..tool(name, "")
    };
    let specs = ToolSpecs {
        tools: vec![function("count"), function("seize")],
        reserved: ["mine".to_owned()].into(),
        folder: folder.path().to_owned(),
        project: folder.path().to_owned(),
        ..ToolSpecs::default()
    };
    let path = std::env::var("PATH").unwrap();
    let tools = Tools::new(&specs, Secrets::default(), &Env::fixed([("PATH", &*path)]));
    let variables = Map::from_iter([("n".to_owned(), json!(4))]);
    let given = Given {
        variables,
        ..Given::default()
    };
    let mut request = testing::question();
    request.tools = tools.toolbox("Worker", || given);
    let responses = vec![
        calls(&[("count", ""), ("seize", ""), ("count", "{}")]),
        says("done"),
    ];
    let (url, served) = endpoint(responses).await;
    let reply = model(&url, json!({})).ask(request).await.unwrap();
    let bodies = served.await.unwrap();
    let results: Vec<&Value> = (3..6)
        .map(|it| &bodies[1]["messages"][it]["content"])
        .collect();
    assert_eq!(
        results,
        [
            "5",
            "error: it sets the variable `mine`, which only the engine writes",
            "6"
        ]
    );
    assert_eq!(
        reply.calls.changed,
        Map::from_iter([("n".to_owned(), json!(6))])
    );
    assert_eq!(
        reply.usage,
        Usage {
            input_tokens: 20,
            output_tokens: 2,
            ..Usage::default()
        }
    );
}

#[tokio::test]
async fn tools_that_cannot_be_described_are_said_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f.py"), "import nowhere\n").unwrap();
    let function = |file: &str| Does::Function {
        file: file.to_owned(),
        function: "f".to_owned(),
    };
    let server = ServerSpec {
        name: "s".into(),
        reached: Reached::Program {
            argv: vec!["./no-such-server".to_owned()],
        },
        at: tool("f", "").at,
    };
    let served = Does::Served {
        server: 0,
        tool: "f".to_owned(),
    };
    let path = std::env::var("PATH").unwrap();
    let mut shown = String::new();
    for does in [function("nowhere.py"), function("f.py"), served] {
        let specs = ToolSpecs {
            tools: vec![ToolSpec {
                does,
                parameters: None,
                timeout: std::time::Duration::from_secs(60),
                ..tool("f", "")
            }],
            servers: vec![server.clone()],
            folder: folder.path().to_owned(),
            project: folder.path().to_owned(),
            ..ToolSpecs::default()
        };
        let tools = Tools::new(&specs, Secrets::default(), &Env::fixed([("PATH", &*path)]));
        let mut request = testing::question();
        request.tools = tools.toolbox("Worker", Given::default);
        let answer = model("http://127.0.0.1:1/v1", json!({})).ask(request).await;
        let answer = testing::show(&answer).replace(&*folder.path().to_string_lossy(), "");
        shown.push_str(&format!("{answer}\n"));
    }
    expect![[r#"
        tool_missing: the file `nowhere.py` of this tool is not there
        tool_missing: ModuleNotFoundError: No module named 'nowhere' (f.py, line 1, in <module>)
        tool_unavailable: the tool server `s`: cannot start `/./no-such-server`: No such file or directory (os error 2)
    "#]].assert_eq(&shown);
}
