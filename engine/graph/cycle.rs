//! Finds the cycles to show to somebody whose tasks cannot be put in order.

use std::mem;

use super::{Adjacency, TaskIx};

/// How many dependencies [`find`] looks at before it makes do with the shortest cycles found so far: as many for each.
const EFFORT: usize = 1 << 22;

/// What keeps a list of tasks from being a graph: a cycle of each knot of tasks that all wait for each other, in order
/// of declaration. Whoever breaks one of them has broken no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycles {
    pub found: Vec<Cycle>,
    /// How many more knots there are.
    pub more: usize,
}

/// Of how many knots a cycle is told.
const MAX_CYCLES: usize = 50;

/// Tasks of which each needs the next.
///
/// It is a shortest cycle of its knot, and of several the one that starts with the task declared first, as long as the
/// tasks of the knot times the dependencies between them are at most 4,194,304 (as of 1,000 tasks with 4,000
/// dependencies), divided by the knots. Past that it may be longer than need be. It always visits a task once, and the same tasks always
/// lead to the same cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Closed: the last is the first again.
    pub path: Vec<TaskIx>,
}

impl Cycles {
    /// That there are more, if there are, for people.
    pub fn and_more(&self) -> Option<String> {
        let told = self.found.len();
        let more = Some(self.more).filter(|it| *it > 0)?;
        Some(format!(
            "and {more} more such groups of tasks, after the first {told}"
        ))
    }
}

/// How much of a cycle is told, in tasks.
const MAX_HOPS: usize = 50;

impl Cycle {
    /// What is wrong, for people.
    pub fn describe<'a>(&self, name: impl Fn(TaskIx) -> &'a str) -> String {
        let shown = self.path.iter().take(MAX_HOPS);
        let names: Vec<String> = shown.map(|it| format!("`{}`", name(*it))).collect();
        let (names, first) = (names.join(" -> "), &names[0]);
        match self.path.len() {
            2 => format!("task {first} depends on itself"),
            3..=MAX_HOPS => format!("these tasks wait for each other: {names}"),
            n => format!(
                "{} tasks wait for each other: {names} -> ... -> {first}",
                n - 1
            ),
        }
    }

    /// Who waits, and for whom, as far as it is told.
    pub fn hops(&self) -> impl Iterator<Item = (TaskIx, TaskIx)> {
        let hops = self.path.windows(2).take(MAX_HOPS);
        hops.map(|hop| (hop[0], hop[1]))
    }
}

/// Finds the cycles among the tasks that are not `sorted`: one of each knot.
pub(super) fn find(needs: &Adjacency, feeds: &Adjacency, sorted: &[TaskIx]) -> Cycles {
    let (knots, of) = knots(needs, feeds, sorted);
    let told = &knots[..knots.len().min(MAX_CYCLES)];
    let mut search = Search::new(needs, &of);
    let mut passed_at = vec![None; needs.len()];
    let found = told.iter().map(|knot| {
        search.effort = EFFORT / told.len();
        let mut path = walk(needs, &of, knot[0], &mut passed_at);
        // The walk's cycle gives way to one of its length, whose start is known to be declared first.
        let mut longest = path.len() - 1;
        for &start in knot {
            if let Some(closed) = search.run(start, longest) {
                longest = closed.len() - 2;
                path = closed;
            }
            if longest == 0 || search.effort == 0 {
                break;
            }
        }
        Cycle { path }
    });
    Cycles {
        found: found.collect(),
        more: knots.len() - told.len(),
    }
}

/// For each task its knot, if it is in one.
type Of = Vec<Option<usize>>;

/// Tasks of which each needs each, directly or not: the strongly connected parts, in order of declaration, as are the
/// tasks of each.
fn knots(needs: &Adjacency, feeds: &Adjacency, sorted: &[TaskIx]) -> (Vec<Vec<TaskIx>>, Of) {
    let mut is_open = vec![true; needs.len()];
    for task in sorted {
        is_open[task.at()] = false;
    }
    // Whatever a task needs is left before it, but for what needs the task as well.
    let mut left = Vec::new();
    let mut is_entered = vec![false; needs.len()];
    for start in needs.tasks().filter(|it| is_open[it.at()]) {
        let mut way = Vec::new();
        if !mem::replace(&mut is_entered[start.at()], true) {
            way.push((start, 0));
        }
        while let Some((task, at)) = way.last_mut() {
            let Some(&next) = needs.of(*task).get(*at) else {
                left.push(*task);
                way.pop();
                continue;
            };
            *at += 1;
            if is_open[next.at()] && !mem::replace(&mut is_entered[next.at()], true) {
                way.push((next, 0));
            }
        }
    }
    // From the last that was left on, whatever needs a task and is not in a knot yet is in its knot.
    let mut knots: Vec<Vec<TaskIx>> = Vec::new();
    while let Some(start) = left.pop() {
        let mut knot = Vec::new();
        if mem::replace(&mut is_open[start.at()], false) {
            knot.push(start);
        }
        let mut seen = 0;
        while let Some(&task) = knot.get(seen) {
            seen += 1;
            for &next in feeds.of(task) {
                if mem::replace(&mut is_open[next.at()], false) {
                    knot.push(next);
                }
            }
        }
        if knot.len() > 1 || !knot.is_empty() && needs.of(start).contains(&start) {
            knot.sort_unstable();
            knots.push(knot);
        }
    }
    knots.sort_unstable_by_key(|it| it[0]);
    let mut of = vec![None; needs.len()];
    for (number, knot) in knots.iter().enumerate() {
        knot.iter().for_each(|it| of[it.at()] = Some(number));
    }
    (knots, of)
}

/// Goes from need to need in a knot until it comes back to where it was: some cycle, found in no time.
fn walk(needs: &Adjacency, of: &Of, start: TaskIx, passed_at: &mut [Option<usize>]) -> Vec<TaskIx> {
    let mut path = Vec::new();
    let mut next = Some(start);
    while let Some(task) = next {
        let passed = passed_at[task.at()].replace(path.len());
        path.push(task);
        if let Some(first) = passed {
            path.drain(..first);
            break;
        }
        let mut on = needs.of(task).iter().copied();
        next = on.find(|it| of[it.at()] == of[start.at()]);
    }
    path
}

/// Breadth-first searches that share their memory and their effort.
struct Search<'a> {
    needs: &'a Adjacency,
    of: &'a Of,
    effort: usize,
    /// Which start a task was last reached from, and which task needs it on the way.
    reached: Vec<Option<(TaskIx, TaskIx)>>,
}

impl<'a> Search<'a> {
    fn new(needs: &'a Adjacency, of: &'a Of) -> Search<'a> {
        Search {
            needs,
            of,
            effort: EFFORT,
            reached: vec![None; needs.len()],
        }
    }

    /// Finds a shortest way from `start` back to it over tasks declared later, of at most `longest` dependencies.
    /// (A cycle with a task declared earlier in it is found from there.)
    fn run(&mut self, start: TaskIx, longest: usize) -> Option<Vec<TaskIx>> {
        let mut layer = vec![start];
        let mut next_layer = Vec::new();
        for _ in 0..longest {
            for task in layer.drain(..) {
                let needs = self.needs.of(task);
                self.effort = self.effort.saturating_sub(needs.len());
                if needs.contains(&start) {
                    return Some(self.close(start, task));
                }
                if self.effort == 0 {
                    return None;
                }
                for &next in needs {
                    let is_reached =
                        matches!(self.reached[next.at()], Some((it, _)) if it == start);
                    if next > start && self.of[next.at()] == self.of[start.at()] && !is_reached {
                        self.reached[next.at()] = Some((start, task));
                        next_layer.push(next);
                    }
                }
            }
            if next_layer.is_empty() {
                return None;
            }
            mem::swap(&mut layer, &mut next_layer);
        }
        None
    }

    /// The way that was found from `start` to `last`, and back to `start`.
    fn close(&self, start: TaskIx, last: TaskIx) -> Vec<TaskIx> {
        let mut path = vec![start, last];
        let mut here = last;
        while here != start {
            let (_, before) = self.reached[here.at()].expect("what a way passes was reached");
            path.push(before);
            here = before;
        }
        path.reverse();
        path
    }
}
