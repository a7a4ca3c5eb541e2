//! `mozaiks-run explain`: what a diagnostic means, and how to mend it.

use std::io::{self, Write};

use super::{INVALID, args};
use crate::diagnostic::{Code, closest};

pub(super) fn explain(args: &args::Explain) -> anyhow::Result<u8> {
    let mut out = io::stdout().lock();
    let Some(text) = &args.code else {
        for code in Code::ALL {
            writeln!(out, "{}  {}", code.as_str(), code.title())?;
        }
        return Ok(0);
    };
    match Code::parse(text) {
        Some(code) => {
            writeln!(out, "{}", code.explanation())?;
            Ok(0)
        }
        None => {
            let codes: Vec<&str> = Code::ALL.iter().map(|it| it.as_str()).collect();
            let near = closest(text, &codes).map(|it| format!("; did you mean {it}?"));
            let near = near.unwrap_or_default();
            writeln!(
                io::stderr(),
                "error: there is no code `{text}`{near}\n`mozaiks-run explain` lists all of them"
            )?;
            Ok(INVALID)
        }
    }
}
