//! Stores that leave, or are taken for gone, while a write is under way.

use std::time::Duration;

use tenure::{
    lease::{NodeState, Revision},
    store::{LeaseStore, SharedStore, WriteOutcome, dynamodb::Options},
};

use crate::dynamodb::kit::*;
use crate::support::proxy::{Fate, HttpProxy};

use crate::support::dynamo_endpoint::Endpoint;

const ON_THE_WIRE: Duration = Duration::from_millis(300);

/// Writes of leases arrive this late, and what is not a lease at once.
fn late(by: Duration) -> impl FnMut(&str, &str) -> Fate + Send + 'static {
    move |operation, body| {
        let lease = operation == "PutItem" && body.contains("l#");
        if lease { Fate::Late(by) } else { Fate::Pass }
    }
}

#[tokio::test]
async fn a_write_that_is_on_the_wire_when_its_store_is_closed_is_told() {
    for round in 0..5 {
        let endpoint = Endpoint::start();
        let proxy = HttpProxy::to(endpoint.addr()).await;
        let listener = open(&endpoint.url()).await;
        let mut feed = listener.feed();
        let leaving = open(&proxy.url()).await;
        let first = commit(&leaving, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
        let mut heard = listen(&mut feed, 1).await;
        proxy.rule(late(ON_THE_WIRE));
        let write = leaving.compare_and_set(grant(&key("k"), first, "w2", 2));
        tokio::time::sleep(Duration::from_millis(20 * round)).await;
        leaving.close().await;
        drop(write);
        tokio::time::sleep(2 * ON_THE_WIRE).await;
        // The process that comes after it.
        let next = open(&endpoint.url()).await;
        let found = next.read(&key("k")).await.unwrap().unwrap();
        let seq = found.record.unwrap().seq;
        commit(&next, grant(&key("k"), found.revision, "w3", seq + 1)).await;
        listen_on(&mut feed, usize::try_from(seq).unwrap() + 1, &mut heard).await;
        heard.check();
        let late = open(&endpoint.url()).await;
        let history = all_history(&late, late.earliest(), 10).await;
        assert_eq!(history.positions, heard.positions);
        history.check();
    }
}

#[tokio::test]
async fn a_write_whose_fate_is_not_known_when_its_store_is_closed_is_left_to_others() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let listener = open(&endpoint.url()).await;
    let mut feed = listener.feed();
    let request_timeout = Duration::from_millis(200);
    let allow_stale = Options { request_timeout, ..options(&proxy.url()) };
    let leaving = open_with(allow_stale, None).await.unwrap();
    let alive = write_node(&leaving, Revision::ABSENT, node(7, NodeState::Alive)).await;
    // Longer than closing takes.
    proxy.rule(late(Duration::from_secs(7)));
    let outcome = leaving.compare_and_set(grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    leaving.close().await;
    eventually("made", async || listener.read(&key("k")).await.unwrap().is_some()).await;
    let next = open(&endpoint.url()).await;
    write_node(&next, alive, node(7, NodeState::Dead)).await;
    next.scan_nodes().await.unwrap();
    let heard = listen(&mut feed, 1).await;
    heard.check();
}

#[tokio::test]
async fn who_was_taken_for_dead_and_wrote_on_is_not_believed_to_have_logged_it() {
    let endpoint = Endpoint::start();
    let listener = open(&endpoint.url()).await;
    let mut feed = listener.feed();
    let never = Options { flush_interval: Duration::from_secs(3600), ..options(&endpoint.url()) };
    let asleep = open_with(never, None).await.unwrap();
    let alive = write_node(&asleep, Revision::ABSENT, node(7, NodeState::Alive)).await;
    let first = commit(&asleep, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    write_node(&listener, alive, node(7, NodeState::Dead)).await;
    let mut heard = Heard::default();
    eventually("looked through", async || {
        listener.scan_nodes().await.unwrap();
        feed.try_recv().is_ok_and(|news| {
            heard.hear(&news);
            true
        })
    })
    .await;
    // It lives after all, and did not hear of it yet.
    let second = commit(&asleep, grant(&key("k"), first, "w2", 2)).await;
    commit(&asleep, grant(&key("other"), Revision::ABSENT, "w2", 1)).await;
    let next = open(&endpoint.url()).await;
    commit(&next, grant(&key("k"), second, "w3", 3)).await;
    listen_on(&mut feed, 4, &mut heard).await;
    heard.check();
}
