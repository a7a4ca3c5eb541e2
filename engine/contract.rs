//! What people write and planners emit: the types of every file of a workflow's folder. No behaviour.
//!
//! **Invariant:** the doc comment of a field is the description an editor shows for it.
//! **Invariant:** a field that is accepted but not acted on carries `x-not-acted-on` and the reason; whoever sets it gets a warning.

pub mod acmp;
pub mod agents;
pub mod context_variables;
pub mod endpoint;
pub mod middleware;
pub mod name;
pub mod orchestrator;
pub mod plan;
pub mod providers;
pub mod runtime;
pub mod structured_outputs;
pub mod task_batches;
pub mod task_dag;
pub mod test;
pub mod tools;
pub mod transition_graph;
pub mod ui_config;
