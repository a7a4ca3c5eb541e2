//! `mozaiks-run schema`: the JSON Schemas of all files, for editors.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context as _;
use serde_json::{Map, Value};

use super::{args, project, refuse};
use crate::{
    contract::agents::Agent,
    diagnostic::{Code, Diagnostic},
    load,
    schema::{FileKind, WorkflowNames, text},
};

pub(super) fn schema(args: &args::Schema) -> anyhow::Result<u8> {
    let kinds: Vec<FileKind> = match &args.kind {
        None => FileKind::ALL.to_vec(),
        Some(name) => match FileKind::named(name) {
            Some(kind) => vec![kind],
            None => {
                let names = FileKind::ALL.iter().map(|it| it.name());
                let message = format!("there is no kind of file `{name}`");
                let diagnostic = Diagnostic::error(Code::BadInput, message)
                    .found(name)
                    .allowed(names);
                return refuse(&[diagnostic], &args.common);
            }
        },
    };
    let Some(workflow) = &args.workflow else {
        let schemas = kinds.iter().map(|it| (*it, it.json_schema()));
        return put(&schemas.collect::<Vec<_>>(), args.write.as_deref());
    };
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let (bundle, diagnostics) = load::load(&project, workflow);
    let Some(bundle) = bundle else {
        return refuse(&diagnostics, &args.common);
    };
    let mut agents = bundle.agent_names();
    agents.extend(shared_agents(&project.root.join("agents")));
    agents.sort();
    agents.dedup();
    let names = WorkflowNames {
        agents,
        variables: bundle.variable_names(),
        models: bundle.model_names(),
    };
    let schemas: Vec<_> = kinds.iter().map(|it| (*it, it.narrowed(&names))).collect();
    let folder = project.root.join(".mozaiks/schemas").join(workflow);
    let folder = args.write.clone().unwrap_or(folder);
    put(&schemas, Some(&folder))
}

/// The shared agents of a project, which any workflow may name.
fn shared_agents(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.filter_map(|it| {
        let name = it.file_name().into_string().ok()?;
        let name = name.strip_suffix(".yaml")?.to_owned();
        let file = crate::source::decode(&name, fs::read(it.path()).ok()?).ok()?;
        let source = crate::source::Source::parse(&file).ok()?;
        let (agent, _) = FileKind::Agent.schema().read::<Agent>(&source);
        agent.map(|_| name)
    });
    names.collect()
}

fn put(schemas: &[(FileKind, Value)], folder: Option<&Path>) -> anyhow::Result<u8> {
    let Some(folder) = folder else {
        let all = match schemas {
            [(_, one)] => one.clone(),
            several => {
                let pairs = several
                    .iter()
                    .map(|(kind, it)| (kind.name().to_owned(), it.clone()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        };
        write!(io::stdout(), "{}", text(&all))?;
        return Ok(0);
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    for (kind, schema) in schemas {
        let path = folder.join(kind.schema_file());
        fs::write(&path, text(schema))
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        writeln!(io::stderr(), "wrote {}", path.display())?;
    }
    Ok(0)
}
