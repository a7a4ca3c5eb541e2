//! An accepted plan, drawn.
//!
//! **Invariant:** whatever a task is called, the drawing stays well-formed: names are escaped, and nodes are numbered.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{NAME, clip, count, inert, join, table};
use crate::{
    compile::Batch,
    graph::{TaskGraph, TaskIx, Width},
    plan::Plan,
    run::{Against, Bound, Measure},
};

/// How many characters there are for a list of names.
const LIST: usize = 60;
/// How many characters there are for a longest chain, or for one level.
const WIDE_LIST: usize = 160;
/// How many levels are listed below the table.
const LEVELS: usize = 24;

/// What a plan is drawn as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table, then what follows from the order of the tasks.
    Text,
    /// Everything the table says, as data.
    Json,
    /// A Mermaid flow chart.
    Mermaid,
    /// A Graphviz graph.
    Dot,
}

/// Draws a plan. Levels are counted from 1: the tasks of level 1 wait for nothing.
pub fn draw(plan: &Plan, batch: &Batch, bound: &Bound, format: Format) -> String {
    let drawing = Drawing::new(plan, batch, bound);
    match format {
        Format::Text => drawing.text(),
        Format::Json => format!("{:#}\n", drawing.json()),
        Format::Mermaid => drawing.mermaid(),
        Format::Dot => drawing.dot(),
    }
}

/// A plan, with what is said about it in every format.
struct Drawing<'a> {
    plan: &'a Plan,
    batch: &'a Batch,
    bound: &'a Bound,
    graph: &'a TaskGraph,
    levels: Vec<Vec<TaskIx>>,
    /// For each task, its level.
    level: Vec<usize>,
    /// One task of each level, as on any longest chain.
    critical: Vec<TaskIx>,
}

impl Drawing<'_> {
    fn new<'a>(plan: &'a Plan, batch: &'a Batch, bound: &'a Bound) -> Drawing<'a> {
        let graph = plan.graph();
        let level: Vec<usize> = graph.levels().iter().map(|it| *it as usize + 1).collect();
        let mut levels = vec![Vec::new(); level.iter().copied().max().unwrap_or(0)];
        for task in graph.tasks() {
            levels[level[task.at()] - 1].push(task);
        }
        let critical = graph.critical_path();
        Drawing {
            plan,
            batch,
            bound,
            graph,
            levels,
            level,
            critical,
        }
    }

    fn id(&self, task: TaskIx) -> &str {
        &self.plan.tasks()[task.at()].id
    }

    fn agent(&self, task: TaskIx) -> &str {
        &self.plan.tasks()[task.at()].agent
    }

    fn ids(&self, tasks: &[TaskIx]) -> Vec<&str> {
        tasks.iter().map(|it| self.id(*it)).collect()
    }

    fn is_critical(&self, task: TaskIx) -> bool {
        self.critical.get(self.level[task.at()] - 1) == Some(&task)
    }

    fn is_critical_edge(&self, need: TaskIx, task: TaskIx) -> bool {
        let is_step = self.level[need.at()] + 1 == self.level[task.at()];
        is_step && self.is_critical(need) && self.is_critical(task)
    }

    fn text(&self) -> String {
        let mut rows = vec![["TASK", "AGENT", "LEVEL", "DEPENDS ON", "OWNS"].map(str::to_owned)];
        rows.extend(self.graph.tasks().map(|task| {
            let owned = &self.plan.tasks()[task.at()].owned;
            let owned: Vec<String> = owned.iter().map(ToString::to_string).collect();
            [
                clip(self.id(task), NAME),
                clip(self.agent(task), NAME),
                self.level[task.at()].to_string(),
                join(&self.ids(self.graph.needs(task)), ", ", LIST),
                join(&owned, ", ", LIST),
            ]
        }));
        let mut text = table(&rows);
        text.push_str("\nlevels\n");
        for (ix, level) in self.levels.iter().take(LEVELS).enumerate() {
            let ids = join(&self.ids(level), ", ", WIDE_LIST);
            text.push_str(&format!("  {}: {ids}\n", ix + 1));
        }
        if let more @ 1.. = self.levels.len().saturating_sub(LEVELS) {
            text.push_str(&format!("  and {}\n", count(more, "more level")));
        }
        let chain = join(&self.ids(&self.critical), " -> ", WIDE_LIST);
        let length = count(self.critical.len(), "task");
        let width = match self.graph.width() {
            Width::Exact(n) => format!("at most {}", count(n, "task")),
            Width::AtLeast(n) => format!("at least {}", count(n, "task")),
        };
        let dependencies = match self.graph.edges() {
            1 => "1 dependency".to_owned(),
            n => format!("{n} dependencies"),
        };
        let tasks = count(self.graph.len(), "task");
        let batch = clip(&self.batch.id, NAME);
        let slots = self.batch.policy.concurrency;
        text.push_str(&format!(
            "critical path: {chain} ({length})\n\
             {width} can run at once; batch {batch} runs {slots}\n\
             {tasks}, {dependencies}\n"
        ));
        text.push_str(&self.cost());
        text
    }

    /// What the tasks use at most, where anybody is paid for them.
    fn cost(&self) -> String {
        let bound = self.bound;
        let calls = match bound.calls {
            0 => return String::new(),
            1 => "at most 1 call".to_owned(),
            n => format!("at most {n} calls"),
        };
        let because = |what: &str, reasons: &BTreeSet<String>| {
            let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
            format!("\nno bound in {what}: {}", inert(&reasons.join("; ")))
        };
        let tokens = match bound.tokens() {
            Some(tokens) => format!(", {tokens} tokens"),
            None => because("tokens", &bound.unknown),
        };
        let cost = match bound.cost() {
            Some(cost) => format!(", cost {}", cost.amount()),
            // Where nobody asks for money, none is missing.
            None if bound.usage.cost.is_none() || bound.tokens().is_none() => String::new(),
            None => because("money", &bound.unpriced),
        };
        let mut text = format!("{calls}{tokens}{cost}\n");
        let mut rows = vec![["AGENT", "CALLS", "TOKENS", "COST"].map(str::to_owned)];
        rows.extend(bound.agents.iter().map(|(agent, part)| {
            let unknown = || "-".to_owned();
            [
                clip(agent, NAME),
                part.calls.to_string(),
                part.tokens.map_or_else(unknown, |it| it.to_string()),
                part.cost.map_or_else(unknown, |it| it.amount().to_string()),
            ]
        }));
        for row in table(&rows).lines() {
            text.push_str(&format!("  {row}\n"));
        }
        for it in bound.against() {
            text.push_str(&self.against(it));
        }
        text
    }

    /// How the tasks stand to a budget.
    fn against(&self, it: Against) -> String {
        let whose = match it.is_of_batch {
            true => format!("batch {}", clip(&self.batch.id, NAME)),
            false => "the run".to_owned(),
        };
        let limit = match it.limit {
            Measure::Tokens(tokens) => format!("{tokens} tokens"),
            Measure::Cost(cost) => format!("cost {}", cost.amount()),
        };
        let how = match (it.is_below(), it.is_of_batch) {
            (Some(true), true) => "these tasks stay below it",
            (Some(true), false) => "these tasks stay below it; what other agents use comes on top",
            (Some(false), _) => "these tasks may reach it",
            (None, _) => "nobody knows whether these tasks reach it",
        };
        format!("budget of {whose}, {limit}: {how}\n")
    }

    fn json(&self) -> Value {
        let tasks = self.graph.tasks().map(|task| {
            json!({
                "task_id": self.id(task),
                "agent": self.agent(task),
                "depends_on": self.ids(self.graph.needs(task)),
                "owned_paths": self.plan.tasks()[task.at()].owned_as_written.as_deref().unwrap_or(&json!([])),
                "level": self.level[task.at()],
                "on_critical_path": self.is_critical(task),
            })
        });
        let levels: Vec<Vec<&str>> = self.levels.iter().map(|it| self.ids(it)).collect();
        let (count, is_exact) = match self.graph.width() {
            Width::Exact(n) => (n, true),
            Width::AtLeast(n) => (n, false),
        };
        json!({
            "batch": &*self.batch.id,
            "tasks": tasks.collect::<Vec<_>>(),
            "dependencies": self.graph.edges(),
            "levels": levels,
            "critical_path": self.ids(&self.critical),
            "width": { "count": count, "exact": is_exact },
            "concurrency": self.batch.policy.concurrency,
            "bound": {
                "calls": self.bound.calls,
                "tokens": self.bound.tokens(),
                "cost": self.bound.cost(),
                "unknown": self.bound.unknown,
                "unpriced": self.bound.unpriced,
                "agents": self.bound.agents.iter().map(|(agent, part)| json!({
                    "agent": &**agent,
                    "calls": part.calls,
                    "tokens": part.tokens,
                    "cost": part.cost,
                })).collect::<Vec<_>>(),
                "budgets": self.bound.against().into_iter().map(compared).collect::<Vec<_>>(),
            },
        })
    }

    fn mermaid(&self) -> String {
        let mut text = "flowchart LR\n  classDef critical stroke-width:3px\n".to_owned();
        for task in self.graph.tasks() {
            let class = match self.is_critical(task) {
                true => ":::critical",
                false => "",
            };
            let (id, agent) = (for_mermaid(self.id(task)), for_mermaid(self.agent(task)));
            let ix = task.at();
            text.push_str(&format!("  t{ix}[\"{id}<br/>{agent}\"]{class}\n"));
            for &need in self.graph.needs(task) {
                let arrow = match self.is_critical_edge(need, task) {
                    true => "==>",
                    false => "-->",
                };
                text.push_str(&format!("  t{} {arrow} t{ix}\n", need.at()));
            }
        }
        text
    }

    fn dot(&self) -> String {
        let mut text = "digraph plan {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
        for task in self.graph.tasks() {
            let style = match self.is_critical(task) {
                true => ", penwidth=3",
                false => "",
            };
            let (id, agent) = (for_dot(self.id(task)), for_dot(self.agent(task)));
            let ix = task.at();
            text.push_str(&format!("  t{ix} [label=\"{id}\\n{agent}\"{style}];\n"));
            for &need in self.graph.needs(task) {
                let style = match self.is_critical_edge(need, task) {
                    true => " [penwidth=3]",
                    false => "",
                };
                text.push_str(&format!("  t{} -> t{ix}{style};\n", need.at()));
            }
        }
        text.push_str("}\n");
        text
    }
}

/// A budget as data.
fn compared(it: Against) -> Value {
    let amount = |it: Measure| match it {
        Measure::Tokens(tokens) => json!(tokens),
        Measure::Cost(cost) => json!(cost),
    };
    json!({
        "of": if it.is_of_batch { "batch" } else { "run" },
        "what": match it.limit {
            Measure::Tokens(_) => "tokens",
            Measure::Cost(_) => "cost",
        },
        "limit": amount(it.limit),
        "most": it.most.map(amount),
        "is_below": it.is_below(),
    })
}

/// A name in a quoted Mermaid label. Whatever could mean something there is written by its number.
fn for_mermaid(name: &str) -> String {
    let mut text = String::new();
    for it in clip(name, NAME).chars() {
        match it {
            it if it.is_alphanumeric() || " _-./…".contains(it) => text.push(it),
            it => text.push_str(&format!("#{};", u32::from(it))),
        }
    }
    text
}

/// A name in a quoted Graphviz string.
fn for_dot(name: &str) -> String {
    clip(name, NAME).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests;
