//! The clock of the benchmarks: CPU time, which other work on the machine moves less than time on the wall.

use std::{fs, time::Duration};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

/// CPU time of this process so far, all threads, user and system.
pub(crate) fn here() -> Duration {
    of(UsageWho::RUSAGE_SELF)
}

/// CPU time of all children that have ended.
pub(crate) fn of_children() -> Duration {
    of(UsageWho::RUSAGE_CHILDREN)
}

/// The most memory this process has held, in bytes. Not what `getrusage` says, which a child takes over from its parent.
pub(crate) fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.map_or(0, |it: usize| it * 1024)
}

/// The most memory that a child has held of those that have ended, in bytes. It is at least what this process held when
/// it started one.
pub(crate) fn peak_of_children() -> usize {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("a process may ask about its children");
    usage.max_rss() as usize * 1024
}

/// The least CPU time of several rounds: what disturbs a round only adds to it.
pub(crate) fn least(rounds: usize, mut round: impl FnMut() -> Duration) -> Duration {
    (0..rounds).map(|_| round()).min().unwrap_or_default()
}

fn of(who: UsageWho) -> Duration {
    let usage = getrusage(who).expect("a process may ask about itself");
    let spent = |it: TimeVal| {
        Duration::from_secs(it.tv_sec() as u64) + Duration::from_micros(it.tv_usec() as u64)
    };
    spent(usage.user_time()) + spent(usage.system_time())
}
