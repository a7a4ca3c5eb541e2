//! Whether a model may be asked now: one question to an agent may be many to models.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Usage;
use crate::accept::Rejection;

/// A call of a model that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Which of the agent's models it is for: 0 is the one it asks first.
    pub model: usize,
    /// How long its text is, in bytes, without what the answer has to fit.
    pub bytes: usize,
}

/// Whoever decides when models are asked, and hears what that used.
pub trait Leaves: Send + Sync {
    /// Waits until the call may be made.
    ///
    /// # Errors
    /// It may not be made any more.
    fn ask(&self, question: Question) -> Granted<'_>;
}

pub type Granted<'a> = Pin<Box<dyn Future<Output = Result<Box<dyn Call>, Rejection>> + Send + 'a>>;

/// A call that may be made. Dropped, it was given up.
pub trait Call: Send {
    /// What it used, or why it failed. Gives what is to be counted.
    fn ended(self: Box<Self>, came: Result<(Usage, usize), &Rejection>) -> Usage;

    /// Where it is noted what has come of its answer, in case it comes to no end.
    fn so_far(&self) -> SoFar;
}

/// What has come of an answer so far, and who says whether it may go on.
#[derive(Clone, Default)]
pub struct SoFar {
    came: Arc<Mutex<Came>>,
    watch: Option<Watch>,
}

/// Says why an answer is to be stopped of which so much has come.
type Watch = Arc<dyn Fn(Came) -> Option<String> + Send + Sync>;

/// How much of an answer has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Came {
    /// How long that is, in bytes. Nothing: it is not known to have begun.
    pub bytes: Option<usize>,
    /// How much of it the model only thought.
    pub thought: usize,
    /// As far as the endpoint has said.
    pub usage: Usage,
    /// How much came after the endpoint said that.
    pub later: usize,
}

impl SoFar {
    pub fn watched(watch: impl Fn(Came) -> Option<String> + Send + Sync + 'static) -> SoFar {
        SoFar {
            watch: Some(Arc::new(watch)),
            ..SoFar::default()
        }
    }

    /// # Errors
    /// Why the answer is to be stopped.
    pub fn note(&self, came: Came) -> Result<(), String> {
        *self.state() = came;
        let stop = self.watch.as_ref().and_then(|it| it(came));
        stop.map_or(Ok(()), Err)
    }

    /// Notes an answer of so many bytes of which nothing more will come.
    pub fn note_last(&self, bytes: usize) {
        *self.state() = Came {
            bytes: Some(bytes),
            ..Came::default()
        };
    }

    pub fn forget(&self) {
        *self.state() = Came::default();
    }

    pub fn came(&self) -> Came {
        *self.state()
    }

    fn state(&self) -> MutexGuard<'_, Came> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to ask models, from nobody where nobody minds.
#[derive(Clone, Default)]
pub struct Leave(Option<Arc<dyn Leaves>>);

impl Leave {
    pub fn of(whose: Arc<dyn Leaves>) -> Leave {
        Leave(Some(whose))
    }

    /// Waits until a call may be made.
    ///
    /// # Errors
    /// It may not be made any more.
    pub async fn ask(&self, question: Question) -> Result<Box<dyn Call>, Rejection> {
        match &self.0 {
            Some(whose) => whose.ask(question).await,
            None => Ok(Box::new(Free)),
        }
    }
}

/// A call that nobody minds.
struct Free;

impl Call for Free {
    fn ended(self: Box<Self>, came: Result<(Usage, usize), &Rejection>) -> Usage {
        came.map_or_else(|it| it.usage, |it| it.0)
    }

    fn so_far(&self) -> SoFar {
        SoFar::default()
    }
}

impl fmt::Debug for SoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SoFar").field(&self.came()).finish()
    }
}

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.0 {
            Some(_) => "somebody's",
            None => "nobody's",
        };
        f.debug_tuple("Leave").field(&whose).finish()
    }
}
