//! TLS, from both sides.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::json;

use super::{
    Carrier::*,
    Peer, heard, one,
    providing::{SERVED, Serving},
    read,
};
use crate::harness::{Project, home};

/// A certificate for this machine that nobody trusts who is not told to, and its key.
fn pem() -> String {
    home().join("tests/peers/tls.pem").display().to_string()
}

#[test]
fn over_tls_only_a_certificate_that_is_trusted_counts() {
    for carrier in [Websocket, Http] {
        let project = Project::new();
        let peer = Peer::start(&project, "secured", carrier);
        let plain = peer.endpoint["url"].as_str().unwrap_or_default();
        let (scheme, place) = plain.split_once(':').expect("it has a scheme");
        let acmp = json!({ "providers": [{
            "name": "secured",
            "endpoint": { "kind": carrier.name(), "url": format!("{scheme}s:{place}") },
            "capabilities": ["echo"],
        }] });
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", one(&json!({})));
        let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
        let ran = project.run_with(&[("SSL_CERT_FILE", &pem())], &arguments);
        assert_eq!(ran.code, 0, "{carrier:?}: {} {}", ran.stdout, ran.stderr);
        let ran = project.run(&arguments);
        assert_eq!(ran.code, 1, "{carrier:?}: {}", ran.stderr);
        let reason = read(&ran.stdout)["reason"].clone();
        let reason = reason.as_str().unwrap_or_default();
        assert!(
            reason.contains("connection: provider `secured`: "),
            "{reason}"
        );
        assert_eq!(heard(&project, "secured", "acmp/invoke").len(), 1);
    }
}

#[test]
fn a_provider_of_ours_shows_its_certificate() {
    let project = Project::of(SERVED);
    let pem = pem();
    let serving = Serving::start_with(&project, &["--tls-cert", &pem, "--tls-key", &pem]);
    for (carrier, scheme) in [(Websocket, "wss"), (Http, "https")] {
        let url = format!("{scheme}://127.0.0.1:{}/", serving.port);
        let acmp = json!({ "providers": [{
            "name": "secured",
            "endpoint": { "kind": carrier.name(), "url": url },
            "capabilities": ["echo"],
        }] });
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", one(&json!({})));
        let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
        let ran = project.run_with(&[("SSL_CERT_FILE", &pem)], &arguments);
        assert_eq!(ran.code, 0, "{carrier:?}: {} {}", ran.stdout, ran.stderr);
        let ran = project.run(&arguments);
        assert_eq!(ran.code, 1, "{carrier:?}: {}", ran.stderr);
    }
    // Who speaks without is told nothing.
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", serving.port)).expect("it listens");
    let request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(request).expect("it is read");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn a_certificate_that_is_none_is_refused() {
    let project = Project::of(SERVED);
    let pem = pem();
    project.write("other.pem", "nothing of the kind");
    let cases = [
        (
            ["other.pem", &*pem],
            "the certificate `other.pem` cannot be used",
        ),
        ([&*pem, "other.pem"], "the key `other.pem` cannot be used"),
        (
            [&*pem, "missing.pem"],
            "the key `missing.pem` cannot be used",
        ),
    ];
    for ([cert, key], what) in cases {
        let listen = ["provide", "W", "--listen", "127.0.0.1:0"];
        let ran = project.run(&[&listen[..], &["--tls-cert", cert, "--tls-key", key]].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
    }
    let ran = project.run(&[
        "provide",
        "W",
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        &pem,
    ]);
    assert!(
        ran.code == 2 && ran.stderr.contains("--tls-key"),
        "{}",
        ran.stderr
    );
}
