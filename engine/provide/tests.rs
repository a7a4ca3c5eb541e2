//! Buyers that come with messages of their own, on tokio's paused clock.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::{io::duplex, time::timeout};

use super::*;
use crate::{
    acmp::{chunks, link, wire},
    agent::{Agents, Answer, Reply, Request},
    compile::{compile, tests::bundle},
    graph::tests::repeatable,
};

mod misuse;
mod monkeys;

const FILES: &str = "
=== agents
agents:
  - {name: Echo, capabilities: [echo], runtime: {kind: scripted, replies: [x]}}
  - {name: Sleeper, capabilities: [sleep], runtime: {kind: scripted, replies: [x]}}
";

/// Says what it is given, or nothing ever.
struct Echo {
    asked: Arc<AtomicUsize>,
    sleeps: bool,
}

impl Agent for Echo {
    fn ask(&self, request: Request) -> Answer {
        self.asked.fetch_add(1, Relaxed);
        let input = request.view.get("input").expect("it is there").into_owned();
        let sleeps = self.sleeps;
        Box::pin(async move {
            if sleeps {
                std::future::pending::<()>().await;
            }
            Ok(Reply {
                text: input["data"].to_string(),
                ..Reply::default()
            })
        })
    }
}

/// A provider, and how often its agents were asked.
struct Serving {
    provider: Arc<Provider>,
    asked: Arc<AtomicUsize>,
}

impl Serving {
    fn new(limits: Limits) -> Serving {
        let (workflow, faults) = compile(&bundle(FILES));
        let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
        let asked = Arc::new(AtomicUsize::new(0));
        let agent = |sleeps| -> Arc<dyn Agent> {
            let asked = Arc::clone(&asked);
            Arc::new(Echo { asked, sleeps })
        };
        let agents = [("Echo", false), ("Sleeper", true)];
        let agents = agents.map(|(name, sleeps)| (name.to_owned(), agent(sleeps)));
        let provider = Provider::new(
            &workflow,
            &Agents::from(agents),
            Tools::default(),
            None,
            limits,
            Box::new(|_| ()),
        );
        Serving { provider, asked }
    }

    /// One who comes from the address with this number.
    fn buyer(&self, number: u8) -> Buyer {
        let (ours, theirs) = duplex(1 << 10);
        let [ours, theirs] = [ours, theirs].map(|it| {
            let (reader, writer) = tokio::io::split(it);
            link::lines(reader, writer, 16 << 20)
        });
        let provider = Arc::clone(&self.provider);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let address = Ipv4Addr::new(192, 0, 2, number).into();
            let place = provider.places.enter(address, false);
            let place = place.expect("there is room");
            connection::serve(&provider, ours, &place, &CancellationToken::new()).await;
        });
        Buyer {
            link: theirs,
            heard: Vec::new(),
            _serving: serving,
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }
}

/// Gone as soon as it is dropped.
struct Buyer {
    link: Link,
    heard: Vec<Value>,
    _serving: JoinSet<()>,
}

impl Buyer {
    async fn say(&self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let sent = self.link.outgoing.send(message.to_string()).await;
        sent.expect("somebody listens");
    }

    /// Asks for a task, with these params besides.
    async fn ask(&self, id: u32, task: &str, more: Value) {
        let mut params = json!({ "task_id": task, "capability": "echo", "output_type": "text" });
        let fields = more.as_object().cloned().unwrap_or_default();
        params.as_object_mut().expect("it is one").extend(fields);
        self.say(json!({ "id": id, "method": "acmp/invoke", "params": params }))
            .await;
    }

    async fn chunk(&self, task: &str, seq: usize, data: &str, is_last: bool) {
        let chunk = json!({ "type": "text", "data": data });
        self.put(chunks::params(task, seq, chunk, is_last)).await;
    }

    async fn put(&self, params: Value) {
        self.say(json!({ "method": "acmp/inputChunk", "params": params }))
            .await;
    }

    async fn cancel(&self, task: &str) {
        let params = json!({ "task_id": task });
        self.say(json!({ "method": "acmp/cancel", "params": params }))
            .await;
    }

    /// The answer to a request. What else is said goes to what was heard.
    async fn answer(&mut self, id: u32) -> Value {
        loop {
            let is_it = |it: &Value| it["id"] == id;
            if let Some(at) = self.heard.iter().position(is_it) {
                return self.heard.remove(at);
            }
            // Nobody waits for anything as long as this.
            let text = timeout(Duration::from_secs(3600), self.link.incoming.recv()).await;
            let text = text.expect("it is answered").expect("nobody hangs up");
            let text = text.expect("it is a message");
            self.heard
                .push(serde_json::from_str(&text).expect("it is JSON"));
        }
    }

    /// What came of a task: its text, or the code and what is said of the failure.
    async fn outcome(&mut self, id: u32) -> String {
        let answer = self.answer(id).await;
        match answer["result"]["output"]["data"].as_str() {
            Some(text) => text.to_owned(),
            None => format!(
                "{} {}",
                answer["error"]["code"],
                answer["error"]["message"].as_str().unwrap_or_default()
            ),
        }
    }

    /// The chunks of a task that were heard.
    fn chunks(&mut self, task: &str) -> Vec<Value> {
        let is_one =
            |it: &mut Value| it["method"] == "acmp/streamChunk" && it["params"]["task_id"] == task;
        let chunks = self.heard.extract_if(.., is_one);
        chunks.map(|mut it| it["params"].take()).collect()
    }
}

/// Until all has been done that can be done by now.
async fn settled() {
    sleep(Duration::from_millis(1)).await;
}

fn in_chunks() -> Value {
    json!({ "input_stream": true })
}

#[tokio::test(start_paused = true)]
async fn l1_10_nobody_is_asked_before_the_input_is_whole() {
    let serving = Serving::new(Limits::default());
    let mut buyer = serving.buyer(1);
    buyer.ask(1, "t", in_chunks()).await;
    for (seq, piece) in ["h", "e", "", "llo ß"].iter().enumerate() {
        buyer.chunk("t", seq, piece, false).await;
    }
    settled().await;
    assert_eq!(serving.asked(), 0);
    buyer.chunk("t", 4, "!", true).await;
    assert_eq!(buyer.outcome(1).await, "hello ß!");
    assert_eq!(serving.asked(), 1);
    // A beginning may come with the invocation.
    let mut begun = in_chunks();
    begun["input"] = json!({ "type": "text", "data": "so " });
    buyer.ask(2, "u", begun).await;
    buyer.chunk("u", 0, "what", true).await;
    assert_eq!(buyer.outcome(2).await, "so what");
    // What comes for one that is done, or for one that takes none, changes nothing.
    buyer.chunk("t", 5, "more", true).await;
    let whole = json!({ "input": { "type": "text", "data": "all of it" } });
    buyer.chunk("v", 0, "too early", true).await;
    buyer.ask(3, "v", whole).await;
    buyer.chunk("v", 1, "too late", true).await;
    assert_eq!(buyer.outcome(3).await, "all of it");
    buyer.ask(4, "t", in_chunks()).await;
    assert_eq!(buyer.outcome(4).await, "hello ß!");
}

proptest! {
    #![proptest_config(repeatable(60))]

    #[test]
    fn l2_34_the_same_comes_of_an_input_however_it_is_cut(
        pieces in prop::collection::vec(".{0,5}", 1..20),
        early in any::<bool>(),
        streams in any::<bool>(),
    ) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("it can be built");
        runtime.block_on(async {
            let serving = Serving::new(Limits::default());
            let mut buyer = serving.buyer(1);
            let whole = pieces.concat();
            if !whole.trim().is_empty() {
                let chunks = async |buyer: &Buyer| {
                    for (seq, piece) in pieces.iter().enumerate() {
                        buyer.chunk("t", seq, piece, seq == pieces.len() - 1).await;
                    }
                };
                if early {
                    chunks(&buyer).await;
                }
                buyer.ask(1, "t", json!({ "input_stream": true, "stream": streams })).await;
                if !early {
                    chunks(&buyer).await;
                }
                let answer = buyer.answer(1).await;
                let came = buyer.chunks("t");
                let output = match streams {
                    true => came.iter().filter_map(|it| it["chunk"]["data"].as_str()).collect(),
                    false => answer["result"]["output"]["data"].as_str().unwrap_or_default().to_owned(),
                };
                assert_eq!(output, whole, "{answer}");
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_goes_in_chunks_to_whoever_wants_it_so_until_it_is_cancelled() {
    let serving = Serving::new(Limits::default());
    let [mut buyer, mut other] = [1, 2].map(|it| serving.buyer(it));
    let text = "äöü ".repeat(500_000);
    let more = json!({ "stream": true, "input": { "type": "text", "data": text } });
    buyer.ask(1, "t", more.clone()).await;
    // Nobody reads it yet, and it does not all fit into what waits to be read.
    settled().await;
    buyer.cancel("t").await;
    settled().await;
    assert_eq!(buyer.answer(1).await["error"]["code"], wire::CANCELLED);
    let sent = buyer.chunks("t").len();
    assert!((1..100).contains(&sent), "{sent} chunks");
    // It is done all the same, for whoever asks again, in whatever way.
    for (id, streams) in [(2, true), (3, false), (4, true)] {
        let mut again = more.clone();
        again["stream"] = json!(streams);
        other.ask(id, "t", again).await;
        let result = other.answer(id).await["result"].clone();
        let chunks = other.chunks("t");
        assert_eq!(result.get("output").is_none(), streams);
        assert_eq!(result["output_streamed"] == true, streams);
        let output: String = match streams {
            true => {
                let data = chunks.iter().map(|it| it["chunk"]["data"].as_str());
                data.map(Option::unwrap_or_default).collect()
            }
            false => result["output"]["data"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        };
        assert!(output == text, "{id}: {} bytes", output.len());
    }
    assert_eq!(serving.asked(), 1);
}
