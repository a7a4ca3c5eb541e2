//! Runs programs, and leaves nothing of them behind.
//!
//! **Invariant:** a program sees none of the environment but what it is allowed to.
//! **Invariant:** when a program has ended, or is dropped, its whole process group is gone; on Unix also when this process is killed.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::contract::name::Name;

mod ends;
pub mod env;
#[cfg(unix)]
mod guard;

pub use ends::{Ends, KEPT, listen};
use env::Env;

/// Variables that programs need to start at all.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT"];

/// How long the pipes of a program are read after it has ended. What it printed is in them by then; only a process that left its group can still hold them open.
pub const DRAIN: Duration = Duration::from_millis(500);

/// A program that can be started.
#[derive(Debug, Clone)]
pub struct Program {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// All that it sees of the environment.
    pub variables: Vec<(String, OsString)>,
    /// The folder it runs in.
    pub folder: PathBuf,
}

impl Program {
    /// A program of a workflow in the folder `home`: a bare name is looked up in `PATH`, a relative path with a `/`
    /// starts at `home`. What it may see of `env` besides the usual variables is looked up here.
    pub fn new(
        argv: &[String],
        allowed: &[Name],
        cwd: Option<&str>,
        home: &Path,
        env: &Env,
    ) -> Program {
        // A relative program would otherwise be looked for from the folder it runs in.
        let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
        let name = argv.first().map_or("", String::as_str);
        let names = ENVIRONMENT.iter().copied();
        let names = names.chain(allowed.iter().map(Name::as_str));
        Program {
            program: match name.contains('/') {
                true => home.join(name),
                false => PathBuf::from(name),
            },
            arguments: argv.iter().skip(1).cloned().collect(),
            variables: names
                .filter_map(|it| Some((it.to_owned(), env.get(it)?)))
                .collect(),
            folder: cwd.map_or_else(|| home.clone(), |it| home.join(it)),
        }
    }

    /// Why it cannot be started here, as far as that is known without starting it.
    pub fn missing(&self) -> Option<&'static str> {
        if !self.folder.is_dir() {
            return Some("the folder that it is to run in is not there");
        }
        if self.program.is_absolute() {
            return match self.program.is_file() {
                true if may_run(&self.program) => None,
                true => Some("the file may not be executed"),
                false => Some("there is no such file"),
            };
        }
        // Without a `PATH` the system has one of its own.
        let path = self.variables.iter().find(|(name, _)| name == "PATH")?;
        let mut places = std::env::split_paths(&path.1).map(|it| it.join(&self.program));
        let found = places.any(|it| {
            let with_suffix = it.with_extension(std::env::consts::EXE_EXTENSION);
            may_run(&it) || may_run(&with_suffix)
        });
        (!found).then_some("no folder of `PATH` has it")
    }

    /// Why it does not start, for people.
    pub fn not_started(&self, error: &io::Error) -> String {
        let program = self.program.display();
        let folder = self.folder.display();
        match self.folder.is_dir() {
            true => format!("cannot start `{program}`: {error}"),
            false => {
                format!("cannot start `{program}`: there is no folder `{folder}` to run it in")
            }
        }
    }
}

#[cfg(unix)]
fn may_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn may_run(path: &Path) -> bool {
    path.is_file()
}

/// What a program left.
pub struct Ended {
    /// Longer than the limit if the program was stopped for that.
    pub stdout: Vec<u8>,
    pub status: io::Result<ExitStatus>,
}

/// Starts a program, gives it `input`, and waits for its end or for more than `limit` bytes of output. What it says beside
/// that is in `stderr`, also when it is not waited for to its end.
///
/// # Errors
/// It cannot be started.
pub async fn run(
    command: &Program,
    input: String,
    limit: usize,
    stderr: &mut Ends,
) -> io::Result<Ended> {
    let mut group = Group::start(command)?;
    let mut stdout = Vec::new();
    let status = {
        let child = &mut group.child;
        let (stdin, out, err) = (
            child.stdin().take(),
            child.stdout().take(),
            child.stderr().take(),
        );
        let pipes = async {
            // All at once, so that no full pipe holds the others up.
            tokio::try_join!(
                write(stdin, input),
                read_head(out, &mut stdout, limit),
                async {
                    stderr.drain(err).await;
                    Ok(())
                },
            )
        };
        tokio::pin!(pipes);
        let mut talks = true;
        let status = loop {
            tokio::select! {
                status = group.child.inner_mut().wait() => break status,
                done = &mut pipes, if talks => {
                    talks = false;
                    if let Err(TooLong) = done {
                        group.kill();
                    }
                }
            }
        };
        group.end();
        if talks {
            // Past its time, what was read is what there is.
            let _ = timeout(DRAIN, pipes).await;
        }
        status
    };
    Ok(Ended { stdout, status })
}

/// A program and whatever it started, in a process group of its own. Dropped, all of it is killed.
#[derive(Debug)]
pub struct Group {
    pub child: Box<dyn ChildWrapper>,
    /// The number of a group that is gone may be another's by now.
    is_gone: bool,
    #[cfg(unix)]
    watched: Option<guard::Watched>,
}

impl Group {
    /// Starts a program with pipes to all three of its streams. The one place where a group comes to be.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &Program) -> io::Result<Group> {
        let mut wrap = CommandWrap::with_new(&command.program, |it| {
            it.args(&command.arguments)
                .current_dir(&command.folder)
                .env_clear()
                .envs(command.variables.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        #[cfg(unix)]
        guard::ready();
        let child = wrap.wrap(ProcessGroup::leader()).wrap(KillOnDrop).spawn()?;
        Ok(Group {
            #[cfg(unix)]
            watched: child.id().map(guard::watch),
            child,
            is_gone: false,
        })
    }

    /// Kills all of it.
    pub fn kill(&mut self) {
        if !self.is_gone {
            // Fails only if nobody is left in the group.
            let _ = self.child.start_kill();
        }
    }

    /// Kills whatever the program left running when it ended.
    pub fn end(&mut self) {
        self.kill();
        self.is_gone = true;
        #[cfg(unix)]
        drop(self.watched.take());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program printed more than it may.
struct TooLong;

async fn write(pipe: Option<impl AsyncWrite + Unpin>, input: String) -> Result<(), TooLong> {
    if let Some(mut pipe) = pipe {
        // A program may close its input before it has read it all.
        let _ = pipe.write_all(input.as_bytes()).await;
    }
    Ok(())
}

/// Reads to the end, or to the first byte that is too many.
async fn read_head(
    pipe: Option<impl AsyncRead + Unpin>,
    bytes: &mut Vec<u8>,
    limit: usize,
) -> Result<(), TooLong> {
    if let Some(pipe) = pipe {
        let most = (limit as u64).saturating_add(1);
        // What was read before an error is what there is.
        let _ = pipe.take(most).read_to_end(bytes).await;
    }
    match bytes.len() > limit {
        true => Err(TooLong),
        false => Ok(()),
    }
}
