//! The beginning and the end of a text of any length.
//!
//! **Invariant:** no more than twice [`KEPT`] bytes are held.

use std::{collections::VecDeque, fmt};

/// How many bytes are kept of each end.
pub(super) const KEPT: usize = 4 << 10;

#[derive(Debug, Default)]
pub(super) struct Ends {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: usize,
}

impl Ends {
    pub(super) fn push(&mut self, bytes: &[u8]) {
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
