//! Checks of sessions: one that fails ends the session, however well its heartbeats are.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::Instant,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::harness::{Server, Session, eventually, kinds, ms, session_body};

const TTL_MS: u64 = 600;

/// Beats until the session is lost. How, and no end of the lease before the last promise ran out.
async fn beat_until_lost(server: &Server, session: &Session, key: &str) -> Value {
    let waits = json!({ "key": key, "owner": "next", "ttl_ms": 60_000, "wait_ms": 15_000 });
    let mut parked = server.park("/v1/acquire", &waits).await;
    let mut window = Instant::now();
    let lost = loop {
        let before = Instant::now();
        let reply = server.beat(session).await;
        if reply.status != 200 {
            break reply.problem(409, "session-lost");
        }
        window = before + ms(reply.json()["valid_for_ms"].as_u64().expect("whole"));
        tokio::time::sleep(ms(20)).await;
    };
    parked.receive().await.ok();
    assert!(Instant::now() >= window, "the lease ended within what the session was promised");
    lost
}

async fn failed(server: &Server, session: &Session, key: &str, kind: &str) {
    let lost = beat_until_lost(server, session, key).await;
    assert_eq!(lost["reason"], "revoked");
    let events = server.events_of(key).await;
    assert_eq!(kinds(&events), ["granted", "session-ended", "granted"]);
    let reason = events[1]["data"]["reason"].as_str().expect("a reason").to_owned();
    assert!(reason.contains(&format!("check {kind}")), "{reason}");
    let series = format!("tenure_session_checks_total{{kind=\"{kind}\",outcome=\"failed\"}}");
    assert!(server.metric(&series).await >= 1.0, "{series}");
}

async fn stays(server: &Server, session: &Session, rounds: &str, count: f64) {
    eventually(rounds, async || {
        server.beat(session).await.ok();
        server.metric(rounds).await >= count
    })
    .await;
}

fn passed(kind: &str) -> String {
    format!("tenure_session_checks_total{{kind=\"{kind}\",outcome=\"passed\"}}")
}

/// Answers every request with the status that stands there now.
async fn web(status: Arc<AtomicU16>, asked: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/health", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            asked.fetch_add(1, Ordering::Relaxed);
            let _ = socket.read(&mut [0; 1024]).await;
            let status = status.load(Ordering::Relaxed);
            let answer = format!(
                "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nLocation: /ok\r\nConnection: close\r\n\r\n"
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn an_http_check_that_fails_ends_the_session_and_one_that_recovers_does_not() {
    let server = Server::start();
    let (status, asked) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
    let url = web(status.clone(), asked.clone()).await;
    let check = json!({ "type": "http", "url": url, "interval_ms": 100, "timeout_ms": 1000,
        "fail_after": 4 });
    let session = server.session("w", TTL_MS, json!({ "checks": [check] })).await;
    server.acquire_under("k", "w", &session).await;
    stays(&server, &session, &passed("http"), 3.0).await;
    status.store(503, Ordering::Relaxed);
    let failures = "tenure_session_checks_total{kind=\"http\",outcome=\"failed\"}";
    stays(&server, &session, failures, 2.0).await;
    status.store(204, Ordering::Relaxed);
    stays(&server, &session, &passed("http"), 5.0).await;
    assert_eq!(server.lease("k").await["state"], "held");
    status.store(500, Ordering::Relaxed);
    failed(&server, &session, "k", "http").await;
    // Nobody asks on behalf of a session that is over.
    tokio::time::sleep(ms(300)).await;
    let before = asked.load(Ordering::Relaxed);
    tokio::time::sleep(ms(500)).await;
    assert_eq!(asked.load(Ordering::Relaxed), before);
}

#[tokio::test]
async fn an_http_check_that_hangs_fails() {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let check = json!({ "type": "http", "url": url, "interval_ms": 100, "timeout_ms": 200,
        "fail_after": 1 });
    let session = server.session("w", TTL_MS, json!({ "checks": [check] })).await;
    server.acquire_under("k", "w", &session).await;
    failed(&server, &session, "k", "http").await;
}

#[tokio::test]
async fn a_tcp_check_that_fails_ends_the_session() {
    let server = Server::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let check = json!({ "type": "tcp", "address": address, "interval_ms": 100, "timeout_ms": 1000,
        "fail_after": 2 });
    let session = server.session("w", TTL_MS, json!({ "checks": [check] })).await;
    server.acquire_under("k", "w", &session).await;
    stays(&server, &session, &passed("tcp"), 3.0).await;
    drop(listener);
    failed(&server, &session, "k", "tcp").await;
}

#[tokio::test]
async fn a_progress_check_wants_the_work_to_go_on() {
    let server = Server::start();
    let check = json!({ "type": "progress", "interval_ms": 300, "fail_after": 2 });
    let session = server.session("w", TTL_MS, json!({ "checks": [check] })).await;
    server.acquire_under("k", "w", &session).await;
    let began = Instant::now();
    let mut page = 0;
    while began.elapsed() < ms(1500) {
        page += 1;
        let body = json!({ "progress": format!("page {page}") });
        server.post(&session.heartbeat_path(), &body).await.ok();
        tokio::time::sleep(ms(50)).await;
    }
    // The same words again, and none at all, are no progress.
    let body = json!({ "progress": format!("page {page}") });
    server.post(&session.heartbeat_path(), &body).await.ok();
    failed(&server, &session, "k", "progress").await;
}

fn exec(script: &str, timeout_ms: u64, fail_after: u32) -> Value {
    json!({ "type": "exec", "command": ["/bin/sh", "-c", script], "interval_ms": 100,
        "timeout_ms": timeout_ms, "fail_after": fail_after })
}

#[tokio::test]
async fn an_exec_check_is_refused_unless_the_settings_allow_it() {
    let server = Server::start();
    let body = session_body("w", 5000, json!({ "checks": [exec("true", 1000, 1)] }));
    let refused = server.post("/v1/sessions", &body).await.bad_field("checks[0].type");
    assert!(refused["detail"].as_str().is_some_and(|d| d.contains("limits.exec_checks")));
    let server = Server::with(&["limits.exec_checks=true"]);
    assert_eq!(server.post("/v1/sessions", &body).await.status, 201);
    for command in [json!([]), json!([""]), json!(["x".repeat(4097)])] {
        let mut check = exec("true", 1000, 1);
        check["command"] = command;
        let body = session_body("w", 5000, json!({ "checks": [check] }));
        server.post("/v1/sessions", &body).await.bad_field("checks[0].command");
    }
}

#[tokio::test]
async fn a_session_of_earlier_runs_no_program_here() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ran");
    let server = Server::at(&dir.path().join("data"), &["limits.exec_checks=true"]);
    let check = exec(&format!("echo ran >> {}", file.display()), 5000, 3);
    let session = server.session("w", TTL_MS, json!({ "checks": [check] })).await;
    server.acquire_under("k", "w", &session).await;
    stays(&server, &session, &passed("exec"), 1.0).await;
    server.kill();
    let server = Server::at(&dir.path().join("data"), &[]);
    std::fs::remove_file(&file).expect("it ran before");
    failed(&server, &session, "k", "exec").await;
    let events = server.events_of("k").await;
    let reason = events[1]["data"]["reason"].as_str().expect("a reason");
    assert_eq!(reason, "check exec: not allowed");
    assert!(!file.exists(), "the program ran");
}

#[tokio::test]
async fn an_exec_check_that_exits_otherwise_than_with_0_ends_the_session() {
    let server = Server::with(&["limits.exec_checks=true"]);
    let dir = tempfile::tempdir().expect("a directory");
    let well = dir.path().join("well");
    std::fs::write(&well, "").expect("a file");
    let script = format!("test -e {} || {{ echo ill >&2; exit 3; }}", well.display());
    let session = server.session("w", TTL_MS, json!({ "checks": [exec(&script, 5000, 2)] })).await;
    server.acquire_under("k", "w", &session).await;
    stays(&server, &session, &passed("exec"), 3.0).await;
    std::fs::remove_file(&well).expect("there");
    failed(&server, &session, "k", "exec").await;
    let events = server.events_of("k").await;
    let reason = events[1]["data"]["reason"].as_str().expect("a reason");
    assert_eq!(reason, "check exec: exit status 3");
}

/// The numbers in a file of them, one a line.
fn pids(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Whether a process runs; one that was killed and not reaped yet does not.
fn runs(pid: &u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn an_exec_check_that_hangs_is_killed_with_its_children() {
    let server = Server::with(&["limits.exec_checks=true"]);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pids");
    let script = format!(
        "echo $$ >> {file}; sleep 1000 & echo $! >> {file}; trap '' TERM; wait; sleep 1000",
        file = file.display()
    );
    let session = server.session("w", TTL_MS, json!({ "checks": [exec(&script, 400, 2)] })).await;
    server.acquire_under("k", "w", &session).await;
    failed(&server, &session, "k", "exec").await;
    eventually("all of them are gone", async || {
        let all = pids(&file);
        all.len() >= 4 && !all.iter().any(runs)
    })
    .await;
}

#[tokio::test]
async fn an_exec_check_is_killed_when_its_session_ends() {
    let server = Server::with(&["limits.exec_checks=true"]);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pids");
    let script = format!("echo $$ >> {file}; sleep 1000", file = file.display());
    let check = exec(&script, 60_000, 2);
    let session = server.session("w", 60_000, json!({ "checks": [check] })).await;
    eventually("it runs", async || pids(&file).iter().any(runs)).await;
    server.destroy(&session).await.ok();
    eventually("it is gone", async || !pids(&file).iter().any(runs)).await;
}

#[tokio::test]
async fn what_an_exec_check_leaves_running_does_not_delay_its_verdict() {
    let server = Server::with(&["limits.exec_checks=true"]);
    let script = "sleep 5 & exit 0";
    let session = server.session("w", TTL_MS, json!({ "checks": [exec(script, 2000, 1)] })).await;
    stays(&server, &session, &passed("exec"), 3.0).await;
}

#[tokio::test]
async fn an_exec_check_sees_no_secrets_of_the_coordinator() {
    let server = Server::with(&["limits.exec_checks=true"]);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("environment");
    let script = format!("env > {}", file.display());
    let session = server.session("w", TTL_MS, json!({ "checks": [exec(&script, 2000, 1)] })).await;
    stays(&server, &session, &passed("exec"), 1.0).await;
    let seen = std::fs::read_to_string(&file).expect("a file");
    assert!(seen.contains("PATH="));
    assert!(!seen.contains("CARGO"), "as the test's own environment has: {seen}");
}
