//! How people stop the program: the first signal asks, the second ends it at once.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

/// Which signal asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    Interrupt,
    Terminate,
}

impl Stopped {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Stopped::Interrupt => 130,
            Stopped::Terminate => 143,
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the runtime")?;
    let cancel = CancellationToken::new();
    let code = Arc::new(AtomicU8::new(0));
    runtime.spawn(watch(cancel.clone(), Arc::clone(&code)));
    let done = runtime.block_on(make(cancel));
    runtime.shutdown_background();
    let stopped = match code.load(Ordering::Relaxed) {
        143 => Stopped::Terminate,
        _ => Stopped::Interrupt,
    };
    Ok((done?, stopped))
}

async fn watch(cancel: CancellationToken, code: Arc<AtomicU8>) {
    loop {
        let stopped = next().await;
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

#[cfg(unix)]
async fn next() -> Stopped {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => Stopped::Interrupt,
        _ = terminate.recv() => Stopped::Terminate,
    }
}

#[cfg(not(unix))]
async fn next() -> Stopped {
    match tokio::signal::ctrl_c().await {
        Ok(()) => Stopped::Interrupt,
        Err(_) => std::future::pending().await,
    }
}
