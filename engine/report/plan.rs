//! An accepted plan, drawn.

use std::fmt::Write;

use serde_json::{Value, json};

use super::inert;
use crate::{compile::Batch, graph::Width, plan::Plan};

/// A table of the tasks, then what follows from their order.
pub fn text(plan: &Plan, batch: &Batch) -> String {
    let tasks = plan.tasks();
    let levels = plan.graph().levels();
    let mut rows = vec![["TASK", "AGENT", "LEVEL", "DEPENDS ON", "OWNS"].map(str::to_owned)];
    for (task, ix) in tasks.iter().zip(plan.graph().tasks()) {
        let needs: Vec<String> = plan
            .graph()
            .needs(ix)
            .iter()
            .map(|it| inert(&tasks[it.at()].id))
            .collect();
        let owned: Vec<String> = task.owned.iter().map(|it| inert(&it.to_string())).collect();
        rows.push([
            inert(&task.id),
            inert(&task.agent),
            (levels[ix.at()] + 1).to_string(),
            few(&needs),
            few(&owned),
        ]);
    }
    let width = |column: usize| {
        rows.iter()
            .map(|it| it[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let path = critical_path(plan);
    let width = match plan.graph().width() {
        Width::Exact(n) => format!("at most {n} can run at once"),
        Width::AtLeast(n) => format!("at least {n} can run at once"),
    };
    let depth = levels.iter().max().map_or(0, |it| it + 1);
    let _ = write!(
        text,
        "\nbatch {}: {} tasks, {} dependencies, {depth} levels\ncritical path ({}): {}\n{width}; the batch allows {}\n",
        inert(&batch.id),
        tasks.len(),
        plan.graph().edges(),
        path.len(),
        few_of(&path, " -> ", 12),
        batch.policy.concurrency,
    );
    text
}

/// The same as data.
pub fn json(plan: &Plan, batch: &Batch) -> Value {
    let tasks = plan.tasks();
    let levels = plan.graph().levels();
    let path = critical_path(plan);
    let rows: Vec<Value> = tasks
        .iter()
        .zip(plan.graph().tasks())
        .map(|(task, ix)| {
            let needs: Vec<&str> = plan
                .graph()
                .needs(ix)
                .iter()
                .map(|it| &*tasks[it.at()].id)
                .collect();
            json!({
                "task_id": &*task.id,
                "agent": &*task.agent,
                "depends_on": needs,
                "owned_paths": task.owned_as_written,
                "level": levels[ix.at()],
            })
        })
        .collect();
    let (count, is_exact) = match plan.graph().width() {
        Width::Exact(n) => (n, true),
        Width::AtLeast(n) => (n, false),
    };
    json!({
        "batch": &*batch.id,
        "tasks": rows,
        "dependencies": plan.graph().edges(),
        "levels": levels.iter().max().map_or(0, |it| it + 1),
        "critical_path": path,
        "width": { "count": count, "exact": is_exact },
        "concurrency": batch.policy.concurrency,
    })
}

/// A Mermaid flow chart.
pub fn mermaid(plan: &Plan) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (task, ix) in plan.tasks().iter().zip(plan.graph().tasks()) {
        let escape = |it: &str| {
            inert(it)
                .replace('#', "#35;")
                .replace('"', "#quot;")
                .replace('<', "#lt;")
                .replace('>', "#gt;")
        };
        let _ = writeln!(
            text,
            "  t{}[\"{}<br/>{}\"]",
            ix.at(),
            escape(&task.id),
            escape(&task.agent)
        );
        for need in plan.graph().needs(ix) {
            let _ = writeln!(text, "  t{} --> t{}", need.at(), ix.at());
        }
    }
    text
}

/// A Graphviz graph.
pub fn dot(plan: &Plan) -> String {
    let mut text = "digraph plan {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for (task, ix) in plan.tasks().iter().zip(plan.graph().tasks()) {
        let escape = |it: &str| inert(it).replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(
            text,
            "  t{} [label=\"{}\\n{}\"];",
            ix.at(),
            escape(&task.id),
            escape(&task.agent)
        );
        for need in plan.graph().needs(ix) {
            let _ = writeln!(text, "  t{} -> t{};", need.at(), ix.at());
        }
    }
    text.push_str("}\n");
    text
}

fn critical_path(plan: &Plan) -> Vec<String> {
    let path = plan.graph().critical_path();
    path.iter()
        .map(|it| plan.tasks()[it.at()].id.to_string())
        .collect()
}

fn few(items: &[String]) -> String {
    match items {
        [] => "-".to_owned(),
        items => few_of(items, ", ", 4),
    }
}

fn few_of(items: &[String], separator: &str, shown: usize) -> String {
    let text = items
        .iter()
        .take(shown)
        .map(|it| inert(it))
        .collect::<Vec<_>>()
        .join(separator);
    match items.len().saturating_sub(shown) {
        0 => text,
        more => format!("{text}{separator}... ({more} more)"),
    }
}
