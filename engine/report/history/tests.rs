use expect_test::{Expect, expect};

use super::*;
use crate::journal::Run;

/// A batch of three: one needs two attempts and is cut short between them, one fails, one is cancelled for it.
const LONG: &str = r#"
1000 turn_rejected -/-/1 {"turn":1,"agent":"Planner","failure":"not_json","message":"no","usage":{"input_tokens":1,"output_tokens":2}} | hm
1500 plan_refused work {"turn":1} | error[MZ402]: a cycle
2000 answered - {"turn":1,"agent":"Planner","usage":{"input_tokens":10,"output_tokens":20}} | text
2001 batch_begun work {"turn":1} | {"batch_id":"work","tasks":[{"task_id":"a","execution_agent":"A"},{"task_id":"b","initial_agent":"B"},{"task_id":"c","execution_agent":"A"}]}
2002 started work/0/1 {}
2003 started work/1/1 {}
4002 rejected work/0/1 {"failure":"not_json","message":"no JSON","retry":"backoff","usage":{"input_tokens":3,"output_tokens":4}} | words
4003 delayed work/0/1 {"until_ms":5003}
5003 started work/0/2 {}
65003 resumed - {}
65004 started work/0/2 {}
66004 accepted work/0/2 {"usage":{"input_tokens":5,"output_tokens":6}} | {"code_files":[{"filename":"out/a.txt","content":"x"}]}
66005 started work/1/1 {}
67005 rejected work/1/1 {"failure":"refused","message":"will not","retry":"never","usage":{"input_tokens":0,"output_tokens":0}}
67006 task_ended work/1/1 {"end":"failed"}
67007 task_ended work/2/0 {"end":"cancelled","because":"task `b` failed"}
67008 batch_ended work {"status":"failed","completed":1,"failed":1,"cancelled":1}
67009 run_ended - {"status":"failed","reason":"batch `work` failed","turns":1,"usage":{"input_tokens":19,"output_tokens":32}}
"#;

/// What somebody wrote who wants to be believed, and what no version writes.
const ODD: &str = "
1000 batch_begun work {\"turn\":1} | {\"tasks\":[{\"task_id\":\"a\\u001b[2J\",\"execution_agent\":7},null,{\"task_id\":\"b\u{202e}\"}]}
1001 started work/0/1 {}
1002 started work/7/1 {}
1003 started else/0/1 {}
1004 rejected work/0/1 {\"failure\":\"x\\u0007\",\"message\":\"one\\ntwo \u{9b}31m\"} | \u{1b}]0;title
1005 accepted work/2/9 {} | {}
1006 accepted work/0/1 not json
1007 no_such_kind - {}
1008 task_ended work/0/1 []
1009 batch_begun work {\"turn\":-1} | no plan
1010 run_ended - {\"status\":\"failed\",\"reason\":\"\\u001b[31m\"}
";

/// Rows of lines `time kind batch/task/attempt data | body`.
fn rows(text: &str) -> Vec<Row> {
    let lines = text.split('\n').filter(|it| !it.is_empty());
    let rows = (1..).zip(lines).map(|(seq, line)| {
        let (head, body) = match line.split_once(" | ") {
            Some((head, body)) => (head, Some(body.into())),
            None => (line, None),
        };
        let mut parts = head.splitn(4, ' ');
        let mut next = || parts.next().expect("four parts");
        let at_ms = next().parse().expect("a time");
        let kind = next().to_owned().into();
        let mut about = next().split('/');
        let batch = about.next().filter(|it| *it != "-").map(Arc::from);
        let mut number = || about.next().and_then(|it| it.parse().ok());
        let entry = Entry {
            at_ms,
            kind,
            batch,
            task: number(),
            attempt: number(),
            data: next().to_owned(),
            body,
        };
        Row { seq, entry }
    });
    rows.collect()
}

fn history(text: &str) -> History {
    let mut history = History::new(500);
    rows(text).iter().for_each(|it| history.take(it));
    history
}

fn listed(history: &History) -> Listed {
    let run = Run {
        id: "6b0e".to_owned(),
        workflow: "W".to_owned(),
        status: "failed".to_owned(),
        started_at_ms: 500,
        ended_at_ms: Some(67_009),
    };
    let summary = Summary::of_history(history, None);
    Listed::new(run, "failed".to_owned(), Some(summary))
}

fn check_run(text: &str, expect: Expect) {
    let history = history(text);
    expect.assert_eq(&super::run(&listed(&history), &history));
}

fn check_lines(text: &str, expect: Expect) {
    let mut history = History::new(500);
    let lines = rows(text).into_iter().filter_map(|row| {
        history.take(&row);
        line(&history, &row)
    });
    expect.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_run_is_told_whole() {
    check_run(
        LONG,
        expect![[r#"
            run 6b0e of W
            status   failed: batch `work` failed
            started  1970-01-01 00:00:00 UTC, took 6.5s in 2 sessions, 19 tokens in, 32 out

            turn 1: Planner, 11 tokens in, 22 out
              rejected  attempt 1: not_json: no
              refused   error[MZ402]: a cycle
              batch work: failed, 1 of 3 tasks completed
                TASK  AGENT  STATUS     ATTEMPTS  TOOK  TOKENS  COST  FILES
                a     A      completed  2         3.0s  8/10    -     out/a.txt
                b     B      failed     1         1.0s  -       -     -
                c     A      cancelled  0         -     -       -     -
                rejected  a attempt 1: not_json: no JSON
                rejected  b attempt 1: refused: will not
                cancelled c: task `b` failed

            AGENT  ASKED  TOOK  TOKENS  CACHED  COST
            A      3      3.0s  8/10    0       -
            B      2      1.0s  -       0       -
        "#]],
    );
    check_run(
        "",
        expect![[r#"
        run 6b0e of W
        status   failed
        started  1970-01-01 00:00:00 UTC, took 0.0s
    "#]],
    );
}

#[test]
fn a_run_is_told_up_to_any_entry() {
    let standing = |entries: usize| {
        let rows = rows(LONG);
        let mut history = History::new(500);
        rows[..entries].iter().for_each(|it| history.take(it));
        let tasks: Vec<_> = history.tasks().map(Task::status).collect();
        format!(
            "{entries}: {}, {:?}",
            tasks.join(" "),
            (history.sessions.worked_ms(None), history.sessions.count())
        )
    };
    let all = (4..=18).map(standing).collect::<Vec<_>>().join("\n");
    expect![[r#"
        4: waiting waiting waiting, (1501, 1)
        5: running waiting waiting, (1502, 1)
        6: running running waiting, (1503, 1)
        7: retrying running waiting, (3502, 1)
        8: retrying running waiting, (3503, 1)
        9: running running waiting, (4503, 1)
        10: interrupted interrupted waiting, (4503, 2)
        11: running interrupted waiting, (4504, 2)
        12: completed interrupted waiting, (5504, 2)
        13: completed running waiting, (5505, 2)
        14: completed retrying waiting, (6505, 2)
        15: completed failed waiting, (6506, 2)
        16: completed failed cancelled, (6507, 2)
        17: completed failed cancelled, (6508, 2)
        18: completed failed cancelled, (6509, 2)"#]]
    .assert_eq(&all);
}

#[test]
fn nobody_moves_the_cursor_and_nothing_odd_fails() {
    check_run(
        ODD,
        expect![[r#"
            run 6b0e of W
            status   failed:  [31m
            started  1970-01-01 00:00:00 UTC, took 0.5s

            turn 1: a plan that was given
              batch work: not at its end, 0 of 3 tasks completed
                TASK    AGENT  STATUS     ATTEMPTS  TOOK  TOKENS  COST  FILES
                a [2J          cancelled  1         0.0s  -       -     -
                task_2         waiting    0         -     -       -     -
                b              waiting    0         -     -       -     -
                rejected  a [2J attempt 1: x : one two  31m
                cancelled a [2J: one two  31m

            turn 0: a plan that was given
              batch work: not at its end, 0 of 0 tasks completed
                TASK  AGENT  STATUS  ATTEMPTS  TOOK  TOKENS  COST  FILES
        "#]],
    );
    check_lines(
        ODD,
        expect![[r#"
        1970-01-01 00:00:01  batch     work: 3 tasks
        1970-01-01 00:00:01  started   a [2J ()
        1970-01-01 00:00:01  started   ? ()
        1970-01-01 00:00:01  started   ? ()
        1970-01-01 00:00:01  rejected  a [2J attempt 1: x : one two  31m
        1970-01-01 00:00:01  completed b  after 9 attempts
        1970-01-01 00:00:01  completed a [2J
        1970-01-01 00:00:01  cancelled a [2J: 
        1970-01-01 00:00:01  batch     work: 0 tasks
        1970-01-01 00:00:01  run       failed:  [31m"#]],
    );
    let history = history(ODD);
    let (turn, batch, task) = history.named("a\u{1b}[2J").next().expect("it was planned");
    expect![[r#"
        task a [2J of batch work in turn 1 ()
        status   cancelled: one two  31m, took 0.0s

        planned
          {
            "task_id": "a\u001b[2J",
            "execution_agent": 7
          }

        attempt 1  1970-01-01 00:00:01 UTC, took 0.0s: x : one two  31m
           ]0;title
    "#]]
    .assert_eq(&super::task(turn, batch, task));
}

#[test]
fn every_entry_that_says_something_has_a_line() {
    check_lines(
        LONG,
        expect![[r#"
        1970-01-01 00:00:01  rejected  Planner attempt 1: not_json: no, 1 tokens in, 2 out
        1970-01-01 00:00:01  refused   work: error[MZ402]: a cycle
        1970-01-01 00:00:02  turn      1: Planner, 10 tokens in, 20 out
        1970-01-01 00:00:02  batch     work: 3 tasks
        1970-01-01 00:00:02  started   a (A)
        1970-01-01 00:00:02  started   b (B)
        1970-01-01 00:00:04  rejected  a attempt 1: not_json: no JSON, 3 tokens in, 4 out
        1970-01-01 00:00:04  waiting   a, attempt 2 in 1.0s
        1970-01-01 00:00:05  started   a (A, attempt 2)
        1970-01-01 00:01:05  resumed   another session
        1970-01-01 00:01:05  started   a (A, attempt 2)
        1970-01-01 00:01:06  completed a after 2 attempts, 5 tokens in, 6 out
        1970-01-01 00:01:06  started   b (B)
        1970-01-01 00:01:07  rejected  b attempt 1: refused: will not
        1970-01-01 00:01:07  failed    b
        1970-01-01 00:01:07  cancelled c: task `b` failed
        1970-01-01 00:01:07  batch     work failed: 1 completed, 1 failed, 1 cancelled
        1970-01-01 00:01:07  run       failed: batch `work` failed, 19 tokens in, 32 out"#]],
    );
}

#[test]
fn a_task_is_told_with_all_its_attempts() {
    let history = history(LONG);
    let tasks = history
        .named("a")
        .map(|(turn, batch, task)| super::task(turn, batch, task));
    expect![[r#"
        task a of batch work in turn 1 (A)
        status   completed, took 3.0s, 8 tokens in, 10 out

        planned
          {
            "task_id": "a",
            "execution_agent": "A"
          }

        attempt 1  1970-01-01 00:00:02 UTC, took 2.0s, 3 tokens in, 4 out: not_json: no JSON
          words

        attempt 2  1970-01-01 00:00:05 UTC: cut short

        attempt 2  1970-01-01 00:01:05 UTC, took 1.0s, 5 tokens in, 6 out: accepted

        output
          {
            "code_files": [
              {
                "filename": "out/a.txt",
                "content": "x"
              }
            ]
          }
    "#]]
    .assert_eq(&tasks.collect::<String>());
    let data = history
        .named("b")
        .map(|(turn, batch, task)| task_data(turn, batch, task));
    expect![[r#"{"turn":1,"batch":"work","task_id":"b","agent":"B","status":"failed","reason":"will not","took_ms":1000,"usage":{"input_tokens":0,"output_tokens":0,"cached_input_tokens":0,"cost":null},"planned":{"task_id":"b","initial_agent":"B"},"attempts":[{"attempt":1,"started_at_ms":2003,"ended_at_ms":null,"came":"cut_short","failure":null,"message":null,"answer":null,"prompt":{"system":null,"user":null},"calls":[],"reused":null,"model":null,"read":null,"usage":{"input_tokens":0,"output_tokens":0,"cached_input_tokens":0,"cost":null}},{"attempt":1,"started_at_ms":66005,"ended_at_ms":67005,"came":"rejected","failure":"refused","message":"will not","answer":null,"prompt":{"system":null,"user":null},"calls":[],"reused":null,"model":null,"read":null,"usage":{"input_tokens":0,"output_tokens":0,"cached_input_tokens":0,"cost":null}}],"files":[],"output":null}"#]].assert_eq(&data.map(|it| it.to_string()).collect::<String>());
}

#[test]
fn programs_are_told_the_same() {
    let history = history(LONG);
    let data = run_data(&listed(&history), &history);
    expect![[r#"
        {
          "run": "6b0e",
          "workflow": "W",
          "status": "failed",
          "started_at": "1970-01-01T00:00:00Z",
          "started_at_ms": 500,
          "ended_at_ms": 67009,
          "took_ms": 6509,
          "tasks": 3,
          "completed": 1,
          "usage": {
            "input_tokens": 19,
            "output_tokens": 32,
            "cached_input_tokens": 0,
            "cost": null
          },
          "sessions": 2,
          "reason": "batch `work` failed",
          "agents": {
            "A": {
              "asked": 3,
              "took_ms": 3000,
              "usage": {
                "input_tokens": 8,
                "output_tokens": 10,
                "cached_input_tokens": 0,
                "cost": null
              }
            },
            "B": {
              "asked": 2,
              "took_ms": 1000,
              "usage": {
                "input_tokens": 0,
                "output_tokens": 0,
                "cached_input_tokens": 0,
                "cost": null
              }
            }
          },
          "turns": [
            {
              "turn": 1,
              "agent": "Planner",
              "took_ms": 0,
              "usage": {
                "input_tokens": 11,
                "output_tokens": 22,
                "cached_input_tokens": 0,
                "cost": null
              },
              "rejections": [
                {
                  "attempt": 1,
                  "failure": "not_json",
                  "message": "no"
                }
              ],
              "refusals": [
                "error[MZ402]: a cycle"
              ],
              "tools": [],
              "batches": [
                {
                  "batch": "work",
                  "status": "failed",
                  "began_at_ms": 2001,
                  "ended_at_ms": 67008,
                  "tasks": [
                    {
                      "task_id": "a",
                      "agent": "A",
                      "status": "completed",
                      "reason": null,
                      "attempts": 2,
                      "took_ms": 3000,
                      "usage": {
                        "input_tokens": 8,
                        "output_tokens": 10,
                        "cached_input_tokens": 0,
                        "cost": null
                      },
                      "rejections": [
                        {
                          "attempt": 1,
                          "failure": "not_json",
                          "message": "no JSON"
                        }
                      ],
                      "files": [
                        "out/a.txt"
                      ]
                    },
                    {
                      "task_id": "b",
                      "agent": "B",
                      "status": "failed",
                      "reason": "will not",
                      "attempts": 1,
                      "took_ms": 1000,
                      "usage": {
                        "input_tokens": 0,
                        "output_tokens": 0,
                        "cached_input_tokens": 0,
                        "cost": null
                      },
                      "rejections": [
                        {
                          "attempt": 1,
                          "failure": "refused",
                          "message": "will not"
                        }
                      ],
                      "files": []
                    },
                    {
                      "task_id": "c",
                      "agent": "A",
                      "status": "cancelled",
                      "reason": "task `b` failed",
                      "attempts": 0,
                      "took_ms": null,
                      "usage": {
                        "input_tokens": 0,
                        "output_tokens": 0,
                        "cached_input_tokens": 0,
                        "cost": null
                      },
                      "rejections": [],
                      "files": []
                    }
                  ]
                }
              ]
            }
          ]
        }"#]]
    .assert_eq(&format!("{data:#}"));
    let events = rows(LONG);
    expect![[r#"{"seq":7,"at":"1970-01-01T00:00:04Z","at_ms":4002,"kind":"rejected","batch":"work","task":0,"task_id":"a","attempt":1,"data":{"failure":"not_json","message":"no JSON","retry":"backoff","usage":{"input_tokens":3,"output_tokens":4}},"body":"words"}"#]].assert_eq(&event(&history, &events[6]).to_string());
}

#[test]
fn a_list_says_what_cannot_be_read() {
    let history = history(LONG);
    let mut unread = listed(&history);
    (unread.took_ms, unread.tasks) = (None, None);
    expect![[r#"
        RUN   WORKFLOW  STATUS  STARTED (UTC)        TOOK  TASKS  TOKENS  COST
        6b0e  W         failed  1970-01-01 00:00:00  6.5s  1/3    19/32   -
        6b0e  W         failed  1970-01-01 00:00:00  ?     ?      19/32   -
    "#]]
    .assert_eq(&list(&[listed(&history), unread]));
}

#[test]
fn a_question_that_nobody_was_asked_is_none() {
    check_run(
        r#"
1000 asked - {"turn":1,"agent":"P"}
1001 withheld - {"turn":1,"agent":"P","usage":{"input_tokens":0,"output_tokens":0}}
2000 asked - {"turn":1,"agent":"P"}
2500 answered - {"turn":1,"agent":"P","usage":{"input_tokens":1,"output_tokens":2}} | {}
2501 batch_begun work {"turn":1} | {"tasks":[{"task_id":"a","execution_agent":"A"},{"task_id":"b","execution_agent":"A"}]}
3000 started work/0/1 {}
3001 withheld work/0/1 {"usage":{"input_tokens":0,"output_tokens":0}}
3002 started work/1/1 {}
3003 withheld work/1/1 {"usage":{"input_tokens":5,"output_tokens":6}}
"#,
        expect![[r#"
            run 6b0e of W
            status   failed
            started  1970-01-01 00:00:00 UTC, took 2.5s, 6 tokens in, 8 out

            turn 1: P, 1 tokens in, 2 out
              batch work: not at its end, 0 of 2 tasks completed
                TASK  AGENT  STATUS    ATTEMPTS  TOOK  TOKENS  COST  FILES
                a     A      retrying  0         0.0s  -       -     -
                b     A      retrying  1         0.0s  5/6     -     -

            AGENT  ASKED  TOOK  TOKENS  CACHED  COST
            A      1      0.0s  5/6     0       -
            P      1      0.5s  1/2     0       -
        "#]],
    );
}
