#![doc = include_str!("README.md")]

// In reading order. The empty lines keep it.

pub mod diagnostic;

pub mod source;

pub mod contract;

pub mod schema;

pub mod shape;

pub mod context;

pub mod graph;

pub mod dag;

pub mod ownership;

pub mod schedule;

pub mod usage;

pub mod lane;

pub mod budget;

pub mod load;

pub mod compile;

pub mod plan;

pub mod accept;

pub mod prompt;

pub mod child;
pub mod endpoint;

pub mod acmp;

pub mod tool;

pub mod agent;
pub mod recording;

pub mod provide;

pub mod event;

pub mod journal;

pub mod run;

pub mod report;

pub mod program;
