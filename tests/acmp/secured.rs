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

/// What is told of a task that is asked for at this address, with these certificates to trust.
fn reason(kind: &str, url: &str, trusted: Option<&str>) -> String {
    let project = Project::new();
    let acmp = json!({ "providers": [{
        "name": "p",
        "endpoint": { "kind": kind, "url": url },
        "capabilities": ["echo"],
    }] });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&json!({})));
    let trusted = trusted.map(|it| ("SSL_CERT_FILE", it));
    let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
    let ran = project.run_with(trusted.as_slice(), &arguments);
    assert_eq!(ran.code, 1, "{url}: {}", ran.stderr);
    read(&ran.stdout)["reason"].to_string()
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_with_its_cure() {
    let authority = home().join("tests/peers/authority.pem");
    let authority = authority.display().to_string();
    let project = Project::of(SERVED);
    let start = |pem: &str| Serving::start_with(&project, &["--tls-cert", pem, "--tls-key", pem]);
    let (good, signs) = (start(&pem()), start(&authority));
    let plain = Serving::start_with(&project, &[]);
    for (kind, scheme) in [("websocket", "wss"), ("http", "https")] {
        let url = |port: &str| format!("{scheme}://127.0.0.1:{port}/");
        for (port, trusted, wanted) in [
            (
                &good.port,
                None,
                "signed by nobody who is trusted here; `SSL_CERT_FILE` names",
            ),
            (&good.port, Some("/nowhere.pem"), "which is not there"),
            (
                &good.port,
                Some(&*authority),
                "and who signed it is not in there",
            ),
            (
                &signs.port,
                Some(&*authority),
                "`-addext basicConstraints=critical,CA:FALSE`",
            ),
            (&plain.port, None, "does not speak TLS"),
        ] {
            let reason = reason(kind, &url(port), trusted);
            assert!(reason.contains(wanted), "{kind} {wanted}: {reason}");
        }
        let nobody = reason(kind, &url("1"), None);
        assert!(
            nobody.contains("nobody can be reached there: Connection refused"),
            "{nobody}"
        );
    }
}

#[test]
fn a_token_that_can_be_guessed_is_warned_of_and_none_is_refused() {
    let project = Project::of(SERVED);
    // Nobody can listen there, which is told after it.
    let arguments = [
        "provide",
        "W",
        "--listen",
        "192.0.2.1:1",
        "--token-env",
        "T",
    ];
    for (token, code, is_warned) in [
        ("", 2, false),
        (" ", 2, false),
        ("abcde", 1, true),
        ("a-token-of-20-letters", 1, false),
    ] {
        let ran = project.run_with(&[("T", token)], &arguments);
        let warning = "warning[MZ322]: the token in `T` is shorter than 12 characters";
        let found = (ran.code, ran.stderr.contains(warning));
        assert_eq!(found, (code, is_warned), "{token}: {}", ran.stderr);
    }
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
