//! What the built program costs before it does anything: its start, and checking a folder.

use std::{
    env,
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::cpu;

pub(crate) fn measure(out: &mut impl Write) -> io::Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    writeln!(out, "\nthe program, CPU time of a process\n")?;
    for arguments in [
        &["--version"][..],
        &["--help"],
        &["check", "DocumentDigest"],
        &["check", "AppBuild"],
    ] {
        row(out, home, arguments)?;
    }
    // A folder of somebody's own, such as a large one.
    if let Some(folder) = env::var_os("MOZAIKS_BENCH_WORKFLOWS") {
        let folder = folder.to_string_lossy().into_owned();
        row(out, home, &["check", "--workflows", &folder])?;
    }
    Ok(())
}

fn row(out: &mut impl Write, home: &Path, arguments: &[&str]) -> io::Result<()> {
    let taken = cpu::least(10, || spent(home, arguments).unwrap_or(Duration::MAX));
    let milliseconds = taken.as_secs_f64() * 1e3;
    writeln!(out, "{milliseconds:>8.1} ms  {}", arguments.join(" "))
}

fn spent(home: &Path, arguments: &[&str]) -> io::Result<Duration> {
    let before = cpu::of_children();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mozaiks-run"));
    command.args(arguments).current_dir(home);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status()?;
    if !status.success() {
        return Err(io::Error::other("it failed"));
    }
    Ok(cpu::of_children() - before)
}
