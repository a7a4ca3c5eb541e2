//! Which variables of the environment hold keys.

use std::collections::BTreeSet;

use super::{Workflow, tools::Reached};
use crate::contract::endpoint::{Header, Headers};
use crate::contract::runtime::Runtime;

impl Workflow {
    /// The variables that it names as keys, or that a program of it may see and whose names say that they are.
    pub fn keys(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::from(["OPENAI_API_KEY"]);
        for agent in self.agents.values() {
            match &agent.runtime {
                Runtime::Openai {
                    api_key_env,
                    headers,
                    fallback,
                    ..
                } => {
                    names.extend(api_key_env.as_deref());
                    names.extend(variables(headers));
                    for it in fallback {
                        names.extend(it.api_key_env.as_deref());
                        names.extend(variables(&it.headers));
                    }
                }
                Runtime::A2a {
                    api_key_env,
                    headers,
                    ..
                } => {
                    names.extend(api_key_env.as_deref());
                    names.extend(variables(headers));
                }
                Runtime::Command { env, .. } => {
                    names.extend(env.iter().map(|it| &**it).filter(is_key))
                }
                _ => (),
            }
        }
        for server in &self.tools.servers {
            if let Reached::Url { headers, .. } = &server.reached {
                names.extend(variables(headers));
            }
        }
        names.extend(self.tools.env.iter().map(|it| &**it).filter(is_key));
        let providers = self.acmp.providers.iter();
        names.extend(providers.filter_map(|it| it.token_env.as_deref()));
        names
    }
}

/// The variables that headers are taken from.
fn variables(headers: &Headers) -> impl Iterator<Item = &str> {
    headers.values().filter_map(|it| match it {
        Header::Variable(it) => Some(it.env.as_str()),
        Header::Text(_) => None,
    })
}

/// Whether a variable's name says that its value is a secret.
fn is_key(name: &&str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD"]
        .iter()
        .any(|it| name.contains(it))
}
