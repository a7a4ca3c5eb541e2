//! Inputs that are sent as they come.

use super::*;

fn said(seq: u64, is_last: bool) -> Value {
    let chunk = json!({ "type": "text", "data": "x" });
    json!({ "seq": seq, "chunk": chunk, "final": is_last })
}

/// What comes of a call whose input has one chunk so far, where the other side does so when it has come.
async fn call(then: impl AsyncFnOnce(&Chunks, &mpsc::Sender<Result<String, Gone>>)) -> Value {
    let (outgoing, mut sent) = mpsc::channel(8);
    let (received, incoming) = mpsc::channel(8);
    let pump = JoinSet::new();
    let connection = Connection::new(Link {
        outgoing,
        incoming,
        pump,
    });
    let input = Arc::new(Chunks::new(100));
    input.put(&said(0, false)).expect("it is the first");
    let streams = Streams {
        input: Some(Arc::clone(&input)),
        output: None,
    };
    let course = Arc::default();
    let called = connection.call("t", "acmp/invoke", json!({}), 1000, (&streams, &course));
    let other = async {
        let mut methods = Vec::new();
        for _ in 0..2 {
            let text: String = sent.recv().await.expect("it is sent");
            let message: Value = serde_json::from_str(&text).expect("it is JSON");
            methods.push(message["method"].clone());
        }
        assert_eq!(methods, ["acmp/invoke", "acmp/inputChunk"]);
        then(&input, &received).await;
    };
    let (came, ()) = tokio::join!(called, other);
    json!(format!("{came:?}"))
}

async fn answer(to: &mpsc::Sender<Result<String, Gone>>) {
    let answer = json!({ "jsonrpc": "2.0", "id": "t", "result": "done" });
    to.send(Ok(answer.to_string())).await.expect("it is heard");
}

#[tokio::test]
async fn l1_06_an_answer_before_the_last_chunk_of_the_input_is_none() {
    let early = call(async |_, to| answer(to).await).await;
    assert_eq!(
        early,
        "Err(Spoiled { what: \"it answers before it has the whole of its input\", result: String(\"done\") })"
    );
    let nothing = call(async |input, _| input.settle(None)).await;
    assert_eq!(nothing, "Err(OutOfOrder(\"its input came to nothing\"))");
}
