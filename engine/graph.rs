//! The tasks of one batch and the order between them.
//!
//! **Invariant:** a [`TaskGraph`] is acyclic, and all that its tasks need is in it. [`TaskGraph::new`] is the only
//! way to get one, so no later stage checks again.
//! **Invariant:** nothing here recurses: a chain of any length costs no stack.

mod cycle;
mod id;
mod width;

use std::mem;

pub use self::{
    cycle::{Cycle, Cycles},
    id::{is_reserved_id, unusable_id},
    width::Width,
};

/// A task's place in its graph. Declaration order, and the tie-break wherever one is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskIx(u32);

/// An acyclic order on the tasks of a batch. A task takes 20 bytes and a dependency 8, in five allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskGraph {
    needs: Adjacency,
    feeds: Adjacency,
    /// Invariant: every task once, after all that it needs.
    order: Vec<TaskIx>,
    /// For each task the need whose output it may take in as it comes; empty where no task may.
    streams: Vec<Option<TaskIx>>,
}

impl TaskIx {
    /// The task in place `at`, counted from zero.
    pub(crate) fn new(at: usize) -> TaskIx {
        TaskIx(u32::try_from(at).expect("memory holds no batch of 2^32 tasks"))
    }

    /// The place, as it is written down.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The place, for a `Vec` that has an element for each task.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl TaskGraph {
    /// Makes a graph of as many tasks as there are lists, each of which says what that task needs.
    /// What a list says twice counts once.
    ///
    /// # Errors
    /// The cycles, if there are any: what needs itself can never start.
    ///
    /// # Panics
    /// If a list names a task that there is no list for. Whoever turned names into places has checked that.
    pub fn new(needs: &[Vec<TaskIx>]) -> Result<TaskGraph, Cycles> {
        let needs = Adjacency::new(needs);
        let feeds = needs.reversed();
        let order = sort(&needs, &feeds);
        if order.len() < needs.len() {
            return Err(cycle::find(&needs, &feeds, &order));
        }
        Ok(TaskGraph {
            needs,
            feeds,
            order,
            streams: Vec::new(),
        })
    }

    /// The same order, in which a task may begin with what this one of its needs has put out so far.
    pub fn with_streams(mut self, streams: Vec<Option<TaskIx>>) -> TaskGraph {
        self.streams = streams;
        debug_assert!(self.tasks().all(|it| {
            self.stream(it)
                .is_none_or(|of| self.needs(it).contains(&of))
        }));
        self
    }

    /// The need whose output `task` may take in as it comes.
    pub fn stream(&self, task: TaskIx) -> Option<TaskIx> {
        self.streams.get(task.at()).copied().flatten()
    }

    /// What may take in the output of `task` as it comes.
    pub fn streamed_by(&self, task: TaskIx) -> impl Iterator<Item = TaskIx> {
        let feeds = match self.streams.is_empty() {
            true => &[],
            false => self.feeds(task),
        };
        let feeds = feeds.iter().copied();
        feeds.filter(move |it| self.stream(*it) == Some(task))
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Every task, in declaration order.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = TaskIx> + ExactSizeIterator + use<> {
        self.needs.tasks()
    }

    /// What must be completed before `task` starts, in the order it was said.
    pub fn needs(&self, task: TaskIx) -> &[TaskIx] {
        self.needs.of(task)
    }

    /// What waits for `task`, in declaration order.
    pub fn feeds(&self, task: TaskIx) -> &[TaskIx] {
        self.feeds.of(task)
    }

    /// How many dependencies there are.
    pub fn edges(&self) -> usize {
        self.needs.to.len()
    }

    /// For each task, how many dependencies the longest way to it has. Zero for a task that needs nothing.
    pub fn levels(&self) -> Vec<u32> {
        let mut levels = vec![0; self.len()];
        for &task in &self.order {
            let below = self.needs(task).iter().map(|it| levels[it.at()] + 1);
            levels[task.at()] = below.max().unwrap_or(0);
        }
        levels
    }

    /// For each task, how much the most costly way from it to the end of the batch costs, itself included.
    pub fn remaining(&self, cost: impl Fn(TaskIx) -> u64) -> Vec<u64> {
        let mut remaining = vec![0_u64; self.len()];
        for &task in self.order.iter().rev() {
            let after = self.feeds(task).iter().map(|it| remaining[it.at()]);
            remaining[task.at()] = cost(task).saturating_add(after.max().unwrap_or(0));
        }
        remaining
    }

    /// The tasks of one longest chain, first to last. Of several, the one whose tasks are declared first.
    pub fn critical_path(&self) -> Vec<TaskIx> {
        let remaining = self.remaining(|_| 1);
        let mut longest = remaining.iter().copied().max().unwrap_or(0);
        let mut next = self.tasks().find(|it| remaining[it.at()] == longest);
        let mut path = Vec::new();
        while let Some(task) = next {
            path.push(task);
            longest -= 1;
            let mut feeds = self.feeds(task).iter().copied();
            next = feeds.find(|it| remaining[it.at()] == longest);
        }
        path
    }

    /// The most tasks that can ever run at once, however many slots there are.
    pub fn width(&self) -> Width {
        width::of(self)
    }
}

/// For each task a list of tasks, all lists in one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Adjacency {
    /// Invariant: one more than there are tasks. A task's list is from its own start to the next.
    starts: Vec<usize>,
    to: Vec<TaskIx>,
}

impl Adjacency {
    fn new(lists: &[Vec<TaskIx>]) -> Adjacency {
        let mut starts = Vec::with_capacity(lists.len() + 1);
        let mut to = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        // Which list named a task last, so that one that names it again is noticed.
        let mut named_by = vec![usize::MAX; lists.len()];
        starts.push(0);
        for (from, list) in lists.iter().enumerate() {
            for &task in list {
                if mem::replace(&mut named_by[task.at()], from) != from {
                    to.push(task);
                }
            }
            starts.push(to.len());
        }
        Adjacency { starts, to }
    }

    fn reversed(&self) -> Adjacency {
        let mut starts = vec![0; self.starts.len()];
        for task in &self.to {
            starts[task.at() + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut free = starts.clone();
        let mut to = vec![TaskIx(0); self.to.len()];
        for from in self.tasks() {
            for task in self.of(from) {
                to[free[task.at()]] = from;
                free[task.at()] += 1;
            }
        }
        Adjacency { starts, to }
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn tasks(&self) -> impl DoubleEndedIterator<Item = TaskIx> + ExactSizeIterator + use<> {
        (0..self.len()).map(TaskIx::new)
    }

    fn of(&self, task: TaskIx) -> &[TaskIx] {
        &self.to[self.starts[task.at()]..self.starts[task.at() + 1]]
    }
}

/// Puts every task after all that it needs. What is on a cycle, or needs something that is, gets no place.
fn sort(needs: &Adjacency, feeds: &Adjacency) -> Vec<TaskIx> {
    let mut unmet: Vec<usize> = needs.tasks().map(|it| needs.of(it).len()).collect();
    let mut order = Vec::with_capacity(needs.len());
    order.extend(needs.tasks().filter(|it| unmet[it.at()] == 0));
    let mut sorted = 0;
    while let Some(&task) = order.get(sorted) {
        sorted += 1;
        for &next in feeds.of(task) {
            unmet[next.at()] -= 1;
            if unmet[next.at()] == 0 {
                order.push(next);
            }
        }
    }
    order
}

#[cfg(test)]
pub(crate) mod tests;
