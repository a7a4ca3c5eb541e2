//! What can be known to be wrong with tools without running them.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use super::syntax;
use crate::{
    child::{Program, env::Env},
    compile::tools::{Does, Reached, ToolSpecs},
    diagnostic::{Code, Diagnostic, Place},
    endpoint,
};

/// How much of a file is looked at.
const MAX_BYTES: u64 = 4 << 20;

/// Files, functions and programs that are not there, Python that does not compile, and parameters that are no JSON Schema.
pub fn check(specs: &ToolSpecs) -> Vec<Diagnostic> {
    let mut faults = syntax::check(specs);
    let lacks = |argv: &[String], whose: &str, at: &Place| {
        let program = Program::new(argv, &[], None, &specs.folder, &Env::Process);
        Some(no_program((&argv[0], whose), &program)?.at(at.clone()))
    };
    let lifecycle = specs.lifecycle.iter().map(|it| &it.tool);
    for spec in specs.tools.iter().chain(lifecycle) {
        let name = &spec.name;
        if let Some(parameters) = &spec.parameters
            && let Err(error) = jsonschema::validator_for(&parameters.clone().into())
        {
            let message = format!("the parameters of `{name}` are no JSON Schema: {error}");
            faults.push(Diagnostic::error(Code::NotAllowed, message).at(spec.at.clone()));
        }
        match &spec.does {
            Does::Function { file, function } => {
                faults.extend(missing(specs, file, function, &spec.at));
            }
            Does::Program { argv } => {
                faults.extend(lacks(argv, &format!("the tool `{name}`"), &spec.at));
            }
            Does::Served { .. } => (),
        }
    }
    for server in &specs.servers {
        let name = &server.name;
        let (url, headers, allow_plain_http) = match &server.reached {
            Reached::Program { argv } => {
                let whose = format!("the tool server `{name}`");
                faults.extend(lacks(argv, &whose, &server.at));
                continue;
            }
            Reached::Url {
                url,
                headers,
                allow_plain_http,
            } => (url, headers, allow_plain_http),
        };
        if let Err(bad) = endpoint::address(url, *allow_plain_http) {
            let message = format!(
                "the tool server `{name}` cannot be reached: `{}`: {}",
                bad.url, bad.why
            );
            faults.push(Diagnostic::error(Code::NotAllowed, message).at(server.at.clone()));
        }
        if let Some(bad) = endpoint::check(headers) {
            faults.push(Diagnostic::error(Code::NotAllowed, bad.to_string()).at(server.at.clone()));
        }
    }
    for spec in &specs.prompts {
        if let Some(file) = &spec.file {
            faults.extend(missing(specs, file, &spec.function, &spec.at));
        }
    }
    faults
}

/// A program of somebody that is not on this machine. Another one may have it.
pub fn no_program((name, whose): (&str, &str), program: &Program) -> Option<Diagnostic> {
    let why = program.missing()?;
    let message = format!("the program `{name}` of {whose} cannot be started here: {why}");
    Some(Diagnostic::warning(Code::MissingProgram, message))
}

fn missing(specs: &ToolSpecs, file: &str, function: &str, at: &Place) -> Option<Diagnostic> {
    let message = match find(&specs.folder, file) {
        Err(why) => why,
        Ok(found) if defines(&specs.folder.join(&found), function) => return None,
        Ok(_) => format!("the file `{file}` has no function `{function}`"),
    };
    Some(Diagnostic::warning(Code::MissingFile, message).at(at.clone()))
}

/// The files of functions and programs that are there.
pub fn files(specs: &ToolSpecs) -> Vec<PathBuf> {
    let lifecycle = specs.lifecycle.iter().map(|it| &it.tool);
    let tools = specs.tools.iter().chain(lifecycle);
    let paths = tools.flat_map(|spec| match &spec.does {
        Does::Function { file, .. } => find(&specs.folder, file).into_iter().collect(),
        Does::Program { argv } => argv.clone(),
        Does::Served { .. } => Vec::new(),
    });
    let servers = specs.servers.iter().flat_map(|it| match &it.reached {
        Reached::Program { argv } => argv.clone(),
        Reached::Url { .. } => Vec::new(),
    });
    let prompts = specs.prompts.iter().filter_map(|it| it.file.as_ref());
    let prompts = prompts.filter_map(|it| find(&specs.folder, it).ok());
    let paths = paths.chain(servers).chain(prompts);
    paths.map(|it| specs.folder.join(it)).collect()
}

/// Where a tool's file is, from the workflow's folder: in `tools`, or beside it. It may be a link to nothing outside.
pub(super) fn find(folder: &Path, file: &str) -> Result<String, String> {
    let names = [format!("tools/{file}"), file.to_owned()];
    let found = names.into_iter().find(|it| folder.join(it).is_file());
    let found = found.ok_or_else(|| format!("the file `{file}` of this tool is not there"))?;
    let inside = |path: &Path| {
        Some(
            path.canonicalize()
                .ok()?
                .starts_with(folder.canonicalize().ok()?),
        )
    };
    match inside(&folder.join(&found)) {
        Some(true) => Ok(found),
        _ => Err(format!(
            "the file `{file}` lies outside the workflow's folder"
        )),
    }
}

/// Whether a Python file seems to define a name. It may do so in ways that only running it would tell.
fn defines(path: &Path, function: &str) -> bool {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|it| it.take(MAX_BYTES).read_to_string(&mut text));
    if read.is_err() || text.contains("import *") {
        return true;
    }
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    let mut words = text.split(|it| !is_word(it));
    words.any(|it| it == function)
}
