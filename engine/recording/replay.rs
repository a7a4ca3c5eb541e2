//! Answers from a recording.

use std::{
    collections::{BTreeMap, VecDeque},
    future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use tokio_util::sync::CancellationToken;

use super::{Asked, Called, Came, End, Ended, Head, Line, VERSION, Who, is_within};
use crate::{
    agent::{Agent, Agents, Answer, Request},
    compile::Workflow,
    diagnostic::{Code, Diagnostic, File, Place},
    prompt::{Prompt, cut},
    tool::{self, OwnCall, Recall, Tape, ToolError},
};

/// How much of a text that differs is shown.
const SHOWN_BYTES: usize = 160;
/// How many characters before the first that differs.
const SHOWN_BEFORE: usize = 40;

/// A recording that answers.
#[derive(Debug)]
pub struct Replay {
    file: Arc<File>,
    head: Head,
    /// How the recorded run ended, unless it was killed.
    end: Option<End>,
    state: Mutex<State>,
    /// Ends the run at the first difference, and where the recorded one was stopped.
    cancel: OnceLock<CancellationToken>,
}

/// Who has a tool called: an agent, in a task if it is one's, and the tool.
type Caller = (String, Option<String>, String);

/// What nobody has asked for yet, each with its line.
#[derive(Debug, Default)]
struct State {
    asked: BTreeMap<Who, VecDeque<(Place, Asked)>>,
    called: BTreeMap<Caller, VecDeque<(Place, Called)>>,
    /// What was asked for in vain, if anything. What is asked after it may follow from it.
    difference: Option<Diagnostic>,
}

impl Replay {
    /// Reads a recording of a workflow.
    ///
    /// # Errors
    /// Lines that are not of a recording, or a recording of something else.
    pub fn read(file: Arc<File>, workflow: &str) -> Result<Arc<Replay>, Vec<Diagnostic>> {
        let mut faults = Vec::new();
        let (mut head, mut end) = (None, None);
        let mut state = State::default();
        let mut start = 0;
        for text in file.text.split_inclusive('\n') {
            let span = start..start + text.trim_end().len();
            start += text.len();
            if text.trim().is_empty() {
                continue;
            }
            let place = Place {
                file: Arc::clone(&file),
                span,
            };
            let bad = |message: String| Diagnostic::error(Code::BadInput, message);
            match serde_json::from_str(text) {
                Ok(Line::Recording(it)) if it.version != VERSION => {
                    let message = format!(
                        "this recording has the form {}; this program reads {VERSION}",
                        it.version
                    );
                    faults.push(bad(message).at(place));
                }
                Ok(Line::Recording(it)) if it.workflow != workflow => {
                    let message = format!("this is a recording of `{}`", it.workflow);
                    faults.push(bad(message).at(place).found(it.workflow));
                }
                Ok(Line::Recording(it)) => head = Some(it),
                Ok(Line::Asked(asked)) => {
                    let asked_so = state.asked.entry(asked.who.clone()).or_default();
                    asked_so.push_back((place, asked));
                }
                Ok(Line::Called(called)) => {
                    let task_id = called.task_id.clone();
                    let whose = (called.agent.clone(), task_id, called.tool.clone());
                    let called_so = state.called.entry(whose).or_default();
                    called_so.push_back((place, called));
                }
                Ok(Line::End(it)) => end = Some(it),
                Err(error) => {
                    let message = format!("this is no line of a recording: {error}");
                    faults.push(bad(message).at(place));
                }
            }
        }
        if head.is_none() && faults.is_empty() {
            let message = "this is no recording: its first line does not say so";
            faults.push(
                Diagnostic::error(Code::BadInput, message)
                    .at(Place::start_of(&file))
                    .help("make one with `--record FILE`"),
            );
        }
        match (head, faults.is_empty()) {
            (Some(head), true) => Ok(Arc::new(Replay {
                file,
                head,
                end,
                state: Mutex::new(state),
                cancel: OnceLock::new(),
            })),
            _ => Err(faults),
        }
    }

    /// What the recorded run was.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Whether the recorded run was stopped, as this one is where it was.
    pub fn is_stopped(&self) -> bool {
        self.end.as_ref().is_some_and(|it| it.status == "cancelled")
    }

    /// How a run is ended.
    pub fn end_with(&self, cancel: CancellationToken) {
        // There is one run, so there is one token.
        let _ = self.cancel.set(cancel);
    }

    /// The agents that the recording stands for, in a workflow.
    pub fn agents(self: &Arc<Replay>, workflow: &Workflow) -> Agents {
        let outside = workflow.agents.values().filter(|it| !is_within(it));
        let agents = outside.map(|spec| {
            let agent: Arc<dyn Agent> = Arc::new(Replayed(Arc::clone(self)));
            (spec.name.to_string(), agent)
        });
        agents.collect()
    }

    /// What was asked for in vain, if anything.
    pub fn difference(&self) -> Option<Diagnostic> {
        self.state().difference.clone()
    }

    pub fn differs(&self) -> bool {
        self.state().difference.is_some()
    }

    /// What nobody asked for.
    pub fn left(&self) -> Option<Diagnostic> {
        let state = self.state();
        let asked = state.asked.values().flatten().map(|(place, _)| place);
        let called = state.called.values().flatten().map(|(place, _)| place);
        let mut places: Vec<&Place> = asked.chain(called).collect();
        places.sort_by_key(|it| it.span.start);
        let message = match places.len() {
            0 => return None,
            1 => "one line of the recording was not asked for".to_owned(),
            several => format!("{several} lines of the recording were not asked for"),
        };
        Some(Diagnostic::warning(Code::NotRecorded, message).at(places[0].clone()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one push or one pop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_at(&self, state: &mut State, difference: Diagnostic) {
        let help = "if the change is meant, record the run anew with `--record FILE`";
        state.difference.get_or_insert(difference.help(help));
        self.stop();
    }

    fn stop(&self) {
        if let Some(cancel) = self.cancel.get() {
            cancel.cancel();
        }
    }

    /// Something was asked for in a task, or something of which nothing came. The recorded run was stopped when all that
    /// stands here had been asked for; what was under way then has its time to end.
    fn was_asked(&self, state: &State) {
        if self.is_stopped() && state.is_over() {
            self.stop();
        }
    }

    /// Something is asked for that is not recorded. Whether that is no difference: the recorded run did not come so far.
    fn is_beyond_the_end(&self, state: &State) -> bool {
        let is_cut = self.end.as_ref().is_some_and(|it| it.status == "deadline");
        if self.is_stopped() && state.is_over() {
            self.stop();
        }
        state.is_over() && state.difference.is_none() && (is_cut || self.is_stopped())
    }

    fn find(&self, who: &Who, prompt: &Prompt) -> Option<Came> {
        let mut state = self.state();
        let shown = who.describe();
        let Some((place, asked)) = state.asked.get_mut(who).and_then(VecDeque::pop_front) else {
            if self.is_beyond_the_end(&state) {
                return None;
            }
            let message = format!("{shown} is not in the recording");
            let place = Place::start_of(&self.file);
            let difference = Diagnostic::error(Code::NotRecorded, message).at(place);
            self.end_at(&mut state, difference);
            return None;
        };
        let texts = [
            ("system text", &*asked.system, &*prompt.system),
            ("prompt", &*asked.user, &*prompt.user),
        ];
        let differs = texts.iter().find(|(_, recorded, now)| recorded != now);
        if let Some((what, recorded, now)) = differs {
            let message = format!(
                "{shown}: the {what} is not the recorded one: {}",
                difference(recorded, now)
            );
            self.end_at(
                &mut state,
                Diagnostic::error(Code::NotRecorded, message).at(place),
            );
            return None;
        }
        if who.task_id.is_some() || matches!(asked.came, Came::DroppedAfterMs(_)) {
            self.was_asked(&state);
        }
        Some(asked.came)
    }
}

impl State {
    /// Whether all that is recorded was asked for.
    fn is_over(&self) -> bool {
        self.asked.values().all(VecDeque::is_empty) && self.called.values().all(VecDeque::is_empty)
    }
}

/// An agent that the recording stands for.
struct Replayed(Arc<Replay>);

impl Agent for Replayed {
    fn is_replayed(&self) -> bool {
        true
    }

    fn ask(&self, request: Request) -> Answer {
        let came = self.0.find(&Who::of(&request), &request.prompt);
        Box::pin(async move {
            match came {
                Some(Came::Reply(reply)) => Ok(reply),
                Some(Came::Rejection(refusal)) => Err(refusal.rejection()),
                // Whoever dropped it then drops it now: that is in no time, as waits are in a replayed run.
                Some(Came::DroppedAfterMs(_)) | None => future::pending().await,
            }
        })
    }
}

impl Tape for Replay {
    fn recall(&self, call: &OwnCall<'_>) -> Recall {
        let mut state = self.state();
        let (agent, tool) = (call.whose.agent, call.tool);
        let task_id = call.whose.task_id.map(str::to_owned);
        let shown = match &task_id {
            Some(task) => format!("the call of `{tool}` for `{agent}` in task `{task}`"),
            None => format!("the call of `{tool}` for `{agent}`"),
        };
        let whose = (agent.to_owned(), task_id, tool.to_owned());
        let next = state.called.get_mut(&whose).and_then(VecDeque::pop_front);
        let difference = match next {
            Some((_, called)) if called.arguments == *call.arguments => {
                if call.whose.task_id.is_some() {
                    self.was_asked(&state);
                }
                return Recall::Came(match called.came {
                    Ended::Result(called) => Ok(called),
                    Ended::Error(message) => Err(ToolError(message)),
                });
            }
            Some((place, called)) => {
                let differs = difference(
                    &format!("{:#}", called.arguments),
                    &format!("{:#}", call.arguments),
                );
                let message =
                    format!("{shown}: its arguments are not the recorded ones: {differs}");
                Diagnostic::error(Code::NotRecorded, message).at(place)
            }
            None if self.is_beyond_the_end(&state) => return Recall::Wait,
            None => {
                let message = format!("{shown} is not in the recording");
                let place = Place::start_of(&self.file);
                Diagnostic::error(Code::NotRecorded, message).at(place)
            }
        };
        self.end_at(&mut state, difference);
        Recall::Wait
    }

    fn keep(&self, _: &OwnCall<'_>, _: &Result<tool::Called, ToolError>) {}
}

impl Who {
    pub(super) fn of(request: &Request) -> Who {
        Who {
            agent: request.agent.to_string(),
            task_id: request.task_id.as_deref().map(str::to_owned),
            attempt: request.attempt,
        }
    }

    fn describe(&self) -> String {
        let Who {
            agent,
            task_id,
            attempt,
        } = self;
        match task_id {
            Some(task) => format!("attempt {attempt} of `{agent}` on task `{task}`"),
            None => format!("attempt {attempt} of `{agent}`"),
        }
    }
}

/// The first lines that two texts do not share.
fn difference(recorded: &str, now: &str) -> String {
    let mut lines = (recorded.lines(), now.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (lines.0.next(), lines.1.next()) {
            (Some(was), Some(is)) if was == is => (),
            (None, None) => return "line ends differ".to_owned(),
            (was, is) => {
                let both = was
                    .unwrap_or_default()
                    .chars()
                    .zip(is.unwrap_or_default().chars());
                let alike = both.take_while(|(was, is)| was == is).count();
                let skipped = alike.saturating_sub(SHOWN_BEFORE);
                let shown = |it: Option<&str>| match it {
                    None => "nothing".to_owned(),
                    Some(it) => {
                        let dots = if skipped > 0 { "..." } else { "" };
                        let from = it
                            .char_indices()
                            .nth(skipped)
                            .map_or(it.len(), |(at, _)| at);
                        format!("`{dots}{}`", cut(&it[from..], SHOWN_BYTES))
                    }
                };
                return format!("line {number} was {}, and is {}", shown(was), shown(is));
            }
        }
    }
}
