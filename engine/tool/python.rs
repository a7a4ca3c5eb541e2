//! The Python interpreter of a run: started by the first call, kept for the next.
//!
//! **Invariant:** one that hangs or has ended is not asked again; it ends when nobody waits for it any more.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use super::{MAX_BYTES, ToolError, check, way::late};
use crate::{
    child::{DRAIN, Ends, Group, Program, env::Env},
    compile::tools::ToolSpecs,
};

const HOST: &str = include_str!("host.py");
/// The variable that names the interpreter, and what it is without it.
pub(super) const VARIABLE: &str = "MOZAIKS_PYTHON";
pub(super) const USUAL: &str = "python3";
/// The longest line of the interpreter's: a result and variables, each character as an escape.
const MAX_LINE: u64 = 16 * MAX_BYTES as u64;

/// An interpreter, started when it is needed.
#[derive(Debug)]
pub(super) struct Python {
    program: Program,
    folder: PathBuf,
    host: Mutex<Option<Arc<Host>>>,
}

/// An interpreter that runs. Dropped, it ends.
#[derive(Debug)]
struct Host {
    requests: mpsc::UnboundedSender<String>,
    state: Arc<Mutex<State>>,
    _talk: JoinSet<()>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Value>>,
    /// How it ended.
    ended: Option<String>,
}

impl Python {
    /// The interpreter that `MOZAIKS_PYTHON` names, that of a `.venv` of the workflow or the project, or `python3`.
    pub(super) fn new(specs: &ToolSpecs, env: &Env) -> Python {
        let folder = std::path::absolute(&specs.folder).unwrap_or_else(|_| specs.folder.clone());
        let named = env.text(VARIABLE).or_else(|| Python::own(specs));
        let argv = [
            named.as_deref().unwrap_or(USUAL),
            // Nothing is written beside the author's files.
            "-B",
            "-X",
            "utf8",
            "-c",
            HOST,
            &folder.to_string_lossy(),
            &MAX_BYTES.to_string(),
        ];
        let argv = argv.map(str::to_owned);
        Python {
            program: Program::new(&argv, &specs.env, None, &folder, env),
            folder,
            host: Mutex::default(),
        }
    }

    /// The interpreter of a `.venv`.
    pub(super) fn own(specs: &ToolSpecs) -> Option<String> {
        let own = [&specs.folder, &specs.project].map(|it| it.join(".venv/bin/python"));
        let own = own.iter().find(|it| it.is_file())?;
        let own = std::path::absolute(own).ok()?;
        Some(own.to_str()?.to_owned())
    }

    /// Asks for what a request says of a function.
    pub(super) async fn ask(
        &self,
        file: Option<&str>,
        function: &str,
        mut request: Value,
        limit: Duration,
    ) -> Result<Value, ToolError> {
        let file = file.map(|it| check::find(&self.folder, it)).transpose();
        request["file"] = json!(file.map_err(ToolError)?);
        request["function"] = json!(function);
        let mut call = Call {
            python: self,
            host: self.host()?,
            is_over: false,
        };
        let answer = call.host.send(request);
        let answer = timeout(limit, answer).await;
        let answer = answer.map_err(|it| late(limit, &it))?;
        call.is_over = true;
        let Ok(mut answer) = answer else {
            let ended = lock(&call.host.state).ended.clone();
            return Err(ToolError(ended.unwrap_or_default()));
        };
        match answer["error"].take() {
            Value::String(error) => Err(ToolError(error)),
            _ => Ok(answer),
        }
    }

    /// The interpreter that runs, or another.
    fn host(&self) -> Result<Arc<Host>, ToolError> {
        let mut host = lock(&self.host);
        if let Some(host) = &*host
            && lock(&host.state).ended.is_none()
        {
            return Ok(Arc::clone(host));
        }
        let group = Group::start(&self.program);
        let group = group.map_err(|error| ToolError(self.program.not_started(&error)))?;
        let (requests, received) = mpsc::unbounded_channel();
        let state = Arc::<Mutex<State>>::default();
        let mut talk = JoinSet::new();
        talk.spawn(converse(group, received, Arc::clone(&state)));
        let started = Arc::new(Host {
            requests,
            state,
            _talk: talk,
        });
        *host = Some(Arc::clone(&started));
        Ok(started)
    }
}

/// A call under way. Dropped before it is over, its function still runs: the interpreter is not asked again.
struct Call<'a> {
    python: &'a Python,
    host: Arc<Host>,
    is_over: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            lock(&self.python.host).take_if(|it| Arc::ptr_eq(it, &self.host));
        }
    }
}

impl Host {
    /// Sends a request. The receiver fails when the interpreter has ended.
    fn send(&self, mut request: Value) -> oneshot::Receiver<Value> {
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&self.state);
        if state.ended.is_none() {
            state.last += 1;
            request["id"] = json!(state.last);
            let id = state.last;
            state.waiting.insert(id, sender);
            // Received as long as it has not ended.
            let _ = self.requests.send(format!("{request}\n"));
        }
        receiver
    }
}

/// Talks to an interpreter to its end.
async fn converse(
    mut group: Group,
    mut requests: mpsc::UnboundedReceiver<String>,
    state: Arc<Mutex<State>>,
) {
    let child = &mut group.child;
    let (stdin, stdout) = (child.stdin().take(), child.stdout().take());
    let mut said = Ends::default();
    let status = {
        let hear = said.drain(child.stderr().take());
        tokio::pin!(hear);
        let mut hears = true;
        let talk = async {
            tokio::select! {
                () = write(stdin, &mut requests) => (),
                () = read(stdout, &state) => (),
            }
        };
        tokio::pin!(talk);
        loop {
            tokio::select! {
                () = &mut talk => break,
                () = &mut hear, if hears => hears = false,
            }
        }
        // It may be about to say how it ends; one that has only closed its output does not end by itself.
        let ended = timeout(DRAIN, child.inner_mut().wait()).await;
        group.end();
        if hears {
            // What it said last says why.
            let _ = timeout(DRAIN, hear).await;
        }
        match ended {
            Ok(status) => status,
            Err(_) => group.child.inner_mut().wait().await,
        }
    };
    let how = match status {
        Ok(status) => format!("the Python interpreter ended: {status}"),
        Err(error) => format!("the Python interpreter ended: {error}"),
    };
    let mut state = lock(&state);
    state.ended = Some(match said.to_string().trim() {
        "" => how,
        said => format!("{how}; it said: {said}"),
    });
    state.waiting.clear();
}

async fn write(
    pipe: Option<impl AsyncWrite + Unpin>,
    requests: &mut mpsc::UnboundedReceiver<String>,
) {
    let Some(mut pipe) = pipe else { return };
    while let Some(line) = requests.recv().await {
        if pipe.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Gives each answer to whoever waits for it, up to what is none.
async fn read(pipe: Option<impl AsyncRead + Unpin>, state: &Mutex<State>) {
    let Some(pipe) = pipe else { return };
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        let mut piece = (&mut pipe).take(MAX_LINE);
        let read = piece.read_until(b'\n', &mut line).await;
        if read.is_err() || line.last() != Some(&b'\n') {
            return;
        }
        let Ok(answer) = serde_json::from_slice::<Value>(&line) else {
            return;
        };
        let id = answer["id"].as_u64().unwrap_or_default();
        if let Some(waiting) = lock(state).waiting.remove(&id) {
            // Nobody waits for one that was too late.
            let _ = waiting.send(answer);
        }
    }
}

/// No state is left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
