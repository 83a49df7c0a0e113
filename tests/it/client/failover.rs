//! Two coordinators on one store: a lease goes on when one of them dies.

use rustix::process::Signal;
use serde_json::Value;
use tenure::client::{Client, Hold, SessionOptions};

use crate::client::harness::{eventually, soon};

use crate::support::{
    clock::{ms, sleep_ms},
    nats_server,
    node::Node,
};

struct Two {
    a: Node,
    b: Node,
    _nats: nats_server::Server,
    _dir: tempfile::TempDir,
}

impl Two {
    async fn start() -> Self {
        let (nats, dir) = (nats_server::Server::start(), tempfile::tempdir().expect("a directory"));
        let sets = [
            "store.kind=nats".to_owned(),
            format!("store.nats.url={}", nats.url()),
            "store.nats.replicas=1".to_owned(),
            "node.ttl=2s".to_owned(),
            format!("node.witness={}", dir.path().join("witness.json").display()),
        ];
        let (mut a, mut b) = (Node::new("a", &sets, &[]), Node::new("b", &sets, &[]));
        a.start().await;
        b.start().await;
        for node in [&a, &b] {
            eventually("the nodes know each other", async || {
                node.get("/v1/nodes").await["nodes"].as_array().is_some_and(|all| all.len() == 2)
            })
            .await;
        }
        Self { a, b, _nats: nats, _dir: dir }
    }
}

fn home(other: &serde_json::Map<String, Value>) -> &str {
    other["node"].as_str().expect("a node")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_sessions_go_on_at_the_other_node() {
    let mut two = Two::start().await;
    // The second one is asked first only where it is the home.
    let client =
        Client::builder(&format!("{},{}", two.a.url, two.b.url)).in_order(true).build().unwrap();
    let lease = client.hold(Hold::key("a").owner("w").ttl(ms(12_000))).await.unwrap();
    let session = client.open_session(SessionOptions::new("s").ttl(ms(12_000))).await.unwrap();
    let kept = session.acquire("b").await.unwrap();
    assert_eq!(home(&lease.view().other), two.a.url);
    assert_eq!(lease.server(), two.a.url);
    let (token, before) = (lease.token(), lease.deadline().until);
    two.a.kill();
    let (mut of_lease, mut of_kept) = (lease.deadlines(), kept.deadlines());
    let renewed = before + ms(5000);
    soon("a renewal", of_lease.wait_for(|told| told.until > renewed)).await.unwrap();
    soon("a renewal", of_kept.wait_for(|told| told.until > renewed)).await.unwrap();
    assert!(lease.valid() && kept.valid() && session.valid());
    let held = Client::new(&two.b.url).unwrap().lease("a").await.unwrap();
    assert_eq!((held.token, held.owner.as_deref()), (Some(token), Some("w")));
    assert!(session.close().await.unwrap() && lease.release().await.unwrap());
    let again = client.hold(Hold::key("a").owner("v")).await.unwrap();
    assert!(again.token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_is_silent_is_left_for_another_server() {
    let two = Two::start().await;
    let client =
        Client::builder(&format!("{},{}", two.a.url, two.b.url)).in_order(true).build().unwrap();
    let lease = client.hold(Hold::key("d").owner("w").ttl(ms(12_000))).await.unwrap();
    assert_eq!(home(&lease.view().other), two.a.url);
    let before = lease.deadline().until;
    two.a.signal(Signal::STOP);
    let mut told = lease.deadlines();
    soon("a renewal", told.wait_for(|told| told.until > before + ms(5000))).await.unwrap();
    assert!(lease.valid());
    two.a.signal(Signal::CONT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_nobody_configured_is_found_when_those_configured_are_gone() {
    let mut two = Two::start().await;
    let client = Client::new(&two.a.url).unwrap();
    // Calls of several keys are served by a node that their id chooses.
    let mut found = None;
    for n in 0..40 {
        let keys = [format!("k{n}"), format!("l{n}")];
        let lease = client.hold(Hold::any(keys).owner("w").ttl(ms(6000))).await.unwrap();
        if home(&lease.view().other) == two.b.url {
            found = Some(lease);
            break;
        }
    }
    let lease = found.expect("one of them is at home at b");
    two.a.kill();
    sleep_ms(9000).await;
    assert!(lease.valid());
    let held = Client::new(&two.b.url).unwrap().lease(lease.key()).await.unwrap();
    assert_eq!(held.token, Some(lease.token()));
}
