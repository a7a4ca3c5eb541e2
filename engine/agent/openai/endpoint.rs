//! Where a model is, and the key to it.

use std::{net::IpAddr, sync::Once, time::Duration};

use reqwest::{Url, header::HeaderValue, redirect};

use super::{
    super::{build::BuildError, env::Env},
    Settings,
};

const OPENAI: &str = "https://api.openai.com/v1";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn address(settings: &Settings<'_>, env: &Env) -> Result<Url, BuildError> {
    let given = settings.base_url.map(str::to_owned);
    let given = given.or_else(|| env.text("OPENAI_BASE_URL"));
    let given = given.unwrap_or_else(|| OPENAI.to_owned());
    let url = Url::parse(&given).map_err(|error| BuildError::BadUrl {
        url: given,
        why: error.to_string(),
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        let mut url = url;
        // Fails only for addresses without a host, which have no user either.
        let _ = url.set_password(None).and_then(|()| url.set_username(""));
        let why = "a name or password in it would be shown; keys go into the environment";
        return Err(bad(&url, why.to_owned()));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => {
            let why = "plain http is for this machine only, as 127.0.0.1 or localhost";
            Err(bad(&url, why.to_owned()))
        }
        other => Err(bad(
            &url,
            format!("`{other}` is neither `https` nor `http`"),
        )),
    }
}

pub(super) fn bad(url: &Url, why: String) -> BuildError {
    let url = url.to_string();
    BuildError::BadUrl { url, why }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|it: IpAddr| it.is_loopback())
}

pub(super) fn key(settings: &Settings<'_>, env: &Env, url: &Url) -> Result<String, BuildError> {
    let variable = settings.api_key_env.unwrap_or("OPENAI_API_KEY").to_owned();
    match env.text(&variable) {
        // The client takes for granted that a key can be a header.
        Some(key) if HeaderValue::from_str(&key).is_err() => Err(BuildError::BadKey { variable }),
        Some(key) => Ok(key),
        None if is_loopback(url) => Ok(String::new()),
        None => Err(BuildError::MissingKey { variable }),
    }
}

pub(super) fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only if another one is installed, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A key is for the endpoint it was given to.
        .redirect(redirect::Policy::none())
        .build()
}
