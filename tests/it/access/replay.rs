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

/// Node `b` forwards a call to node `a`. `Err`: another node than `a` believes the same bytes, or `a` does so twice.
pub async fn run(env: &[(&str, &str)]) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    write(&file, &[principal("reader", &all_of(""))]);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let reached = format!("http://{}", listener.local_addr().expect("bound"));
    let auth = format!("auth.file={}", file.display());
    let of_a = [auth.clone(), format!("node.advertise_url={reached}")];
    let pair = Pair::nats_with(&of_a, &[auth], "reader", env).await;
    let (a, b) = (pair.a.url.as_str(), pair.b.url.as_str());
    let target = a.trim_start_matches("http://").parse().expect("an address");
    let heard = Heard::default();
    tokio::spawn(overhear(listener, target, heard.clone()));
    let acquire = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    call_at(a, "reader", "POST", "/v1/acquire", &acquire).await.ok();
    eventually("the call is forwarded", async || {
        heard.lock().expect("no panic").clear();
        let reply = call_at(b, "reader", "GET", "/v1/leases/k", &Value::Null).await;
        reply.status == 200 && reply.header("x-tenure-node") == Some(reached.as_str())
    })
    .await;
    let call = heard.lock().expect("no panic").clone();
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
