use proptest::prelude::*;

use super::*;
use crate::acmp::{chunks::Chunks, wire};

fn done(output: &Value) -> Done {
    let result = json!({ "task_id": "t", "output": output, "tokens_used": 7, "cost_cu": 0.0 });
    let bytes = result.to_string().len();
    let outcome = Ok(result);
    Done { outcome, bytes }
}

/// The messages for one who wants chunks, or does not, none of which may be larger than was said of it before.
fn sent(done: &Done, streams: bool) -> Vec<Value> {
    let mut pieces = Pieces::new(json!(1), "t".to_owned(), streams);
    let mut sent = Vec::new();
    while !pieces.are_sent() {
        let bytes = pieces.bytes(done);
        let text = pieces.next(&done.outcome);
        let message: Value = serde_json::from_str(&text).expect("it is JSON");
        // What is escaped is longer than it is.
        let data = &message["params"]["chunk"]["data"];
        let length = data
            .as_str()
            .map_or(text.len() - 200.min(text.len()), str::len);
        assert!(length <= bytes, "{length} > {bytes}: {text}");
        sent.push(message);
    }
    sent
}

/// What comes in chunks is the output, and the rest of the answer is the same.
fn check(output: &Value, n_chunks: usize) {
    let done = done(output);
    let mut whole = sent(&done, false);
    assert_eq!(whole.len(), 1);
    let mut whole = whole.remove(0);
    assert_eq!(whole["result"]["output"], *output);
    let mut streamed = sent(&done, true);
    let rest = streamed.pop().expect("there is an answer");
    assert_eq!(streamed.len(), n_chunks);
    let chunks = Chunks::new(usize::MAX);
    for message in streamed {
        assert_eq!(message["method"], "acmp/streamChunk");
        assert_eq!(message["params"]["task_id"], "t");
        assert_eq!(chunks.put(&message["params"]), Ok(()));
    }
    assert_eq!(chunks.whole().as_ref(), Some(output));
    let result = whole["result"].as_object_mut().expect("it is an object");
    result.remove("output");
    result.insert("output_streamed".to_owned(), json!(true));
    assert_eq!(rest, whole);
}

#[test]
fn a_text_comes_in_pieces_and_anything_else_in_one() {
    let text = |length: usize| json!({ "type": "text", "data": "x".repeat(length) });
    for (length, n_chunks) in [(0, 1), (1, 1), (PIECE, 1), (PIECE + 1, 2), (5 * PIECE, 5)] {
        check(&text(length), n_chunks);
    }
    // A character of three bytes is not cut.
    let odd = format!("x{}", "€".repeat(PIECE));
    check(&json!({ "type": "text", "data": odd }), 4);
    let long = "x".repeat(3 * PIECE);
    for output in [
        json!({ "type": "json", "data": long }),
        json!({ "type": "json", "data": [1, { "a": long }] }),
        json!({ "type": "image/png", "data": long }),
        json!({ "type": "text", "data": null }),
    ] {
        check(&output, 1);
    }
}

proptest! {
    #![proptest_config(crate::graph::tests::repeatable(200))]

    #[test]
    fn whatever_a_text_is_it_comes_to_the_same(text in ".{0,40}", times in 0..2000_usize) {
        let text = text.repeat(times);
        let output = json!({ "type": "text", "data": text });
        let n_chunks = sent(&done(&output), true).len() - 1;
        check(&output, n_chunks);
    }
}

#[test]
fn where_nothing_comes_of_a_task_any_more_that_is_the_answer() {
    let done = done(&json!({ "type": "text", "data": "x".repeat(2 * PIECE) }));
    let why = wire::Error::new(wire::CANCELLED, "it was cancelled");
    let mut pieces = Pieces::new(json!("r"), "t".to_owned(), true);
    assert!(pieces.next(&done.outcome).contains("acmp/streamChunk"));
    let answer = pieces.next(&Err(why));
    assert!(pieces.are_sent());
    let answer: Value = serde_json::from_str(&answer).expect("it is JSON");
    let error = json!({ "code": wire::CANCELLED, "message": "it was cancelled", "data": { "task_id": "t" } });
    assert_eq!(
        answer,
        json!({ "jsonrpc": "2.0", "id": "r", "error": error })
    );
}
