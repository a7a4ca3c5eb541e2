//! Asks people at the terminal: the question on standard error, the answer from standard input.
//!
//! **Invariant:** one question stands at a time, and while it does nothing else is drawn there.
//! **Invariant:** what is waited for can be given up at any time; what is typed then is not the answer to the next question.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal, Read, Write},
    pin::pin,
    sync::{Arc, OnceLock},
    thread,
};

use tokio::{
    sync::{Mutex, mpsc, watch},
    time::timeout,
};

use super::args;
use crate::{
    agent::human::{Absent, Asked, Heard, People, Question},
    prompt::cut,
    report::{inert_lines, progress::Curtain},
};

/// The longest line that is read, and the most of a question and of a model that is shown, in bytes.
const MAX_LINE: u64 = 1 << 20;
const MAX_SHOWN: usize = 32 << 10;
const MAX_MODEL: usize = 4 << 10;
/// How many lines may lie there unread.
const MAX_UNREAD: usize = 64;

/// The person at the terminal, or whoever feeds the program's standard input.
pub(super) struct Terminal(Arc<Inside>);

struct Inside {
    /// Whoever holds it has the word. Nothing: nobody was asked so far.
    typed: Mutex<Option<Typed>>,
    from: From,
    is_closed: watch::Sender<bool>,
    curtain: OnceLock<Curtain>,
}

/// Where answers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// Nowhere: `--no-input`.
    Nowhere,
    StandardInput,
    /// The terminal itself, because standard input is the run's input.
    Tty,
}

impl From {
    /// Where answers come from in a session that was given such an input.
    pub(super) fn of(session: &args::Session, given: Option<&args::Given>) -> From {
        match session.no_input {
            true => From::Nowhere,
            false => From::with(given.and_then(|it| it.input.as_deref())),
        }
    }

    /// Where answers come from beside such an input.
    pub(super) fn with(input: Option<&str>) -> From {
        match input {
            Some("-") => From::Tty,
            _ => From::StandardInput,
        }
    }
}

/// Lines as they are typed, and whether a person types them.
struct Typed {
    lines: mpsc::Receiver<io::Result<String>>,
    is_person: bool,
}

impl Terminal {
    pub(super) fn new(from: From) -> Terminal {
        Terminal(Arc::new(Inside {
            typed: Mutex::default(),
            from,
            is_closed: watch::Sender::new(false),
            curtain: OnceLock::new(),
        }))
    }

    /// What is drawn on the terminal besides.
    pub(super) fn behind(&self, curtain: Curtain) {
        // One session draws once.
        let _ = self.0.curtain.set(curtain);
    }

    /// Does `work`. When `stop` comes, nobody is asked any more, and what is waited for is given up.
    pub(super) async fn until<T>(
        &self,
        stop: impl Future<Output = ()>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            () = stop => (),
            done = &mut work => return done,
        }
        self.0.is_closed.send_replace(true);
        work.await
    }
}

impl People for Terminal {
    fn ask(&self, question: Question) -> Asked {
        let inside = Arc::clone(&self.0);
        Box::pin(async move {
            let mut closed = inside.is_closed.subscribe();
            tokio::select! {
                biased;
                _ = closed.wait_for(|it| *it) => Err(Absent::Left),
                answer = inside.ask(&question) => answer,
            }
        })
    }
}

impl Inside {
    async fn ask(&self, question: &Question) -> Result<String, Absent> {
        let mut typed = self.typed.lock().await;
        let typed = match &mut *typed {
            Some(typed) => typed,
            none => none.insert(open(self.from).ok_or(Absent::Unreachable)?),
        };
        let _drawn = self.curtain.get().map(Curtain::close);
        let answer = typed.answer(question);
        let Some(limit) = question.timeout else {
            return answer.await;
        };
        timeout(limit, answer).await.unwrap_or_else(|_| {
            say("  not in time\n");
            Err(Absent::Late)
        })
    }
}

impl Typed {
    /// Puts a question, until there is an answer that can be taken.
    async fn answer(&mut self, question: &Question) -> Result<String, Absent> {
        if self.is_person {
            // What was typed before the question was put is no answer to it.
            while self.lines.try_recv().is_ok() {}
        }
        say(&put(question));
        let mut text = String::new();
        loop {
            say(match text.as_str() {
                "" => "> ",
                _ => ". ",
            });
            let line = match self.lines.recv().await {
                Some(Ok(line)) => line,
                Some(Err(_)) | None => {
                    say("\n");
                    return Err(match self.is_person {
                        true => Absent::Left,
                        false => Absent::Unreachable,
                    });
                }
            };
            if !self.is_person {
                say(&format!("{}\n", inert_lines(line.trim_end())));
            }
            // An empty line ends what would go on.
            let is_end = !text.is_empty() && line.trim().is_empty();
            text.push_str(&line);
            let why = match question.hear(&text) {
                Heard::Answer(answer) => return Ok(answer),
                Heard::Unfinished if !is_end && text.len() as u64 <= MAX_LINE => continue,
                Heard::Unfinished => "the value is not complete".to_owned(),
                Heard::Refused(why) => why,
            };
            text.clear();
            say(&format!("  not taken: {}\n", inert_lines(&why)));
        }
    }
}

/// A question as it is shown.
fn put(question: &Question) -> String {
    let mut text = match &question.task_id {
        Some(task) => format!("\n{} is asked, for task {task}:\n", question.agent),
        None => format!("\n{} is asked:\n", question.agent),
    };
    for line in cut(&question.text, MAX_SHOWN).lines() {
        text.push_str(&format!("  {line}\n"));
    }
    for (number, choice) in (1..).zip(question.choices()) {
        text.push_str(&format!("  {number}) {choice}\n"));
    }
    if let Some((name, schema)) = question.model() {
        let schema = cut(&schema.to_string(), MAX_MODEL);
        text.push_str(&format!("answer with JSON that fits {name}: {schema}\n"));
    }
    if let Some(default) = question.default() {
        text.push_str(&format!("an empty line is: {default}\n"));
    }
    inert_lines(&text) + "\n"
}

/// A person who closed the terminal will not answer either.
fn say(text: &str) {
    let mut err = io::stderr();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

fn open(from: From) -> Option<Typed> {
    let (input, is_person): (Box<dyn Read + Send>, bool) = match from {
        From::Nowhere => return None,
        From::StandardInput => (Box::new(io::stdin()), io::stdin().is_terminal()),
        From::Tty => (Box::new(File::open("/dev/tty").ok()?), true),
    };
    let (send, lines) = mpsc::channel(MAX_UNREAD);
    // A thread of its own, which nobody waits for: a read cannot be given up.
    let read = move || {
        let mut input = BufReader::new(input);
        loop {
            let line = next_line(&mut input).transpose();
            let Some(line) = line else { break };
            let is_last = line.is_err();
            if send.blocking_send(line).is_err() || is_last {
                break;
            }
        }
    };
    thread::Builder::new().spawn(read).ok()?;
    Some(Typed { lines, is_person })
}

fn next_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    input.take(MAX_LINE).read_until(b'\n', &mut bytes)?;
    let line = String::from_utf8_lossy(&bytes).into_owned();
    Ok((!line.is_empty()).then_some(line))
}
