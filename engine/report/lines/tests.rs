use std::{
    io,
    sync::{Arc, Mutex},
};

use expect_test::{Expect, expect};

use super::*;
use crate::usage::Cost;

/// What was written, for whoever else holds it.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Events, half a second apart.
fn check(level: Level, events: &[RunEvent], expected: Expect) {
    let (paper, ticks) = (Paper::default(), Mutex::new(0));
    let clock = Arc::new(move || {
        let mut ticks = ticks.lock().unwrap();
        *ticks += 500;
        Duration::from_millis(*ticks)
    });
    let mut lines = Lines::new(level, Box::new(paper.clone()), clock);
    for event in events {
        lines.hear(event);
    }
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    expected.assert_eq(&text);
}

/// Everything that can happen, more or less in order.
fn story() -> Vec<RunEvent> {
    let (batch, task, agent): (Arc<str>, Arc<str>, Arc<str>) =
        ("chunks".into(), "chunk_3".into(), "ChunkAnalyst".into());
    let usage = Usage {
        input_tokens: 1200,
        output_tokens: 34,
        cached_input_tokens: 200,
        cost: Some(Cost::new(0.0125)),
        cu: Some(Cost::new(0.25)),
        cu_estimated: false,
        estimated: false,
    };
    let ended = |end: TaskEnd, attempts: u32, files: usize| RunEvent::TaskEnded {
        model: None,
        read: None,
        batch: batch.clone(),
        task: task.clone(),
        end,
        attempts,
        reused: None,
        usage: Usage::default(),
        files,
    };
    let started = |attempt: u32| RunEvent::TaskStarted {
        batch: batch.clone(),
        task: task.clone(),
        agent: agent.clone(),
        attempt,
    };
    let rejected = |retry_in_ms: Option<u64>| RunEvent::AttemptRejected {
        batch: batch.clone(),
        task: task.clone(),
        attempt: 1,
        failure: "timed_out",
        message: "no answer\nin 60 s".to_owned(),
        retry_in_ms,
    };
    let held_up = |limit: Option<&'static str>, for_ms: Option<u64>| RunEvent::HeldUp {
        provider: "local".into(),
        limit,
        waiting: 3,
        for_ms,
    };
    vec![
        RunEvent::RunStarted {
            run: "6f-1".into(),
            workflow: "Reports".into(),
        },
        RunEvent::TurnStarted {
            turn: 1,
            agent: "Planner".into(),
            recalled: false,
        },
        RunEvent::TurnRejected {
            turn: 1,
            agent: "Planner".into(),
            attempt: 1,
            failure: "not_json",
            message: "not JSON: `\u{1b}[2J`".to_owned(),
            retry_in_ms: Some(1500),
        },
        RunEvent::TurnEnded {
            model: None,
            read: None,
            turn: 1,
            agent: "Planner".into(),
            usage,
        },
        RunEvent::PlanRejected {
            batch: batch.clone(),
            faults: 1,
            report: "error[MZ404]: a cycle\n --> reply:3:1\n\n3 | a\u{7}\n  | ^\n\n".to_owned(),
            rounds_left: 1,
        },
        RunEvent::PlanAccepted {
            batch: batch.clone(),
            tasks: 3,
            dependencies: 1,
            critical_path: 2,
        },
        RunEvent::BatchUnchanged {
            batch: batch.clone(),
        },
        RunEvent::BatchStarted {
            batch: batch.clone(),
            tasks: 3,
            concurrency: 2,
        },
        started(1),
        rejected(Some(1500)),
        started(2),
        ended(TaskEnd::Completed, 2, 1),
        rejected(None),
        ended(
            TaskEnd::Failed {
                failure: "timed_out",
                message: "no answer".to_owned(),
            },
            3,
            0,
        ),
        ended(
            TaskEnd::Cancelled {
                because: "`a` failed".to_owned(),
            },
            0,
            0,
        ),
        RunEvent::BatchEnded {
            batch: batch.clone(),
            status: "partial",
            completed: 12,
            failed: 1,
            cancelled: 2,
        },
        RunEvent::Waiting {
            provider: "local".into(),
            waiting: 3,
            paused_ms: None,
        },
        held_up(None, Some(3_500)),
        held_up(Some("requests_per_minute"), Some(43_000)),
        held_up(Some("max_concurrency"), None),
        RunEvent::Warning {
            message: "no transition\r\nmatches".to_owned(),
        },
        RunEvent::RunEnded {
            status: "partial",
            reason: Some("1 task failed".to_owned()),
            turns: 2,
            usage,
        },
    ]
}

#[test]
fn every_event_has_its_line() {
    check(
        Level::Verbose,
        &story(),
        expect![[r#"
            [  0.5s] run       6f-1 of Reports
            [  1.0s] turn      1: Planner
            [  1.5s] retried   Planner attempt 1: not_json: not JSON: ` [2J`; attempt 2 in 1.5s
            [  2.0s] turn      1: Planner is done, 1200 tokens in, 34 out, 200 cached, cost 0.0125, 0.25 CU
            [  2.5s] refused   chunks: 1 fault; the planner is asked again, 1 round left
                error[MZ404]: a cycle
                 --> reply:3:1
                3 | a
                  | ^
            [  3.0s] accepted  chunks: 3 tasks, 1 dependency, longest chain 2
            [  3.5s] batch     chunks: the same tasks as before, the results stand
            [  4.0s] batch     chunks: 3 tasks, at most 2 at once
            [  4.5s] started   chunk_3 (ChunkAnalyst)
            [  5.0s] retried   chunk_3 attempt 1: timed_out: no answer in 60 s; attempt 2 in 1.5s
            [  5.5s] started   chunk_3 (ChunkAnalyst, attempt 2)
            [  6.0s] completed chunk_3 after 2 attempts, 1 file
            [  6.5s] rejected  chunk_3 attempt 1: timed_out: no answer in 60 s
            [  7.0s] failed    chunk_3 after 3 attempts: timed_out: no answer
            [  7.5s] cancelled chunk_3: `a` failed
            [  8.0s] batch     chunks partial: 12 completed, 1 failed, 2 cancelled
            [  9.0s] paused    local is not asked for 3.5s, 3 calls waiting
            [  9.5s] paused    local is not asked for 43.0s (`requests_per_minute`), 3 calls waiting
            [ 10.0s] paused    local has no free slot (`max_concurrency`), 3 calls waiting
            [ 10.5s] warning   no transition  matches
            [ 11.0s] run       partial: 1 task failed (2 turns, 1200 tokens in, 34 out, 200 cached, cost 0.0125, 0.25 CU)
        "#]],
    );
}

#[test]
fn starts_are_left_out_unless_asked_for() {
    check(
        Level::Normal,
        &story(),
        expect![[r#"
            [  0.5s] run       6f-1 of Reports
            [  1.0s] turn      1: Planner
            [  1.5s] retried   Planner attempt 1: not_json: not JSON: ` [2J`; attempt 2 in 1.5s
            [  2.5s] refused   chunks: 1 fault; the planner is asked again, 1 round left
                error[MZ404]: a cycle
                 --> reply:3:1
                3 | a
                  | ^
            [  3.0s] accepted  chunks: 3 tasks, 1 dependency, longest chain 2
            [  3.5s] batch     chunks: the same tasks as before, the results stand
            [  5.0s] retried   chunk_3 attempt 1: timed_out: no answer in 60 s; attempt 2 in 1.5s
            [  6.0s] completed chunk_3 after 2 attempts, 1 file
            [  6.5s] rejected  chunk_3 attempt 1: timed_out: no answer in 60 s
            [  7.0s] failed    chunk_3 after 3 attempts: timed_out: no answer
            [  7.5s] cancelled chunk_3: `a` failed
            [  8.0s] batch     chunks partial: 12 completed, 1 failed, 2 cancelled
            [  9.0s] paused    local is not asked for 3.5s, 3 calls waiting
            [  9.5s] paused    local is not asked for 43.0s (`requests_per_minute`), 3 calls waiting
            [ 10.0s] paused    local has no free slot (`max_concurrency`), 3 calls waiting
            [ 10.5s] warning   no transition  matches
            [ 11.0s] run       partial: 1 task failed (2 turns, 1200 tokens in, 34 out, 200 cached, cost 0.0125, 0.25 CU)
        "#]],
    );
}

#[test]
fn quiet_is_the_last_line_of_a_run_that_did_not_end_well() {
    check(
        Level::Quiet,
        &story(),
        expect![[r#"
            [ 11.0s] run       partial: 1 task failed (2 turns, 1200 tokens in, 34 out, 200 cached, cost 0.0125, 0.25 CU)
        "#]],
    );
    let completed = RunEvent::RunEnded {
        status: "completed",
        reason: None,
        turns: 1,
        usage: Usage::default(),
    };
    check(
        Level::Quiet,
        std::slice::from_ref(&completed),
        expect![[""]],
    );
    check(
        Level::Normal,
        &[completed],
        expect![[r#"
        [  0.5s] run       completed (1 turn)
    "#]],
    );
}

#[test]
fn a_long_report_is_cut() {
    let report = "fault\n".repeat(REPORT_LINES + 2);
    let text = indented(&report);
    assert_eq!(
        text.lines().filter(|it| it.trim() == "fault").count(),
        REPORT_LINES
    );
    expect!["    ... and 2 more lines"].assert_eq(text.lines().last().unwrap());
}
