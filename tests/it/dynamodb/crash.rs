//! A node that dies between a write and the log.

use std::time::Duration;

use tenure::{
    lease::{NodeState, Revision},
    store::{LeaseStore, SharedStore, dynamodb::Options},
};

use crate::dynamodb::kit::*;

use crate::support::dynamo_endpoint::Endpoint;

/// Never logs by itself.
fn never_flushes(url: &str) -> Options {
    Options { flush_interval: Duration::from_secs(3600), ..options(url) }
}

#[tokio::test]
async fn who_overwrites_the_item_logs_what_its_dead_writer_did_not() {
    let endpoint = Endpoint::start();
    let dying = open_with(never_flushes(&endpoint.url()), None).await.unwrap();
    let other = open(&endpoint.url()).await;
    let mut feed = other.feed();
    let first = commit(&dying, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    let second = commit(&dying, grant(&key("k"), first, "w2", 2)).await;
    drop(dying);
    commit(&other, grant(&key("k"), second, "w3", 3)).await;
    let heard = listen(&mut feed, 3).await;
    heard.check();
    assert_eq!(heard.tokens[&key("k")], [first.0, second.0, second.0 + 1]);
}

#[tokio::test]
async fn what_a_dead_node_did_not_log_is_logged_when_it_is_found_dead() {
    let endpoint = Endpoint::start();
    let dying = open_with(never_flushes(&endpoint.url()), None).await.unwrap();
    let other = open(&endpoint.url()).await;
    let alive = write_node(&dying, Revision::ABSENT, node(7, NodeState::Alive)).await;
    for n in 0..10 {
        commit(&dying, grant(&key(&format!("k{n}")), Revision::ABSENT, "w1", 1)).await;
    }
    drop(dying);
    let mut feed = other.feed();
    other.scan_nodes().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(feed.try_recv().is_err(), "it may live");
    write_node(&other, alive, node(7, NodeState::Dead)).await;
    other.scan_nodes().await.unwrap();
    let heard = listen(&mut feed, 10).await;
    heard.check();
    assert_eq!(heard.seqs.len(), 10);
    // Once is enough.
    let head = other.stats().log_head;
    eventually("taken off the log", async || {
        other.scan_nodes().await.unwrap();
        other.stats().log_head <= head + 1 && other.stats().unlogged == 0
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_opened_after_the_death_repairs_too() {
    let endpoint = Endpoint::start();
    let dying = open_with(never_flushes(&endpoint.url()), None).await.unwrap();
    let alive = write_node(&dying, Revision::ABSENT, node(7, NodeState::Alive)).await;
    commit(&dying, grant(&key("swept"), Revision::ABSENT, "w1", 1)).await;
    let first = commit(&dying, grant(&key("overwritten"), Revision::ABSENT, "w1", 1)).await;
    drop(dying);
    let other = open(&endpoint.url()).await;
    let mut feed = other.feed();
    commit(&other, grant(&key("overwritten"), first, "w2", 2)).await;
    let mut heard = listen(&mut feed, 2).await;
    assert_eq!(heard.seqs[&key("overwritten")], [1, 2]);
    write_node(&other, alive, node(7, NodeState::Dead)).await;
    other.scan_nodes().await.unwrap();
    listen_on(&mut feed, 3, &mut heard).await;
    heard.check();
}

#[tokio::test]
async fn a_clean_close_leaves_nothing_to_repair() {
    let endpoint = Endpoint::start();
    let a = open(&endpoint.url()).await;
    let first = commit(&a, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    a.close().await;
    a.close().await;
    let refused = a.compare_and_set(grant(&key("k"), first, "w1", 2)).await;
    assert!(matches!(refused, tenure::store::WriteOutcome::Refused(_)), "{refused:?}");
    let b = open(&endpoint.url()).await;
    let mut feed = b.feed();
    commit(&b, grant(&key("k"), first, "w2", 2)).await;
    let heard = listen(&mut feed, 1).await;
    assert_eq!(heard.seqs[&key("k")], [2], "the first was logged before");
    let history = all_history(&b, b.earliest(), 10).await;
    assert_eq!(history.total(), 2);
    history.check();
}
