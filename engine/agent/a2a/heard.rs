//! What was heard of a task, put together, and what it means as an answer.

use serde_json::{Number, Value};
use tokio::sync::watch;

use super::{
    super::{Reply, Request, capped},
    call::too_long,
};
use crate::accept::{Failure, Rejection};

/// Around an answer, in bytes: names, times, and what an agent says meanwhile.
const MAX_AROUND: usize = 1 << 20;
/// The longest name of a task, in bytes.
const MAX_ID: usize = 1 << 10;
/// Whole numbers up to here are exact as floating-point numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// How a question stands over there, for whoever may have to take it back.
pub(super) struct Standing(watch::Sender<Stands>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stands {
    Unsent,
    /// There may be a task.
    Sent,
    /// There is this task.
    Open(String),
    Over,
}

impl Standing {
    pub(super) fn unsent() -> Standing {
        Standing(watch::Sender::new(Stands::Unsent))
    }

    pub(super) fn send(&self) {
        self.0.send_replace(Stands::Sent);
    }

    /// The task that is not over.
    pub(super) fn open(&self) -> Option<String> {
        match &*self.0.borrow() {
            Stands::Open(id) => Some(id.clone()),
            _ => None,
        }
    }

    /// Waits until it is known which task is to be cancelled, or that there is none.
    pub(super) async fn named(&self) {
        let mut stands = self.0.subscribe();
        // The sender is held by us.
        let _ = stands.wait_for(|it| *it != Stands::Sent).await;
    }
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Completed,
    Failed,
    Rejected,
    Canceled,
    InputRequired,
    AuthRequired,
}

impl State {
    /// By its word in either version of the protocol. What we do not know is not over.
    fn of(word: &str) -> State {
        let word = word.strip_prefix("TASK_STATE_").unwrap_or(word);
        match word.to_ascii_lowercase().replace('-', "_").as_str() {
            "completed" => State::Completed,
            "failed" => State::Failed,
            "rejected" => State::Rejected,
            "canceled" => State::Canceled,
            "input_required" => State::InputRequired,
            "auth_required" => State::AuthRequired,
            _ => State::Open,
        }
    }
}

/// What was heard so far.
pub(super) struct Heard<'a> {
    standing: &'a Standing,
    limit: usize,
    weight: usize,
    id: Option<String>,
    state: State,
    /// What the agent said when it came to its state.
    said: Vec<Part>,
    /// What it made, by name.
    made: Vec<(String, Vec<Part>)>,
    /// Why it failed, if it said so afterwards.
    because: Option<String>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Data(Value),
}

impl Heard<'_> {
    pub(super) fn new(standing: &Standing, max_output: usize) -> Heard<'_> {
        Heard {
            standing,
            // As JSON an answer may be longer: some write `é` as `\u00e9`.
            limit: max_output.saturating_mul(4).saturating_add(MAX_AROUND),
            weight: 0,
            id: None,
            state: State::Open,
            said: Vec::new(),
            made: Vec::new(),
            because: None,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Whether nothing more comes of it by itself.
    pub(super) fn is_over(&self) -> bool {
        self.state != State::Open
    }

    /// Why a task failed.
    pub(super) fn because(&mut self, why: String) {
        self.because = Some(why);
    }

    /// Counts what an event adds to all that was kept.
    pub(super) fn weigh(&mut self, bytes: usize) -> Result<(), Rejection> {
        self.weight = self.weight.saturating_add(bytes);
        match self.weight > self.limit {
            true => Err(too_long(self.limit)),
            false => Ok(()),
        }
    }

    /// Takes in the result of a call or an event: a task, what has changed of it, or a message that is the answer.
    pub(super) fn take(&mut self, result: &Value) -> Result<(), Rejection> {
        let kind = result.get("kind").and_then(Value::as_str);
        let is = |key: &str, word: &str| match result.get(key) {
            Some(inner) if kind.is_none() => Some(inner),
            _ => (kind == Some(word)).then_some(result),
        };
        if let Some(message) = is("message", "message") {
            self.said = parts(message);
            self.end(State::Completed);
            return Ok(());
        }
        if let Some(update) = is("statusUpdate", "status-update") {
            self.name(text(update, "taskId"))?;
            self.stand(update.get("status"));
            return Ok(());
        }
        if let Some(update) = is("artifactUpdate", "artifact-update") {
            self.name(text(update, "taskId"))?;
            let append = update.get("append") == Some(&Value::Bool(true));
            if let Some(artifact) = update.get("artifact") {
                self.make(artifact, append);
            }
            return Ok(());
        }
        let task = is("task", "task").or(result.get("status").map(|_| result));
        let Some(task) = task else {
            return Ok(());
        };
        self.name(text(task, "id"))?;
        self.made.clear();
        let artifacts = task.get("artifacts").and_then(Value::as_array);
        for artifact in artifacts.into_iter().flatten() {
            self.make(artifact, false);
        }
        self.stand(task.get("status"));
        Ok(())
    }

    /// Whose news it is: of the task that was there before.
    fn name(&mut self, id: &str) -> Result<(), Rejection> {
        let odd = |what: &str| {
            let message = format!("the agent speaks of a task {what}");
            Err(Rejection::new(Failure::Connection, message))
        };
        match &self.id {
            _ if id.is_empty() => odd("without an id"),
            _ if id.len() > MAX_ID => odd("whose id is too long"),
            Some(known) if known != id => odd("that is not ours"),
            Some(_) => Ok(()),
            None => {
                self.id = Some(id.to_owned());
                self.standing.0.send_replace(Stands::Open(id.to_owned()));
                Ok(())
            }
        }
    }

    fn stand(&mut self, status: Option<&Value>) {
        let status = status.unwrap_or(&Value::Null);
        self.said = status.get("message").map(parts).unwrap_or_default();
        self.end(State::of(text(status, "state")));
    }

    fn end(&mut self, state: State) {
        self.state = state;
        // What waits for more is not over for the other side.
        let goes_on = [State::Open, State::InputRequired, State::AuthRequired];
        if !goes_on.contains(&state) {
            self.standing.0.send_replace(Stands::Over);
        }
    }

    fn make(&mut self, artifact: &Value, append: bool) {
        let id = text(artifact, "artifactId");
        let parts = parts(artifact);
        match self.made.iter_mut().find(|(it, _)| it == id) {
            Some((_, before)) if append => before.extend(parts),
            Some((_, before)) => *before = parts,
            None => self.made.push((id.to_owned(), parts)),
        }
    }

    /// The answer to a request. `show` says what of the other side's words may be shown.
    pub(super) fn answer(
        self,
        request: &Request,
        show: impl Fn(&str) -> String,
    ) -> Result<Reply, Rejection> {
        let said = texts(&self.said);
        let with = |what: &str| match show(&said).as_str() {
            "" => what.to_owned(),
            said => format!("{what}: {said}"),
        };
        let (failure, message) = match self.state {
            State::Completed => {
                let text = self.text(request.shape.is_some());
                if text.trim().is_empty() {
                    let message = "the agent's answer has neither a text nor data";
                    return Err(Rejection::new(Failure::Empty, message));
                }
                return Ok(Reply {
                    text: capped(text, request)?,
                    ..Reply::default()
                });
            }
            State::Failed => match self.because {
                Some(why) if said.is_empty() => (Failure::AgentFailed, why),
                _ => (Failure::AgentFailed, with("the agent failed")),
            },
            State::Canceled => {
                let message = with("the agent says that its task was cancelled");
                (Failure::AgentFailed, message)
            }
            State::Rejected => (Failure::Refused, with("the agent declined")),
            State::AuthRequired => {
                let message = with("the agent wants to be authorised");
                (Failure::Authentication, message)
            }
            State::InputRequired => (Failure::AskedBack, with("the agent asks back")),
            State::Open => {
                let message = "the agent's answer is neither a message nor a task";
                (Failure::Connection, message.to_owned())
            }
        };
        let rejection = Rejection::new(failure, message);
        Err(match failure {
            Failure::AskedBack => rejection.with_answer(&said),
            _ => rejection,
        })
    }

    /// What it made, else what it said. Data comes first where there is a model for it, else text does.
    fn text(&self, is_data_wanted: bool) -> String {
        let made: Vec<Part> = self.made.iter().flat_map(|it| it.1.clone()).collect();
        let data = |it: &[Part]| {
            let mut data = it.iter().rev().filter_map(|it| match it {
                Part::Data(value) => Some(value.to_string()),
                Part::Text(_) => None,
            });
            data.next().unwrap_or_default()
        };
        let found = match is_data_wanted {
            true => [
                data(&made),
                data(&self.said),
                texts(&made),
                texts(&self.said),
            ],
            false => [
                texts(&made),
                data(&made),
                texts(&self.said),
                data(&self.said),
            ],
        };
        let mut found = found.into_iter().filter(|it| !it.trim().is_empty());
        found.next().unwrap_or_default()
    }
}

fn texts(parts: &[Part]) -> String {
    let texts = parts.iter().map(|it| match it {
        Part::Text(text) => text.as_str(),
        Part::Data(_) => "",
    });
    texts.collect()
}

/// The texts and the data of a message or an artifact. Files are not taken.
fn parts(of: &Value) -> Vec<Part> {
    let parts = of.get("parts").and_then(Value::as_array);
    let parts = parts.into_iter().flatten();
    let parts = parts.filter_map(|it| match (it.get("text"), it.get("data")) {
        (Some(Value::String(text)), _) => Some(Part::Text(text.clone())),
        (_, Some(data)) if !data.is_null() => Some(Part::Data(whole_numbers(data.clone()))),
        _ => None,
    });
    parts.collect()
}

/// Data that came through a protocol without whole numbers, where 3 is 3.0.
fn whole_numbers(data: Value) -> Value {
    match data {
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            let whole = float.filter(|it| it.fract() == 0.0 && it.abs() <= EXACT);
            Value::Number(whole.map_or(number, |it| Number::from(it as i64)))
        }
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(entries) => {
            let entries = entries.into_iter();
            entries.map(|(key, it)| (key, whole_numbers(it))).collect()
        }
        other => other,
    }
}

fn text<'v>(of: &'v Value, key: &str) -> &'v str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}
