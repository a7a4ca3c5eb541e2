//! Server-sent events, put together from the pieces of a response.

use reqwest::Response;

use super::is_of_type;

/// Whether a response is a stream of events. Some send all at once although they were asked for a stream.
pub fn are_in(response: &Response) -> bool {
    is_of_type(response, "text/event-stream")
}

/// What an event is called that has no name.
const MESSAGE: &[u8] = b"message";

/// What stands around the data of a line.
const AROUND: usize = b"data: \r\n".len();

/// An event is longer than so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong(pub usize);

/// What is there of the events of one response.
#[derive(Default)]
pub struct Events {
    bytes: Vec<u8>,
    /// Up to where there is no end of a line.
    seen: usize,
    data: Vec<u8>,
    /// Whether the event that is not complete has a name of its own, and whether the last one had.
    is_other: bool,
    was_other: bool,
}

impl Events {
    pub fn feed(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// The data of the next event that is complete. Comments say nothing.
    ///
    /// # Errors
    /// It is longer than the limit.
    pub fn next(&mut self, limit: usize) -> Result<Option<Vec<u8>>, TooLong> {
        let mut begin = 0;
        let mut found = None;
        while let Some(length) = self.bytes[self.seen..].iter().position(|it| *it == b'\n') {
            let end = self.seen + length;
            let line = self.bytes[begin..end].trim_ascii_end();
            if let Some(data) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(data.trim_ascii_start());
                self.data.push(b'\n');
            }
            if let Some(name) = line.strip_prefix(b"event:") {
                self.is_other = name.trim_ascii_start() != MESSAGE;
            }
            if line.is_empty() {
                self.was_other = std::mem::take(&mut self.is_other);
            }
            let is_over = line.is_empty() && !self.data.is_empty();
            begin = end + 1;
            self.seen = begin;
            if is_over {
                self.data.pop();
                found = Some(std::mem::take(&mut self.data));
                break;
            }
        }
        self.bytes.drain(..begin);
        self.seen = match found {
            Some(_) => 0,
            None => self.bytes.len(),
        };
        // What comes after a whole event is measured with the next one.
        let length = match &found {
            Some(event) => event.len(),
            None => (self.bytes.len() + self.data.len()).saturating_sub(AROUND),
        };
        match length > limit {
            true => Err(TooLong(limit)),
            false => Ok(found),
        }
    }

    /// Whether the last event was a message. Some have other names besides, which those who know them listen to.
    pub fn was_message(&self) -> bool {
        !self.was_other
    }
}

#[cfg(test)]
mod tests;
