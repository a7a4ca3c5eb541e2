//! The one integration-test binary.

mod acmp;
mod again;
mod architecture;
mod budgets;
mod codes;
mod conformance;
mod crash;
mod crowds;
mod dags;
mod diagnostics;
mod endings;
mod examples;
mod given;
mod harness;
mod history;
mod models;
mod people;
mod plans;
mod recording;
mod resume;
mod routing;
mod runs;
mod schemas;
mod tools;
mod trials;
mod which;
