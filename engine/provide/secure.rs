//! A certificate that a provider shows to those who connect.

use std::{fmt::Display, path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use crate::diagnostic::{Code, Diagnostic};

/// Reads a certificate, with those it is signed with after it, and the key to it: PEM files, which may be the same one.
///
/// # Errors
/// What is wrong with one of the files, or that they do not belong together.
pub fn certificate(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Diagnostic> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|it| bad("certificate", certificate, &it))?;
    if chain.is_empty() {
        return Err(bad("certificate", certificate, &"there is none in it"));
    }
    let its_key = PrivateKeyDer::from_pem_file(key).map_err(|it| bad("key", key, &it))?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
    let config = config.map(|it| it.with_no_client_auth());
    let config = config.and_then(|it| it.with_single_cert(chain, its_key));
    let config = config.map_err(|it| bad("certificate", certificate, &it))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn bad(what: &str, file: &Path, why: &dyn Display) -> Diagnostic {
    let message = format!("the {what} `{}` cannot be used: {why}", file.display());
    let help = "both are PEM files, as certificate authorities give them";
    Diagnostic::error(Code::BadInput, message).help(help)
}
