//! How much of a batch can run at once.
//!
//! By Dilworth's theorem, the most tasks of which none waits for another are as many as the fewest chains that
//! cover all tasks. Chains are covered by linking tasks to later ones, and the most links are a maximum matching.

use super::{TaskGraph, TaskIx};

/// Up to how many tasks the width is computed exactly, in at most n³/64 steps and n²/8 bytes.
const EXACT_UP_TO: usize = 1024;

/// The most tasks that can run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// So many, and never more.
    Exact(usize),
    /// So many, and perhaps more: the tasks of the fullest level. Said of more than 1,024 tasks.
    AtLeast(usize),
}

pub(super) fn of(graph: &TaskGraph) -> Width {
    if graph.len() <= EXACT_UP_TO {
        Width::Exact(graph.len() - links(&Reach::new(graph)))
    } else {
        Width::AtLeast(fullest_level(graph))
    }
}

fn fullest_level(graph: &TaskGraph) -> usize {
    let mut sizes = vec![0; graph.len()];
    for level in graph.levels() {
        sizes[level as usize] += 1;
    }
    sizes.into_iter().max().unwrap_or(0)
}

/// For each task a row of bits: the tasks that wait for it, directly or not.
struct Reach {
    words: usize,
    bits: Vec<u64>,
}

impl Reach {
    fn new(graph: &TaskGraph) -> Reach {
        let words = graph.len().div_ceil(64);
        let mut bits = vec![0; graph.len() * words];
        for &task in graph.order.iter().rev() {
            let row = task.at() * words;
            for next in graph.feeds(task) {
                bits[row + next.at() / 64] |= 1 << (next.at() % 64);
                for word in 0..words {
                    bits[row + word] |= bits[next.at() * words + word];
                }
            }
        }
        Reach { words, bits }
    }

    fn row(&self, task: TaskIx) -> &[u64] {
        &self.bits[task.at() * self.words..][..self.words]
    }

    fn tasks(&self) -> impl Iterator<Item = TaskIx> + use<> {
        let tasks = self.bits.len().checked_div(self.words).unwrap_or(0);
        (0..tasks).map(TaskIx::new)
    }
}

/// The most links from a task to one that waits for it, if a task has at most one link to it and one from it.
fn links(reach: &Reach) -> usize {
    let n_tasks = reach.tasks().count();
    let mut after = vec![None; n_tasks];
    let mut before = vec![None; n_tasks];
    reach
        .tasks()
        .filter(|it| link(*it, reach, &mut after, &mut before))
        .count()
}

/// Links `first` to a later task, moving links made before where that helps. Says whether it could.
fn link(
    first: TaskIx,
    reach: &Reach,
    after: &mut [Option<TaskIx>],
    before: &mut [Option<TaskIx>],
) -> bool {
    let mut unseen = vec![u64::MAX; reach.words];
    let mut seen_from = vec![first; before.len()];
    let mut queue = vec![first];
    let mut taken = 0;
    while let Some(&task) = queue.get(taken) {
        taken += 1;
        for (word, (row, unseen)) in reach.row(task).iter().zip(&mut unseen).enumerate() {
            let mut news = row & *unseen;
            *unseen &= !news;
            while news != 0 {
                let later = TaskIx::new(word * 64 + news.trailing_zeros() as usize);
                news &= news - 1;
                seen_from[later.at()] = task;
                match before[later.at()] {
                    // Whoever has it may find another.
                    Some(holder) => queue.push(holder),
                    None => {
                        relink(later, &seen_from, after, before);
                        return true;
                    }
                }
            }
        }
    }
    false
}

/// Gives `free` to the task it was seen from, what that had to the task it was seen from, and so on.
fn relink(
    free: TaskIx,
    seen_from: &[TaskIx],
    after: &mut [Option<TaskIx>],
    before: &mut [Option<TaskIx>],
) {
    let mut given = Some(free);
    while let Some(later) = given {
        let task = seen_from[later.at()];
        before[later.at()] = Some(task);
        given = after[task.at()].replace(later);
    }
}
