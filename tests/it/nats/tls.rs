//! Connections over TLS, with certificates made by `openssl` for the occasion.

use std::{path::Path, process::Command};

use tenure::{
    lease::Revision,
    store::nats::{OpenError, Options, Tls},
};

use crate::nats::harness::{fresh, open_with, options, overwrite};

use crate::support::nats_server::{Server, Sync};

fn openssl(dir: &Path, arguments: &str) {
    let ran = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output();
    let ran = ran.expect("openssl is installed");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// An authority, and certificates of a server and of a client.
fn certificates(dir: &Path) {
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    openssl(dir, &format!("{new} -subj /CN=authority -keyout ca.key -out ca.pem"));
    for (name, more) in [("server", " -addext subjectAltName=IP:127.0.0.1"), ("client", "")] {
        let signed = "-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE";
        let files = format!("-keyout {name}.key -out {name}.pem");
        openssl(dir, &format!("{new} -subj /CN={name} {signed}{more} {files}"));
    }
}

#[tokio::test]
async fn a_server_and_a_client_prove_who_they_are() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let path = |name: &str| dir.path().join(name);
    let tls = format!(
        "tls {{\n cert_file: {:?}\n key_file: {:?}\n ca_file: {:?}\n verify: true\n}}",
        path("server.pem"),
        path("server.key"),
        path("ca.pem"),
    );
    let server = Server::start_with(Sync::Default, &tls);
    let proven = Tls {
        ca: Some(path("ca.pem")),
        cert: Some(path("client.pem")),
        key: Some(path("client.key")),
        required: true,
    };
    let with = |tls: Tls| open_with(Options { tls, ..options(&server.url()) }, fresh(3), None);
    let store = with(proven.clone()).await.unwrap();
    overwrite(&store, "k", Revision::ABSENT, 1..=3).await;
    let nobody = Tls { cert: None, key: None, ..proven.clone() };
    assert!(matches!(with(nobody).await, Err(OpenError::Connect { .. })));
    let stranger = Tls { ca: Some(path("client.pem")), ..proven.clone() };
    assert!(matches!(with(stranger).await, Err(OpenError::Connect { .. })));
    // A server without TLS is not talked to where it is required.
    let plain = Server::start();
    let required = Options { tls: proven, ..options(&plain.url()) };
    assert!(matches!(open_with(required, fresh(3), None).await, Err(OpenError::Connect { .. })));
}
