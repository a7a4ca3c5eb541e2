//! Ends programs when this process is killed before it can.
//!
//! One guard, a process of its own, is told which process groups there are. It holds the other end of a socket; when
//! that closes, however we went, it kills the groups that are still listed, and ends. A program is given its input after
//! it is listed: only one that does something before it reads can do so unwatched, for a moment.
//!
//! **Invariant:** nobody waits for the guard, and no run fails for want of one.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// `+ GROUP` lists a group, `- GROUP` takes it from the list.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) case $groups in
         *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;;
       esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

static GUARD: Mutex<Guard> = Mutex::new(Guard {
    groups: BTreeSet::new(),
    line: None,
});

struct Guard {
    groups: BTreeSet<u32>,
    /// To the process, once there is one.
    line: Option<(UnixStream, Child)>,
}

/// A process group that is killed if this process ends before this value.
#[derive(Debug)]
pub(super) struct Watched(u32);

/// Sees to it that there is a guard, so that nobody waits for one who is about to be listed.
pub(super) fn ready() {
    let mut guard = lock();
    if guard.line.is_none() {
        guard.line = guard.start().ok();
    }
}

/// Has a group watched.
pub(super) fn watch(group: u32) -> Watched {
    tell(|guard| {
        guard.groups.insert(group);
        format!("+ {group}\n")
    });
    Watched(group)
}

impl Drop for Watched {
    fn drop(&mut self) {
        tell(|guard| {
            guard.groups.remove(&self.0);
            format!("- {}\n", self.0)
        });
    }
}

fn tell(change: impl FnOnce(&mut Guard) -> String) {
    let mut guard = lock();
    let said = change(&mut guard);
    if let Some((line, _)) = &mut guard.line
        && line.write_all(said.as_bytes()).is_ok()
    {
        return;
    }
    // There is none yet, or somebody has ended it.
    guard.end();
    if !guard.groups.is_empty() {
        guard.line = guard.start().ok();
    }
}

fn lock() -> MutexGuard<'static, Guard> {
    // Whoever panicked in between has left nothing half done that matters.
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    fn start(&self) -> io::Result<(UnixStream, Child)> {
        let (mut ours, theirs) = UnixStream::pair()?;
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "mozaiks-guard"])
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // One that does not listen holds nobody up.
        ours.set_nonblocking(true)?;
        for group in &self.groups {
            ours.write_all(format!("+ {group}\n").as_bytes())?;
        }
        Ok((ours, child))
    }

    fn end(&mut self) {
        if let Some((_, mut child)) = self.line.take() {
            // It watches nothing that its successor does not.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
