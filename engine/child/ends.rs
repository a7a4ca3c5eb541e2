//! The beginning and the end of a text of any length.
//!
//! **Invariant:** no more than twice [`KEPT`] bytes are held.

use std::{collections::VecDeque, fmt};

use tokio::io::{AsyncRead, AsyncReadExt};

/// How many bytes are kept of each end.
pub const KEPT: usize = 4 << 10;

/// What a program said, in part.
#[derive(Debug, Default)]
pub struct Ends {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: usize,
}

impl Ends {
    /// Reads a pipe to its end.
    pub async fn drain(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        listen(pipe, |it| self.push(it)).await;
    }

    /// Reads a pipe up to where what was read so far ends in a byte, or to its end.
    pub async fn drain_to(&mut self, last: u8, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut piece = [0; 4 << 10];
        while self.tail.back().or(self.head.last()) != Some(&last) {
            match pipe.read(&mut piece).await {
                Ok(n @ 1..) => self.push(&piece[..n]),
                _ => return,
            }
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let over = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..over);
        self.left_out += over;
    }
}

/// Reads a pipe to its end.
pub async fn listen(pipe: Option<impl AsyncRead + Unpin>, mut hear: impl FnMut(&[u8])) {
    if let Some(mut pipe) = pipe {
        let mut piece = [0; 4 << 10];
        while let Ok(n @ 1..) = pipe.read(&mut piece).await {
            hear(&piece[..n]);
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (front, back) = self.tail.as_slices();
        if self.left_out == 0 {
            let whole = [&self.head, front, back].concat();
            return f.write_str(&String::from_utf8_lossy(&whole));
        }
        // A word that is not whole may be a part of a key, which nobody would know it to be.
        let is_space = |it: &u8| it.is_ascii_whitespace();
        let head = &self.head[..self.head.iter().rposition(is_space).unwrap_or(0)];
        let tail = [front, back].concat();
        let tail = &tail[tail.iter().position(is_space).unwrap_or(tail.len())..];
        let left_out = self.left_out + 2 * KEPT - head.len() - tail.len();
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        write!(f, "{head} [{left_out} bytes left out]{tail}")
    }
}
