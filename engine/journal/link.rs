//! The hashes that chain a run's entries.
//!
//! **Invariant:** two runs, or two entries, have the same link only if all they consist of is the same, and so is all
//! that came before. (As far as 64 bits of SHA-256 go: they are here against accidents, not against forgers.)

use sha2::{Digest, Sha256};

use super::{Entry, NewRun};

/// The SHA-256 of a text or a file, as 64 hexadecimal digits.
pub fn hash(text: impl AsRef<[u8]>) -> String {
    let digest: [u8; 32] = Sha256::digest(text).into();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// The link before a run's first entry.
pub(super) fn seed(run: &NewRun) -> i64 {
    let mut hasher = Sha256::new();
    feed_text(&mut hasher, Some(run.id));
    feed_text(&mut hasher, Some(run.workflow));
    hasher.update(run.started_at_ms.to_le_bytes());
    feed_text(&mut hasher, Some(run.header));
    shorten(hasher)
}

/// The link of an entry. `body` is the digest of its body.
pub(super) fn link(before: i64, entry: &Entry, body: Option<&[u8; 32]>) -> i64 {
    let mut hasher = Sha256::new();
    hasher.update(before.to_le_bytes());
    hasher.update(entry.at_ms.to_le_bytes());
    feed_text(&mut hasher, Some(&entry.kind));
    feed_text(&mut hasher, entry.batch.as_deref());
    feed_number(&mut hasher, entry.task);
    feed_number(&mut hasher, entry.attempt);
    feed_text(&mut hasher, Some(&entry.data));
    hasher.update([u8::from(body.is_some())]);
    hasher.update(body.map_or(&[][..], |body| body));
    shorten(hasher)
}

/// The length goes first, so that no text runs into the next one. No text is as long as the one that is absent.
fn feed_text(hasher: &mut Sha256, text: Option<&str>) {
    let length = text.map_or(u64::MAX, |text| text.len() as u64);
    hasher.update(length.to_le_bytes());
    hasher.update(text.unwrap_or_default());
}

fn feed_number(hasher: &mut Sha256, number: Option<u32>) {
    hasher.update(number.map_or(-1, i64::from).to_le_bytes());
}

fn shorten(hasher: Sha256) -> i64 {
    let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = hasher.finalize().into();
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}
