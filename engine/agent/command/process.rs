//! Runs a program once, and leaves nothing of it behind.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use super::{Command, ends::Ends};

/// How long the pipes of a program are read after it has ended. What it printed is in them by then; only a process that left its group can still hold them open.
const DRAIN: Duration = Duration::from_millis(500);

/// What a program left.
pub(super) struct Ended {
    /// Longer than the limit if the program was stopped for that.
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Ends,
    pub(super) status: io::Result<ExitStatus>,
}

/// Starts a program, gives it `input`, and waits for its end or for more than `limit` bytes of output.
///
/// # Errors
/// It cannot be started.
pub(super) async fn run(command: &Command, input: String, limit: usize) -> io::Result<Ended> {
    let mut group = Group::start(command)?;
    let mut stdout = Vec::new();
    let mut stderr = Ends::default();
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
                read_ends(err, &mut stderr),
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
    Ok(Ended {
        stdout,
        stderr,
        status,
    })
}

/// A program and whatever it started, in a process group of its own. Dropped, all of it is killed.
struct Group {
    child: Box<dyn ChildWrapper>,
    /// The number of a group that is gone may be another's by now.
    is_gone: bool,
}

impl Group {
    fn start(command: &Command) -> io::Result<Group> {
        let mut wrap = CommandWrap::with_new(&command.program, |it| {
            it.args(&command.arguments)
                .current_dir(&command.folder)
                .env_clear()
                .envs(command.variables.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        let child = wrap.wrap(ProcessGroup::leader()).wrap(KillOnDrop).spawn()?;
        let is_gone = false;
        Ok(Group { child, is_gone })
    }

    fn kill(&mut self) {
        if !self.is_gone {
            // Fails only if nobody is left in the group.
            let _ = self.child.start_kill();
        }
    }

    /// Kills whatever the program left running when it ended.
    fn end(&mut self) {
        self.kill();
        self.is_gone = true;
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

async fn read_ends(pipe: Option<impl AsyncRead + Unpin>, ends: &mut Ends) -> Result<(), TooLong> {
    if let Some(mut pipe) = pipe {
        let mut piece = [0; 4 << 10];
        while let Ok(n @ 1..) = pipe.read(&mut piece).await {
            ends.push(&piece[..n]);
        }
    }
    Ok(())
}
