//! A store that is not what it was grants nothing until its epoch is raised.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tenure::{
    lease::{Epoch, Nonce, Revision, StoreError},
    store::{
        FeedBatch, Health, LeaseStore, SharedStore, Witness, WriteOutcome,
        nats::{NatsOpenError, Options},
    },
};

use crate::nats::harness::{
    STREAM, committed, context, eventually, fresh, frozen, grant, held, key, open, open_with,
    options, overwrite, ready, usual,
};

use crate::{
    stores::lab::raise,
    support::{
        clock::sleep_ms,
        nats_server::{Server, Sync},
    },
};

/// How long the store checks again before it believes that it went backwards.
const BELIEVES_AFTER_MS: u64 = 4_000;

async fn refuses(store: &impl LeaseStore) {
    let outcome = store.compare_and_set(grant("k", Revision::ABSENT, "w", 9)).await;
    let refused = matches!(outcome, WriteOutcome::Refused(StoreError::Unavailable(_)));
    assert!(refused, "{outcome:?}");
}

#[tokio::test]
async fn a_deleted_bucket_freezes_and_a_raised_epoch_thaws() {
    let server = Server::start();
    let (a, b) = (open(&server.url()).await, open(&server.url()).await);
    let last = overwrite(&a, "k", Revision::ABSENT, 1..=20).await;
    let old = a.read(&key("k")).await.unwrap().unwrap();
    let old = old.record.unwrap().token(last);
    let known = a.witness();
    assert_eq!((known.identity, known.highest), (Nonce(3), last));
    context(&server.url()).await.delete_stream(STREAM).await.unwrap();
    frozen(&a).await;
    frozen(&b).await;
    refuses(&*a).await;
    assert_eq!(a.witness(), known, "what it was is remembered");
    assert!(a.refresh_meta().await.is_err());

    let mut feed = b.feed();
    assert!(raise(&*a, Nonce(4), Epoch(0), false).await.is_err());
    raise(&*a, Nonce(4), Epoch(1), false).await.unwrap();
    for store in [&a, &b] {
        let meta = store.refresh_meta().await.unwrap();
        assert_eq!((meta.identity, meta.epoch), (Nonce(4), Epoch(1)));
        assert_eq!(store.health(), Health::Ready);
        assert!(store.read(&key("k")).await.unwrap().is_none());
        assert_eq!(store.stats().keys, 0);
    }
    assert!(matches!(feed.recv().await, Ok(FeedBatch::Gap { .. })));
    let mut again = grant("k", Revision::ABSENT, "w", 1);
    again.record = std::sync::Arc::new(tenure::lease::Record { epoch: Epoch(1), ..held("w", 1) });
    let revision = committed(a.compare_and_set(again).await);
    assert!(revision < last, "the stream numbers anew");
    let found = b.read(&key("k")).await.unwrap().unwrap();
    assert!(found.record.unwrap().token(revision) > old, "and tokens go on");
    assert!(matches!(feed.recv().await, Ok(FeedBatch::Changes(_))));
    assert_eq!(a.witness().epoch, Epoch(1));
}

#[tokio::test]
async fn a_bucket_that_was_made_again_freezes_whoever_knew_the_first() {
    let server = Server::start();
    let a = open(&server.url()).await;
    overwrite(&a, "k", Revision::ABSENT, 1..=20).await;
    let known = a.witness();
    context(&server.url()).await.delete_stream(STREAM).await.unwrap();
    let b = open_with(options(&server.url()), fresh(4), None).await.unwrap();
    ready(&b).await;
    frozen(&a).await;
    refuses(&*a).await;
    // And after a restart of the node that knew it.
    let a = open_with(options(&server.url()), fresh(5), Some(known)).await.unwrap();
    frozen(&a).await;
    refuses(&*a).await;
    assert_eq!(a.witness(), known);
    // An epoch that is not above what it knew does not do; see the next test for one that does.
    let known = Witness { epoch: Epoch(7), ..known };
    let a = open_with(options(&server.url()), fresh(5), Some(known)).await.unwrap();
    assert!(raise(&*a, Nonce(9), Epoch(7), false).await.is_err());
    raise(&*a, Nonce(9), Epoch(8), false).await.unwrap();
    a.refresh_meta().await.unwrap();
    ready(&a).await;
    // The other one was not told: it freezes until it takes the epoch up.
    frozen(&b).await;
    b.refresh_meta().await.unwrap();
    ready(&b).await;
    assert_eq!(b.meta().epoch, Epoch(8));
}

#[tokio::test]
async fn while_a_restore_fills_a_bucket_nobody_else_has_it() {
    let server = Server::start();
    let open = |identity| {
        let options = Options { restore: true, ..options(&server.url()) };
        open_with(options, fresh(identity), None)
    };
    let node = super::harness::open(&server.url()).await;
    let (first, second) = (open(3).await.unwrap(), open(3).await.unwrap());
    assert!(!first.is_restoring().await.unwrap());
    raise(&*first, Nonce(4), Epoch(1), true).await.unwrap();
    assert_eq!(first.refresh_meta().await.unwrap().epoch, Epoch(1));
    assert_eq!(first.health(), Health::Ready, "who restores goes on");
    assert!(second.is_restoring().await.unwrap());
    eventually("the node sees it", async || matches!(node.health(), Health::Frozen(_))).await;
    let refused = node.refresh_meta().await.unwrap_err();
    assert!(refused.to_string().contains("a restore into it"), "{refused}");
    assert!(raise(&*node, Nonce(9), Epoch(5), false).await.is_err(), "the mark stays");
    refuses(&*node).await;
    let opened = open_with(options(&server.url()), fresh(3), None).await;
    assert!(matches!(opened, Err(NatsOpenError::Restoring { .. })), "{opened:?}");
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

#[tokio::test]
async fn a_stream_below_what_was_seen_freezes() {
    let server = Server::start();
    let a = open(&server.url()).await;
    let last = overwrite(&a, "k", Revision::ABSENT, 1..=3).await;
    let known = a.witness();
    a.close().await;
    let open = |witness| open_with(options(&server.url()), fresh(3), Some(witness));
    assert_eq!(open(known).await.unwrap().health(), Health::Ready);
    let more = Witness { highest: Revision(last.0 + 1), ..known };
    let store = open(more).await.unwrap();
    assert!(matches!(store.health(), Health::Frozen(why) if why.contains("backwards")));
    assert_eq!(store.witness(), more);
    let other = Witness { identity: Nonce(8), ..known };
    assert!(matches!(open(other).await.unwrap().health(), Health::Frozen(_)));
    raise(&*store, Nonce(6), Epoch(1), false).await.unwrap();
    store.refresh_meta().await.unwrap();
    assert_eq!(store.health(), Health::Ready);
    assert_eq!(open(known).await.unwrap().health(), Health::Ready, "a higher epoch explains it");
}

/// What a leader answers that was just elected: it has not applied the log's end, and takes no writes yet.
async fn newly_elected(url: &str, info: Value, last: u64) -> Arc<AtomicU64> {
    answers_instead(url, format!("$JS.API.STREAM.INFO.{STREAM}"), info, last).await
}

/// Answers for the stream on a subject, as a leader that knows no more of it than this.
async fn answers_instead(url: &str, subject: String, mut info: Value, last: u64) -> Arc<AtomicU64> {
    info["state"]["last_seq"] = json!(last);
    let peer = json!({ "name": "n", "current": true, "active": 1_000_000 });
    info["cluster"] = json!({ "name": "c", "leader": "n0", "replicas": [peer, peer] });
    let client = async_nats::connect(url).await.expect("the server runs");
    let mut requests = client.subscribe(subject).await.expect("a subscription");
    client.flush().await.expect("the server knows it");
    let answered = Arc::new(AtomicU64::new(0));
    let count = answered.clone();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let answer = info.to_string().into();
            client.publish(request.reply.expect("an inbox"), answer).await.expect("sent");
            count.fetch_add(1, Relaxed);
        }
    });
    answered
}

#[tokio::test]
async fn a_leader_that_takes_no_writes_yet_is_not_believed_to_know_the_end_of_the_stream() {
    let mut server = Server::start();
    let store = open_with(usual(&server.url()), fresh(3), None).await.unwrap();
    let last = overwrite(&store, "k", Revision::ABSENT, 1..=3).await;
    let streams = context(&server.url()).await;
    let info: Value = streams.request(format!("STREAM.INFO.{STREAM}"), &json!({})).await.unwrap();
    server.kill();
    server.run_without_streams();
    let answered = newly_elected(&server.url(), info, last.0 - 1).await;
    sleep_ms(BELIEVES_AFTER_MS * 3 / 2).await;
    assert!(answered.load(Relaxed) > 8, "the store asked");
    assert!(matches!(store.health(), Health::Degraded(_)), "{:?}", store.health());
    server.kill();
    server.run();
    ready(&store).await;
    overwrite(&store, "k", last, 4..=5).await;
}

/// A leader that falls behind answers for the stream, while the followers deliver what others write.
#[tokio::test]
async fn a_stream_that_delivers_more_has_not_gone_backwards() {
    let mut server = Server::start();
    let store = open_with(usual(&server.url()), fresh(3), None).await.unwrap();
    let last = overwrite(&store, "k", Revision::ABSENT, 1..=3).await;
    let streams = context(&server.url()).await;
    let info: Value = streams.request(format!("STREAM.INFO.{STREAM}"), &json!({})).await.unwrap();
    server.kill();
    let behind = "leader.that.is.behind";
    server.run_with(&format!("mappings: {{ \"$JS.API.STREAM.INFO.{STREAM}\": {behind} }}"));
    let answered = answers_instead(&server.url(), behind.to_owned(), info, last.0 - 1).await;
    let subject = "$KV.leases.another";
    for _ in 0..(2 * BELIEVES_AFTER_MS / 200) {
        let sent = streams.publish(subject, "anything".into()).await.expect("sent");
        sent.await.expect("it is stored");
        sleep_ms(200).await;
    }
    assert!(answered.load(Relaxed) > 8, "the store asked");
    assert!(matches!(store.health(), Health::Degraded(_)), "{:?}", store.health());
    overwrite(&store, "k", last, 4..=5).await;
    server.kill();
    server.run();
    ready(&store).await;
}

/// The server lets the opening node read everything, and takes none of its writes.
#[tokio::test]
async fn an_opening_node_does_not_believe_a_leader_that_takes_no_writes_yet() {
    let users = "authorization { users = [ { user: all, password: p }, \
                 { user: reader, password: p, permissions: { publish: { deny: [ \"$KV.>\" ] } } } ] }";
    let server = Server::start_with(Sync::Always, users);
    let by = |user: &str, options: Options| Options {
        user: Some(user.to_owned()),
        password: Some("p".to_owned()),
        ..options
    };
    let store = open_with(by("all", options(&server.url())), fresh(3), None).await.unwrap();
    let last = overwrite(&store, "k", Revision::ABSENT, 1..=3).await;
    let more = Witness { highest: Revision(last.0 + 1), ..store.witness() };
    store.close().await;
    let patience = Duration::from_millis(500);
    let reader = Options { request_timeout: patience, ..by("reader", usual(&server.url())) };
    let opened = open_with(reader, fresh(3), Some(more)).await;
    let Err(NatsOpenError::JetStream { why }) = opened else { panic!("{opened:?}") };
    assert!(why.contains("takes no writes"), "{why}");
    let store = open_with(by("all", options(&server.url())), fresh(3), Some(more)).await.unwrap();
    assert!(matches!(store.health(), Health::Frozen(_)), "whoever may write finds out");
}

#[tokio::test]
async fn a_store_without_its_own_record_freezes() {
    let server = Server::start();
    let a = open(&server.url()).await;
    let kv = context(&server.url()).await.get_key_value("leases").await.unwrap();
    kv.purge("meta").await.unwrap();
    frozen(&a).await;
    refuses(&*a).await;
}
