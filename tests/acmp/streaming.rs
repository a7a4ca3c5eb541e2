//! Edges that stream, between providers that stream well and badly.

use serde_json::{Value, json};

use super::{
    Carrier::{self, *},
    Peer, all_heard, read,
};
use crate::harness::{Project, Ran};

/// A task for a provider that behaves so, and one for another that is given its output over an edge that may stream.
struct Two<'a> {
    project: Project,
    hows: [&'a str; 2],
    carrier: Carrier,
    dag: Value,
    options: Vec<&'a str>,
}

impl<'a> Two<'a> {
    fn new(up: &'a str, down: &'a str) -> Two<'a> {
        let dag = json!({
            "dag_id": "dag_1",
            "tasks": [
                { "task_id": "up", "capability": up, "input": { "type": "text", "data": "hello, all of you" } },
                { "task_id": "down", "capability": down, "input": { "source": { "from_task": "up" } } },
            ],
            "edges": [{ "from": "up", "to": "down", "stream_eligible": true }],
        });
        Two {
            project: Project::new(),
            hows: [up, down],
            carrier: Stdio,
            dag,
            options: Vec::new(),
        }
    }

    fn over(mut self, carrier: Carrier) -> Two<'a> {
        self.carrier = carrier;
        self
    }

    fn with(mut self, at: &str, value: Value) -> Two<'a> {
        let (at, key) = at.rsplit_once('/').expect("it has a place");
        self.dag.pointer_mut(at).expect("it is there")[key] = value;
        self
    }

    fn asked(mut self, options: &[&'a str]) -> Two<'a> {
        self.options = options.to_vec();
        self
    }

    fn run(&self) -> Ran {
        let start = |how: &&str| Peer::start(&self.project, how, self.carrier);
        let peers: Vec<Peer> = self.hows.iter().map(start).collect();
        let providers = self.hows.iter().zip(&peers).map(
            |(how, peer)| json!({ "name": how, "endpoint": peer.endpoint, "capabilities": [how] }),
        );
        let retry = json!({ "initial_seconds": 0.001, "max_seconds": 0.002 });
        let acmp = json!({ "providers": providers.collect::<Value>(), "retry": retry });
        self.project.write("acmp.json", acmp.to_string());
        self.project.write("dag.json", self.dag.to_string());
        let fixed = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
        self.project.run(&[&fixed[..], &self.options].concat())
    }

    /// The params of what one of them was sent of a method.
    fn heard(&self, how: &str, method: &str) -> Vec<Value> {
        let heard = all_heard(&self.project, how).into_iter();
        let of_method = heard.filter(|it| it["method"] == method);
        of_method.map(|it| it["params"].clone()).collect()
    }

    /// For each invocation of one of them, whether its output was to be streamed, and its input.
    fn invoked(&self, how: &str) -> Vec<[bool; 2]> {
        let invoked = self.heard(how, "acmp/invoke").into_iter();
        let flags = invoked.map(|it| ["stream", "input_stream"].map(|key| it[key] == true));
        flags.collect()
    }

    /// Nothing was streamed, and the same came of it.
    #[track_caller]
    fn is_whole(&self, answer: &Value) {
        let ran = self.run();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(read(&ran.stdout)["answer"], *answer);
        for how in self.hows {
            assert_eq!(self.invoked(how), [[false, false]], "{how}");
            assert!(self.heard(how, "acmp/inputChunk").is_empty(), "{how}");
        }
    }
}

const WHOLE: &str = "[hello, all of you]";

fn text(data: &str) -> Value {
    json!({ "type": "text", "data": data })
}

#[test]
fn l2_29_to_31_what_comes_in_chunks_is_handed_on_in_chunks() {
    // The one does not go on before the other has begun.
    for carrier in [Stdio, Websocket, Http] {
        let two = Two::new("streams", "streams_in").over(carrier);
        let ran = two.run();
        assert_eq!(ran.code, 0, "{carrier:?}: {}", ran.stderr);
        let answer = &read(&ran.stdout)["answer"];
        assert_eq!(*answer, text(&format!("[{WHOLE}]")), "{carrier:?}");
        assert_eq!(two.invoked("streams"), [[true, false]], "{carrier:?}");
        assert_eq!(two.invoked("streams_in"), [[false, true]], "{carrier:?}");
        let invoked = &two.heard("streams_in", "acmp/invoke")[0];
        assert_eq!(invoked.get("input"), None, "{carrier:?}");
        let chunks = two.heard("streams_in", "acmp/inputChunk");
        let pieces = ["[he", "llo", ", a", "ll ", "of ", "you", "]"];
        let wanted = pieces.iter().enumerate().map(|(seq, piece)| {
            json!({ "task_id": invoked["task_id"], "seq": seq, "chunk": text(piece), "final": seq == 6 })
        });
        assert_eq!(chunks, wanted.collect::<Vec<_>>(), "{carrier:?}");
        assert!(two.heard("streams_in", "acmp/cancel").is_empty());
    }
}

#[test]
fn l2_32_a_part_of_an_output_is_waited_for_and_the_whole_of_it_is_not() {
    let two = Two::new("streams", "streams_in").with("/tasks/1/input/source/field", json!("data"));
    assert_eq!(two.run().code, 0);
    assert_eq!(two.invoked("streams_in"), [[false, true]]);
    // Of a text, which has no parts, nothing else comes than without streams.
    let part = Two::new("streams", "streams_in")
        .with("/tasks/1/input/source/field", json!("data.a"))
        .asked(&["--best-effort"]);
    assert_eq!(part.run().code, 3);
    assert_eq!(part.invoked("streams"), [[false, false]]);
    assert!(
        part.invoked("streams_in").is_empty(),
        "there is no such part"
    );
}

#[test]
fn l2_33_without_either_feature_the_output_is_waited_for() {
    let answer = text(&format!("[{WHOLE}]"));
    // One that gives no chunks, one that takes none, and one that knows no greeting.
    Two::new("streams_in", "streams").is_whole(&answer);
    Two::new("streams", "streams_out").is_whole(&answer);
    let said = json!({ "type": "json", "data": { "said": WHOLE } });
    Two::new("streams", "old").is_whole(&said);
}

#[test]
fn l2_35_an_edge_that_does_not_say_so_does_not_stream() {
    for eligible in [json!(false), Value::Null] {
        let mut two = Two::new("streams", "streams_in");
        let edge = two.dag["edges"][0].as_object_mut().expect("it is there");
        edge.remove("stream_eligible");
        edge.extend((!eligible.is_null()).then(|| ("stream_eligible".to_owned(), eligible)));
        two.is_whole(&text(&format!("[{WHOLE}]")));
    }
}

#[test]
fn where_money_is_counted_nothing_is_begun_that_may_be_in_vain() {
    let mut two = Two::new("streams", "streams_in").asked(&["--max-price-cu", "1"]);
    for at in [0, 1] {
        two.dag["tasks"][at]["max_price_cu"] = json!(0.1);
    }
    two.is_whole(&text(&format!("[{WHOLE}]")));
}

#[test]
fn what_is_begun_in_vain_is_counted_too() {
    let usage = |two: &Two, code: i32| {
        let ran = two.run();
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let shown = two.project.run(&["show", "--json"]);
        let usage = read(&ran.stdout)["usage"].clone();
        assert_eq!(read(&shown.stdout)["usage"], usage, "{}", shown.stdout);
        usage
    };
    // It answers before it has its input, and is asked again.
    let two = Two::new("streams_slowly", "streams_early");
    let early = usage(&two, 0);
    assert_eq!(
        two.invoked("streams_early"),
        [[false, true], [false, false]]
    );
    assert_eq!(
        (&early["cu"], &early["output_tokens"]),
        (&json!(0.003), &json!(21))
    );
    // What it works on comes to nothing; what it takes for that nobody knows, but how much it may be.
    let two =
        Two::new("streams_fails_late", "streams_in").with("/tasks/1/max_price_cu", json!(0.01));
    let vain = usage(&two, 1);
    assert_eq!(two.invoked("streams_in"), [[false, true]]);
    let is_guessed = vain["cu_estimated"] == true;
    assert_eq!(vain["cu"], if is_guessed { 0.01 } else { 0.001 }, "{vain}");
    // So it is where another attempt comes to something.
    let two = Two::new("streams_fails_late", "streams_in")
        .with("/tasks/1/max_price_cu", json!(0.01))
        .asked(&["--retry-limit", "1"]);
    let both = usage(&two, 0);
    assert_eq!(two.invoked("streams_in"), [[false, true], [false, false]]);
    let vain = if both["cu_estimated"] == true {
        0.01
    } else {
        0.001
    };
    let sum = both["cu"].as_f64().unwrap_or_default();
    assert!((sum - vain - 0.002).abs() < 1e-9, "{both}");
}

#[test]
fn l1_07_the_result_is_waited_for_after_the_last_chunk() {
    // It fails after all, when the other may have done its work.
    let two = Two::new("streams_fails_late", "streams_in");
    let ran = two.run();
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let reason = read(&ran.stdout)["reason"].to_string();
    assert!(reason.contains("after all"), "{reason}");
    assert_eq!(two.invoked("streams_in"), [[false, true]]);
    // What it says in the end counts, and not what came in chunks.
    let two = Two::new("streams_other", "streams_in");
    let ran = two.run();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let answer = &read(&ran.stdout)["answer"];
    assert_eq!(*answer, text(&format!("[{WHOLE}]")));
    assert_eq!(two.invoked("streams_in").last(), Some(&[false, false]));
}

/// What is wrong with the chunks of one that behaves so.
const BROKEN: [(&str, &str); 6] = [
    ("streams_gap", "chunk 2 came in place of chunk 1"),
    ("streams_twice", "chunk 0 came in place of chunk 1"),
    ("streams_after", "a chunk came after the last"),
    (
        "streams_unfinished",
        "the result came before the last chunk",
    ),
    ("streams_nothing", "the result came before the last chunk"),
    ("streams_on", "it comes in more than"),
];

#[test]
fn l2_34_chunks_that_are_wrong_fail_an_attempt_and_the_next_one_is_made_without_them() {
    for (how, what) in BROKEN {
        let ran = Two::new(how, "streams_in").run();
        assert_eq!(ran.code, 1, "{how}: {}", ran.stderr);
        let reason = read(&ran.stdout)["reason"].to_string();
        assert!(reason.contains(what), "{how}: {reason}");
        if how == "streams_on" {
            // It has no end, and hears nothing more.
            continue;
        }
        let two = Two::new(how, "streams_in").asked(&["--retry-limit", "1"]);
        let ran = two.run();
        assert_eq!(ran.code, 0, "{how}: {}", ran.stderr);
        let answer = &read(&ran.stdout)["answer"];
        assert_eq!(*answer, text(&format!("[{WHOLE}]")), "{how}");
        assert_eq!(two.invoked(how), [[true, false], [false, false]]);
        assert_eq!(two.invoked("streams_in").last(), Some(&[false, false]));
    }
}

#[test]
fn l2_34_whatever_else_goes_wrong_the_same_comes_of_it() {
    // One that does not stream what it could, one that gives the whole besides, and one that was cut off.
    let cases = [
        ("streams_refused", &[[true, false], [false, false]][..]),
        ("streams_whole", &[[true, false]]),
        ("streams_lost_once", &[[true, false], [true, false]]),
    ];
    for (up, invoked) in cases {
        let two = Two::new(up, "streams_in");
        let ran = two.run();
        assert_eq!(ran.code, 0, "{up}: {}", ran.stderr);
        let answer = &read(&ran.stdout)["answer"];
        assert_eq!(*answer, text(&format!("[{WHOLE}]")), "{up}");
        assert_eq!(two.invoked(up), invoked, "{up}");
        assert_eq!(two.invoked("streams_in").len(), 1, "{up}");
        let ids: Vec<_> = two.heard(up, "acmp/invoke");
        let is_same = ids[0]["task_id"] == ids[ids.len() - 1]["task_id"];
        assert_eq!(is_same, up != "streams_refused", "{up}");
        // Each piece comes once, whatever happens.
        let mut pieces = two.heard("streams_in", "acmp/inputChunk");
        pieces.dedup();
        let seqs: Vec<_> = pieces.iter().filter_map(|it| it["seq"].as_u64()).collect();
        assert!(seqs.is_sorted_by(|a, b| a < b), "{up}: {seqs:?}");
    }
}

#[test]
fn l2_34_a_chunk_that_does_not_arrive_is_not_waited_for() {
    let two = Two::new("streams", "streams_deaf").over(Http);
    let two = two.asked(&["--retry-limit", "1"]);
    let ran = two.run();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let answer = &read(&ran.stdout)["answer"];
    assert_eq!(*answer, text(&format!("[{WHOLE}]")));
    let invoked = two.invoked("streams_deaf");
    assert_eq!(invoked, [[false, true], [false, false]]);
    let cancelled = two.heard("streams_deaf", "acmp/cancel");
    let asked = two.heard("streams_deaf", "acmp/invoke");
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert_eq!(cancelled[0]["task_id"], asked[0]["task_id"]);
}

#[test]
fn l3_06_a_streamed_output_is_held_against_its_proof() {
    let two = |up| Two::new(up, "streams_in").with("/tasks/0/proof_method", json!("result-hash"));
    let good = two("streams");
    assert_eq!(good.run().code, 0);
    assert_eq!(good.invoked("streams"), [[true, false]]);
    let ran = two("streams_false").run();
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let reason = read(&ran.stdout)["reason"].to_string();
    assert!(reason.contains("does not have the hash"), "{reason}");
}
