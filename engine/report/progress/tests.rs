use std::sync::atomic::{AtomicU64, Ordering};

use expect_test::{Expect, expect};
use indicatif::InMemoryTerm;

use super::*;
use crate::agent::Usage;

/// A terminal that shows a run, and a clock to set.
struct Theatre {
    term: InMemoryTerm,
    seconds: Arc<AtomicU64>,
    progress: Progress,
}

impl Theatre {
    fn new(level: Level) -> Theatre {
        Theatre::of_width(100, level)
    }

    fn of_width(width: u16, level: Level) -> Theatre {
        let term = InMemoryTerm::new(30, width);
        let seconds = Arc::new(AtomicU64::new(0));
        let now = Arc::clone(&seconds);
        let clock = Arc::new(move || Duration::from_secs(now.load(Ordering::Relaxed)));
        let drawn = term.clone();
        let target = move || ProgressDrawTarget::term_like(Box::new(drawn.clone()));
        Theatre {
            term,
            seconds,
            progress: Progress::new(Arc::new(target), move || width.into(), level, clock),
        }
    }

    /// Hears events, the first of them at a time in seconds.
    fn at(&mut self, seconds: u64, events: impl IntoIterator<Item = RunEvent>) {
        self.seconds.store(seconds, Ordering::Relaxed);
        for event in events {
            self.progress.hear(&event);
        }
    }

    fn check(&self, expected: Expect) {
        let lines = self.term.contents();
        let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
        expected.assert_eq(&lines.join("\n"));
    }
}

fn batch_started(tasks: usize) -> RunEvent {
    RunEvent::BatchStarted {
        batch: "chunks".into(),
        tasks,
        concurrency: 50,
    }
}

fn started(task: &str, attempt: u32) -> RunEvent {
    RunEvent::TaskStarted {
        batch: "chunks".into(),
        task: task.into(),
        agent: "ChunkAnalyst".into(),
        attempt,
    }
}

fn retried(task: &str) -> RunEvent {
    RunEvent::AttemptRejected {
        batch: "chunks".into(),
        task: task.into(),
        attempt: 1,
        failure: "timed_out",
        message: "no answer in 60 s".to_owned(),
        retry_in_ms: Some(1500),
    }
}

fn ended(task: &str, end: TaskEnd) -> RunEvent {
    RunEvent::TaskEnded {
        model: None,
        read: None,
        batch: "chunks".into(),
        task: task.into(),
        end,
        attempts: 1,
        reused: None,
        usage: Usage::default(),
        files: 0,
    }
}

fn failed() -> TaskEnd {
    TaskEnd::Failed {
        failure: "bad_output",
        message: "\u{1b}[2Jnot an\nobject".to_owned(),
    }
}

#[test]
fn a_turn_is_seen_while_it_lasts() {
    let mut theatre = Theatre::new(Level::Normal);
    let (turn, agent): (u32, Arc<str>) = (1, "Planner".into());
    theatre.at(
        0,
        [RunEvent::TurnStarted {
            turn,
            agent: agent.clone(),
            recalled: false,
        }],
    );
    theatre.at(
        7,
        [RunEvent::TurnRejected {
            turn,
            agent: agent.clone(),
            attempt: 1,
            failure: "not_json",
            message: "not JSON".to_owned(),
            retry_in_ms: Some(1000),
        }],
    );
    theatre.check(expect![[r#"
        [  0.0s] turn      1: Planner
        [  7.0s] retried   Planner attempt 1: not_json: not JSON; attempt 2 in 1.0s
          turn 1  Planner     7s  attempt 2"#]]);
    let usage = Usage::default();
    theatre.at(
        9,
        [RunEvent::TurnEnded {
            turn,
            agent,
            usage,
            model: None,
            read: None,
        }],
    );
    theatre.check(expect![[r#"
        [  0.0s] turn      1: Planner
        [  7.0s] retried   Planner attempt 1: not_json: not JSON; attempt 2 in 1.0s"#]]);
}

#[test]
fn a_batch_is_a_bar_below_what_runs() {
    let mut theatre = Theatre::new(Level::Normal);
    theatre.at(0, [batch_started(4)]);
    theatre.at(1, ["a", "b", "long_name", "d"].map(|it| started(it, 1)));
    theatre.at(5, [ended("a", TaskEnd::Completed), retried("b")]);
    theatre.at(7, [started("b", 2), ended("d", failed())]);
    theatre.at(
        75,
        [RunEvent::Warning {
            message: "odd".to_owned(),
        }],
    );
    theatre.check(expect![[r#"
        [  5.0s] retried   b attempt 1: timed_out: no answer in 60 s; attempt 2 in 1.5s
        [  7.0s] failed    d: bad_output:  [2Jnot an object
        [ 75.0s] warning   odd
          long_name  ChunkAnalyst    74s
          b          ChunkAnalyst    68s  attempt 2
        chunks ████████████░░░░░░░░░░░░ 2/4, 1 retried, 1 failed"#]]);
}

#[test]
fn a_finished_batch_leaves_one_line_and_a_finished_run_no_bar() {
    let mut theatre = Theatre::new(Level::Normal);
    theatre.at(0, [batch_started(1), started("a", 1)]);
    let batch_ended = RunEvent::BatchEnded {
        batch: "chunks".into(),
        status: "completed",
        completed: 1,
        failed: 0,
        cancelled: 0,
    };
    theatre.at(3, [ended("a", TaskEnd::Completed), batch_ended]);
    theatre.check(expect![
        "[  3.0s] batch     chunks completed: 1 completed, 0 failed, 0 cancelled"
    ]);
    let run_ended = RunEvent::RunEnded {
        status: "completed",
        reason: None,
        turns: 2,
        usage: Usage::default(),
    };
    theatre.at(4, [run_ended]);
    theatre.check(expect![[r#"
        [  3.0s] batch     chunks completed: 1 completed, 0 failed, 0 cancelled
        [  4.0s] run       completed (2 turns)"#]]);
}

#[test]
fn quiet_prints_nothing_above_the_bar() {
    let mut theatre = Theatre::new(Level::Quiet);
    theatre.at(0, [batch_started(2), started("a", 1), ended("a", failed())]);
    theatre.check(expect!["chunks ████████████░░░░░░░░░░░░ 1/2, 1 failed"]);
}

#[test]
fn many_tasks_take_few_lines() {
    let mut theatre = Theatre::new(Level::Normal);
    theatre.at(0, [batch_started(22)]);
    theatre.at(1, (1..=22).map(|it| started(&format!("task_{it}"), 1)));
    theatre.check(expect![[r#"
          task_1   ChunkAnalyst     0s
          task_2   ChunkAnalyst     0s
          task_3   ChunkAnalyst     0s
          task_4   ChunkAnalyst     0s
          task_5   ChunkAnalyst     0s
          task_6   ChunkAnalyst     0s
          task_7   ChunkAnalyst     0s
          task_8   ChunkAnalyst     0s
          task_9   ChunkAnalyst     0s
          task_10  ChunkAnalyst     0s
          and 12 more
        chunks ░░░░░░░░░░░░░░░░░░░░░░░░ 0/22"#]]);
}

#[test]
fn hostile_names_stay_on_their_line() {
    let mut theatre = Theatre::new(Level::Normal);
    let long = "x".repeat(90);
    theatre.at(
        0,
        [
            batch_started(0),
            started("a\n\u{1b}[2Jb", 1),
            started(&long, 1),
        ],
    );
    theatre.check(expect![[r#"
          a  [2Jb                               ChunkAnalyst     0s
          xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…  ChunkAnalyst     0s
        chunks ░░░░░░░░░░░░░░░░░░░░░░░░ 0/0"#]]);
}

#[test]
fn behind_a_closed_curtain_nothing_is_drawn_and_what_came_is_printed_afterwards() {
    let mut theatre = Theatre::new(Level::Normal);
    theatre.at(0, [batch_started(2), started("a", 1), started("b", 1)]);
    let curtain = theatre.progress.curtain();
    let closed = curtain.close();
    theatre.at(5, [ended("a", failed()), started("c", 1)]);
    theatre.check(expect![[r#""#]]);
    drop(closed);
    theatre.check(expect![[r#"
        [  5.0s] failed    a: bad_output:  [2Jnot an object
          b  ChunkAnalyst     5s
          c  ChunkAnalyst     0s
        chunks ████████████░░░░░░░░░░░░ 1/2, 1 failed"#]]);
}

#[test]
fn a_wait_for_a_provider_is_counted_down() {
    let mut theatre = Theatre::new(Level::Normal);
    let waiting = |waiting: usize| RunEvent::Waiting {
        provider: "local".into(),
        waiting,
        paused_ms: None,
    };
    let held_up = RunEvent::HeldUp {
        provider: "local".into(),
        limit: Some("tokens_per_minute"),
        waiting: 2,
        for_ms: Some(43_000),
    };
    theatre.at(1, [batch_started(4), waiting(2), held_up]);
    theatre.at(11, [waiting(3)]);
    theatre.check(expect![[r#"
        [  1.0s] paused    local is not asked for 43.0s (`tokens_per_minute`), 2 calls waiting
          3 calls waiting for local, 33s more
        chunks ░░░░░░░░░░░░░░░░░░░░░░░░ 0/4"#]]);
    theatre.at(44, [waiting(1)]);
    theatre.check(expect![[r#"
        [  1.0s] paused    local is not asked for 43.0s (`tokens_per_minute`), 2 calls waiting
          1 call waiting for local
        chunks ░░░░░░░░░░░░░░░░░░░░░░░░ 0/4"#]]);
    theatre.at(45, [waiting(0)]);
    theatre.check(expect![[r#"
        [  1.0s] paused    local is not asked for 43.0s (`tokens_per_minute`), 2 calls waiting
        chunks ░░░░░░░░░░░░░░░░░░░░░░░░ 0/4"#]]);
}

#[test]
fn no_line_is_wider_than_its_terminal() {
    let waits = |provider: &str| RunEvent::Waiting {
        provider: provider.into(),
        waiting: 12,
        paused_ms: None,
    };
    let shown = |width: u16| {
        let mut theatre = Theatre::of_width(width, Level::Quiet);
        theatre.at(0, [batch_started(8), waits("a-provider-of-some-length")]);
        let tasks = [
            "a",
            "write_the_introduction_of_the_report",
            "表表表表表表表表表表表表",
        ];
        theatre.at(1, tasks.map(|it| started(it, 1)));
        theatre.at(
            2,
            [
                retried("a"),
                started("a", 2),
                ended("b", TaskEnd::Completed),
            ],
        );
        theatre.at(150, [ended("c", failed())]);
        theatre
    };
    for width in 10..100 {
        let rows = shown(width).term.contents().lines().count();
        assert_eq!(rows, 5, "{width}");
    }
    shown(60).check(expect![[r#"
          write_the_introductio…  ChunkAnalyst   149s
          表表表表表表表表表表表表            ChunkAnalyst   149s
          a                       ChunkAnalyst   148s  attempt 2
          12 calls waiting for a-provider-of-some-length
        chunks ██████░░░░░░░░░░░░░░░░░░ 2/8, 1 retried, 1 failed"#]]);
    shown(40).check(expect![[r#"
          write_the_introd…   149s
          表表表表表表表表表表表表        149s
          a                   148s  attempt 2
          12 calls waiting for a-provider-of-so…
        chunks ██░░░░░░ 2/8, 1 retried, 1 failed"#]]);
    shown(20).check(expect![[r#"
          write_t…   149s
          表表表表表表表…  …
          a          148s  …
          12 calls waiting …
        chunks  2/8, 1 retr…"#]]);
}
