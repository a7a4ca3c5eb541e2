//! Of those in a batch whom people have to answer, who is next.
//!
//! **Invariant:** one is asked at a time, and of those that wait the first of the plan: which attempt gets which answer is no chance.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::watch;

use crate::graph::TaskIx;

/// Everybody who waits for a person.
#[derive(Default)]
pub(super) struct Queue(Arc<watch::Sender<Waiting>>);

#[derive(Default)]
struct Waiting {
    tasks: BTreeSet<TaskIx>,
    /// Whose question is put.
    asked: Option<TaskIx>,
}

/// A task's place in the queue, given up when it is dropped.
pub(super) struct Place {
    queue: Arc<watch::Sender<Waiting>>,
    task: TaskIx,
}

impl Queue {
    /// Whoever is to be asked at the same time takes a place before anybody's turn comes.
    pub(super) fn place(&self, task: TaskIx) -> Place {
        let queue = Arc::clone(&self.0);
        queue.send_modify(|it| {
            it.tasks.insert(task);
        });
        Place { queue, task }
    }
}

impl Place {
    /// Waits until it is this task's turn, which it is until the place is given up.
    pub(super) async fn turn(&self) {
        let mut changes = self.queue.subscribe();
        let is_next = |it: &mut Waiting| {
            let is_next = it.asked.is_none() && it.tasks.first() == Some(&self.task);
            if is_next {
                it.asked = Some(self.task);
            }
            is_next
        };
        while !self.queue.send_if_modified(is_next) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.send_modify(|it| {
            it.tasks.remove(&self.task);
            it.asked.take_if(|asked| *asked == self.task);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_of_the_plan_is_next_and_who_is_asked_is_asked_to_the_end() {
        let queue = Queue::default();
        let [c, a, b] = [2, 0, 1].map(|it| queue.place(TaskIx::new(it)));
        let is_due = async |place: &Place| {
            tokio::select! {
                biased;
                () = place.turn() => true,
                () = std::future::ready(()) => false,
            }
        };
        assert!(!is_due(&c).await && !is_due(&b).await);
        assert!(is_due(&a).await && !is_due(&b).await);
        drop(a);
        assert!(!is_due(&c).await && is_due(&b).await);
        let late = queue.place(TaskIx::new(0));
        assert!(!is_due(&late).await && !is_due(&c).await);
        drop(late);
        assert!(!is_due(&c).await);
        drop(b);
        assert!(is_due(&c).await);
    }
}
