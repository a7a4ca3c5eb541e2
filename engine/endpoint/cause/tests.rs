use std::{fmt, sync::Arc};

use expect_test::expect;
use rustls::{InvalidMessage, OtherError};

use super::*;

/// An error around another one, as clients make them.
#[derive(Debug)]
struct Around(io::Error);

impl fmt::Display for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("error sending request for url (https://name:secret@host/)")
    }
}

impl Error for Around {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[derive(Debug)]
struct CaUsedAsEndEntity;

impl fmt::Display for CaUsedAsEndEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another one")
    }
}

impl Error for CaUsedAsEndEntity {}

#[test]
fn what_is_wrong_is_said_with_its_cure() {
    let authority = CertificateError::Other(OtherError(Arc::new(CaUsedAsEndEntity)));
    let all = [
        Tls::InvalidCertificate(CertificateError::UnknownIssuer),
        Tls::InvalidCertificate(authority),
        Tls::InvalidCertificate(CertificateError::Expired),
        Tls::InvalidMessage(InvalidMessage::InvalidContentType),
        Tls::HandshakeNotComplete,
    ];
    let mut told = String::new();
    for error in all {
        let around = Around(io::Error::other(io::Error::other(error)));
        let error = of_tls(&around).expect("it is in there");
        told.push_str(&format!("{}\n", said(error, None)));
    }
    let missing = Some(OsStr::new("/nowhere.pem"));
    let other = Some(OsStr::new(env!("CARGO_MANIFEST_DIR")));
    let unknown = Tls::InvalidCertificate(CertificateError::UnknownIssuer);
    for trusted in [missing, other] {
        let said = said(&unknown, trusted);
        told.push_str(&said.replace(env!("CARGO_MANIFEST_DIR"), "HERE"));
        told.push('\n');
    }
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    told.push_str(&unreached(&Around(refused)));
    expect![[r#"
        its certificate is signed by nobody who is trusted here; `SSL_CERT_FILE` names a file of certificates to trust instead of the system's
        its certificate is one that may sign others (`CA:TRUE`, as `openssl req -x509` makes it by default), which no server may show as its own; make it with `-addext basicConstraints=critical,CA:FALSE`
        its certificate does not hold: Expired
        whoever is there does not speak TLS: is the address one without it?
        TLS: handshake not complete
        its certificate is signed by nobody who is trusted here; `SSL_CERT_FILE` names "/nowhere.pem", which is not there
        its certificate is signed by nobody who is trusted here; `SSL_CERT_FILE` names "HERE", and who signed it is not in there
        nobody can be reached there: connection refused"#]].assert_eq(&told);
}
