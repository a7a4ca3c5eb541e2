//! Tasks that go ahead: they begin with what the need that they stream has put out so far.

use std::{cmp::Reverse, collections::VecDeque};

use super::{Command, Scheduler, State};
use crate::graph::TaskIx;

impl Scheduler<'_> {
    pub(super) fn flow(&mut self, task: TaskIx) {
        if let State::Waiting { flows, .. } = &mut self.states[task.at()] {
            *flows = true;
            self.offer(task);
        }
    }

    /// A task that waits for nothing but its stream, which flows, may go ahead.
    pub(super) fn offer(&mut self, task: TaskIx) {
        if self.may_go_ahead(task) {
            self.flowing
                .push((self.remaining[task.at()], Reverse(task)));
        }
    }

    fn may_go_ahead(&self, task: TaskIx) -> bool {
        let waits_for_its_stream = State::Waiting {
            unmet: 1,
            flows: true,
        };
        self.states[task.at()] == waits_for_its_stream
    }

    /// Gives the slots that nothing else wants to what may go ahead.
    pub(super) fn go_ahead(&mut self, commands: &mut Vec<Command>) {
        while self.running < self.policy.concurrency.max(1)
            && let Some((_, Reverse(task))) = self.flowing.pop()
        {
            if self.may_go_ahead(task) {
                self.states[task.at()] = State::Ahead { unmet: 1 };
                self.running += 1;
                commands.push(Command::Ahead { task });
            }
        }
    }

    /// What went ahead, directly or not, with an output of `task` that is not to be waits again.
    pub(super) fn recede(&mut self, task: TaskIx, commands: &mut Vec<Command>) {
        let graph = self.graph;
        let mut ahead: VecDeque<TaskIx> = graph.streamed_by(task).collect();
        while let Some(task) = ahead.pop_front() {
            match &mut self.states[task.at()] {
                State::Waiting { flows, .. } => *flows = false,
                State::Ahead { unmet } => {
                    let unmet = *unmet;
                    self.wait_again(task, unmet, commands);
                    ahead.extend(graph.streamed_by(task));
                }
                _ => (),
            }
        }
    }

    /// Nothing came of going ahead.
    pub(super) fn step_back(&mut self, task: TaskIx, unmet: u32, commands: &mut Vec<Command>) {
        self.wait_again(task, unmet, commands);
        self.recede(task, commands);
    }

    /// As if no attempt had been made.
    fn wait_again(&mut self, task: TaskIx, unmet: u32, commands: &mut Vec<Command>) {
        commands.push(Command::Drop { task });
        self.running -= 1;
        match unmet {
            0 => self.make_ready(task, 1),
            _ => {
                let flows = false;
                self.states[task.at()] = State::Waiting { unmet, flows };
            }
        }
    }
}
