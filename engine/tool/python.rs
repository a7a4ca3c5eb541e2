//! The Python interpreters of a run: each started by a call that finds none idle, kept for the next.
//!
//! **Invariant:** an interpreter has one call at a time, so whoever ends it harms no other call. There are never more than
//! calls were made at once, and every attempt makes one at a time.
//! **Invariant:** one that hangs or has ended is not asked again; it ends when nobody waits for it any more.

use std::{
    future::pending,
    io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::{sleep, timeout},
};

use super::{MAX_BYTES, ToolError, check, printed::Printed, way::late};
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

/// Interpreters, started when they are needed.
#[derive(Debug)]
pub(super) struct Python {
    program: Program,
    folder: PathBuf,
    /// Those without a call, the last used at the end.
    idle: Mutex<Vec<Host>>,
}

/// An interpreter that runs. Dropped, it ends.
#[derive(Debug)]
struct Host {
    group: Group,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// In this call.
    said: Ends,
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
            idle: Mutex::default(),
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
        printed: &Printed,
    ) -> Result<Value, ToolError> {
        let file = file.map(|it| check::find(&self.folder, it)).transpose();
        request["file"] = json!(file.map_err(ToolError)?);
        request["function"] = json!(function);
        let mut host = self.host()?;
        // Given up, its function would still run: the interpreter ends with this call.
        let asked = timeout(limit, host.ask(&request)).await;
        let asked = match asked {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => return Err(host.end().await),
            Err(elapsed) => Err(late(limit, &elapsed)),
        };
        printed.push(host.printed().as_bytes());
        let mut answer = asked?;
        lock(&self.idle).push(host);
        match answer["error"].take() {
            Value::String(error) => Err(ToolError(error)),
            _ => Ok(answer),
        }
    }

    /// An interpreter that has nothing to do, or another.
    fn host(&self) -> Result<Host, ToolError> {
        loop {
            let Some(mut host) = lock(&self.idle).pop() else {
                let started = Host::start(&self.program);
                return started.map_err(|error| ToolError(self.program.not_started(&error)));
            };
            if host.runs() {
                return Ok(host);
            }
        }
    }
}

impl Host {
    fn start(program: &Program) -> io::Result<Host> {
        let mut group = Group::start(program)?;
        let child = &mut group.child;
        let pipes = (child.stdin().take(), child.stdout().take());
        let (Some(stdin), Some(stdout)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Host {
            stdin,
            stdout: BufReader::new(stdout),
            stderr: group.child.stderr().take(),
            group,
            said: Ends::default(),
        })
    }

    fn runs(&mut self) -> bool {
        matches!(self.group.child.inner_mut().try_wait(), Ok(None))
    }

    /// Its answer, if there is one that can be read before it ends.
    async fn ask(&mut self, request: &Value) -> Option<Value> {
        self.said = Ends::default();
        let line = format!("{request}\n");
        let talk = async {
            self.stdin.write_all(line.as_bytes()).await.ok()?;
            let mut line = Vec::new();
            let mut piece = (&mut self.stdout).take(MAX_LINE);
            piece.read_until(b'\n', &mut line).await.ok()?;
            let line = line.strip_suffix(b"\n")?;
            serde_json::from_slice(line).ok()
        };
        let ended = async {
            // A process that it left behind may hold the pipes open.
            let _ = self.group.child.inner_mut().wait().await;
            sleep(DRAIN).await;
        };
        let hear = async {
            self.said.drain(self.stderr.as_mut()).await;
            pending().await
        };
        let answer = tokio::select! {
            biased;
            answer = talk => answer,
            () = ended => None,
            () = hear => None,
        };
        if answer.is_some() {
            // What it printed is in the pipe by now, and a NUL after it.
            let _ = timeout(DRAIN, self.said.drain_to(0, self.stderr.as_mut())).await;
        }
        answer
    }

    /// What was printed in this call.
    fn printed(&self) -> String {
        self.said.to_string().replace('\0', "")
    }

    /// Ends it, and says how it ended.
    async fn end(mut self) -> ToolError {
        // It may be about to say how it ends; one that has only closed its output does not end by itself.
        let ended = timeout(DRAIN, self.group.child.inner_mut().wait()).await;
        self.group.end();
        // What it said last says why.
        let _ = timeout(DRAIN, self.said.drain(self.stderr.as_mut())).await;
        let how = match ended {
            Ok(Ok(status)) => format!("it ended the Python interpreter: {status}"),
            Ok(Err(error)) => format!("the Python interpreter is lost: {error}"),
            Err(_) => "it left the Python interpreter without a way to answer".to_owned(),
        };
        ToolError(match self.printed().trim() {
            "" => how,
            said => format!("{how}; it said: {said}"),
        })
    }
}

/// No state is left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
