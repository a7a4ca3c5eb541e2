//! What can be known to be wrong with agents and providers without asking them.

use std::{collections::BTreeMap, sync::Arc};

use reqwest::Url;

use super::{BuildError, build, cannot_be_asked, has_no_key, home_of};
use crate::{
    acmp::buyer,
    agent::{
        env::Env,
        human::{Nobody, People},
        openai::Known,
    },
    child::Program,
    compile::{AgentSpec, Workflow},
    contract::{
        acmp::Endpoint,
        runtime::{Fallback, Runtime},
    },
    diagnostic::{Code, Diagnostic, Place},
    endpoint::{self, BadUrl},
    tool::no_program,
};

/// What can be known to be wrong with an agent without its key, which `check` does not need.
///
/// # Errors
/// A template that does not compile, a file that is not there, or an endpoint that is not asked.
pub fn check(spec: &AgentSpec) -> Result<(), Diagnostic> {
    let nothing = Env::Fixed(BTreeMap::new());
    match &spec.runtime {
        Runtime::Template { .. } | Runtime::Human { .. } => {
            let nobody: Arc<dyn People> = Arc::new(Nobody);
            let built = build(
                &spec.runtime,
                &spec.home,
                &nothing,
                &Known::default(),
                &nobody,
            );
            built.map(|_| ()).map_err(|error| error.of(spec))
        }
        Runtime::Openai {
            base_url,
            headers,
            allow_plain_http,
            fallback,
            api_key_env,
            ..
        } => {
            let first = (base_url.as_deref(), api_key_env.as_deref());
            let is_keyless = |it: &&Fallback| has_no_key(it, first);
            let urls = fallback.iter().filter(is_keyless).map(|it| {
                let url = it.base_url.as_deref().unwrap_or_default();
                endpoint::address(url, true)
            });
            let mut urls = urls.filter_map(Result::ok);
            if urls.any(|it| !endpoint::is_loopback(&it)) {
                return Err(BuildError::KeyOfAnother.of(spec));
            }
            let own = (base_url.as_ref(), headers, *allow_plain_http);
            let others = fallback.iter();
            let others = others.map(|it| (it.base_url.as_ref(), &it.headers, it.allow_plain_http));
            for (url, headers, allow_plain_http) in [own].into_iter().chain(others) {
                let address = url.map(|it| endpoint::address(it, allow_plain_http));
                if let Some(Err(bad)) = address {
                    return Err(BuildError::from(bad).of(spec));
                }
                if let Some(bad) = endpoint::check(headers) {
                    return Err(BuildError::from(bad).of(spec));
                }
            }
            Ok(())
        }
        Runtime::A2a {
            url,
            endpoint,
            headers,
            allow_plain_http,
            ..
        } => {
            for url in [Some(url), endpoint.as_ref()].into_iter().flatten() {
                let address = endpoint::address(url, *allow_plain_http);
                address.map_err(|bad| BuildError::from(bad).of(spec))?;
            }
            let bad = endpoint::check(headers);
            bad.map_or(Ok(()), |it| Err(BuildError::from(it).of(spec)))
        }
        _ => Ok(()),
    }
}

/// What can be known to be wrong with the providers of a workflow without their keys and tokens. `place` says where the
/// one of such a number stands in `acmp.yaml`.
pub fn check_providers(
    workflow: &Workflow,
    place: impl Fn(usize) -> Option<Place>,
) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for (name, provider) in &workflow.providers {
        let Some((url, at)) = &provider.base_url else {
            continue;
        };
        // Whether it may be plain http elsewhere, each agent says.
        if let Err(BadUrl { url, why }) = endpoint::address(url, true) {
            let message =
                format!("the `base_url` of the provider `{name}` is none: `{url}`: {why}");
            let help =
                "write it as `https://host/v1`, or `http://127.0.0.1:8080/v1` on this machine";
            faults.push(
                Diagnostic::error(Code::BadInput, message)
                    .at(at.clone())
                    .help(help),
            );
        }
    }
    let written = &workflow.acmp.providers;
    for (ix, provider) in written.iter().enumerate() {
        if written[..ix].iter().any(|it| it.name == provider.name) {
            let message = format!("two providers are called `{}`", provider.name);
            let fault = Diagnostic::error(Code::DuplicateName, message);
            faults.extend(place(ix).map(|at| fault.at(at)));
        }
        let fault = match buyer::check(provider) {
            Err(unusable) => Some(cannot_be_asked(&provider.name, unusable)),
            Ok(()) => match &provider.endpoint {
                Endpoint::Stdio { argv, cwd, .. } => {
                    let home = home_of(workflow);
                    let program = Program::new(argv, &[], cwd.as_deref(), &home, &Env::Process);
                    no_program(
                        (&argv[0], &format!("the provider `{}`", provider.name)),
                        &program,
                    )
                }
                _ => None,
            },
        };
        // The line of an address with a password is not drawn.
        let at = place(ix).filter(|_| !has_password(&provider.endpoint));
        faults.extend(fault.map(|it| match at {
            Some(at) => it.at(at),
            None => it,
        }));
    }
    faults
}

fn has_password(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Stdio { .. } => false,
        Endpoint::Http { url, .. } | Endpoint::Websocket { url, .. } => {
            Url::parse(url).is_ok_and(|it| endpoint::names_somebody(&it))
        }
    }
}

/// Programs of agents that are not on this machine. Another one may have them.
pub fn check_programs(workflow: &Workflow) -> Vec<Diagnostic> {
    let faults = workflow.agents.values().filter_map(|spec| {
        let Runtime::Command { argv, cwd, .. } = &spec.runtime else {
            return None;
        };
        let program = Program::new(argv, &[], cwd.as_deref(), &spec.home, &Env::Process);
        let fault = no_program((&argv[0], &format!("`{}`", spec.name)), &program)?;
        Some(fault.at(spec.at.clone()))
    });
    faults.collect()
}
