//! What goes in chunks: an output as it comes, an input as it is handed on (Layer 1, *Streaming*).
//!
//! **Invariant:** the chunks of a [`Chunks`] are in order, each once, and none after the last. They are bounded in number, and together in bytes.

use std::{fmt, sync::Arc};

use serde_json::{Value, json};
use tokio::sync::watch;

/// The most chunks of one whole.
pub const MOST: usize = 100_000;

/// Why a chunk is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It is none, or not the next one.
    OutOfOrder(String),
    TooMuch(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::OutOfOrder(what) | Wrong::TooMuch(what) => f.write_str(what),
        }
    }
}

/// One chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    kind: Arc<str>,
    /// As JSON: a tree takes much more room.
    data: Box<str>,
    pub is_last: bool,
}

impl Chunk {
    /// Reads the params of a notification. Gives the chunk's place as well.
    ///
    /// # Errors
    /// What of it is missing.
    pub fn read(params: &Value) -> Result<(u64, Chunk), &'static str> {
        let seq = params["seq"].as_u64();
        let seq = seq.ok_or("a chunk has no `seq`")?;
        let is_last = match &params["final"] {
            Value::Null => false,
            it => it
                .as_bool()
                .ok_or("`final` of a chunk is not true or false")?,
        };
        let chunk = Chunk::new(&params["chunk"], is_last);
        Ok((seq, chunk.ok_or("a chunk has no `type` and `data`")?))
    }

    /// A chunk of a `type` and `data`.
    pub fn new(literal: &Value, is_last: bool) -> Option<Chunk> {
        Some(Chunk {
            kind: literal["type"].as_str()?.into(),
            data: literal.get("data")?.to_string().into(),
            is_last,
        })
    }

    /// The params of a notification.
    pub fn params(&self, task_id: &str, seq: usize) -> Value {
        let chunk = json!({ "type": &*self.kind, "data": self.value() });
        params(task_id, seq, chunk, self.is_last)
    }

    /// How much it adds to what those before it make up, the last of which is given.
    fn bytes_after(&self, last: Option<&Chunk>) -> usize {
        let data = self.data.len() - if self.is_text() { 2 } else { 0 };
        match last {
            Some(last) if last.kind == self.kind => data,
            _ => data + self.kind.len(),
        }
    }

    fn value(&self) -> Value {
        // It was written by us.
        serde_json::from_str(&self.data).unwrap_or_default()
    }

    fn is_text(&self) -> bool {
        &*self.kind == "text" && self.data.starts_with('"')
    }
}

/// The params of a notification of a chunk.
pub fn params(task_id: &str, seq: usize, chunk: Value, is_last: bool) -> Value {
    json!({ "task_id": task_id, "seq": seq, "chunk": chunk, "final": is_last })
}

/// What chunks make up: one alone is the whole; texts are put one after the other; anything else is a list.
pub fn whole<'a>(chunks: impl Iterator<Item = &'a Chunk> + Clone) -> Value {
    let mut all = chunks.clone();
    if let (Some(one), None) = (all.next(), all.next()) {
        return json!({ "type": &*one.kind, "data": one.value() });
    }
    let mut values = chunks.clone().map(Chunk::value);
    if !chunks.clone().all(Chunk::is_text) {
        return json!({ "type": "json", "data": values.collect::<Value>() });
    }
    let text = values.try_fold(String::new(), |text, it| Some(text + it.as_str()?));
    json!({ "type": "text", "data": text })
}

/// Chunks that one puts in as they come, and others take out meanwhile, each from the first on.
#[derive(Debug)]
pub struct Chunks {
    /// The most bytes they may have together.
    limit: usize,
    so_far: watch::Sender<SoFar>,
}

#[derive(Debug, Default)]
struct SoFar {
    chunks: Vec<Chunk>,
    bytes: usize,
    /// The place of the next one. Not behind the last, while what came before a connection was lost comes again.
    next: usize,
    /// Whether they make up what came of the whole, as soon as that is known.
    holds: Option<bool>,
}

impl Chunks {
    pub fn new(limit: usize) -> Chunks {
        Chunks {
            limit,
            so_far: watch::Sender::default(),
        }
    }

    /// Puts in what the params of a notification say.
    ///
    /// # Errors
    /// It is no chunk, or not the next one, or there are too many.
    pub fn put(&self, params: &Value) -> Result<(), Wrong> {
        let read = Chunk::read(params);
        let (seq, chunk) = read.map_err(|what| Wrong::OutOfOrder(what.to_owned()))?;
        let mut put = Ok(());
        self.so_far.send_if_modified(|so_far| {
            put = so_far.put(seq, chunk, self.limit);
            put.is_ok()
        });
        put
    }

    /// What is put in next is the first chunk again, and the others after it.
    pub fn rewind(&self) {
        self.so_far.send_modify(|it| it.next = 0);
    }

    /// Says what came of the whole; nothing, where it failed. What was said first counts.
    pub fn settle(&self, output: Option<&Value>) {
        let holds = output.is_some() && self.whole().as_ref() == output;
        self.so_far.send_modify(|it| {
            it.holds.get_or_insert(holds);
        });
    }

    /// Waits until it is known what came of the whole. Says whether they make it up.
    pub async fn hold(&self) -> bool {
        let mut so_far = self.so_far.subscribe();
        let settled = so_far.wait_for(|it| it.holds.is_some()).await;
        settled.is_ok_and(|it| it.holds == Some(true))
    }

    /// How many there are, and how many bytes of data.
    pub fn size(&self) -> (usize, usize) {
        let so_far = self.so_far.borrow();
        (so_far.chunks.len(), so_far.bytes)
    }

    pub fn has_begun(&self) -> bool {
        !self.so_far.borrow().chunks.is_empty()
    }

    /// Waits for the first chunk.
    pub async fn begun(&self) {
        let mut so_far = self.so_far.subscribe();
        // The sender is ours.
        let _ = so_far.wait_for(|it| !it.chunks.is_empty()).await;
    }

    /// Waits for the chunk at a place. None where it is known that they make up nothing.
    pub async fn get(&self, at: usize) -> Option<Chunk> {
        let mut so_far = self.so_far.subscribe();
        let there = so_far.wait_for(|it| at < it.chunks.len() || it.holds == Some(false));
        let there = there.await.ok()?;
        let chunk = there.chunks.get(at).filter(|_| there.holds != Some(false));
        chunk.cloned()
    }

    /// Waits for the last one. Gives what they make up, after another one if there is one.
    pub async fn all(&self, head: Option<&Chunk>) -> Value {
        let mut so_far = self.so_far.subscribe();
        // The sender is ours.
        let _ = so_far.wait_for(SoFar::is_whole).await;
        // Nobody who puts one in waits for what takes long.
        let chunks = so_far.borrow().chunks.clone();
        whole(head.into_iter().chain(&chunks))
    }

    /// What they make up, if they are all there.
    pub fn whole(&self) -> Option<Value> {
        let so_far = self.so_far.borrow();
        so_far.is_whole().then(|| whole(so_far.chunks.iter()))
    }
}

impl SoFar {
    fn is_whole(&self) -> bool {
        self.chunks.last().is_some_and(|it| it.is_last)
    }

    fn put(&mut self, seq: u64, mut chunk: Chunk, limit: usize) -> Result<(), Wrong> {
        let broken = |what: String| Err(Wrong::OutOfOrder(what));
        let known = self.chunks.get(self.next);
        if known.is_none() && self.is_whole() {
            return broken("a chunk came after the last".to_owned());
        }
        if seq != self.next as u64 {
            return broken(format!("chunk {seq} came in place of chunk {}", self.next));
        }
        if let Some(known) = known {
            if *known != chunk {
                return broken(format!("chunk {seq} was another one before"));
            }
            self.next += 1;
            return Ok(());
        }
        let last = self.chunks.last();
        let bytes = chunk.bytes_after(last);
        if self.chunks.len() == MOST || bytes > limit - self.bytes {
            let what = format!("it comes in more than {MOST} chunks, or more than {limit} bytes");
            return Err(Wrong::TooMuch(what));
        }
        if let Some(last) = last.filter(|it| it.kind == chunk.kind) {
            chunk.kind = Arc::clone(&last.kind);
        }
        self.bytes += bytes;
        self.next += 1;
        self.chunks.push(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
