//! The Unix socket: who may connect, who is found behind it, and what becomes of its file.

use std::{os::unix::fs::MetadataExt as _, path::Path, process::Command};

use rustix::process::{Signal, geteuid};
use serde_json::json;
use tenure::client::Client;
use tokio::net::UnixStream;

use crate::support::harness::{Connection, Server, eventually, soon};

fn set(path: &Path) -> String {
    format!("server.listen_uds={}", path.display())
}

async fn connect(path: &Path) -> Connection<UnixStream> {
    Connection::on(UnixStream::connect(path).await.expect("the server accepts"))
}

#[tokio::test]
async fn commands_and_the_library_reach_a_coordinator_by_its_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let server = Server::with(&[&set(&path), "telemetry.log=debug"]);
    assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o660);
    let address = format!("unix:{}", path.display());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--server", &address]).args(arguments).env_remove("TENURE_PROXY");
        let ran = command.output().expect("it runs");
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    run(&["acquire", "k", "--owner", "w", "--ttl", "60s"]);
    assert!(run(&["ls"]).contains('w'));
    // A program under a lease is told of the same way.
    let program = format!("{} get job --output json", env!("CARGO_BIN_EXE_tenure"));
    let ran = run(&["run", "--key", "job", "--owner", "agent", "--", "sh", "-c", &program]);
    assert!(ran.contains("\"agent\""), "{ran}");
    let client = Client::new(&address).expect("a client");
    assert_eq!(client.lease("k").await.expect("a lease").owner.as_deref(), Some("w"));
    let uid = format!("uid={}", geteuid().as_raw());
    assert!(server.said().contains(&uid), "{}", server.said());
    // The port goes on beside it.
    assert_eq!(server.lease("k").await["owner"], "w");
}

#[tokio::test]
async fn the_file_is_removed_at_a_stop_and_replaced_after_a_kill() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let server = Server::with(&[&set(&path)]);
    let other = tempfile::tempdir().expect("a directory");
    let refused = Server::refuse(other.path(), &[&set(&path)]);
    assert!(
        !refused.status.success() && refused.said.contains("another process"),
        "{}",
        refused.said
    );
    assert!(refused.said.contains("server.listen_uds"), "{}", refused.said);
    connect(&path).await.call("GET", "/livez", &[], b"").await.ok();
    let killed = server.kill();
    assert!(path.exists());
    let server = killed.restart();
    connect(&path).await.call("GET", "/livez", &[], b"").await.ok();
    server.signal(Signal::TERM);
    let stopped = server.wait();
    assert_eq!(stopped.status.code(), Some(0), "{}", stopped.said);
    assert!(!path.exists());
}

#[tokio::test]
async fn callers_by_the_socket_have_no_address_and_share_the_places() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let socket = set(&path);
    let sets = [
        socket.as_str(),
        "limits.connections_per_address=1",
        "server.workers=1",
        "server.max_connections=4",
    ];
    let server = Server::with(&sets);
    let mut first = Connection::open(server.addr).await;
    first.call("GET", "/livez", &[], b"").await.ok();
    let mut many = Vec::new();
    for _ in 0..4 {
        let mut connection = connect(&path).await;
        connection.call("GET", "/livez", &[], b"").await.ok();
        many.push(connection);
    }
    assert!(soon("it gave way", first.try_receive()).await.is_err());
    let foreign = [("host", "evil.example")];
    let reply = connect(&path).await.call("GET", "/livez", &foreign, b"").await;
    reply.problem(421, "unknown-host");
}

#[tokio::test]
async fn a_caller_by_the_socket_that_hangs_up_waits_no_longer() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let server = Server::with(&[&set(&path)]);
    server.acquire("k", "w", 60_000).await;
    let wait = json!({ "key": "k", "owner": "x", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let mut waiting = connect(&path).await;
    waiting.send("POST", "/v1/acquire", &[], wait.to_string().as_bytes()).await;
    server.until_waiters("k", 1).await;
    drop(waiting);
    server.until_waiters("k", 0).await;
    // What is sent ahead of its turn is read when it comes.
    let mut ahead = connect(&path).await;
    ahead.send("POST", "/v1/acquire", &[], wait.to_string().as_bytes()).await;
    ahead.send("GET", "/livez", &[], b"").await;
    server.until_waiters("k", 1).await;
    let lease = server.lease("k").await;
    let revoke = json!({ "key": "k", "reason": "test", "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    assert_ne!(lease["token"], ahead.receive().await.ok()["token"]);
    eventually("the next call is answered", async || ahead.receive().await.status == 200).await;
}
