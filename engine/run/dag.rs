//! Carries out a workflow that is a DAG: one batch, and no turns.

use std::sync::Arc;

use serde_json::json;

use super::{Hear, Run, Stop};
use crate::{compile::FixedDag, plan};

impl Run<'_> {
    /// Carries out the DAG that the workflow is.
    pub(super) async fn dag(&mut self, fixed: &FixedDag, hear: Hear<'_>) -> anyhow::Result<Stop> {
        let batch = &fixed.batch;
        let plan = plan::of_dag(batch, &fixed.dag, &self.workflow.capabilities);
        let done = self.batch(batch, plan, hear).await?;
        self.batches.insert(batch.id.to_string(), done.status);
        self.context.set(&batch.context_key, done.results.clone());
        self.context
            .set(&batch.status_key, json!(done.status.as_str()));
        self.last_answer = Some((Arc::clone(&batch.id), done.results));
        self.note_why(&batch.id, done.why);
        Ok(done.stop.unwrap_or(Stop::Complete))
    }
}
