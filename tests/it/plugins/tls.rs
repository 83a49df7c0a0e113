//! Webhooks and PostgreSQL over TLS. Who vouches for a server is the operating system's affair, here that of
//! `SSL_CERT_FILE`, which a process reads once: each case is one of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::plugins::kit::*;

use crate::support::postgres_server::Server;

const CASE: &str = "TENURE_TEST_TLS";

fn openssl(dir: &Path, arguments: &str) {
    let ran = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output();
    let ran = ran.expect("openssl; `make debian` fetches it");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// An authority, one that nobody asked, and a server's certificate by the first.
fn certificates(dir: &Path) {
    let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    for name in ["ca", "stranger"] {
        openssl(dir, &format!("{new} -subj /CN={name} -keyout {name}.key -out {name}.pem"));
    }
    let signed = "-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE";
    let address = "-addext subjectAltName=IP:127.0.0.1";
    let files = "-keyout server.key -out server.pem";
    openssl(dir, &format!("{new} -subj /CN=server {signed} {address} {files}"));
}

/// A receiver that answers every request with 204.
async fn receiver(certificate: PathBuf, key: PathBuf) -> String {
    let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}/", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"}") && stream.read_buf(&mut request).await.unwrap_or(0) > 0 {
            }
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            let _ = stream.flush().await;
        }
    });
    url
}

#[tokio::test]
async fn a_server_proves_who_it_is_or_is_told_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    certificates(dir.path());
    let path = |name: &str| dir.path().join(name);
    let url = receiver(path("server.pem"), path("server.key")).await;
    let mut server = Server::start().await;
    let table = "CREATE TABLE tenure_fence (key text PRIMARY KEY, token bigint NOT NULL)";
    server.client().await.batch_execute(table).await.expect("a table");
    server.secure(&path("server.pem"), &path("server.key")).await;
    for (authority, expected) in [("ca.pem", "ok"), ("stranger.pem", "UnknownIssuer")] {
        let program = std::env::current_exe().expect("this program");
        let ran = tokio::process::Command::new(program)
            .args(["--exact", "--ignored", "--nocapture", "plugins::tls::in_a_process_of_its_own"])
            .env("SSL_CERT_FILE", path(authority))
            .env(CASE, format!("{expected} {url} {}", server.url()))
            .output()
            .await
            .expect("it runs");
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && said.contains("1 passed"), "{authority}: {said}");
    }
}

#[tokio::test]
#[ignore = "a_server_proves_who_it_is_or_is_told_nothing runs it"]
async fn in_a_process_of_its_own() {
    let case = std::env::var(CASE).expect("a case");
    let [expected, url, database] = case.split(' ').collect::<Vec<_>>()[..] else { panic!() };
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let hook = format!("kind = \"webhook\"\nurl = \"{url}\"\nsecrets = [\"{secret}\"]\n");
    let table = format!("kind = \"postgres\"\nurl = \"{database}?sslmode=require\"\n");
    for section in [hook, table] {
        let outcome = built(&section).fence(order("k", 1)).await;
        match expected {
            "ok" => assert_eq!(outcome, Ok(())),
            why => assert!(outcome.as_ref().unwrap_err().detail.contains(why), "{outcome:?}"),
        }
    }
}
