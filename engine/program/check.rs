//! `mozaiks-run check`: every mistake of every file, and nothing runs.

use std::io::{self, Write};

use super::{INVALID, args, project, show, workflow};
use crate::diagnostic::{self, Diagnostic};

pub(super) fn check(args: &args::Check) -> anyhow::Result<u8> {
    let mut diagnostics = Vec::new();
    let mut checked = 0;
    match project(&args.common) {
        Err(faults) => diagnostics.extend(faults),
        Ok(project) => {
            let names = match &args.workflow {
                Some(name) => vec![name.clone()],
                None => project.names(),
            };
            checked = names.len();
            for name in names {
                match workflow(&project, &name) {
                    Ok((_, _, warnings)) => diagnostics.extend(warnings),
                    Err(faults) => diagnostics.extend(faults),
                }
            }
        }
    }
    show(&diagnostics, &args.common)?;
    let refused = |it: &Diagnostic| it.is_error() || args.strict;
    let is_refused = diagnostics.iter().any(refused);
    if !args.common.json {
        let summary = diagnostic::summary(&diagnostics);
        let what = match (&args.workflow, checked) {
            (Some(name), _) => name.clone(),
            (None, 1) => "1 workflow".to_owned(),
            (None, n) => format!("{n} workflows"),
        };
        writeln!(io::stderr(), "checked {what}: {summary}")?;
    }
    Ok(if is_refused { INVALID } else { 0 })
}
