//! Batches to play, how they are written down, played on a clock of their own, and drawn.

use std::{collections::BTreeMap, fmt, time::Duration};

use proptest::{collection::vec, option, prelude::*};

use super::super::*;
use crate::graph::tests::connect;

/// A batch and all that will happen to it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) names: Vec<String>,
    pub(crate) graph: TaskGraph,
    pub(crate) policy: Policy,
    pub(crate) deadline: Option<Duration>,
    pub(crate) cancel: Option<Duration>,
    /// For each task how its attempts go. The last one repeats.
    pub(crate) scripts: Vec<Vec<Try>>,
}

/// How one attempt goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Try {
    pub(crate) takes: Duration,
    /// `None` if it is accepted.
    pub(crate) rejected: Option<Retry>,
}

/// A command, when it was given, and the wait that was chosen for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) command: Command,
    pub(crate) wait: Option<Duration>,
}

impl World {
    pub(crate) fn attempt(&self, task: TaskIx, attempt: u32) -> Try {
        let script = &self.scripts[task.at()];
        script[(attempt as usize - 1).min(script.len() - 1)]
    }

    /// Reads settings from the first line and a task from each other:
    /// `name: seconds of each attempt <- needs`. A rejected attempt has an `x` (to try again), an `x` and seconds (not
    /// before those) or a `!` (never again) behind its seconds. A need that it streams has a `~` behind its name.
    pub(crate) fn parse(text: &str) -> World {
        let (settings, tasks) = text.split_once('\n').unwrap_or((text, ""));
        let mut names = Vec::new();
        let mut scripts = Vec::new();
        let mut needs = Vec::new();
        for line in tasks.lines() {
            let (task, needed) = line.split_once("<-").unwrap_or((line, ""));
            let (name, script) = task.split_once(':').expect("a colon after the name");
            names.push(name.to_owned());
            scripts.push(script.split_whitespace().map(Try::parse).collect());
            needs.push((name, needed));
        }
        let bare: Vec<String> = needs.iter().map(|(_, it)| it.replace('~', "")).collect();
        let tasks: Vec<_> = names
            .iter()
            .map(|it| &**it)
            .zip(bare.iter().map(|it| &**it))
            .collect();
        let graph = TaskGraph::new(&connect(&tasks)).expect("drawn worlds have no cycles");
        let stream = |(task, (_, written)): (TaskIx, &(&str, &str))| {
            let at = written.split_whitespace().position(|it| it.ends_with('~'));
            at.map(|at| graph.needs(task)[at])
        };
        let streams = graph.tasks().zip(&needs).map(stream).collect();
        let mut world = World {
            graph: graph.clone().with_streams(streams),
            names,
            policy: Policy {
                concurrency: 4,
                retry_limit: 0,
                backoff: Backoff {
                    initial: seconds("1"),
                    max: seconds("60"),
                    jitter: Jitter::None,
                },
                on_failure: OnFailure::Stop,
            },
            deadline: None,
            cancel: None,
            scripts,
        };
        for setting in settings.split(", ") {
            world.set(setting);
        }
        world
    }

    fn set(&mut self, setting: &str) {
        let (name, value) = setting.split_once(' ').unwrap_or((setting, ""));
        let number = || value.parse().expect("a number");
        match name {
            "slots" => self.policy.concurrency = number(),
            "retries" => self.policy.retry_limit = number(),
            "wait" => self.policy.backoff.initial = seconds(value),
            "longest" => self.policy.backoff.max = seconds(value),
            "continue" => self.policy.on_failure = OnFailure::Continue,
            "stop" => self.policy.on_failure = OnFailure::Stop,
            "deadline" => self.deadline = Some(seconds(value)),
            "cancel" => self.cancel = Some(seconds(value)),
            _ => panic!("`{name}` is no setting"),
        }
    }
}

impl Try {
    fn parse(text: &str) -> Try {
        let (takes, rejected) = if let Some(takes) = text.strip_suffix('!') {
            (takes, Some(Retry::Never))
        } else if let Some(takes) = text.strip_suffix('x') {
            (takes, Some(Retry::Backoff))
        } else if let Some((takes, floor)) = text.split_once('x') {
            (takes, Some(Retry::NotBefore(seconds(floor))))
        } else {
            (text, None)
        };
        let takes = seconds(takes);
        Try { takes, rejected }
    }

    /// When it is half way through, in milliseconds, which is what clocks can tell.
    pub(crate) fn half(self) -> Duration {
        Duration::from_millis(self.takes.as_millis() as u64 / 2)
    }
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.parse().expect("seconds"))
}

/// Plays a world by jumping from one event to the next.
pub(crate) fn simulate(world: &World) -> Vec<Step> {
    simulate_and(world, |_| ())
}

/// Plays a world, and does something to the scheduler after each event.
pub(crate) fn simulate_and(world: &World, mut then: impl FnMut(&mut Scheduler)) -> Vec<Step> {
    let mut scheduler = Scheduler::new(&world.graph, &world.policy);
    let mut steps = Vec::new();
    // When what goes ahead has its output, which is held back until that of its stream is accepted.
    let mut held: BTreeMap<TaskIx, Duration> = BTreeMap::new();
    // Of what happens at the same time, the batch is stopped first: as the driver does it.
    let mut agenda = BTreeMap::from([((Duration::ZERO, 0), Event::Begun)]);
    agenda.extend(world.cancel.map(|at| ((at, 1), Event::CancelRequested)));
    agenda.extend(world.deadline.map(|at| ((at, 2), Event::DeadlinePassed)));
    while let Some(((at, _), event)) = agenda.pop_first() {
        for command in scheduler.step(event) {
            let mut answers = Vec::new();
            let wait = match command {
                Command::Start { task, attempt } => {
                    let Try { takes, rejected } = world.attempt(task, attempt);
                    if attempt == 1 {
                        answers.extend(flows(world, task));
                    }
                    let answer = match rejected {
                        None => Event::Accepted { task },
                        Some(retry) => Event::Rejected { task, retry },
                    };
                    answers.push((takes, answer));
                    None
                }
                Command::Ahead { task } => {
                    let Try { takes, rejected } = world.attempt(task, 1);
                    answers.extend(flows(world, task));
                    match rejected {
                        None => drop(held.insert(task, at + takes)),
                        Some(retry) => answers.push((takes, Event::Rejected { task, retry })),
                    }
                    None
                }
                Command::Delay {
                    task,
                    failures,
                    floor,
                } => {
                    let wait = world.policy.backoff.span(failures).max(floor);
                    answers.push((wait, Event::RetryDue { task }));
                    Some(wait)
                }
                Command::Settle {
                    task,
                    end: End::Completed,
                } => {
                    let ahead = world.graph.streamed_by(task);
                    let ahead = ahead.filter_map(|it| Some((it, held.remove(&it)?)));
                    answers.extend(
                        ahead.map(|(task, due)| (due.saturating_sub(at), Event::Accepted { task })),
                    );
                    None
                }
                // What went ahead may be attempted again, so its answer is kept away.
                Command::Drop { task } if went_ahead(&steps, task) => {
                    held.remove(&task);
                    agenda.retain(|_, event| !is_of(world, task, *event));
                    None
                }
                // What else is dropped stays on the agenda: its answer comes late, and must do no harm.
                Command::Drop { .. } | Command::Settle { .. } => None,
            };
            steps.push(Step { at, command, wait });
            assert!(steps.len() < 100_000, "the batch does not end");
            for (nth, (after, event)) in answers.into_iter().enumerate() {
                agenda.insert((at + after, (steps.len() + 2) * 100 + nth), event);
            }
        }
        then(&mut scheduler);
    }
    assert!(
        scheduler.is_finished(),
        "nothing is under way, and yet the batch has not ended"
    );
    steps
}

/// Half way through, whoever streams a task can go ahead.
fn flows(world: &World, task: TaskIx) -> impl Iterator<Item = (Duration, Event)> {
    let after = world.attempt(task, 1).half();
    let takers = world.graph.streamed_by(task);
    takers.map(move |task| (after, Event::Flows { task }))
}

/// Whether what was last begun on a task went ahead.
fn went_ahead(steps: &[Step], task: TaskIx) -> bool {
    let begun = steps.iter().rev().find_map(|it| match it.command {
        Command::Ahead { task: it } => (it == task).then_some(true),
        Command::Start { task: it, .. } => (it == task).then_some(false),
        _ => None,
    });
    begun == Some(true)
}

/// Whether an event is of an attempt on a task.
fn is_of(world: &World, task: TaskIx, event: Event) -> bool {
    match event {
        Event::Accepted { task: it } | Event::Rejected { task: it, .. } => it == task,
        Event::Flows { task: it } => world.graph.stream(it) == Some(task),
        _ => false,
    }
}

/// Draws a row for each task with a column for each second, `#` while it is attempted, `~` while it goes ahead, and `.` while it waits for
/// its next attempt, and how it ended.
pub(crate) fn draw(world: &World, steps: &[Step]) -> String {
    let column = |it: &Step| usize::try_from(it.at.as_secs()).expect("a short batch");
    let columns = steps.iter().map(column).max().unwrap_or(0);
    let width = world.names.iter().map(String::len).max().unwrap_or(0);
    let name = |it: TaskIx| &world.names[it.at()];
    let row = |row_of: TaskIx| {
        let mut row = String::new();
        let mut fill = ' ';
        let mut note = String::new();
        for step in steps {
            let (task, next) = match step.command {
                Command::Start { task, .. } => (task, '#'),
                Command::Ahead { task } => (task, '~'),
                Command::Delay { task, .. } => (task, '.'),
                Command::Drop { task } | Command::Settle { task, .. } => (task, ' '),
            };
            if task != row_of {
                continue;
            }
            row.extend(std::iter::repeat_n(fill, column(step) - row.len()));
            fill = next;
            if let Command::Settle { end, .. } = step.command {
                note = match end {
                    End::Completed => "completed".to_owned(),
                    End::Failed => "failed".to_owned(),
                    End::Cancelled(Cause::NeedsFailed(of)) => format!("needs {}", name(of)),
                    End::Cancelled(Cause::Withdrawn) => "withdrawn".to_owned(),
                    End::Cancelled(Cause::NeedsWithdrawn(of)) => format!("needs {}", name(of)),
                    End::Cancelled(Cause::BatchStopped(of)) => format!("stopped by {}", name(of)),
                    End::Cancelled(Cause::Budget) => "budget".to_owned(),
                    End::Cancelled(Cause::Deadline) => "deadline".to_owned(),
                    End::Cancelled(Cause::Requested) => "cancelled".to_owned(),
                };
            }
        }
        format!("{:width$} |{row:columns$}| {note}\n", name(row_of))
    };
    world.graph.tasks().map(row).collect()
}

/// Any small world in which nothing takes `longest` milliseconds. The fewer, the more happens at the same time.
pub(crate) fn any_world(longest: u64) -> impl Strategy<Value = World> {
    let any_time = move || (0..longest).prop_map(Duration::from_millis);
    let any_policy = (1..4u32, 0..3u32, any_time(), any_time(), any::<bool>()).prop_map(
        |(concurrency, retry_limit, initial, max, stops)| Policy {
            concurrency,
            retry_limit,
            backoff: Backoff {
                initial,
                max,
                jitter: Jitter::None,
            },
            on_failure: if stops {
                OnFailure::Stop
            } else {
                OnFailure::Continue
            },
        },
    );
    let any_rejected = prop_oneof![
        4 => Just(None),
        2 => Just(Some(Retry::Backoff)),
        1 => any_time().prop_map(|it| Some(Retry::NotBefore(it))),
        1 => Just(Some(Retry::Never)),
    ];
    let any_try = (any_time(), any_rejected).prop_map(|(takes, rejected)| Try { takes, rejected });
    let any_stop = move || option::weighted(0.3, any_time().prop_map(|it| it * 4));
    (0..10usize).prop_flat_map(move |n| {
        let any_scripts = vec(vec(any_try.clone(), 1..4), n);
        let any_limits = (any_stop(), any_stop());
        (any_policy.clone(), any_scripts, any_graph(n), any_limits).prop_map(
            |(policy, scripts, graph, (deadline, cancel))| World {
                names: graph.tasks().map(|it| it.at().to_string()).collect(),
                graph,
                policy,
                deadline,
                cancel,
                scripts,
            },
        )
    })
}

/// Any graph of `n` tasks, declared in another order than they depend in.
fn any_graph(n: usize) -> impl Strategy<Value = TaskGraph> {
    let any_needs = (1..6u32).prop_flat_map(move |sparsity| {
        vec(vec(prop::bool::weighted(1.0 / f64::from(sparsity)), n), n)
    });
    let any_order = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
    let any_streams = vec(option::of(any::<prop::sample::Index>()), n);
    (any_needs, any_order, any_streams).prop_map(move |(needs, order, streams)| {
        let needs_of = |task: usize| {
            let earlier = (0..n).filter(|it| order[*it] < order[task] && needs[task][*it]);
            earlier.map(TaskIx::new).collect()
        };
        let needs: Vec<Vec<TaskIx>> = (0..n).map(needs_of).collect();
        let graph = TaskGraph::new(&needs).expect("needs go down in the shuffled order");
        let stream = |(needs, at): (&Vec<TaskIx>, Option<prop::sample::Index>)| {
            at.filter(|_| !needs.is_empty()).map(|at| *at.get(needs))
        };
        let streams = needs.iter().zip(streams).map(stream).collect();
        graph.with_streams(streams)
    })
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for task in self.graph.tasks() {
            let (script, needs) = (&self.scripts[task.at()], self.graph.needs(task));
            let stream = self.graph.stream(task);
            writeln!(f, "{task:?}: {script:?} <- {needs:?}, streams {stream:?}")?;
        }
        let World {
            policy,
            deadline,
            cancel,
            ..
        } = self;
        write!(f, "{policy:?}, deadline {deadline:?}, cancelled {cancel:?}")
    }
}
