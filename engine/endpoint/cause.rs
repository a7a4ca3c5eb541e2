//! Why somebody cannot be reached, in words, with what to do about it.

use std::{env, error::Error, ffi::OsStr, fs, io};

use rustls::{CertificateError, Error as Tls};

/// Who is told that nobody can be reached, and why: trouble with TLS comes of somebody who is there.
pub fn unreached(error: &(dyn Error + 'static)) -> String {
    match tls(error) {
        Some(said) => said,
        None => format!("nobody can be reached there: {}", deepest(error)),
    }
}

/// What an error comes from: those around it name the parts of a library.
pub fn deepest(error: &(dyn Error + 'static)) -> String {
    if let Some(said) = tls(error) {
        return said;
    }
    let last = causes(error).last();
    last.map_or_else(String::new, ToString::to_string)
}

/// An error, and what it comes from, one after the other.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        // One of these does not say what it was made of.
        let within = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match within {
            Some(within) => Some(within),
            None => error.source(),
        };
        Some(error)
    })
}

/// What is wrong with TLS, if that is the trouble.
fn tls(error: &(dyn Error + 'static)) -> Option<String> {
    let trusted = env::var_os("SSL_CERT_FILE");
    Some(said(of_tls(error)?, trusted.as_deref()))
}

fn of_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Tls> {
    causes(error).find_map(|it| it.downcast_ref())
}

fn said(error: &Tls, trusted: Option<&OsStr>) -> String {
    let wrong = match error {
        Tls::InvalidCertificate(wrong) => wrong,
        Tls::InvalidMessage(_) => {
            return "whoever is there does not speak TLS: is the address one without it?"
                .to_owned();
        }
        other => return format!("TLS: {other}"),
    };
    match wrong {
        CertificateError::UnknownIssuer => {
            let cure = match trusted {
                Some(file) if fs::metadata(file).is_err() => {
                    format!("`SSL_CERT_FILE` names {file:?}, which is not there")
                }
                Some(file) => format!("`SSL_CERT_FILE` names {file:?}, and who signed it is not in there"),
                None => {
                    "`SSL_CERT_FILE` names a file of certificates to trust instead of the system's"
                        .to_owned()
                }
            };
            format!("its certificate is signed by nobody who is trusted here; {cure}")
        }
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is one that may sign others (`CA:TRUE`, as `openssl req -x509` makes it by default), which no server may show as its own; make it with `-addext basicConstraints=critical,CA:FALSE`".to_owned()
        }
        other => format!("its certificate does not hold: {other}"),
    }
}

#[cfg(test)]
mod tests;
