//! What a run takes of memory, by how much its tasks put out: a planner, tasks with long outputs, a writer that needs
//! none of them, and the result printed as JSON.

use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::cpu;

/// Bytes.
const OUTPUT: usize = 300_000;
const FEW: usize = 100;
const MANY: usize = 1_000;

pub(crate) fn measure(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nmemory, outputs of {OUTPUT} bytes, peak of the program in MB\n"
    )?;
    for (shape, what) in [("wide", "independent tasks"), ("chain", "tasks in a chain")] {
        let folder = tempfile::tempdir()?;
        let peak = |tasks: usize| -> io::Result<f64> {
            write(folder.path(), shape, tasks)?;
            let mut command = Command::new(env::current_exe()?);
            command.arg("peak").current_dir(folder.path());
            let ran = command.stderr(Stdio::inherit()).output()?;
            let bytes = String::from_utf8_lossy(&ran.stdout);
            let bytes: f64 = bytes.trim().parse().map_err(io::Error::other)?;
            Ok(bytes / 1e6)
        };
        let (few, many) = (peak(FEW)?, peak(MANY)?);
        writeln!(
            out,
            "{few:>6.0} with {FEW} {what}, {many:>4.0} with {MANY}: {:.1}x for {}x",
            many / few,
            MANY / FEW
        )?;
    }
    Ok(())
}

/// Runs the workflow of this folder, and says what the program took, for whoever started this process.
pub(crate) fn print_peak(out: &mut impl Write) -> io::Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mozaiks-run"));
    command.args(["Long", "--json", "--quiet"]);
    let status = command.stdout(File::create("result.json")?).status()?;
    if !status.success() {
        return Err(io::Error::other("it failed"));
    }
    writeln!(out, "{}", cpu::peak_of_children())
}

fn write(home: &Path, shape: &str, tasks: usize) -> io::Result<()> {
    let folder = home.join("workflows/Long");
    fs::create_dir_all(folder.join("extended_orchestration"))?;
    let tasks = (0..tasks).map(|task| {
        let needs: Vec<String> = match (shape, task) {
            ("chain", 1..) => vec![format!("t{}", task - 1)],
            _ => Vec::new(),
        };
        json!({ "task_id": format!("t{task}"), "execution_agent": "Worker", "task_prompt": "x", "depends_on": needs })
    });
    let plan = json!({ "DecompositionPlan": { "tasks": tasks.collect::<Vec<_>>() } });
    let scripted = |name: &str, answer: Value| json!({ "name": name, "runtime": { "kind": "scripted", "replies": [{ "json": answer }] } });
    let agents = json!([
        scripted("Planner", plan),
        scripted("Worker", json!({ "text": "x".repeat(OUTPUT) })),
        { "name": "Writer", "runtime": { "kind": "template", "output": "text", "template": "done" } },
    ]);
    let batches = json!({
        "version": 1,
        "conveyors": [{
            "id": "work",
            "decomposition_agent": "Planner",
            "execution_agents": ["Worker"],
            "concurrency": 16,
        }],
    });
    let orchestrator = json!({ "workflow_name": "Long" });
    for (name, value) in [
        ("orchestrator.yaml", orchestrator),
        ("agents.yaml", json!({ "agents": agents })),
        ("extended_orchestration/task_batches.yaml", batches),
    ] {
        fs::write(folder.join(name), value.to_string())?;
    }
    Ok(())
}
