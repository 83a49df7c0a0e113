//! A table that went back, or is another one than before.

use tenure::{
    clock::{Entropy, SystemEntropy},
    lease::{Epoch, Nonce, Revision},
    store::{
        FeedBatch, Health, LeaseStore, SharedStore, Witness, WriteOutcome,
        dynamodb::{DynamoOpenError, DynamoStore, Options},
    },
};

use crate::dynamodb::kit::*;

use crate::{stores::lab::raise, support::dynamo_endpoint::Endpoint};

async fn refuses(store: &DynamoStore) -> bool {
    let frozen = matches!(store.health(), Health::Frozen(_));
    let write = grant(&key("never"), Revision::ABSENT, "w1", 1);
    let refused = matches!(store.compare_and_set(write).await, WriteOutcome::Refused(_));
    assert_eq!(frozen, refused);
    frozen
}

/// The epoch is raised, and the store goes on.
async fn thaw(store: &DynamoStore, epoch: u16) {
    let mut feed = store.feed();
    store.refresh_meta().await.unwrap();
    assert!(refuses(store).await, "the epoch was not raised yet");
    let identity = SystemEntropy::new().nonce();
    raise(store, identity, Epoch(epoch), false).await.unwrap();
    assert!(raise(store, Nonce(1), Epoch(epoch), false).await.is_err(), "not a second time");
    assert!(refuses(store).await, "the raised epoch was not read yet");
    let meta = store.refresh_meta().await.unwrap();
    assert_eq!((meta.identity, meta.epoch), (identity, Epoch(epoch)));
    assert_eq!(store.meta().epoch, Epoch(epoch));
    assert_eq!(store.health(), Health::Ready);
    assert!(matches!(feed.recv().await, Ok(FeedBatch::Gap { .. })));
    let again = key(&format!("again{epoch}"));
    commit(store, grant(&again, Revision::ABSENT, "w1", 1)).await;
    // What the log kept from before may come first.
    let mut heard = Heard::default();
    while !heard.seqs.contains_key(&again) {
        let next = heard.total() + 1;
        listen_on(&mut feed, next, &mut heard).await;
    }
    assert_eq!(heard.seqs[&again], [1]);
    assert_eq!(store.witness().epoch, Epoch(epoch));
}

async fn reopen(url: &str, witness: Witness) -> std::sync::Arc<DynamoStore> {
    open_with(options(url), Some(witness)).await.unwrap()
}

#[tokio::test]
async fn a_store_that_is_the_same_opens_ready() {
    let endpoint = Endpoint::start();
    let store = open(&endpoint.url()).await;
    commit(&store, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    eventually("logged", async || store.stats().unlogged == 0).await;
    let witness = store.witness();
    drop(store);
    let store = reopen(&endpoint.url(), witness).await;
    assert_eq!(store.health(), Health::Ready);
    assert_eq!(store.meta().identity, witness.identity);
}

#[tokio::test]
async fn another_store_or_a_shorter_log_than_at_the_last_run_is_frozen() {
    let endpoint = Endpoint::start();
    let store = open(&endpoint.url()).await;
    let witness = store.witness();
    store.close().await;
    let other = Witness { identity: Nonce(1), ..witness };
    let store = reopen(&endpoint.url(), other).await;
    assert!(refuses(&store).await);
    thaw(&store, 1).await;
    let witness = store.witness();
    store.close().await;
    // A witness of an epoch that was left says nothing.
    let store = reopen(&endpoint.url(), other).await;
    assert_eq!(store.health(), Health::Ready);
    store.close().await;
    let ahead = Witness { highest: Revision(witness.highest.0 + 100), ..witness };
    let store = reopen(&endpoint.url(), ahead).await;
    assert!(refuses(&store).await);
    assert_eq!(store.witness(), ahead, "what was known before, for the next start");
    thaw(&store, 2).await;
}

#[tokio::test]
async fn a_restored_table_is_frozen_until_the_epoch_is_raised() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let store = open(&url).await;
    commit(&store, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    store.close().await;
    // A copy of the items under another table, as a restore makes it.
    let client = client(&url);
    let items = client.scan().table_name(TABLE).send().await.unwrap();
    client.delete_table().table_name(TABLE).send().await.unwrap();
    let empty = open(&url).await;
    empty.close().await;
    for item in items.items() {
        let put = client.put_item().table_name(TABLE).set_item(Some(item.clone()));
        put.send().await.unwrap();
    }
    let store = open(&url).await;
    assert!(refuses(&store).await);
    let found = store.read(&key("k")).await.unwrap().unwrap();
    thaw(&store, 1).await;
    commit(&store, grant(&key("k"), found.revision, "w2", 2)).await;
}

#[tokio::test]
async fn a_store_that_loses_its_own_record_freezes_while_it_runs() {
    let endpoint = Endpoint::start();
    let store = open(&endpoint.url()).await;
    delete(&endpoint.url(), "meta", "meta").await;
    assert!(store.refresh_meta().await.is_err());
    assert!(refuses(&store).await);
}

#[tokio::test]
async fn a_table_that_was_made_anew_freezes_the_stores_on_it() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let store = open(&url).await;
    let revision = commit(&store, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    eventually("logged", async || store.stats().unlogged == 0).await;
    client(&url).delete_table().table_name(TABLE).send().await.unwrap();
    let gone = store.compare_and_set(grant(&key("k"), revision, "w1", 2)).await;
    assert!(matches!(gone, WriteOutcome::Refused(_)), "{gone:?}");
    assert!(matches!(store.health(), Health::Degraded(_)), "{:?}", store.health());
    let other = open(&url).await;
    eventually("frozen", async || matches!(store.health(), Health::Frozen(_))).await;
    assert!(refuses(&store).await);
    assert_eq!(other.health(), Health::Ready);
}

#[tokio::test]
async fn a_log_that_went_back_freezes_the_stores_on_it() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let store = open(&url).await;
    commit(&store, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    eventually("logged", async || store.stats().unlogged == 0).await;
    let before = store.witness();
    for number in 1..=store.stats().log_head {
        delete(&url, "log", &format!("{number:020}")).await;
    }
    eventually("frozen", async || matches!(store.health(), Health::Frozen(_))).await;
    assert_eq!(store.witness(), before);
    thaw(&store, 1).await;
    assert_eq!(store.witness().epoch, Epoch(1));
}

#[tokio::test]
async fn an_epoch_that_another_node_raised_freezes_until_it_is_read() {
    let endpoint = Endpoint::start();
    let (a, b) = (open(&endpoint.url()).await, open(&endpoint.url()).await);
    let identity = SystemEntropy::new().nonce();
    raise(&*a, identity, Epoch(3), false).await.unwrap();
    a.refresh_meta().await.unwrap();
    assert_eq!(a.health(), Health::Ready, "who raised it goes on");
    eventually("frozen", async || matches!(b.health(), Health::Frozen(_))).await;
    assert_eq!(b.refresh_meta().await.unwrap().epoch, Epoch(3));
    assert_eq!(b.health(), Health::Ready);
    commit(&b, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
}

#[tokio::test]
async fn while_a_restore_fills_a_table_nobody_else_has_it() {
    let endpoint = Endpoint::start();
    let url = endpoint.url();
    let to_restore = || open_with(Options { restore: true, ..options(&url) }, None);
    let node = open(&url).await;
    let (first, second) = (to_restore().await.unwrap(), to_restore().await.unwrap());
    assert!(!first.is_restoring().await.unwrap());
    raise(&*first, Nonce(4), Epoch(1), true).await.unwrap();
    assert_eq!(first.refresh_meta().await.unwrap().epoch, Epoch(1));
    assert_eq!(first.health(), Health::Ready, "who restores goes on");
    assert!(second.is_restoring().await.unwrap());
    eventually("the node sees it", async || matches!(node.health(), Health::Frozen(_))).await;
    let refused = node.refresh_meta().await.unwrap_err();
    assert!(refused.to_string().contains("a restore into it"), "{refused}");
    assert!(raise(&*node, Nonce(9), Epoch(5), false).await.is_err(), "the mark stays");
    assert!(refuses(&node).await);
    let opened = open_with(options(&url), None).await;
    assert!(matches!(opened, Err(DynamoOpenError::Restoring { .. })), "{opened:?}");
    // It is done again by another one, and the first has no say any more.
    raise(&*second, Nonce(5), Epoch(2), true).await.unwrap();
    second.refresh_meta().await.unwrap();
    assert!(first.end_restore().await.is_err());
    assert!(second.is_restoring().await.unwrap());
    second.end_restore().await.unwrap();
    second.end_restore().await.expect("once is as good as twice");
    assert!(!second.is_restoring().await.unwrap());
    assert_eq!(node.refresh_meta().await.unwrap().epoch, Epoch(2));
    assert_eq!(node.health(), Health::Ready);
}
