//! A stretch of network that carries every request and loses answers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tenure::{
    client::{Client, Hold, SessionOptions},
    clock::Chance,
};

use crate::client::harness::{Server, eventually, soon};

use crate::support::{
    clock::{ms, sleep_ms},
    dice::Dice as _,
    proxy::{Fate, HttpProxy},
};

struct Lossy {
    proxy: HttpProxy,
    lost: Arc<AtomicU64>,
}

impl Lossy {
    /// Of a hundred answers, so many are lost; which, the seed decides.
    async fn to(server: &str, per_cent: u64, seed: u64) -> Self {
        let server = server.trim_start_matches("http://").parse().expect("an address");
        let (proxy, lost) = (HttpProxy::to(server).await, Arc::new(AtomicU64::new(0)));
        let (mut chance, counted) = (Chance::new(seed), lost.clone());
        proxy.rule(move |_, _| {
            if chance.below(100) >= per_cent {
                return Fate::Pass;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            Fate::LoseReply
        });
        Self { proxy, lost }
    }
}

async fn behind(server: &Server, per_cent: u64) -> (Client, [Lossy; 2]) {
    let ways = [
        Lossy::to(&server.node.url, per_cent, 11).await,
        Lossy::to(&server.node.url, per_cent, 12).await,
    ];
    let client = Client::builder(&format!("{},{}", ways[0].proxy.url(), ways[1].proxy.url()))
        .in_order(true)
        .build()
        .expect("addresses");
    (client, ways)
}

fn lost(ways: &[Lossy; 2]) -> u64 {
    ways.iter().map(|way| way.lost.load(Ordering::Relaxed)).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_never_give_two_grants() {
    let server = Server::start().await;
    let (client, ways) = behind(&server, 40).await;
    let mut leases = Vec::new();
    for n in 0..25 {
        let hold = Hold::key(format!("k{n}")).owner("w").ttl(ms(60_000));
        leases.push(soon("a grant", client.hold(hold)).await.expect("a grant"));
    }
    for lease in &leases {
        assert_eq!(server.history(lease.key()).await, ["granted"], "{}", lease.key());
        let held = server.client().lease(lease.key()).await.expect("a lease");
        assert_eq!(held.token, Some(lease.token()));
    }
    let mut held = 0;
    for n in 0..15 {
        let keys = (0..5).map(|key| format!("any{n}/{key}"));
        let some = client.hold_many(Hold::any(keys).owner("w").ttl(ms(60_000)).count(2));
        let some = soon("grants", some).await.expect("grants");
        held += some.len();
        leases.extend(some);
    }
    let filter = tenure::client::LeaseFilter {
        prefix: Some("any".into()),
        state: Some("held".into()),
        limit: Some(1000),
        ..Default::default()
    };
    let listed = server.client().leases(&filter).await.expect("a list").leases;
    assert_eq!((listed.len(), held), (30, 30), "nothing is held unnoticed");
    assert!(lost(&ways) >= 10, "{}", lost(&ways));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_and_a_session_outlive_them() {
    let server = Server::start().await;
    let (client, ways) = behind(&server, 35).await;
    let lease = client.hold(Hold::key("a").owner("w").ttl(ms(3000))).await.expect("a grant");
    let session = loop {
        let options = SessionOptions::new("s").ttl(ms(3000));
        if let Ok(session) = client.open_session(options).await {
            break session;
        }
    };
    let kept = soon("a grant", session.acquire("b")).await.expect("a grant");
    for _ in 0..100 {
        sleep_ms(100).await;
        assert!(lease.valid() && session.valid() && kept.valid());
    }
    assert!(lost(&ways) >= 3, "{}", lost(&ways));
    lease.release().await.expect("it is told");
    kept.release().await.expect("it is told");
    eventually("both are free", async || {
        server.state("a").await == "free" && server.state("b").await == "free"
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_leaves_the_queue_holds_nothing() {
    let server = Server::start().await;
    let client = server.client();
    let first = server.hold("a", 60_000).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.hold(Hold::key("a").owner("v").wait(ms(60_000))).await }
    });
    eventually("it waits", async || client.lease("a").await.unwrap().waiters == Some(1)).await;
    waiting.abort();
    let _ = waiting.await;
    first.release().await.unwrap();
    sleep_ms(1000).await;
    server.until_state("a", "free").await;
}
