//! Asks providers, over ACMP (JSON-RPC): a buyer's side of a connection, and what both sides have in common.
//!
//! **Invariant:** what the other side sends is bounded: a message by its limit, messages by the room of a [`link::Link`]. None of it is believed before it was checked.
//! **Invariant:** an invocation that is dropped is cancelled at its provider.

pub mod buyer;
mod call;
pub mod chunks;
pub mod link;
pub mod proof;
mod streamable;
pub mod wire;
