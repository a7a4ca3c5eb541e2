//! A program: one JSON request on its standard input, one JSON value on its standard output.
//!
//! **Invariant:** a program sees none of the environment but what it is allowed to.
//! **Invariant:** when an answer is there, or is dropped, the program's whole process group is gone.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::{Agent, Answer, Reply, Request, Usage};
use crate::accept::{Failure, Rejection};

/// Variables that programs need to start at all.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT"];
/// How much of its standard error is kept, from the end.
const MAX_STDERR: usize = 8 << 10;

pub struct Command {
    program: PathBuf,
    arguments: Vec<String>,
    allowed: Vec<String>,
    folder: PathBuf,
    inline: bool,
}

impl Command {
    /// A program by its arguments, the first of which names it. A relative path starts at `home`; a bare name is looked up in `PATH`.
    pub fn new(
        argv: &[String],
        home: &Path,
        allowed: Vec<String>,
        folder: PathBuf,
        inline: bool,
    ) -> Command {
        let name = argv.first().map(String::as_str).unwrap_or_default();
        let is_path = name.contains(['/', '\\']) && !Path::new(name).is_absolute();
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        Command {
            program: if is_path {
                home.join(name)
            } else {
                PathBuf::from(name)
            },
            arguments: argv.iter().skip(1).cloned().collect(),
            allowed,
            folder,
            inline,
        }
    }

    fn wrap(&self) -> CommandWrap {
        let mut wrap = CommandWrap::with_new(&self.program, |command| {
            let names = ENVIRONMENT
                .iter()
                .copied()
                .chain(self.allowed.iter().map(String::as_str));
            let variables = names.filter_map(|it| Some((it, std::env::var_os(it)?)));
            command
                .args(&self.arguments)
                .current_dir(&self.folder)
                .env_clear()
                .envs(variables)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        wrap.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        wrap
    }

    fn request(&self, request: &Request) -> Value {
        let view = &request.view;
        let task = view.task();
        let large = |name: &str| {
            let is_results = task.is_some_and(|it| name == &*it.context_key);
            matches!(name, "completed_task_outputs" | "decomposition_plan") || is_results
        };
        let mut context = Map::new();
        for name in view.names() {
            if (task.is_none() || self.inline || !large(name))
                && let Some(value) = view.get(name)
            {
                context.insert(name.to_owned(), value.into_owned());
            }
        }
        if let Some(task) = task
            && let Some(files) = &task.files
        {
            context.insert("decomposition_plan_file".to_owned(), json!(files.plan));
            context.insert(
                "completed_task_outputs_file".to_owned(),
                json!(files.outputs),
            );
            context.insert(
                "completed_task_outputs_count".to_owned(),
                json!(task.completed),
            );
        }
        json!({
            "agent": &*request.agent,
            "task_id": request.task_id.as_deref(),
            "attempt": request.attempt,
            "idempotency_key": request.idempotency_key,
            "prompt": request.prompt,
            "context": context,
        })
    }
}

impl Agent for Command {
    fn reads_files(&self) -> bool {
        !self.inline
    }

    fn ask(&self, request: Request) -> Answer {
        let input = self.request(&request).to_string();
        let mut wrap = self.wrap();
        let program = self.program.display().to_string();
        Box::pin(async move {
            let spawned = wrap.spawn();
            let child = spawned.map_err(|error| {
                Rejection::new(
                    Failure::NotFound,
                    format!("cannot start `{program}`: {error}"),
                )
            })?;
            let group = Group(child);
            let ended = talk(group, input, request.max_output_bytes).await;
            read(&program, ended)
        })
    }
}

/// A program and whatever it started. Dropped, all of it is killed.
struct Group(Box<dyn ChildWrapper>);

impl Drop for Group {
    fn drop(&mut self) {
        // Fails only if the group is gone already.
        let _ = self.0.start_kill();
    }
}

/// What a program left.
struct Left {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: Option<ExitStatus>,
    limit: usize,
}

/// Writes, reads and waits at once, so that no full pipe holds the others up.
async fn talk(mut group: Group, input: String, limit: usize) -> Left {
    let stdin = group.0.stdin().take();
    let stdout = group.0.stdout().take();
    let stderr = group.0.stderr().take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A program may close its input before it has read it all.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let read_out = head(stdout, limit);
    let read_err = tail(stderr);
    let wait = async {
        let status = group.0.inner_mut().wait().await.ok();
        // What it left running would hold its pipes open.
        let _ = group.0.start_kill();
        status
    };
    let reading = async { tokio::join!(read_err, wait) };
    tokio::pin!(write, read_out, reading);
    let mut written = false;
    let mut out = None;
    loop {
        tokio::select! {
            () = &mut write, if !written => written = true,
            bytes = &mut read_out, if out.is_none() => {
                if bytes.len() > limit {
                    // Whatever else it has to say is not waited for.
                    return Left { stdout: bytes, stderr: Vec::new(), status: None, limit };
                }
                out = Some(bytes);
            }
            (stderr, status) = &mut reading => {
                let stdout = match out {
                    Some(bytes) => bytes,
                    None => read_out.await,
                };
                return Left { stdout, stderr, status, limit };
            }
        }
    }
}

/// The first bytes: one more than the limit tells that there were more.
async fn head(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read before an error is what there is.
        let _ = stream.take(limit as u64 + 1).read_to_end(&mut bytes).await;
    }
    bytes
}

/// The last bytes.
async fn tail(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut piece = vec![0; MAX_STDERR];
    while let Ok(n @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(&piece[..n]);
        let over = kept.len().saturating_sub(MAX_STDERR);
        kept.drain(..over);
    }
    kept
}

fn read(program: &str, left: Left) -> Result<Reply, Rejection> {
    let limit = left.limit;
    if left.stdout.len() > limit {
        let message = format!("`{program}` printed more than the {limit} bytes that are allowed");
        return Err(Rejection::new(Failure::TooLong, message));
    }
    let said = String::from_utf8_lossy(&left.stderr);
    let said = match said.trim() {
        "" => String::new(),
        said => format!("; it said: {said}"),
    };
    match left.status {
        Some(status) if status.success() => (),
        Some(status) => {
            let message = format!("`{program}` ended with {status}{said}");
            return Err(Rejection::new(Failure::ProgramFailed, message));
        }
        None => {
            let message = format!("`{program}` cannot be waited for{said}");
            return Err(Rejection::new(Failure::ProgramFailed, message));
        }
    }
    let text = String::from_utf8(left.stdout).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message =
            format!("`{program}` printed bytes that are not UTF-8, from byte {at} on{said}");
        Rejection::new(Failure::NotJson, message)
    })?;
    if text.trim().is_empty() {
        let message = format!("`{program}` printed nothing on its standard output{said}");
        return Err(Rejection::new(Failure::Empty, message));
    }
    let usage = Usage::default();
    Ok(Reply { text, usage })
}
