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
        if let Some(mut pipe) = pipe {
            let mut piece = [0; 4 << 10];
            while let Ok(n @ 1..) = pipe.read(&mut piece).await {
                self.push(&piece[..n]);
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let over = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..over);
        self.left_out += over;
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (front, back) = self.tail.as_slices();
        if self.left_out == 0 {
            let whole = [&self.head, front, back].concat();
            return f.write_str(&String::from_utf8_lossy(&whole));
        }
        let head = String::from_utf8_lossy(&self.head);
        let tail = [front, back].concat();
        let tail = String::from_utf8_lossy(&tail);
        write!(f, "{head} [{} bytes left out] {tail}", self.left_out)
    }
}
