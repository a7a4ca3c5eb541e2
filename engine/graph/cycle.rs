//! Finds the cycle to show to somebody whose tasks cannot be put in order.

use std::mem;

use super::{Adjacency, TaskIx};

/// How many dependencies [`find`] looks at before it makes do with the shortest cycle found so far.
const EFFORT: usize = 1 << 22;

/// What keeps a list of tasks from being a graph: tasks of which each needs the next.
///
/// It is a shortest cycle there is, and of several the one that starts with the task declared first, as long as the
/// tasks on cycles times the dependencies between them are at most 4,194,304 (as of 1,000 tasks with 4,000
/// dependencies). Past that it may be longer than need be. It always visits a task once, and the same tasks always
/// lead to the same cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Closed: the last is the first again.
    pub path: Vec<TaskIx>,
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

/// Finds a cycle among the tasks that are not `sorted`.
pub(super) fn find(needs: &Adjacency, feeds: &Adjacency, sorted: &[TaskIx]) -> Cycle {
    let tangled = tangle(needs, feeds, sorted);
    let mut path = walk(needs, &tangled);
    let mut search = Search::new(needs, &tangled);
    // The walk's cycle gives way to one of its length, whose start is known to be declared first.
    let mut longest = path.len() - 1;
    for start in needs.tasks().filter(|it| tangled[it.at()]) {
        if let Some(closed) = search.run(start, longest) {
            longest = closed.len() - 2;
            path = closed;
        }
        if longest == 0 || search.effort == 0 {
            break;
        }
    }
    Cycle { path }
}

/// Says of each task whether it is on a cycle or between two.
fn tangle(needs: &Adjacency, feeds: &Adjacency, sorted: &[TaskIx]) -> Vec<bool> {
    let mut tangled = vec![true; needs.len()];
    for task in sorted {
        tangled[task.at()] = false;
    }
    // What only waits for a cycle is taken off from its loose end.
    let mut fed = vec![0_usize; needs.len()];
    for task in needs.tasks().filter(|it| tangled[it.at()]) {
        fed[task.at()] = feeds.of(task).len();
    }
    let is_loose = |it: &TaskIx| tangled[it.at()] && fed[it.at()] == 0;
    let mut loose: Vec<TaskIx> = needs.tasks().filter(is_loose).collect();
    while let Some(task) = loose.pop() {
        tangled[task.at()] = false;
        for &next in needs.of(task).iter().filter(|it| tangled[it.at()]) {
            fed[next.at()] -= 1;
            if fed[next.at()] == 0 {
                loose.push(next);
            }
        }
    }
    tangled
}

/// Goes from need to need until it comes back to where it was: some cycle, found in no time.
fn walk(needs: &Adjacency, tangled: &[bool]) -> Vec<TaskIx> {
    let is_tangled = |it: &TaskIx| tangled[it.at()];
    let mut path = Vec::new();
    let mut passed_at = vec![None; needs.len()];
    let mut next = needs.tasks().find(is_tangled);
    while let Some(task) = next {
        let passed = passed_at[task.at()].replace(path.len());
        path.push(task);
        if let Some(first) = passed {
            path.drain(..first);
            break;
        }
        next = needs.of(task).iter().copied().find(is_tangled);
    }
    path
}

/// Breadth-first searches that share their memory and their effort.
struct Search<'a> {
    needs: &'a Adjacency,
    tangled: &'a [bool],
    effort: usize,
    /// Which start a task was last reached from, and which task needs it on the way.
    reached: Vec<Option<(TaskIx, TaskIx)>>,
}

impl<'a> Search<'a> {
    fn new(needs: &'a Adjacency, tangled: &'a [bool]) -> Search<'a> {
        Search {
            needs,
            tangled,
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
                    if next > start && self.tangled[next.at()] && !is_reached {
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
