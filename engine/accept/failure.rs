//! The kinds of failure, for every runtime, and what follows from each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an attempt brought nothing that could be used, or a task nothing at all. The word is what `failure_kind` says in the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Failure {
    RateLimited,
    Quota,
    Overloaded,
    Timeout,
    IdleTimeout,
    Connection,
    Authentication,
    NotFound,
    BadRequest,
    ContextTooLong,
    ContentFiltered,
    Refused,
    Truncated,
    Empty,
    NotJson,
    WrongShape,
    WrongTask,
    OutsideOwnedPaths,
    TooLong,
    TooManyCalls,
    ToolMissing,
    ToolUnavailable,
    ToolFailed,
    ProgramFailed,
    TemplateFailed,
    AgentFailed,
    AskedBack,
    /// The question was not asked.
    Budget,
    Unresolved,
    BudgetExceeded,
    /// Nothing came of it yet: whoever stops here goes on later.
    Unattended,
    /// A task never came to its end: somebody cancelled it, or stopped the run.
    Cancelled,
    DependencyBlocked,
    BatchStopped,
    Deadline,
    /// An attempt ended in a panic: our own mistake.
    Internal,
}

/// Whose trouble a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Whoever asks the same endpoint now meets it too.
    Endpoints,
    /// This task's alone.
    Tasks,
    /// All of the run's.
    Runs,
}

/// What follows from a failure.
struct Facts {
    word: &'static str,
    again: bool,
    shown: bool,
    whose: Whose,
    meaning: &'static str,
}

impl Failure {
    pub const ALL: [Failure; 36] = [
        Failure::RateLimited,
        Failure::Quota,
        Failure::Overloaded,
        Failure::Timeout,
        Failure::IdleTimeout,
        Failure::Connection,
        Failure::Authentication,
        Failure::NotFound,
        Failure::BadRequest,
        Failure::ContextTooLong,
        Failure::ContentFiltered,
        Failure::Refused,
        Failure::Truncated,
        Failure::Empty,
        Failure::NotJson,
        Failure::WrongShape,
        Failure::WrongTask,
        Failure::OutsideOwnedPaths,
        Failure::TooLong,
        Failure::TooManyCalls,
        Failure::ToolMissing,
        Failure::ToolUnavailable,
        Failure::ToolFailed,
        Failure::ProgramFailed,
        Failure::TemplateFailed,
        Failure::AgentFailed,
        Failure::AskedBack,
        Failure::Budget,
        Failure::Unresolved,
        Failure::BudgetExceeded,
        Failure::Unattended,
        Failure::Cancelled,
        Failure::DependencyBlocked,
        Failure::BatchStopped,
        Failure::Deadline,
        Failure::Internal,
    ];

    #[rustfmt::skip]
    const fn facts(self) -> Facts {
        use Whose::{Endpoints, Runs, Tasks};
        const AGAIN: bool = true;
        const NEVER: bool = false;
        const SHOWN: bool = true;
        const UNSEEN: bool = false;
        const fn row(word: &'static str, again: bool, shown: bool, whose: Whose, meaning: &'static str) -> Facts {
            Facts { word, again, shown, whose, meaning }
        }
        match self {
            Failure::RateLimited => row("rate_limited", AGAIN, UNSEEN, Endpoints, "the endpoint asks to slow down"),
            Failure::Quota => row("quota", NEVER, UNSEEN, Endpoints, "the account has no money or quota left"),
            Failure::Overloaded => row("overloaded", AGAIN, UNSEEN, Endpoints, "the endpoint is too busy, or broke"),
            Failure::Timeout => row("timeout", AGAIN, UNSEEN, Tasks, "no answer in time"),
            Failure::IdleTimeout => row("idle_timeout", AGAIN, UNSEEN, Tasks, "the endpoint fell silent"),
            Failure::Connection => row("connection", AGAIN, UNSEEN, Endpoints, "the endpoint cannot be reached, or the connection broke"),
            Failure::Authentication => row("authentication", NEVER, UNSEEN, Endpoints, "the key was refused"),
            Failure::NotFound => row("not_found", NEVER, UNSEEN, Tasks, "there is no such model, address or program"),
            Failure::BadRequest => row("bad_request", NEVER, UNSEEN, Tasks, "the endpoint does not understand the request"),
            Failure::ContextTooLong => row("context_too_long", NEVER, UNSEEN, Tasks, "the question is longer than the model's context"),
            Failure::ContentFiltered => row("content_filtered", NEVER, UNSEEN, Tasks, "the endpoint's filter refused the question"),
            Failure::Refused => row("refused", AGAIN, UNSEEN, Tasks, "the model declined, or a filter held its answer back"),
            Failure::Truncated => row("truncated", AGAIN, SHOWN, Tasks, "the answer was cut off"),
            Failure::Empty => row("empty", AGAIN, SHOWN, Tasks, "the answer says nothing"),
            Failure::NotJson => row("not_json", AGAIN, SHOWN, Tasks, "the answer holds no JSON"),
            Failure::WrongShape => row("wrong_shape", AGAIN, SHOWN, Tasks, "the answer does not fit its model"),
            Failure::WrongTask => row("wrong_task", AGAIN, SHOWN, Tasks, "the answer says that it is for another task"),
            Failure::OutsideOwnedPaths => row("outside_owned_paths", AGAIN, SHOWN, Tasks, "the answer writes files that are not the task's"),
            Failure::TooLong => row("too_long", AGAIN, SHOWN, Tasks, "the answer, or a file in it, is too long"),
            Failure::TooManyCalls => row("too_many_calls", AGAIN, SHOWN, Tasks, "the model went on calling tools"),
            Failure::ToolMissing => row("tool_missing", NEVER, UNSEEN, Tasks, "a function that the model may call is not there, or cannot be loaded"),
            Failure::ToolUnavailable => row("tool_unavailable", AGAIN, UNSEEN, Tasks, "a tool that the model may call is not there now: its server does not start, or does not have it"),
            Failure::ToolFailed => row("tool_failed", AGAIN, SHOWN, Tasks, "a tool that runs on the answer failed, or did not take it"),
            Failure::ProgramFailed => row("program_failed", AGAIN, UNSEEN, Tasks, "the program ended in an error"),
            Failure::TemplateFailed => row("template_failed", NEVER, UNSEEN, Tasks, "the template cannot be rendered"),
            Failure::AgentFailed => row("agent_failed", AGAIN, UNSEEN, Tasks, "the remote agent failed, or dropped its task"),
            Failure::AskedBack => row("asked_back", AGAIN, SHOWN, Tasks, "the remote agent answered with a question"),
            Failure::Budget => row("budget", NEVER, UNSEEN, Runs, "there is not enough left to spend"),
            Failure::Unresolved => row("unresolved", NEVER, UNSEEN, Tasks, "the input cannot be made of the outputs before it"),
            Failure::BudgetExceeded => row("budget_exceeded", NEVER, UNSEEN, Tasks, "a provider wants more than the task may cost"),
            Failure::Unattended => row("unattended", NEVER, UNSEEN, Tasks, "a person has to answer, and nobody is there: the run waits for them"),
            Failure::Cancelled => row("cancelled", NEVER, UNSEEN, Tasks, "somebody cancelled the task, or stopped the run"),
            Failure::DependencyBlocked => row("dependency_blocked", NEVER, UNSEEN, Tasks, "a task that it needs failed, or was cancelled"),
            Failure::BatchStopped => row("batch_stopped", NEVER, UNSEEN, Runs, "another task failed, and the batch stopped with it"),
            Failure::Deadline => row("deadline", NEVER, UNSEEN, Runs, "the time for the batch was up"),
            Failure::Internal => row("internal", AGAIN, UNSEEN, Tasks, "a mistake of the engine's own"),
        }
    }

    /// What [`Failure::as_str`] stands for.
    pub fn from_word(word: &str) -> Option<Failure> {
        Failure::ALL.into_iter().find(|it| it.as_str() == word)
    }

    pub fn as_str(self) -> &'static str {
        self.facts().word
    }

    /// Whether the same question could get a better answer.
    pub fn is_worth_a_retry(self) -> bool {
        self.facts().again
    }

    /// Whether the next attempt is shown what was wrong with this answer.
    pub fn is_about_the_answer(self) -> bool {
        self.facts().shown
    }

    /// What happened, in a few words for people.
    pub fn meaning(self) -> &'static str {
        self.facts().meaning
    }

    pub fn whose(self) -> Whose {
        self.facts().whose
    }
}

impl From<Failure> for &'static str {
    fn from(failure: Failure) -> Self {
        failure.as_str()
    }
}

impl TryFrom<String> for Failure {
    type Error = String;

    fn try_from(word: String) -> Result<Failure, String> {
        Failure::from_word(&word).ok_or_else(|| format!("`{word}` is no kind of failure"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(failure: Failure) -> String {
        let Facts {
            word,
            again,
            shown,
            whose,
            meaning,
        } = failure.facts();
        let again = match (again, shown) {
            (true, true) => "yes, told why",
            (true, false) => "yes",
            (false, _) => "no",
        };
        let waits = match (again, whose) {
            ("no", _) => "nobody",
            (_, Whose::Endpoints) => "everybody who asks it",
            _ => "the task",
        };
        let whose = match whose {
            Whose::Endpoints => "the endpoint",
            Whose::Tasks => "the task",
            Whose::Runs => "the run",
        };
        format!("| `{word}` | {meaning} | {again} | {waits} | {whose} |\n")
    }

    #[test]
    fn the_readme_has_the_table() {
        let head = "| kind | what happened | tried again | who waits | concerns |\n|---|---|---|---|---|\n";
        let table = format!("{head}{}\n", Failure::ALL.map(row).concat());
        let readme = include_str!("../../README.md");
        assert!(
            readme.contains(&table),
            "the README should have this table:\n{table}"
        );
    }

    #[test]
    fn every_kind_is_listed_and_has_its_own_word() {
        for (at, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, at, "{failure}");
            assert_eq!(Failure::from_word(failure.as_str()), Some(failure));
        }
        assert_eq!(Failure::ALL.last(), Some(&Failure::Internal));
    }

    #[test]
    fn what_is_shown_is_tried_again() {
        for it in Failure::ALL {
            assert!(it.is_worth_a_retry() || !it.is_about_the_answer(), "{it}");
        }
    }
}
