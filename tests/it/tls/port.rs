//! A coordinator whose port speaks TLS.

use std::{
    cell::Cell, io, net::SocketAddr, path::Path, process::Command, sync::Arc, time::Duration,
};

use rustix::process::Signal;
use rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    version::{TLS12, TLS13},
};
use serde_json::json;
use tenure::clock::{Clock as _, SystemClock};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{
    clock::{eventually, ms, now, soon},
    harness::Connection,
    node::Node,
    process::Ended,
    tls::Certificates,
};

pub type Secure = Connection<TlsStream<TcpStream>>;

/// How long a call may take while others misbehave.
const PROBE: Duration = Duration::from_secs(2);

/// A coordinator with its own store and certificates.
pub struct Port {
    pub node: Node,
    addr: SocketAddr,
    pub certificates: Certificates,
    _data: tempfile::TempDir,
}

/// The settings of a port that shows `tls.pem`.
fn sets(certificates: &Certificates) -> Vec<String> {
    let path = |file| certificates.path(file).display().to_string();
    vec![
        format!("server.tls_cert={}", path("tls.pem")),
        format!("server.tls_key={}", path("tls.key")),
    ]
}

impl Port {
    fn start(more: &[&str]) -> Self {
        Self::with(Certificates::make(), more)
    }

    fn with(certificates: Certificates, more: &[&str]) -> Self {
        Self::within(certificates, more, &[])
    }

    /// One with these variables of its environment.
    pub fn within(certificates: Certificates, more: &[&str], env: &[(&str, &str)]) -> Self {
        certificates.replace("tls.pem", "server.pem");
        certificates.replace("tls.key", "server.key");
        let data = tempfile::tempdir().expect("a directory");
        let mut sets = sets(&certificates);
        sets.push(format!("store.embedded.data_dir={}", data.path().display()));
        sets.extend(more.iter().map(|&set| set.to_owned()));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut node =
            Node::at(any, "the port", &sets, env).trusted_by(&certificates.path("ca.pem"));
        let addr = node.listens().unwrap_or_else(|ended| panic!("it ended: {}", ended.said));
        Self { node, addr, certificates, _data: data }
    }

    /// How a client connects that trusts the authority, and shows the certificate of this name.
    pub fn client(
        &self,
        name: Option<&str>,
        version: &'static SupportedProtocolVersion,
    ) -> ClientConfig {
        let path = |file: &str| self.certificates.path(file);
        let mut roots = RootCertStore::empty();
        roots.add(read(&path("ca.pem"))).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("the provider has it")
            .with_root_certificates(roots);
        let mut client = match name {
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(path(&format!("{name}.key")));
                let chain = CertificateDer::pem_file_iter(path(&format!("{name}.pem")));
                let chain: Result<Vec<_>, _> = chain.expect("a file").collect();
                let chain = chain.expect("certificates");
                builder.with_client_auth_cert(chain, key.expect("a key")).expect("a pair")
            }
            None => builder.with_no_client_auth(),
        };
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        client
    }

    pub async fn connect(&self, client: &Arc<ClientConfig>) -> io::Result<Secure> {
        let stream = TcpStream::connect(self.addr).await?;
        let name = ServerName::from(self.addr.ip());
        let stream = TlsConnector::from(client.clone()).connect(name, stream).await?;
        Ok(Connection::on(stream))
    }

    /// One call on a connection of its own.
    async fn calls(&self, client: &Arc<ClientConfig>) -> io::Result<Secure> {
        let mut connection = self.connect(client).await?;
        connection.send("GET", "/livez", &[], b"").await;
        let reply = connection.try_receive().await?;
        assert_eq!(reply.status, 200);
        Ok(connection)
    }

    async fn handshakes(&self, outcome: &str) -> f64 {
        self.node.metric(&format!("tenure_tls_handshakes_total{{outcome=\"{outcome}\"}}")).await
    }
}

fn read(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).expect("a certificate")
}

/// The certificate that the server showed.
fn shown(connection: &Secure) -> CertificateDer<'static> {
    let chain = connection.stream.get_ref().get_ref().1.peer_certificates();
    chain.expect("a chain")[0].clone().into_owned()
}

#[tokio::test]
async fn the_port_speaks_tls_of_two_versions_and_http_of_one() {
    let port = Port::start(&[]);
    for (version, is) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let client = Arc::new(port.client(None, version));
        let first = port.calls(&client).await.expect("an answer");
        let session = first.stream.get_ref().get_ref().1;
        assert_eq!(session.protocol_version(), Some(is));
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        // A ticket makes the next handshake cheap.
        let second = port.calls(&client).await.expect("an answer");
        let session = second.stream.get_ref().get_ref().1;
        assert_eq!(session.handshake_kind(), Some(HandshakeKind::Resumed), "{is:?}");
        let mut newer = port.client(None, version);
        newer.alpn_protocols = vec![b"h2".to_vec()];
        assert!(port.calls(&Arc::new(newer)).await.is_err(), "no other protocol is spoken");
    }
    assert_eq!(port.handshakes("resumed").await, 2.0);
    eventually("they are counted", async || port.handshakes("failed").await == 2.0).await;
    assert!(!port.node.said().contains("other names"), "{}", port.node.said());
    let mut plain = Connection::open(port.addr).await;
    plain.send("GET", "/livez", &[], b"").await;
    assert!(plain.try_receive().await.is_err(), "it answered in plain text");
    let info = port.node.get("/v1/info").await;
    assert_eq!(info["node"], format!("https://{}", port.addr), "{info}");
    let expires = port.node.metric("tenure_tls_certificate_expires_seconds").await;
    let left = expires * 1e3 - SystemClock::new().wall_ms() as f64;
    assert!((86_000e3..=172_800e3).contains(&left), "two days: {left} ms");
}

#[tokio::test]
async fn a_replaced_certificate_costs_no_call_and_no_connection() {
    let port = Port::start(&[]);
    port.certificates.issue("next", "IP:127.0.0.1");
    port.certificates.issue("last", "IP:127.0.0.1");
    port.certificates.issue("odd", "DNS:elsewhere.example");
    let of = |name: &str| read(&port.certificates.path(&format!("{name}.pem")));
    let client = Arc::new(port.client(None, &TLS13));
    let mut old = port.calls(&client).await.expect("a connection");
    assert_eq!(shown(&old), of("server"));
    let grant =
        old.post("/v1/acquire", &json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 })).await;
    let proof = json!({ "key": "k", "lease_id": grant.ok()["lease_id"] });
    let is_over = Cell::new(false);
    // Old connections go on, and new ones are made all the time.
    let mut calls = 0;
    let load = async {
        while !is_over.get() {
            old.post("/v1/heartbeat", &proof).await.ok();
            port.calls(&client).await.expect("a new connection");
            calls += 1;
            tokio::time::sleep(ms(5)).await;
        }
    };
    let port = &port;
    let shows = |name: &'static str| {
        let expected = of(name);
        eventually(name, async move || {
            // Without a ticket: a resumed session shows what it began with.
            let fresh = Arc::new(port.client(None, &TLS13));
            shown(&port.calls(&fresh).await.expect("a connection")) == expected
        })
    };
    let says = |what: &'static str| eventually(what, async move || port.node.said().contains(what));
    let replacing = async {
        port.certificates.replace("tls.key", "next.key");
        port.certificates.replace("tls.pem", "next.pem");
        port.node.signal(Signal::HUP);
        shows("next").await;
        // Half of the next one changes nothing.
        port.certificates.replace("tls.pem", "last.pem");
        says("the old certificate stays").await;
        shows("next").await;
        // It is followed without a signal.
        port.certificates.replace("tls.key", "last.key");
        shows("last").await;
        is_over.set(true);
    };
    tokio::join!(load, replacing);
    assert!(calls > 20, "{calls}");
    let said = port.node.said();
    let faults: Vec<&str> =
        said.lines().filter(|line| line.contains("certificate stays")).collect();
    let of_half = faults.iter().filter(|line| line.contains("is not the key")).count();
    assert_eq!((faults.len(), of_half), (1, 1), "{faults:?}");
    assert!(faults[0].contains("server.tls_key") && faults[0].contains("tls.key"), "{faults:?}");
    // A client would not accept this one.
    port.certificates.replace("tls.key", "odd.key");
    port.certificates.replace("tls.pem", "odd.pem");
    port.node.signal(Signal::HUP);
    says("the certificate is for other names").await;
}

/// Starts a coordinator that must refuse these settings.
fn refused(certificates: &Certificates, sets: &[String]) -> Ended {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut sets = sets.to_vec();
    sets.push(format!("store.embedded.data_dir={}", certificates.path("data").display()));
    let mut node = Node::at(any, "the port", &sets, &[]);
    node.listens().expect_err("it listens")
}

#[test]
fn files_that_do_not_fit_are_refused_at_the_start() {
    let certificates = Certificates::make();
    certificates.revoke(&[]);
    let set =
        |name: &str, file: &str| format!("server.tls_{name}={}", certificates.path(file).display());
    let (cert, key) = (set("cert", "server.pem"), set("key", "server.key"));
    let faults: [(&[String], &str, &str); 8] = [
        (
            &[cert.clone(), set("key", "client.key")],
            "server.tls_key",
            "client.key, which is not the key",
        ),
        (
            &[cert.clone(), set("key", "none.key")],
            "server.tls_key",
            "none.key, which cannot be read",
        ),
        (&[set("cert", "server.key"), key.clone()], "server.tls_cert", "server.key, which has no"),
        (std::slice::from_ref(&cert), "server.tls_cert", "needs server.tls_key"),
        (std::slice::from_ref(&key), "server.tls_cert", "must be set"),
        (&[set("client_ca", "ca.pem")], "server.tls_client_ca", "needs server.tls_cert"),
        (
            &[cert.clone(), key.clone(), set("crl", "crl.pem")],
            "server.tls_crl",
            "needs server.tls_client_ca",
        ),
        (
            &[cert.clone(), key.clone(), set("client_ca", "ca.pem"), set("crl", "ca.pem")],
            "server.tls_crl",
            "ca.pem, which has no",
        ),
    ];
    for (sets, setting, problem) in faults {
        let ended = refused(&certificates, sets);
        assert_eq!(ended.status.code(), Some(78), "{}", ended.said);
        assert!(ended.said.contains(setting) && ended.said.contains(problem), "{}", ended.said);
    }
}

#[tokio::test]
async fn a_client_may_prove_who_it_is_and_a_revoked_certificate_proves_nothing() {
    let certificates = Certificates::make();
    certificates.issue("other", "DNS:Other.Example,URI:spiffe://prod/other");
    certificates.revoke(&[]);
    let set =
        |name: &str, file: &str| format!("server.tls_{name}={}", certificates.path(file).display());
    let more = [set("client_ca", "ca.pem"), set("crl", "crl.pem"), "telemetry.log=debug".into()];
    let port = Port::with(certificates, &more.each_ref().map(String::as_str));
    for version in [&TLS12, &TLS13] {
        for name in [None, Some("client"), Some("other")] {
            let client = Arc::new(port.client(name, version));
            port.calls(&client).await.expect("it is let in");
        }
        let stranger = Arc::new(port.client(Some("stranger"), version));
        assert!(port.calls(&stranger).await.is_err(), "nobody vouches for it");
    }
    let names = r#"uris: ["spiffe://prod/other"], dns: ["Other.Example"]"#;
    assert!(port.node.said().contains(names), "{}", port.node.said());
    // A ticket of before counts no more.
    let revoked = Arc::new(port.client(Some("client"), &TLS13));
    let mut open = port.calls(&revoked).await.expect("it is let in");
    port.certificates.revoke(&["client"]);
    port.node.signal(Signal::HUP);
    eventually("it is refused", async || port.calls(&revoked).await.is_err()).await;
    for version in [&TLS12, &TLS13] {
        let client = Arc::new(port.client(Some("client"), version));
        assert!(port.calls(&client).await.is_err(), "it is revoked");
        port.calls(&Arc::new(port.client(Some("other"), version))).await.expect("it is let in");
    }
    open.call("GET", "/livez", &[], b"").await.ok();
    let said = port.node.said();
    assert!(said.contains("a TLS handshake failed") && said.contains("Revoked"), "{said}");
    // The command and the library show a certificate as well.
    let ls = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--server", &port.node.url, "--ca", "ca.pem", "ls"]);
        command.env("TENURE_TLS_CERT", format!("{name}.pem"));
        command.env("TENURE_TLS_KEY", format!("{name}.key"));
        command.current_dir(port.certificates.dir()).output().expect("it runs")
    };
    assert_eq!(ls("other").status.code(), Some(0), "{:?}", ls("other"));
    assert_eq!(ls("client").status.code(), Some(69), "{:?}", ls("client"));
    let path = |file: &str| port.certificates.path(file);
    let library = |name: &str| {
        let (cert, key) = (path(&format!("{name}.pem")), path(&format!("{name}.key")));
        let client = tenure::client::Client::builder(&port.node.url).ca(path("ca.pem"));
        client.client_certificate(cert, key).build().expect("a client")
    };
    assert!(library("other").nodes().await.is_ok());
    assert!(library("client").nodes().await.is_err());
}

/// The status that a client with each of these certificates gets, under rights for names in certificates.
async fn statuses(cert: &str, names: &[&str], env: &[(&str, &str)]) -> Vec<u16> {
    let certificates = Certificates::make();
    for (n, names) in names.iter().enumerate() {
        certificates.issue(&format!("c{n}"), names);
    }
    let file = certificates.path("access.toml");
    let content = format!(
        "[[principal]]\nname = \"p\"\ncert = [{cert}]\nmay = [{{ verb = \"read\", prefix = \"\" }}]\n"
    );
    crate::access::cast::write(&file, &[content]);
    let more = [
        format!("server.tls_client_ca={}", certificates.path("ca.pem").display()),
        format!("auth.file={}", file.display()),
    ];
    let port = Port::within(certificates, &more.each_ref().map(String::as_str), env);
    let mut found = Vec::new();
    for n in 0..names.len() {
        let client = Arc::new(port.client(Some(&format!("c{n}")), &TLS13));
        let mut connection = port.calls(&client).await.expect("it is let in");
        found.push(connection.call("GET", "/v1/leases", &[], b"").await.status);
    }
    found
}

#[tokio::test]
async fn a_certificate_is_a_principal_by_its_one_uri_or_its_dns_names() {
    let cert = r#""spiffe://prod/ns/*", "*.pool.example", "Worker.Example""#;
    let cases = [
        ("URI:spiffe://prod/ns/a", 200),
        ("URI:spiffe://prod/nsa", 401),
        ("URI:spiffe://prod.evil/ns/a", 401),
        ("URI:spiffe://prod/ns/a,URI:spiffe://other/b", 401),
        ("URI:spiffe://other/b,URI:spiffe://prod/ns/a", 401),
        ("URI:spiffe://prod/ns/a,URI:spiffe://prod/ns/b", 401),
        ("DNS:a.pool.example", 200),
        ("DNS:A.POOL.EXAMPLE", 200),
        ("DNS:a.b.pool.example", 401),
        ("DNS:pool.example", 401),
        ("DNS:a.pool.example.evil.example", 401),
        ("DNS:WORKER.example", 200),
        ("DNS:worker.example.evil.example", 401),
        ("URI:dns:a.pool.example", 401),
    ];
    let found = statuses(cert, &cases.map(|(names, _)| names), &[]).await;
    for ((names, expected), found) in cases.iter().zip(found) {
        assert_eq!(found, *expected, "{names}");
    }
}

#[tokio::test]
async fn the_first_of_several_uris_that_counts_is_noticed() {
    let several = "URI:spiffe://prod/ns/a,URI:spiffe://other/b";
    let env = [("TENURE_TEST_BROKEN_ACCESS", "SeveralUris")];
    assert_eq!(statuses(r#""spiffe://prod/ns/*""#, &[several], &env).await, [200]);
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_closed() {
    let port = Port::start(&[]);
    let silent = async {
        let mut silent = TcpStream::connect(port.addr).await.expect("a connection");
        silent.read(&mut [0; 8]).await
    };
    let slow = async {
        let mut slow = TcpStream::connect(port.addr).await.expect("a connection");
        // The head of a record that does not come.
        slow.write_all(&[22, 3, 1, 1, 0]).await.expect("sent");
        slow.read(&mut [0; 8]).await
    };
    let begun = now();
    let ended = soon("they are closed", async { tokio::join!(silent, slow) }).await;
    let took = now().since(begun);
    assert!(matches!(ended, (Ok(0) | Err(_), Ok(0) | Err(_))), "{ended:?}");
    assert!((ms(2900)..ms(8000)).contains(&took), "{took:?}");
    assert_eq!(port.handshakes("timed-out").await, 2.0);
}

#[tokio::test]
async fn handshakes_that_never_end_keep_nobody_out() {
    let port = Port::start(&["server.max_connections=8", "server.workers=1"]);
    let client = Arc::new(port.client(None, &TLS13));
    let mut idle = port.calls(&client).await.expect("an answer");
    let mut silent = Vec::new();
    for _ in 0..60 {
        silent.push(TcpStream::connect(port.addr).await.expect("a connection"));
        let called = timeout(PROBE, port.calls(&client)).await.expect("in time");
        called.expect("a place");
    }
    assert!(port.handshakes("cut-off").await > 40.0);
    let rest = soon("it is closed", idle.stream.read_to_end(&mut Vec::new())).await;
    assert!(matches!(rest, Ok(0) | Err(_)), "an idle connection gives way too: {rest:?}");
}

#[tokio::test]
async fn a_handshake_counts_for_its_address() {
    let port = Port::start(&["limits.connections_per_address=2"]);
    let client = Arc::new(port.client(None, &TLS13));
    let silent = TcpStream::connect(port.addr).await.expect("a connection");
    let open = port.calls(&client).await.expect("an answer");
    assert!(port.calls(&client).await.is_err());
    drop(silent);
    eventually("there is room", async || port.calls(&client).await.is_ok()).await;
    drop(open);
}

#[tokio::test]
async fn a_caller_that_hangs_up_waits_no_longer() {
    let port = Port::start(&[]);
    let client = Arc::new(port.client(None, &TLS13));
    let held = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    assert_eq!(port.node.post("/v1/acquire", &held).await.0, 200);
    let wait = json!({ "key": "k", "owner": "x", "ttl_ms": 60_000, "wait_ms": 60_000 }).to_string();
    let waiters = async |count: u64| {
        eventually("it is noticed", async || {
            port.node.get("/v1/leases/k").await["waiters"] == count
        })
        .await;
    };
    for says_so in [true, false] {
        let mut waiting = port.connect(&client).await.expect("a connection");
        waiting.send("POST", "/v1/acquire", &[], wait.as_bytes()).await;
        waiters(1).await;
        if says_so {
            waiting.stream.get_mut().shutdown().await.expect("TLS ends the connection");
            waiters(0).await;
        }
        drop(waiting);
        waiters(0).await;
    }
}

/// A certificate of two days, and a coordinator whose wall clock is this many days off.
async fn reports_a_certificate(days: i64, kind: &str, line: &str) {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let certificates = Certificates::make();
    certificates.replace("tls.pem", "server.pem");
    certificates.replace("tls.key", "server.key");
    let data = tempfile::tempdir().expect("a directory");
    let offset = data.path().join("offset");
    std::fs::write(&offset, (days * DAY_MS).to_string()).expect("written");
    let mut sets = sets(&certificates);
    sets.push(format!("store.embedded.data_dir={}", data.path().join("data").display()));
    sets.push(format!("node.ca={}", certificates.path("ca.pem").display()));
    let environment = [("TENURE_TEST_WALL_OFFSET", offset.to_str().expect("UTF-8"))];
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut node =
        Node::at(any, "the port", &sets, &environment).trusted_by(&certificates.path("ca.pem"));
    node.listens().unwrap_or_else(|ended| panic!("it ended: {}", ended.said));
    // The client of this test does not look at the coordinator's clock.
    let status = node.get("/v1/status").await;
    let all = status["attention"].as_array().expect("a list").clone();
    for setting in ["server.tls_cert", "node.ca"] {
        let says = |one: &serde_json::Value| one["says"].as_str().unwrap_or_default().to_owned();
        let shown = all.iter().find(|one| one["kind"] == kind && says(one).contains(setting));
        assert!(shown.is_some(), "{setting}: {status}");
        let said = node.said();
        let logged = said.lines().any(|said| said.contains(line) && said.contains(setting));
        assert!(logged, "{setting}: {said}");
    }
    let series = "tenure_certificate_expires_seconds{setting=\"node.ca\"";
    assert!(node.metric(series).await > 0.0);
}

#[tokio::test]
async fn a_certificate_that_expired_or_soon_will_is_reported_at_the_start() {
    reports_a_certificate(0, "certificate-expires", "expires soon").await;
    reports_a_certificate(3, "certificate-expired", "has expired").await;
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_reported_at_the_start() {
    reports_a_certificate(-3, "certificate-not-yet-valid", "is not valid yet").await;
}
