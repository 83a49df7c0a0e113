//! Webhooks and PostgreSQL over TLS. Who vouches for a server is the operating system's affair, here that of
//! `SSL_CERT_FILE`, which a process reads once: each case is one of its own.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::plugins::kit::*;

use crate::support::{postgres_server::Server, tls::Certificates};

const CASE: &str = "TENURE_TEST_TLS";

/// A receiver that answers every request with 204.
async fn receiver(acceptor: TlsAcceptor) -> String {
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
    let certificates = Certificates::make();
    let path = |name: &str| certificates.path(name);
    let url = receiver(certificates.acceptor("server")).await;
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
