//! What has to hold between the tasks of a plan.

use std::collections::HashMap;

use super::{Fault, MAX_FAULTS, task::Draft};
use crate::{
    compile::Batch,
    contract::orchestrator::Limits,
    diagnostic::Code,
    graph::{Cycle, TaskGraph, TaskIx},
    ownership::Claims,
    source::pointer,
};

/// Resolves what tasks say of agents and of each other. Gives the dependencies that exist.
pub(super) fn references(
    batch: &Batch,
    drafts: &[Draft],
    faults: &mut Vec<Fault>,
) -> Vec<Vec<TaskIx>> {
    let allowed: HashMap<&str, ()> = batch.allowed.iter().map(|it| (it.as_str(), ())).collect();
    let mut by_id: HashMap<&str, usize> = HashMap::with_capacity(drafts.len());
    for (ix, draft) in drafts.iter().enumerate() {
        let id = &*draft.task.id;
        if let Some(first) = by_id.get(id) {
            let message = format!("the task id `{id}` stands twice");
            let fault = Fault::new(Code::DuplicateTask, draft.at_id(), message);
            faults.push(fault.related(drafts[*first].at_id(), "it stands here first"));
        } else {
            by_id.insert(id, ix);
        }
        let agent = &*draft.task.agent;
        if !agent.is_empty() && !allowed.contains_key(agent) {
            let message = format!(
                "task `{id}` names the agent `{agent}`, which batch `{}` does not allow",
                batch.id
            );
            let fault = Fault::new(
                Code::AgentNotAllowed,
                pointer(&draft.at, &batch.agent_field),
                message,
            );
            faults.push(fault.with(|it| it.found(agent).allowed(&batch.allowed)));
        }
    }
    let ids: Vec<&str> = drafts.iter().map(|it| &*it.task.id).take(1000).collect();
    let mut told = 0;
    let needs = drafts.iter().map(|draft| {
        let needs = draft.needs.iter().filter_map(|need| {
            let id = &need.id;
            if let Some(ix) = by_id.get(id.as_str()) {
                return Some(TaskIx::new(*ix));
            }
            let task = &draft.task.id;
            let message = format!("task `{task}` depends on `{id}`, which is no task of this plan");
            let fault = Fault::new(Code::UnknownDependency, draft.at_need(batch, need), message);
            told += 1;
            // The comparison with all ids is dear, and of very many faults only the first are shown. A task that
            // depended on itself would be a cycle.
            let others = ids.iter().copied().filter(|it| **it != **task);
            faults.push(match told <= MAX_FAULTS {
                true => fault.with(|it| it.found(id).allowed(others)),
                false => fault,
            });
            None
        });
        needs.collect()
    });
    needs.collect()
}

/// The order between the tasks, if there is one. Names a shortest cycle of each knot if not.
pub(super) fn order(
    batch: &Batch,
    drafts: &[Draft],
    needs: &[Vec<TaskIx>],
    faults: &mut Vec<Fault>,
) -> Option<TaskGraph> {
    let cycles = match TaskGraph::new(needs) {
        Ok(graph) => return Some(graph),
        Err(cycles) => cycles,
    };
    let found = cycles.found.iter();
    faults.extend(found.filter_map(|it| of_cycle(batch, drafts, it)));
    let more = cycles.and_more();
    faults.extend(more.map(|it| Fault::new(Code::Cycle, "", it)));
    None
}

fn of_cycle(batch: &Batch, drafts: &[Draft], cycle: &Cycle) -> Option<Fault> {
    let message = cycle.describe(|it| &drafts[it.at()].task.id);
    let mut hops = cycle.hops().filter_map(|hop| {
        let (from, to) = (&drafts[hop.0.at()], &drafts[hop.1.at()]);
        let need = from.needs.iter().find(|it| *it.id == *to.task.id)?;
        Some((from.at_need(batch, need), hop))
    });
    let (first, _) = hops.next()?;
    let fault = Fault::new(Code::Cycle, first, message);
    let fault = hops.fold(fault, |fault, (at, hop)| {
        let note = format!(
            "`{}` waits for `{}`",
            drafts[hop.0.at()].task.id,
            drafts[hop.1.at()].task.id
        );
        fault.related(at, note)
    });
    Some(fault.with(|it| it.help("take out one of these dependencies")))
}

/// Limits that keep a planner's mistake from becoming a bill.
pub(super) fn size(
    drafts: &[Draft],
    graph: Option<&TaskGraph>,
    limits: &Limits,
    faults: &mut Vec<Fault>,
) {
    let mut check = |what: &str, found: usize, limit: usize, key: &str| {
        if found > limit {
            let message = format!("the plan has {found} {what}; {limit} are allowed");
            let help = format!("`limits.{key}` of `orchestrator.yaml` sets this limit");
            faults.push(Fault::new(Code::PlanTooLarge, "", message).with(|it| it.help(help)));
        }
    };
    check("tasks", drafts.len(), limits.max_tasks, "max_tasks");
    let dependencies = drafts.iter().map(|it| it.needs.len()).sum();
    check(
        "dependencies",
        dependencies,
        limits.max_dependencies,
        "max_dependencies",
    );
    if let Some(graph) = graph {
        let depth = graph.levels().iter().max().map_or(0, |it| *it as usize + 1);
        check("tasks in a row", depth, limits.max_depth, "max_depth");
    }
}

/// Every path has one owner, and every task owns something where the batch asks for it.
pub(super) fn ownership(batch: &Batch, drafts: &[Draft], faults: &mut Vec<Fault>) {
    for draft in drafts {
        if batch.require_owned_paths && !draft.declares_owned {
            let message = format!(
                "task `{}` owns no path, but batch `{}` requires it",
                draft.task.id, batch.id
            );
            let fault = Fault::new(Code::NoOwnedPath, &draft.at, message);
            faults.push(fault.with(|it| it.help("list the files the task writes under `owned_paths`, or set `require_owned_paths: false`")));
        }
    }
    let claims = Claims::new(
        drafts
            .iter()
            .enumerate()
            .map(|(ix, it)| (ix, &*it.task.owned)),
    );
    let conflicts = claims.conflicts();
    for conflict in &conflicts.found {
        let (a, b) = (&drafts[conflict.first.task], &drafts[conflict.second.task]);
        let (path_a, path_b) = (
            &a.task.owned[conflict.first.path],
            &b.task.owned[conflict.second.path],
        );
        let message = format!(
            "`{path_b}` of task `{}` overlaps `{path_a}` of task `{}`",
            b.task.id, a.task.id
        );
        let fault = Fault::new(Code::OwnedTwice, b.at_owned(conflict.second.path), message);
        let fault = fault.related(a.at_owned(conflict.first.path), "the other owner is here");
        faults.push(fault.with(|it| it.help("one path has one owner, whatever the order of the tasks; give one of them a folder of its own")));
    }
    if conflicts.more {
        let message = format!(
            "and more overlapping paths, after the first {}",
            conflicts.found.len()
        );
        faults.push(Fault::new(Code::OwnedTwice, "", message));
    }
}
