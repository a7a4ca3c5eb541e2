//! The engine, in reading order. Start with `engine/README.md`.

pub mod diagnostic;
pub mod source;

pub mod contract;
pub mod schema;
pub mod shape;

pub mod context;
pub mod graph;
pub mod ownership;
pub mod schedule;

pub mod compile;
pub mod load;

pub mod accept;
pub mod plan;
pub mod prompt;

pub mod agent;
pub mod event;
pub mod run;

pub mod report;

pub mod program;
