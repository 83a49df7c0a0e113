//! Where checks of sessions connect to, and what callers are told of it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::harness::{Server, Session, eventually, session_body};

/// What no event may show.
const SECRET: &str = "hunter2";

/// Answers every request so, and counts connections.
async fn web(head: String) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = socket.read(&mut [0; 1024]).await;
            let answer = format!(
                "HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: 7\r\n\r\n{SECRET}"
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    (port, seen)
}

fn http(url: &str) -> Value {
    json!({ "type": "http", "url": url, "interval_ms": 100, "timeout_ms": 1000, "fail_after": 2 })
}

fn tcp(address: &str) -> Value {
    json!({ "type": "tcp", "address": address, "interval_ms": 100, "timeout_ms": 1000, "fail_after": 2 })
}

/// The reason for which the key's lease ended, once the session was lost to its check.
async fn reason_of_loss(server: &Server, session: &Session, key: &str) -> String {
    eventually("the session is lost", async || server.beat(session).await.status == 409).await;
    eventually("its lease ended", async || server.lease(key).await["state"] == "free").await;
    let events = server.events_of(key).await;
    let ended = events.iter().rfind(|event| event["type"].to_string().contains("session-ended"));
    let reason = ended.expect("it ended")["data"]["reason"].as_str().expect("a reason");
    reason.to_owned()
}

/// Why a session with this check was lost.
async fn why_lost(server: &Server, key: &str, check: Value) -> String {
    let session = server.session("w", 1000, json!({ "checks": [check] })).await;
    server.acquire_under(key, "w", &session).await;
    reason_of_loss(server, &session, key).await
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let (inner, seen_inner) = web("200 OK".into()).await;
    let head = format!("302 Found\r\nLocation: http://127.0.0.1:{inner}/latest/meta-data/");
    let (outer, seen_outer) = web(head).await;
    let server = Server::start();
    let why = why_lost(&server, "k", http(&format!("http://127.0.0.1:{outer}/"))).await;
    assert_eq!(why, "check http: HTTP status 302");
    assert!(seen_outer.load(Ordering::Relaxed) >= 2);
    assert_eq!(seen_inner.load(Ordering::Relaxed), 0, "it was followed");
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_refused_when_the_session_is_made() {
    let server = Server::start();
    let ask = async |check: Value| {
        server.post("/v1/sessions", &session_body("w", 5000, json!({ "checks": [check] }))).await
    };
    let own = server.addr.port();
    let hosts = [
        "169.254.169.254:80",
        "2852039166:80",
        "0xa9fea9fe:80",
        "0251.0376.0251.0376:80",
        "[::ffff:169.254.169.254]:80",
        "[fe80::1]:80",
        "10.0.0.1:80",
        "8.8.8.8:53",
        &format!("127.0.0.1:{own}"),
        &format!("2130706433:{own}"),
        &format!("0.0.0.0:{own}"),
        &format!("[::1]:{own}"),
    ];
    for host in hosts {
        let refused = ask(http(&format!("http://{host}/"))).await.bad_field("checks[0].url");
        assert!(refused["detail"].to_string().contains("checks.allow"), "{refused}");
        ask(tcp(host)).await.bad_field("checks[0].address");
    }
    ask(tcp("[fe80::1%eth0]:80")).await.bad_field("checks[0].address");
    for host in ["127.0.0.1:1", "2130706433:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1"] {
        assert_eq!(ask(http(&format!("http://{host}/"))).await.status, 201, "{host}");
        assert_eq!(ask(tcp(host)).await.status, 201, "{host}");
    }
}

#[tokio::test]
async fn a_name_that_leads_where_nothing_is_allowed_fails_its_rounds() {
    let server = Server::start();
    let own = server.addr.port();
    let why = why_lost(&server, "a", http(&format!("http://localhost:{own}/livez"))).await;
    assert_eq!(why, "check http: not allowed", "its own port");
    let (port, seen) = web("200 OK".into()).await;
    let only =
        Server::with(&[&format!("checks.allow=127.0.0.0/8:{}", port.wrapping_add(1).max(1))]);
    let body = session_body("w", 5000, json!({ "checks": [tcp(&format!("127.0.0.1:{port}"))] }));
    only.post("/v1/sessions", &body).await.bad_field("checks[0].address");
    let why = why_lost(&only, "b", tcp(&format!("localhost:{port}"))).await;
    assert_eq!(why, "check tcp: not allowed");
    assert_eq!(seen.load(Ordering::Relaxed), 0, "it was connected to");
}

#[tokio::test]
async fn a_coordinator_that_others_reach_checks_nothing_unless_it_is_told_where() {
    let (port, seen) = web("200 OK".into()).await;
    let check = tcp(&format!("127.0.0.1:{port}"));
    let body = session_body("w", 60_000, json!({ "checks": [check.clone()] }));
    let open = ["server.accept_no_auth=true"];
    let server = Server::listening([0, 0, 0, 0], &open);
    server.post("/v1/sessions", &body).await.bad_field("checks[0].address");
    // A proxy on the machine lets others in.
    for name in ["server.hosts=tenure.example", "node.advertise_url=https://n1.example:7443"] {
        let server = Server::with(&[name]);
        server.post("/v1/sessions", &body).await.bad_field("checks[0].address");
    }
    let why = why_lost(&server, "k", tcp(&format!("localhost:{port}"))).await;
    assert_eq!(why, "check tcp: not allowed");
    assert_eq!(seen.load(Ordering::Relaxed), 0, "it was connected to");
    let told = format!("checks.allow=127.0.0.1:{port}, [fd00::]/8:1-9");
    let server = Server::listening([0, 0, 0, 0], &[&open[..], &[&told]].concat());
    assert_eq!(server.post("/v1/sessions", &body).await.status, 201);
    eventually("it is checked", async || seen.load(Ordering::Relaxed) > 0).await;
}

#[tokio::test]
async fn a_session_of_earlier_connects_only_where_it_is_allowed_now() {
    let dir = tempfile::tempdir().expect("a directory");
    let (port, seen) = web("200 OK".into()).await;
    let server = Server::at(dir.path(), &[]);
    let check = http(&format!("http://127.0.0.1:{port}/"));
    let session = server.session("w", 1000, json!({ "checks": [check] })).await;
    server.acquire_under("k", "w", &session).await;
    eventually("it is checked", async || seen.load(Ordering::Relaxed) > 0).await;
    server.kill();
    let before = seen.load(Ordering::Relaxed);
    let server = Server::at(dir.path(), &["checks.allow="]);
    assert_eq!(reason_of_loss(&server, &session, "k").await, "check http: not allowed");
    assert_eq!(seen.load(Ordering::Relaxed), before, "it was connected to");
}

#[tokio::test]
async fn events_say_of_a_failure_what_kind_it_is_and_nothing_more() {
    let (teapot, _) = web(format!("418 {SECRET}")).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = silent.local_addr().map(|address| (address, silent)).expect("an address");
    let server = Server::with(&["limits.exec_checks=true"]);
    let mut hangs = http(&format!("http://{}/", silent.0));
    hangs["timeout_ms"] = json!(150);
    let exec = |command: Value| json!({ "type": "exec", "command": command, "interval_ms": 100, "timeout_ms": 5000, "fail_after": 2 });
    let script = format!("echo {SECRET} >&2; exit 3");
    let said = [
        (http(&format!("http://127.0.0.1:{teapot}/")), "check http: HTTP status 418"),
        (hangs, "check http: timed out"),
        (http("http://127.0.0.1:1/"), "check http: connection refused"),
        (tcp("127.0.0.1:1"), "check tcp: connection refused"),
        (tcp("no-such-name.invalid:80"), "check tcp: unknown name"),
        (exec(json!(["/bin/sh", "-c", script])), "check exec: exit status 3"),
        (exec(json!(["/no/such/program"])), "check exec: cannot be started"),
    ];
    for (at, (check, reason)) in said.into_iter().enumerate() {
        assert_eq!(why_lost(&server, &format!("k/{at}"), check).await, reason);
    }
    let events = server.get("/v1/events?format=json&after=0").await.text();
    assert!(!events.contains(SECRET), "{events}");
    let log = server.said();
    assert!(!log.contains("a check failed"), "whoever makes a session fills the log: {log}");
}
