//! A certificate proves who its client is for as long as it holds: on new, resumed and open connections, in calls that wait
//! and in streams.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::process::Signal;
use rustls::{
    ClientConfig, HandshakeKind, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use tenure::{
    clock::{Clock as _, SystemClock},
    tls::{self, Roots},
};
use tokio::{io::AsyncReadExt as _, net::TcpListener, time::timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::port::{Port, Secure};
use crate::{
    access::cast::{all_of, principal, write},
    support::{
        clock::{eventually, ms, soon},
        nats_server::Server,
        node::Node,
        ports::free_port,
        tls::Certificates,
    },
};

/// The URI of the client whose certificate ends.
const SHORT: &str = "URI:spiffe://prod/short";
const DAY_MS: i64 = 24 * 3_600_000;

/// Writes an access file: `short` is known by its certificate, and `root` by a token.
fn access(certificates: &Certificates) -> String {
    let file = certificates.path("access.toml");
    let cert = "cert = [\"spiffe://prod/short\"]\nowner = \"*\"";
    let short = format!("[[principal]]\nname = \"short\"\n{cert}\nmay = [{}]\n", all_of(""));
    write(&file, &[short, principal("root", &all_of(""))]);
    format!("auth.file={}", file.display())
}

/// A port that knows `short`, and what else its settings are.
fn port(more: &[&str], env: &[(&str, &str)]) -> Port {
    let certificates = Certificates::make();
    let ca = format!("server.tls_client_ca={}", certificates.path("ca.pem").display());
    let auth = access(&certificates);
    let sets: Vec<&str> = more.iter().copied().chain([ca.as_str(), auth.as_str()]).collect();
    Port::within(certificates, &sets, env)
}

fn acquire(key: &str, wait_ms: u64) -> Value {
    json!({ "key": key, "owner": "w", "ttl_ms": 600_000, "wait_ms": wait_ms })
}

/// The status of an acquire of `mine` on a connection of its own, and whether it resumed a session.
async fn asks(port: &Port, client: &Arc<ClientConfig>) -> io::Result<(u16, bool)> {
    let mut connection = port.connect(client).await?;
    let body = acquire("mine", 0).to_string();
    connection.send("POST", "/v1/acquire", &[], body.as_bytes()).await;
    let reply = connection.try_receive().await?;
    let session = connection.stream.get_ref().get_ref().1;
    Ok((reply.status, session.handshake_kind() == Some(HandshakeKind::Resumed)))
}

/// What `short` has open at a port.
struct Open {
    idle: Secure,
    wait: Secure,
    events: Secure,
    talk: Secure,
}

impl Open {
    async fn at(port: &Port, client: &Arc<ClientConfig>) -> Self {
        let connect = async || port.connect(client).await.expect("it is let in");
        let root = [("Authorization", "Bearer root")];
        let busy = json!({ "key": "busy", "owner": "x", "ttl_ms": 600_000 }).to_string();
        let plain = Arc::new(port.client(None, &TLS13));
        let mut by_root = port.connect(&plain).await.expect("it is let in");
        by_root.call("POST", "/v1/acquire", &root, busy.as_bytes()).await;
        let mut idle = connect().await;
        let mine = acquire("mine", 0).to_string();
        let reply = idle.call("POST", "/v1/acquire", &[], mine.as_bytes()).await;
        assert!([200, 409].contains(&reply.status), "{}", reply.text());
        let mut wait = connect().await;
        let body = acquire("busy", 60_000).to_string();
        wait.send("POST", "/v1/acquire", &[], body.as_bytes()).await;
        let mut events = connect().await;
        events.send("GET", "/v1/events", &[], b"").await;
        assert_eq!(events.head().await.expect("a head").0, 200);
        let mut talk = connect().await;
        let upgrade = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ];
        talk.send("GET", "/v1/stream", &upgrade, b"").await;
        assert_eq!(talk.head().await.expect("a head").0, 101);
        Self { idle, wait, events, talk }
    }

    /// The status of one more call on a connection that is open.
    async fn asks(&mut self) -> u16 {
        self.idle.call("GET", "/v1/leases/mine", &[], b"").await.status
    }

    /// All of it ends.
    async fn ends(mut self, within: Duration) {
        let end = async {
            assert_eq!(self.asks().await, 401, "an open connection");
            self.wait.receive().await.problem(401, "unauthenticated");
            while let Ok(Some(_)) = self.events.chunk().await {}
            let mut rest = Vec::new();
            let _ = self.talk.stream.read_to_end(&mut rest).await;
            let policy_violation = 1008_u16.to_be_bytes();
            assert!(rest.windows(2).any(|code| code == policy_violation), "a stream: {rest:?}");
        };
        timeout(within, end).await.expect("all ends in time");
    }
}

async fn until(wall_ms: u64) {
    let left = wall_ms.saturating_sub(SystemClock::new().wall_ms());
    tokio::time::sleep(ms(left)).await;
}

/// The end of a certificate, or of an authority between it and the root, for all ways to call.
async fn ends_everywhere(port: &Port, end_ms: u64, short_in_chain: bool) {
    let of = |version| Arc::new(port.client(Some("short"), version));
    let clients = [of(&TLS12), of(&TLS13)];
    for client in &clients {
        let (status, _) = asks(port, client).await.expect("it is let in");
        assert!([200, 409].contains(&status), "{status}");
        let (status, resumed) = asks(port, client).await.expect("it is let in");
        assert!(status != 401 && resumed, "a ticket works until the end: {status}");
    }
    let mut open = Open::at(port, &clients[1]).await;
    assert_ne!(open.asks().await, 401);
    assert!(SystemClock::new().wall_ms() < end_ms, "this machine is too slow for the test");
    // A certificate is valid up to the end of its last second.
    until(end_ms + 1_000).await;
    open.ends(ms(4_000)).await;
    for (client, version) in clients.iter().zip([&TLS12, &TLS13]) {
        for _ in 0..3 {
            match asks(port, client).await {
                Ok((status, _)) => assert_eq!(status, 401, "a resumed session"),
                Err(error) => println!("refused: {error}"),
            }
        }
        let fresh = asks(port, &Arc::new(port.client(Some("short"), version))).await;
        assert!(fresh.is_err(), "a full handshake: {fresh:?}, {short_in_chain}");
    }
}

#[tokio::test]
async fn the_end_of_a_certificate_counts_for_every_way_to_call() {
    let port = port(&[], &[]);
    let end_ms = port.certificates.issue_for("short", SHORT, "ca", 8);
    ends_everywhere(&port, end_ms, false).await;
}

#[tokio::test]
async fn so_does_the_end_of_an_authority_between() {
    let port = port(&[], &[]);
    let end_ms = port.certificates.issue_for("between", "", "ca", 9);
    port.certificates.issue_for("short", SHORT, "between", 600);
    ends_everywhere(&port, end_ms, true).await;
}

#[tokio::test]
async fn a_certificate_that_is_revoked_or_whose_authority_is_removed_proves_nothing_any_more() {
    let certificates = Certificates::make();
    certificates.revoke(&[]);
    certificates.issue("short", SHORT);
    certificates.replace("trusted.pem", "ca.pem");
    let set =
        |name: &str, file: &str| format!("server.tls_{name}={}", certificates.path(file).display());
    let sets = [set("client_ca", "trusted.pem"), set("crl", "crl.pem"), access(&certificates)];
    let port = Port::within(certificates, &sets.each_ref().map(String::as_str), &[]);
    let client = Arc::new(port.client(Some("short"), &TLS13));
    let mut open = Open::at(&port, &client).await;
    // A list that revokes others changes nothing.
    port.certificates.revoke(&["client"]);
    port.node.signal(Signal::HUP);
    tokio::time::sleep(ms(3_500)).await;
    assert_ne!(open.asks().await, 401);
    let still = timeout(ms(200), open.wait.receive()).await;
    assert!(still.is_err(), "the wait goes on: {still:?}");
    port.certificates.revoke(&["short"]);
    port.node.signal(Signal::HUP);
    eventually("the list is read", async || open.asks().await == 401).await;
    open.ends(ms(4_000)).await;
    // The authority is replaced by another one.
    port.certificates.issue("short", SHORT);
    let client = Arc::new(port.client(Some("short"), &TLS13));
    let mut open = Open::at(&port, &client).await;
    let stranger = ["stranger.pem"].map(|file| port.certificates.path(file));
    std::fs::copy(&stranger[0], port.certificates.path("next.pem")).expect("copied");
    // The lists must be those of the authorities in force.
    port.certificates.replace("trusted.pem", "next.pem");
    port.node.signal(Signal::HUP);
    eventually("the authority is replaced", async || open.asks().await == 401).await;
    open.ends(ms(4_000)).await;
}

/// A port whose wall clock shows as many milliseconds more as a file in this directory says, and that file.
fn port_with_clock(dir: &Path, env: &[(&str, &str)]) -> (Port, PathBuf) {
    let file = dir.join("offset");
    std::fs::write(&file, "0").expect("written");
    let offset = [("TENURE_TEST_WALL_OFFSET", file.to_str().expect("UTF-8"))];
    let port = port(&[], &[&offset[..], env].concat());
    (port, file)
}

/// The status of a call on an open connection after the wall clock was set by `step_ms`.
async fn after_step(env: &[(&str, &str)], step_ms: i64) -> (u16, u16) {
    let dir = tempfile::tempdir().expect("a directory");
    let (port, file) = port_with_clock(dir.path(), env);
    port.certificates.issue("short", SHORT);
    let client = Arc::new(port.client(Some("short"), &TLS13));
    let mut open = Open::at(&port, &client).await;
    assert_ne!(open.asks().await, 401);
    std::fs::write(&file, step_ms.to_string()).expect("written");
    tokio::time::sleep(ms(500)).await;
    let stepped = open.asks().await;
    if stepped == 401 {
        // Waits look at the clock every 5 s.
        soon("the wait ends", open.wait.receive()).await.problem(401, "unauthenticated");
    }
    std::fs::write(&file, "0").expect("written");
    tokio::time::sleep(ms(500)).await;
    (stepped, open.asks().await)
}

#[tokio::test]
async fn a_clock_that_is_set_ends_a_certificate_and_one_that_is_set_back_lets_it_hold_again() {
    let (late, again) = after_step(&[], 3 * DAY_MS).await;
    assert_eq!(late, 401, "it has ended");
    assert_ne!(again, 401);
    let (early, again) = after_step(&[], -DAY_MS).await;
    assert_eq!(early, 401, "it is not valid yet");
    assert_ne!(again, 401);
}

#[tokio::test]
async fn a_certificate_that_does_not_hold_hides_no_cookie() {
    let dir = tempfile::tempdir().expect("a directory");
    let (port, file) = port_with_clock(dir.path(), &[]);
    port.certificates.issue("short", SHORT);
    let client = Arc::new(port.client(Some("short"), &TLS13));
    let mut browser = port.connect(&client).await.expect("it is let in");
    let token = json!({ "token": "root" }).to_string();
    let signed_in = browser.call("POST", "/sign-in", &[], token.as_bytes()).await;
    let cookie = signed_in.header("set-cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    // Before the certificate holds. The cookie lasts for 12 h from then on.
    std::fs::write(&file, (-DAY_MS).to_string()).expect("written");
    let mut status = async |headers: &[(&str, &str)]| {
        browser.call("GET", "/v1/leases", headers, b"").await.status
    };
    eventually("the certificate does not hold", async || status(&[]).await == 401).await;
    assert_eq!(status(&[("Cookie", &cookie)]).await, 200);
}

#[tokio::test]
async fn a_certificate_that_counts_for_good_is_noticed() {
    let env = [("TENURE_TEST_BROKEN_ACCESS", "CertificateWithoutEnd")];
    assert_ne!(after_step(&env, 3 * DAY_MS).await.0, 401);
}

/// Two nodes that speak TLS, and whose callers show certificates.
async fn pair(certificates: &Certificates, store: &Server) -> [Node; 2] {
    let file = |file: &str| certificates.path(file).display().to_string();
    let auth = access(certificates);
    let node = async |name: &str| {
        let sets = [
            format!("server.tls_cert={}", file("server.pem")),
            format!("server.tls_key={}", file("server.key")),
            format!("server.tls_client_ca={}", file("ca.pem")),
            format!("node.ca={}", file("ca.pem")),
            "store.kind=nats".to_owned(),
            format!("store.nats.url={}", store.url()),
            "store.nats.replicas=1".to_owned(),
            "node.ttl=2s".to_owned(),
            "node.witness=".to_owned(),
            auth.clone(),
        ];
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let node = Node::at(listen, name, &sets, &[]);
        let mut node = node.trusted_by(&certificates.path("ca.pem"));
        node.start().await;
        node
    };
    [node("a").await, node("b").await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_forwarded_ends_at_both_nodes() {
    let (store, certificates) = (Server::start(), Certificates::make());
    let [a, b] = pair(&certificates, &store).await;
    let busy = json!({ "key": "busy", "owner": "x", "ttl_ms": 600_000 });
    let root = tls::client(Roots::Only(&certificates.path("ca.pem"))).expect("authorities");
    let root = tls::http(root).build().expect("a client");
    let lease = async |node: &Node| {
        let got = root.get(format!("{}/v1/leases/busy", node.url)).bearer_auth("root").send().await;
        got.expect("an answer").json::<Value>().await.expect("JSON")
    };
    let held = root.post(format!("{}/v1/acquire", a.url)).bearer_auth("root").json(&busy).send();
    assert_eq!(held.await.expect("an answer").status(), 200);
    eventually("b knows the home node", async || lease(&b).await["state"] == "held").await;
    let end_ms = certificates.issue_for("short", SHORT, "ca", 6);
    let client = client_of(&certificates);
    let addr: SocketAddr = b.url.trim_start_matches("https://").parse().expect("an address");
    let stream = tokio::net::TcpStream::connect(addr).await.expect("it listens");
    let stream = TlsConnector::from(Arc::new(client)).connect(addr.ip().into(), stream).await;
    let mut wait = crate::support::harness::Connection::on(stream.expect("it is let in"));
    let body = acquire("busy", 60_000).to_string();
    wait.send("POST", "/v1/acquire", &[], body.as_bytes()).await;
    let waiters = async |count: u64| {
        eventually("it is so at the home node", async || lease(&a).await["waiters"] == count).await;
    };
    waiters(1).await;
    let reply = timeout(ms(12_000), wait.receive()).await.expect("it ends");
    reply.problem(401, "unauthenticated");
    assert!(SystemClock::new().wall_ms() >= end_ms, "not before");
    waiters(0).await;
}

/// A client that shows the certificate of `short`.
fn client_of(certificates: &Certificates) -> ClientConfig {
    let (cert, key) = (certificates.path("short.pem"), certificates.path("short.key"));
    let ca = certificates.path("ca.pem");
    let identity = tls::Identity { cert: &cert, key: &key };
    tls::followed(Roots::Only(&ca), Some(identity)).expect("a client").0
}

#[tokio::test]
async fn a_client_resumes_no_session_with_a_server_whose_certificate_has_ended() {
    let certificates = Certificates::make();
    let end_ms = certificates.issue_for("brief", "IP:127.0.0.1", "ca", 5);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("bound");
    let chain = CertificateDer::from_pem_file(certificates.path("brief.pem"));
    let key = PrivateKeyDer::from_pem_file(certificates.path("brief.key")).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut server = builder
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![chain.expect("a certificate")], key)
        .expect("a pair");
    server.ticketer = ring::Ticketer::new().expect("chance");
    let acceptor = TlsAcceptor::from(Arc::new(server));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(socket).await else { return };
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"x").await;
                let _ = stream.read(&mut [0; 1]).await;
            });
        }
    });
    let ca = certificates.path("ca.pem");
    let client = Arc::new(tls::client(Roots::Only(&ca)).expect("a client"));
    let connect = async || {
        let stream = tokio::net::TcpStream::connect(addr).await?;
        let name = ServerName::from(addr.ip());
        let mut stream = TlsConnector::from(client.clone()).connect(name, stream).await?;
        // The tickets come before it.
        stream.read_exact(&mut [0; 1]).await?;
        Ok::<_, io::Error>(stream.get_ref().1.handshake_kind())
    };
    assert_eq!(connect().await.expect("let in"), Some(HandshakeKind::Full));
    assert_eq!(connect().await.expect("let in"), Some(HandshakeKind::Resumed));
    until(end_ms + 1_000).await;
    let late = connect().await;
    assert!(late.is_err(), "{late:?}");
}
