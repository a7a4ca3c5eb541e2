//! How people stop the program: the first signal asks, the second ends it at once.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use anyhow::Context as _;
use tokio::runtime::Builder;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Which signal asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    Interrupt,
    Terminate,
    /// The terminal was closed.
    HangUp,
}

impl Stopped {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Stopped::Interrupt => 130,
            Stopped::Terminate => 143,
            Stopped::HangUp => 129,
        }
    }
}

/// Runs a future to its end on a runtime of its own, and says which signal asked it to stop, if one did.
pub(super) fn on_runtime<T, F>(
    make: impl FnOnce(CancellationToken) -> F,
) -> anyhow::Result<(T, Stopped)>
where
    F: Future<Output = anyhow::Result<T>>,
{
    on(Builder::new_multi_thread().enable_all(), make)
}

/// The same, where nobody outside is asked: the clock goes on by itself whenever something is waited for.
pub(super) fn without_waits<T, F>(
    make: impl FnOnce(CancellationToken) -> F,
) -> anyhow::Result<(T, Stopped)>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut builder = Builder::new_current_thread();
    on(builder.enable_all().start_paused(true), make)
}

fn on<T, F>(
    builder: &mut Builder,
    make: impl FnOnce(CancellationToken) -> F,
) -> anyhow::Result<(T, Stopped)>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let runtime = builder.build().context("cannot start the runtime")?;
    let cancel = CancellationToken::new();
    let code = Arc::new(AtomicU8::new(0));
    runtime.spawn(watch(cancel.clone(), Arc::clone(&code)));
    let done = runtime.block_on(make(cancel));
    runtime.shutdown_background();
    let stopped = match code.load(Ordering::Relaxed) {
        143 => Stopped::Terminate,
        129 => Stopped::HangUp,
        _ => Stopped::Interrupt,
    };
    Ok((done?, stopped))
}

async fn watch(cancel: CancellationToken, code: Arc<AtomicU8>) {
    let Ok(mut signals) = Signals::new() else {
        return;
    };
    loop {
        let stopped = signals.next().await;
        if cancel.is_cancelled() {
            std::process::exit(stopped.exit_code().into());
        }
        code.store(stopped.exit_code(), Ordering::Relaxed);
        cancel.cancel();
        let _ = writeln!(
            io::stderr(),
            "stopping: nothing is started any more, and what runs has a moment to end; once more ends at once"
        );
    }
}

/// Heard from once on, so that a second signal right after the first is not missed.
#[cfg(unix)]
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: match ignores_hang_up() {
                false => Some(signal(SignalKind::hangup())?),
                true => None,
            },
        })
    }

    async fn next(&mut self) -> Stopped {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Stopped::Interrupt,
            _ = self.terminate.recv() => Stopped::Terminate,
            _ = hang_up => Stopped::HangUp,
        }
    }
}

/// Whether the program is to outlive its terminal, as `nohup` says; or nobody knows whether it is.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    ignored.is_none_or(|it| it & 1 == 1)
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals)
    }

    async fn next(&mut self) -> Stopped {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Stopped::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}
