//! The one order of changes that all stores on a table see.

use std::{sync::Arc, time::Duration};

use tenure::{
    lease::Revision,
    store::{
        Feed, LeaseStore, Position, WriteOutcome,
        dynamodb::{DynamoStore, Options},
    },
};

use crate::dynamodb::kit::*;
use crate::support::proxy::{Fate, HttpProxy};

use crate::support::dynamo_endpoint::Endpoint;

/// Writers of a store take turns at some keys, each following whatever is there.
async fn write_at(store: Arc<DynamoStore>, keys: usize, writer: usize, writes: usize) {
    let mut done = 0;
    let mut at = writer;
    while done < writes {
        at = at.wrapping_mul(31).wrapping_add(17 + writer);
        let key = key(&format!("k{}", at % keys));
        let found = store.read(&key).await.unwrap();
        let (revision, seq) = found
            .map_or((Revision::ABSENT, 0), |found| (found.revision, found.record.unwrap().seq));
        match store.compare_and_set(grant(&key, revision, &format!("w{writer}"), seq + 1)).await {
            WriteOutcome::Committed(_) => done += 1,
            WriteOutcome::Conflict(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn everybody_hears_everything_in_order(stores: Vec<Arc<DynamoStore>>, url: &str) {
    let (writers, writes) = (4, 60);
    let total = stores.len() * writers * writes;
    let mut listening = Vec::new();
    for store in &stores {
        let mut feed = store.feed();
        listening.push(tokio::spawn(async move { listen(&mut feed, total).await }));
    }
    let mut writing = Vec::new();
    for (at, store) in stores.iter().enumerate() {
        for writer in 0..writers {
            let work = write_at(Arc::clone(store), 7, at * writers + writer, writes);
            writing.push(tokio::spawn(work));
        }
    }
    for one in writing {
        one.await.unwrap();
    }
    let mut heard = Vec::new();
    for one in listening {
        let one = one.await.unwrap();
        one.check();
        assert_eq!(one.total(), total);
        heard.push(one);
    }
    // The same order for all, in the feed and in the history, from memory and from the table.
    let late = open(url).await;
    let began = Position { revision: Revision(0), index: u32::MAX };
    for store in stores.iter().chain([&late]) {
        let history = all_history(store, store.earliest().max(began), 50).await;
        assert_eq!(history.gaps, 0);
        assert_eq!(history.positions, heard[0].positions);
        history.check();
    }
    for one in &heard {
        assert_eq!(one.positions, heard[0].positions);
        assert_eq!(one.seqs, heard[0].seqs);
    }
}

#[tokio::test]
async fn two_stores_with_many_writers_of_the_same_keys() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let stores = vec![open(&url).await, open(&url).await];
    everybody_hears_everything_in_order(stores, &url).await;
}

#[tokio::test]
async fn four_stores_that_race_for_the_logs_end_without_pause() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let mut stores = Vec::new();
    for _ in 0..4 {
        let flush_interval = Duration::ZERO;
        let options = Options { flush_interval, ..options(&url) };
        stores.push(open_with(options, None).await.unwrap());
    }
    everybody_hears_everything_in_order(stores, &url).await;
}

#[tokio::test]
async fn also_when_the_log_loses_every_third_reply_and_every_seventh_request() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let url = proxy.url();
    let stores = vec![open(&url).await, open(&url).await];
    let mut appends = 0;
    proxy.rule(move |operation, body| {
        if operation != "PutItem" || !body.contains("\"log\"") {
            return Fate::Pass;
        }
        appends += 1;
        match appends {
            n if n % 7 == 0 => Fate::Answer(500, "InternalServerError"),
            n if n % 3 == 0 => Fate::LoseReply,
            _ => Fate::Pass,
        }
    });
    everybody_hears_everything_in_order(stores, &endpoint.url()).await;
}

#[tokio::test]
async fn a_write_with_two_changes_tells_both_in_order() {
    let endpoint = Endpoint::start();
    let a = open(&endpoint.url()).await;
    let mut feed = a.feed();
    let mut write = grant(&key("k"), Revision::ABSENT, "w1", 1);
    write.changes.push(granted("w1", 2));
    let revision = commit(&a, write).await;
    // A write without a change tells nothing, and hides nothing.
    let mut silent = grant(&key("k"), revision, "w1", 2);
    silent.changes.clear();
    let revision = commit(&a, silent).await;
    commit(&a, grant(&key("k"), revision, "w2", 3)).await;
    let heard = listen(&mut feed, 3).await;
    assert_eq!(heard.seqs[&key("k")], [1, 2, 3]);
    assert_eq!(heard.gaps, 0);
    let latest = a.latest();
    assert_eq!(heard.positions.last(), Some(&latest));
}

/// Listens until nothing came for a while.
async fn listen_to_the_end(mut feed: Feed) -> Heard {
    let mut heard = Heard::default();
    while let Ok(news) = tokio::time::timeout(Duration::from_secs(3), feed.recv()).await {
        heard.hear(&news.expect("the feed goes on"));
    }
    heard
}

#[tokio::test]
async fn a_store_that_is_opened_in_the_midst_of_it_hears_the_rest_without_a_hole() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let mut stores = vec![open(&url).await, open(&url).await];
    let mut listening = vec![tokio::spawn(listen_to_the_end(stores[0].feed()))];
    let mut writing = Vec::new();
    for (at, store) in stores.iter().enumerate() {
        for writer in 0..4 {
            writing.push(tokio::spawn(write_at(Arc::clone(store), 7, at * 4 + writer, 100)));
        }
    }
    for late in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let store = open(&url).await;
        listening.push(tokio::spawn(listen_to_the_end(store.feed())));
        writing.push(tokio::spawn(write_at(Arc::clone(&store), 7, 50 + late, 20)));
        stores.push(store);
    }
    for one in writing {
        one.await.unwrap();
    }
    let all = listening.remove(0).await.unwrap();
    all.check();
    assert_eq!(all.total(), 860);
    for one in listening {
        let heard = one.await.unwrap();
        assert_eq!(heard.gaps, 0);
        assert!(heard.total() >= 20, "its own at the least");
        // What all heard, from some place on.
        let from = all.positions.len() - heard.positions.len();
        assert_eq!(heard.positions, all.positions[from..]);
    }
}
