//! `mozaiks-run`: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    mozaiks::program::main()
}
