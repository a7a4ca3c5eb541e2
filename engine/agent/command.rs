//! A program: one JSON request on its standard input, one JSON value on its standard output.
//!
//! **Invariant:** when an answer is there, or is dropped, the program's whole process group is gone.

use std::{fs, io, path::Path};

use serde_json::{Map, Value, json};

use super::{Agent, Answer, Reply, Request, env::Env};
use crate::{
    accept::{Failure, Rejection},
    child::{self, Ended, Ends, Program},
    context::TaskView,
    contract::name::Name,
};

/// A program that can be asked.
#[derive(Debug, Clone)]
pub struct Command {
    program: Program,
    inline: bool,
}

/// How a program is started.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// The program, then its arguments. A bare name is looked up in `PATH`; a relative path with a `/` starts at the workflow's folder.
    pub argv: &'a [String],
    /// Names of environment variables that it may see besides the usual ones.
    pub allowed: &'a [Name],
    /// The folder it runs in, relative to the workflow's folder, which it is without one.
    pub cwd: Option<&'a str>,
    /// Whether plan and outputs stand in the request itself.
    pub inline: bool,
}

impl Command {
    /// A program of a workflow in the folder `home`. What it may see of `env` is looked up here.
    pub fn new(invocation: &Invocation<'_>, home: &Path, env: &Env) -> Command {
        let Invocation {
            argv, allowed, cwd, ..
        } = *invocation;
        Command {
            program: Program::new(argv, allowed, cwd, home, env),
            inline: invocation.inline,
        }
    }

    /// What the program reads.
    fn input(&self, request: &Request) -> Value {
        json!({
            "agent": &*request.agent,
            "task_id": request.task_id.as_deref(),
            "attempt": request.attempt,
            "idempotency_key": request.idempotency_key,
            "prompt": request.prompt,
            "context": self.context(request),
        })
    }

    fn context(&self, request: &Request) -> Map<String, Value> {
        let view = &request.view;
        let mut context = Map::new();
        for name in view.names() {
            let is_large = view.task().is_some_and(|it| is_large(name, it));
            if (self.inline || !is_large)
                && let Some(value) = view.get(name)
            {
                context.insert(name.to_owned(), value.into_owned());
            }
        }
        if let Some(task) = view.task()
            && let Some(files) = &task.files
        {
            let named = [
                ("decomposition_plan_file", json!(files.plan)),
                ("completed_task_outputs_file", json!(files.outputs)),
                ("completed_task_outputs_count", json!(task.completed)),
            ];
            context.extend(named.map(|(name, value)| (name.to_owned(), value)));
        }
        context
    }

    fn not_started(&self, error: &io::Error) -> Rejection {
        let failure = match error.kind() {
            // Too many processes: another time, perhaps.
            io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => Failure::ProgramFailed,
            _ => Failure::NotFound,
        };
        Rejection::new(failure, self.program.not_started(error))
    }
}

impl Agent for Command {
    /// The program, and what of its arguments are files.
    fn identity(&self) -> Vec<u8> {
        let Program {
            program,
            arguments,
            folder,
            ..
        } = &self.program;
        let arguments = arguments.iter().map(|it| folder.join(it));
        let paths = [program.clone()].into_iter().chain(arguments);
        let files: Vec<Vec<u8>> = paths.filter_map(|it| fs::read(it).ok()).collect();
        files.concat()
    }

    fn reads_files(&self) -> bool {
        !self.inline
    }

    fn ask(&self, request: Request) -> Answer {
        let command = self.clone();
        Box::pin(async move {
            let input = command.input(&request).to_string();
            let limit = request.max_output_bytes;
            let mut stderr = Ends::default();
            let ended = child::run(&command.program, input, limit, &mut stderr).await;
            let ended = ended.map_err(|error| command.not_started(&error))?;
            read(&command.program.program, ended, &stderr.to_string(), limit)
        })
    }
}

/// What grows with the batch, and can be read from files instead.
fn is_large(name: &str, task: &TaskView) -> bool {
    let names = [
        "completed_task_outputs",
        "decomposition_plan",
        &task.context_key,
    ];
    names.contains(&name)
}

/// What a program printed, if it ended well.
fn read(program: &Path, ended: Ended, said: &str, limit: usize) -> Result<Reply, Rejection> {
    let program = program.display();
    let said = match said.trim() {
        "" => String::new(),
        said => format!("; it said: {said}"),
    };
    let reject =
        |failure, what: String| Err(Rejection::new(failure, format!("`{program}` {what}{said}")));
    if ended.stdout.len() > limit {
        let what = format!("printed more than the {limit} bytes that are allowed");
        return reject(Failure::TooLong, what);
    }
    match ended.status {
        Ok(status) if status.success() => (),
        Ok(status) => return reject(Failure::ProgramFailed, format!("ended with {status}")),
        Err(error) => {
            let what = format!("cannot be waited for: {error}");
            return reject(Failure::ProgramFailed, what);
        }
    }
    match String::from_utf8(ended.stdout) {
        Ok(text) if text.trim().is_empty() => {
            let what = "printed nothing on its standard output".to_owned();
            reject(Failure::Empty, what)
        }
        Ok(text) => match serde_json::from_str::<Value>(&text) {
            Ok(_) => Ok(Reply {
                text,
                ..Reply::default()
            }),
            // Half a value is no text that somebody meant.
            Err(error) => {
                let what = format!("printed what is not one JSON value: {error}");
                reject(Failure::NotJson, what).map_err(|it| it.with_answer(&text))
            }
        },
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let what = format!("printed what is not UTF-8, from byte {at} on");
            reject(Failure::NotJson, what)
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
