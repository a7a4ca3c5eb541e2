//! Makes the agents of a workflow ready to be asked.

use std::{env, fs, sync::Arc};

use super::{
    Agent, Agents, command::Command, openai::OpenAi, scripted::Scripted, template::Template,
};
use crate::{
    compile::{AgentSpec, Workflow},
    contract::runtime::Runtime,
    diagnostic::{Code, Diagnostic},
};

/// Every agent of a workflow.
///
/// # Errors
/// What keeps agents from being asked, all of it.
pub fn all(workflow: &Workflow) -> Result<Agents, Vec<Diagnostic>> {
    let mut agents = Agents::new();
    let mut faults = Vec::new();
    for spec in workflow.agents.values() {
        match one(spec) {
            Ok(agent) => {
                agents.insert(spec.name.to_string(), agent);
            }
            Err(diagnostic) => faults.push(diagnostic),
        }
    }
    match faults.is_empty() {
        true => Ok(agents),
        false => Err(faults),
    }
}

/// What can be known to be wrong with an agent without its key, which `check` does not need.
///
/// # Errors
/// A template that does not compile, or a file that is not there.
pub fn check(spec: &AgentSpec) -> Result<(), Diagnostic> {
    match &spec.runtime {
        Runtime::Template { .. } => one(spec).map(|_| ()),
        _ => Ok(()),
    }
}

fn one(spec: &AgentSpec) -> Result<Arc<dyn Agent>, Diagnostic> {
    match &spec.runtime {
        Runtime::Openai { .. } => Ok(Arc::new(OpenAi::new(spec, |it| env::var(it).ok())?)),
        Runtime::Command {
            argv,
            env,
            cwd,
            inline,
        } => {
            let env = env.iter().map(ToString::to_string).collect();
            let cwd = cwd
                .as_ref()
                .map_or_else(|| spec.home.clone(), |it| spec.home.join(it.as_str()));
            Ok(Arc::new(Command::new(argv, &spec.home, env, cwd, *inline)))
        }
        Runtime::Template {
            template,
            template_file,
            output,
            fuel,
        } => {
            let text = match template_file {
                Some(file) => {
                    let path = spec.home.join(file.as_str());
                    fs::read_to_string(&path).map_err(|error| {
                        let message = format!(
                            "the template of `{}` cannot be read: `{}`: {error}",
                            spec.name,
                            path.display()
                        );
                        Diagnostic::error(Code::MissingFile, message).at(spec.at.clone())
                    })?
                }
                None => template.clone().unwrap_or_default(),
            };
            let made = Template::new(text, *output, fuel.get());
            let template = made.map_err(|message| {
                let message = format!(
                    "the template of `{}` does not compile: {message}",
                    spec.name
                );
                Diagnostic::error(Code::Template, message).at(spec.at.clone())
            })?;
            Ok(Arc::new(template))
        }
        Runtime::Scripted { replies } => Ok(Arc::new(Scripted::new(replies.clone()))),
    }
}
