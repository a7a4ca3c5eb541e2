//! `mozaiks-run provide`: serves the capabilities of a workflow's agents to others.

use std::{
    env,
    io::{self, Write},
    sync::Arc,
};

use super::{Faults, args, project, refuse, show, stop::on_runtime, workflow};
use crate::{
    acmp::link,
    agent::{
        build,
        human::{Nobody, People},
    },
    diagnostic::{Code, Diagnostic},
    endpoint::MIN_KEY_BYTES,
    provide::{self, Limits, Provider},
};

pub(super) fn provide(args: &args::Provide) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let (_, workflow, _) = match workflow(&project, &args.workflow) {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let token = match token(args) {
        Ok(token) => token,
        Err(faults) => return refuse(&faults, &args.common),
    };
    if let Some(warning) = token.as_deref().and_then(|it| short(args, it)) {
        show(&[warning], &args.common)?;
    }
    let tls = args.tls_cert.as_ref().zip(args.tls_key.as_ref());
    let tls = tls.map(|(certificate, key)| provide::certificate(certificate, key));
    let tls = match tls.transpose() {
        Ok(tls) => tls,
        Err(fault) => return refuse(&[fault], &args.common),
    };
    if workflow.capabilities.is_empty() {
        let message = format!(
            "no agent of `{}` has `capabilities` to serve",
            workflow.name
        );
        return refuse(&[Diagnostic::error(Code::NotServed, message)], &args.common);
    }
    // Who asks is no person, and the terminal may be theirs.
    let nobody: Arc<dyn People> = Arc::new(Nobody);
    let agents = match build::all(&workflow, &nobody, None) {
        Ok(agents) => agents,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let tools = super::tools(&workflow);
    let tell = Box::new(|line: &str| {
        // There may be nobody any more who reads it.
        let _ = writeln!(io::stderr(), "{line}");
    });
    let provider = Provider::new(&workflow, &agents, tools, token, Limits::default(), tell);
    let serving = on_runtime(|stop| async move {
        match args.listen {
            None => {
                let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
                let limit = Limits::default().message_bytes;
                provider
                    .serve(link::lines(stdin, stdout, limit), &stop)
                    .await;
            }
            Some(address) => {
                let listener = provide::open(address).await?;
                let address = listener.local_addr()?;
                let s = if tls.is_some() { "s" } else { "" };
                let is_heard = tls.is_none() && !address.ip().is_loopback();
                let hint = match is_heard {
                    true => {
                        "\nwhat is said there, the token too, can be read on its way: `--tls-cert` gives it a certificate"
                    }
                    false => "",
                };
                writeln!(
                    io::stderr(),
                    "serving at ws{s}://{address}/ and http{s}://{address}/{hint}"
                )?;
                provider.listen(listener, tls.as_ref(), &stop).await?;
            }
        }
        provider.close().await;
        Ok(())
    });
    serving.map(|_| 0)
}

/// What buyers have to show.
fn token(args: &args::Provide) -> Result<Option<String>, Faults> {
    let Some(name) = &args.token_env else {
        let is_open = args.listen.is_some_and(|it| !it.ip().is_loopback());
        return match is_open {
            false => Ok(None),
            true => {
                let message = "others than this machine may connect there, and without a token";
                let help = "name the environment variable that holds one with `--token-env`";
                Err(vec![Diagnostic::error(Code::BadInput, message).help(help)])
            }
        };
    };
    match env::var(name) {
        Ok(token) if !token.trim().is_empty() => Ok(Some(token.trim().to_owned())),
        _ => {
            let message = format!("the environment variable `{name}` holds no token");
            Err(vec![Diagnostic::error(Code::NoKey, message)])
        }
    }
}

/// A token that can be guessed.
fn short(args: &args::Provide, token: &str) -> Option<Diagnostic> {
    let name = args
        .token_env
        .as_ref()
        .filter(|_| token.len() < MIN_KEY_BYTES)?;
    let message = format!(
        "the token in `{name}` is shorter than {MIN_KEY_BYTES} characters: who tries enough of them is let in"
    );
    let help = "take a long one that nobody can guess, such as `openssl rand -hex 32` prints";
    Some(Diagnostic::warning(Code::ShortKey, message).help(help))
}
