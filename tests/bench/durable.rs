//! What it costs that a run survives: the journal against memory alone, its size, and how long it takes to be back.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use mozaiks::{
    journal::{Journal, NewRun},
    run::{Log, Reader},
};

use crate::{
    batch::{Bench, Performed},
    cpu,
};

const TASKS: usize = 20_000;
const MANY: usize = 100_000;

pub(crate) fn measure(out: &mut impl Write) -> io::Result<()> {
    let bench = Bench::new()?;
    let agents = Bench::agents("wide", TASKS);
    let memory = cpu::least(3, || {
        bench.perform(&agents, Log::default(), usize::MAX).took
    });
    let folder = tempfile::tempdir()?;
    let durable = bench.perform(&agents, log(folder.path()), usize::MAX);
    let each = |it: Duration| it.as_secs_f64() * 1e6 / TASKS as f64;
    let (memory, took) = (each(memory), each(durable.took));
    writeln!(
        out,
        "\nthe journal, {TASKS} tasks that do nothing, concurrency 64\n"
    )?;
    writeln!(
        out,
        "{took:.1} us CPU a task with the journal, {memory:.1} us without: {:.1} us more; {} bytes a task in the store",
        took - memory,
        size(folder.path())? / TASKS as u64
    )?;

    let folder = tempfile::tempdir()?;
    let agents = Bench::agents("layers", MANY);
    let first = bench.perform(&agents, log(folder.path()), MANY / 2);
    let begun = cpu::here();
    let second = bench.perform(&agents, again(folder.path()), 1);
    let Performed {
        recalled,
        recalled_at,
        ..
    } = second;
    let seconds = (recalled_at - begun).as_secs_f64();
    writeln!(
        out,
        "{seconds:.2} s CPU until a run of {MANY} tasks goes on, {} of which were completed and {recalled} recalled",
        first.completed
    )
}

/// The journal of a new run.
pub(crate) fn log(folder: &Path) -> Log {
    let mut journal = Journal::open(folder).expect("the folder can be written");
    let run = NewRun {
        id: "bench",
        workflow: "Bench",
        started_at_ms: 0,
        header: "{}",
    };
    let cursor = journal.begin(&run).expect("the journal is new");
    Log::new(journal, cursor, Default::default())
}

/// The journal of the same run, with all it says.
fn again(folder: &Path) -> Log {
    let journal = Journal::open(folder).expect("the folder can be written");
    let mut reader = Reader::new(0, folder);
    let mut cursor = journal.cursor("bench", 0).expect("the run was begun");
    let read = journal.read(&mut cursor, &mut |row| reader.take(row));
    read.expect("it is as it was written");
    Log::new(journal, cursor, reader.finish().0)
}

fn size(folder: &Path) -> io::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        size += entry?.metadata()?.len();
    }
    Ok(size)
}
