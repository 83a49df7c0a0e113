//! A call that one node forwarded, sent once more by somebody who overheard it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::cast::{all_of, call_at, principal, write};
use crate::{
    nodes::pair::Pair,
    support::{
        clock::{eventually, soon},
        harness::{Connection, Reply},
    },
};

/// What clients said on a stretch of network.
type Heard = Arc<Mutex<Vec<u8>>>;

/// Passes everything on to `target`, and keeps what the clients say.
async fn overhear(listener: TcpListener, target: SocketAddr, heard: Heard) {
    while let Ok((near, _)) = listener.accept().await {
        let heard = heard.clone();
        tokio::spawn(async move {
            let far = TcpStream::connect(target).await.expect("the node listens");
            let ((mut near_in, mut near_out), (mut far_in, mut far_out)) =
                (near.into_split(), far.into_split());
            let answers = tokio::spawn(async move {
                let _ = tokio::io::copy(&mut far_in, &mut near_out).await;
            });
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = near_in.read(&mut part).await {
                heard.lock().expect("no panic").extend_from_slice(&part[..length]);
                if far_out.write_all(&part[..length]).await.is_err() {
                    break;
                }
            }
            answers.abort();
        });
    }
}

/// Sends these bytes to the node at this URL.
async fn send(url: &str, bytes: &[u8]) -> Reply {
    let address: SocketAddr = url.trim_start_matches("http://").parse().expect("an address");
    let mut connection = Connection::open(address).await;
    connection.stream.get_mut().write_all(bytes).await.expect("the node listens");
    soon("an answer", connection.receive()).await
}

/// Two nodes. `b` reaches `a` through a stretch of network on which an attacker listens.
struct Overheard {
    pair: Pair,
    /// The address at which `b` reaches `a`.
    reached: String,
    heard: Heard,
    _dir: tempfile::TempDir,
}

impl Overheard {
    async fn start(env: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("access.toml");
        write(&file, &[principal("reader", &all_of(""))]);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let reached = format!("http://{}", listener.local_addr().expect("bound"));
        let auth = format!("auth.file={}", file.display());
        let of_a = [auth.clone(), format!("node.advertise_url={reached}")];
        let pair = Pair::nats_with(&of_a, &[auth], "reader", env).await;
        let target = pair.a.url.trim_start_matches("http://").parse().expect("an address");
        let heard = Heard::default();
        tokio::spawn(overhear(listener, target, heard.clone()));
        Self { pair, reached, heard, _dir: dir }
    }

    /// Makes a call to `b` until `a` answers it. Returns its bytes.
    async fn forwarded(&self, method: &str, path: &str, body: &Value) -> Vec<u8> {
        eventually("the call is forwarded", async || {
            self.heard.lock().expect("no panic").clear();
            let reply = call_at(&self.pair.b.url, "reader", method, path, body).await;
            reply.status == 200 && reply.header("x-tenure-node") == Some(self.reached.as_str())
        })
        .await;
        self.heard.lock().expect("no panic").clone()
    }
}

/// Node `b` forwards a call to node `a`. `Err`: another node than `a` believes the same bytes, or `a` does so twice.
pub async fn run(env: &[(&str, &str)]) -> Result<(), String> {
    let overheard = Overheard::start(env).await;
    let (a, b) = (overheard.pair.a.url.as_str(), overheard.pair.b.url.as_str());
    let acquire = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    call_at(a, "reader", "POST", "/v1/acquire", &acquire).await.ok();
    let call = overheard.forwarded("GET", "/v1/leases/k", &Value::Null).await;
    let said = String::from_utf8_lossy(&call);
    assert!(
        said.starts_with("GET /v1/leases/k ") && said.contains("x-tenure-forwarded:"),
        "{said}"
    );
    assert!(!said.contains("uthorization"), "no token travels between nodes: {said}");
    for (node, url) in [("the sender", b), ("the receiver", a)] {
        let reply = send(url, &call).await;
        if reply.status == 200 {
            return Err(format!("{node} believes it: {}", reply.text()));
        }
        reply.problem(400, "forged-header");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_call_is_believed_once_and_by_its_receiver_alone() {
    run(&[]).await.unwrap();
}

/// Node `a` is restarted after `b` forwarded an order to it. `Err`: the same bytes end the lease of another owner.
pub async fn restarted(env: &[(&str, &str)]) -> Result<(), String> {
    let mut overheard = Overheard::start(env).await;
    let a = overheard.pair.a.url.clone();
    let acquire = |owner: &str| json!({ "key": "prod/db", "owner": owner, "ttl_ms": 600_000 });
    call_at(&a, "reader", "POST", "/v1/acquire", &acquire("one")).await.ok();
    overheard.forwarded("GET", "/v1/leases/prod%2Fdb", &Value::Null).await;
    let order = json!({ "key": "prod/db", "reason": "planned", "immediately": true });
    let call = overheard.forwarded("POST", "/v1/admin/revoke", &order).await;
    send(&a, &call).await.problem(400, "forged-header");
    for round in 1..=2 {
        overheard.pair.a.stop().await;
        overheard.pair.a.start().await;
        let owner = format!("after {round}");
        eventually("another owner has it", async || {
            let granted = call_at(&a, "reader", "POST", "/v1/acquire", &acquire(&owner)).await;
            granted.status == 200
        })
        .await;
        let reply = send(&a, &call).await;
        if reply.status == 200 {
            return Err(format!("it is believed after restart {round}: {}", reply.text()));
        }
        reply.problem(400, "forged-header");
        let lease = call_at(&a, "reader", "GET", "/v1/leases/prod%2Fdb", &Value::Null).await.ok();
        assert_eq!((&lease["state"], &lease["owner"]), (&json!("held"), &json!(owner)));
        let release = json!({ "key": "prod/db", "reason": "next", "immediately": true });
        call_at(&a, "reader", "POST", "/v1/admin/revoke", &release).await.ok();
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_call_is_not_believed_by_a_later_run_of_its_receiver() {
    restarted(&[]).await.unwrap();
}
