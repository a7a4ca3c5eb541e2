//! `cargo bench`: what the engine costs, as ratios taken in one run. What is printed is a figure, never a verdict on
//! a machine: compare columns, not days.

mod acmp;
mod batch;
mod cpu;
mod durable;
mod memory;
mod models;
mod program;

use std::{
    env,
    io::{self, Write as _},
};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).filter(|it| it != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut out = io::stdout();
    match words.as_slice() {
        // How the benchmark asks itself, in a process of its own, what a batch takes of memory.
        ["memory-of", shape, tasks] => batch::print_peak(&mut out, shape, tasks),
        ["acmp"] => acmp::measure(&mut out),
        // What a message there and back costs, in a process of its own.
        ["echo"] => acmp::echo(&mut out),
        ["accept"] => batch::accept_plan(&mut out),
        ["batch"] => batch::compare(&mut out),
        ["durable"] => durable::measure(&mut out),
        ["peak"] => memory::print_peak(&mut out),
        ["memory"] => memory::measure(&mut out),
        // The endpoint that is asked, in a process of its own.
        ["serve"] => models::serve(&mut out),
        ["models"] => models::measure(&mut out),
        ["program"] => program::measure(&mut out),
        [] => {
            batch::compare(&mut out)?;
            batch::accept_plan(&mut out)?;
            durable::measure(&mut out)?;
            memory::measure(&mut out)?;
            models::measure(&mut out)?;
            acmp::measure(&mut out)?;
            program::measure(&mut out)
        }
        other => {
            writeln!(
                out,
                "no benchmark `{}`: batch, accept, durable, memory, models, acmp, program",
                other.join(" ")
            )
        }
    }
}
