//! `mozaiks-run init`: a new workflow that runs at once.

use std::{
    env, fs,
    io::{self, Write},
};

use anyhow::Context as _;

use super::{args, refuse};
use crate::{
    diagnostic::{Code, Diagnostic},
    schema::{FileKind, text},
};

const CONVEYOR: &[(&str, &str)] = &[
    (
        "extended_orchestration/task_batches.yaml",
        include_str!("init/conveyor/task_batches.yaml"),
    ),
    ("agents.yaml", include_str!("init/conveyor/agents.yaml")),
];
const BATCHES: &[(&str, &str)] = &[
    (
        "extended_orchestration/task_batches.yaml",
        include_str!("init/batches/task_batches.yaml"),
    ),
    ("agents.yaml", include_str!("init/batches/agents.yaml")),
    (
        "context_variables.yaml",
        include_str!("init/batches/context_variables.yaml"),
    ),
    (
        "structured_outputs.yaml",
        include_str!("init/batches/structured_outputs.yaml"),
    ),
    (
        "transition_graph.yaml",
        include_str!("init/batches/transition_graph.yaml"),
    ),
];

pub(super) fn init(args: &args::Init) -> anyhow::Result<u8> {
    let name = args.name.as_str();
    let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic())
        && name
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'));
    if !is_name {
        let message = format!("`{name}` cannot be the name of a workflow");
        let help = "a name begins with a letter and goes on with letters, digits, `_` and `-`";
        return refuse(
            &[Diagnostic::error(Code::BadInput, message).help(help)],
            &args.common,
        );
    }
    let workflows = match super::project(&args.common) {
        Ok(project) => project.workflows,
        Err(_) => match &args.common.workflows {
            Some(folder) => folder.clone(),
            None => env::current_dir()
                .context("cannot tell the current folder")?
                .join("workflows"),
        },
    };
    let folder = workflows.join(name);
    if folder.exists() {
        let message = format!("`{}` is there already", folder.display());
        return refuse(
            &[Diagnostic::error(Code::Exists, message).help("choose another name")],
            &args.common,
        );
    }
    let files = match args.template {
        args::Template::Conveyor => CONVEYOR,
        args::Template::Batches => BATCHES,
    };
    for (path, content) in files {
        write(&folder.join(path), content)?;
    }
    // The schema line of each file points beside the workflows, so that it works in any project.
    let schemas = workflows.parent().unwrap_or(&workflows).join("schemas");
    for kind in FileKind::ALL {
        let path = schemas.join(kind.schema_file());
        if !path.exists() {
            write(&path, &text(&kind.json_schema()))?;
        }
    }
    writeln!(
        io::stderr(),
        "made {}, and the schemas for editors in {}\nrun it:   mozaiks-run {name} --input \"anything\"\ncheck it: mozaiks-run check {name}",
        folder.display(),
        schemas.display()
    )?;
    Ok(0)
}

fn write(path: &std::path::Path, content: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    fs::write(path, content).with_context(|| format!("cannot write `{}`", path.display()))
}
