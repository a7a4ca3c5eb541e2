//! A project in a folder of its own, and the built program.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

pub(crate) struct Project {
    folder: TempDir,
}

/// What the program printed, and its exit code.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Project {
    pub(crate) fn new() -> Project {
        let folder = tempfile::tempdir().expect("a folder can be made");
        fs::create_dir(folder.path().join("workflows")).expect("a folder can be made");
        Project { folder }
    }

    /// A project with one workflow, `W`, of files separated by lines `=== path`.
    pub(crate) fn of(files: &str) -> Project {
        let project = Project::new();
        let mut path = None;
        for line in files.split_inclusive('\n') {
            match line.strip_prefix("=== ") {
                Some(name) => {
                    let full = project.path("workflows/W").join(name.trim());
                    fs::create_dir_all(full.parent().expect("it lies in a folder"))
                        .expect("a folder can be made");
                    fs::write(&full, "").expect("a file can be written");
                    path = Some(full);
                }
                None => {
                    let Some(path) = &path else { continue };
                    let text = fs::read_to_string(path).expect("it was written") + line;
                    fs::write(path, text).expect("a file can be written");
                }
            }
        }
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it lies in a folder"))
            .expect("a folder can be made");
        fs::write(&path, content).expect("a file can be written");
        path
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        run_in(self.folder.path(), arguments)
    }

    /// As [`Project::run`], with lines on standard input.
    pub(crate) fn run_fed(&self, lines: &str, arguments: &[&str]) -> Ran {
        let mut command = command(self.folder.path(), arguments);
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = piped.spawn().expect("the program is built");
        let mut stdin = running.stdin.take().expect("it is piped");
        // A program that asks nobody ends without reading.
        let _ = stdin.write_all(lines.as_bytes());
        drop(stdin);
        ended(running)
    }

    /// Starts the program, and does not wait for it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = command(self.folder.path(), arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program is built")
    }

    /// As [`Project::run`], with variables in the environment.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
        let mut command = command(self.folder.path(), arguments);
        ran(command.envs(variables.iter().copied()))
    }
}

/// The program, in a folder, with no key and no colour.
pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> Ran {
    ran(&mut command(folder, arguments))
}

/// As [`run_in`], to be started by the caller.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mozaiks-run"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("OPENAI_API_KEY")
        .env_remove("OPENAI_BASE_URL")
        .env_remove("MOZAIKS_MODEL")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

fn ran(command: &mut Command) -> Ran {
    of(command.output().expect("the program is built"))
}

/// Waits for the end of a program whose output is piped.
pub(crate) fn ended(running: Child) -> Ran {
    of(running.wait_with_output().expect("it can be waited for"))
}

fn of(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The folder of the project itself.
pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
