//! Conditional writes, and what is read after them.

use std::time::Duration;

use futures_util::future::join_all;
use tenure::{
    lease::{CodecError, Record, Revision, StoreError},
    store::{LeaseStore, Range, WriteOutcome},
};

use crate::nats::harness::{committed, context, grant, held, key, open, overwrite, ready};

use crate::support::nats_server::{Server, Sync};

#[tokio::test]
async fn of_two_writes_that_expect_the_same_one_is_committed_and_the_other_told_which() {
    let server = Server::start();
    let (a, b) = (open(&server.url()).await, open(&server.url()).await);
    let writes = (0..32).map(|n| {
        let store = if n % 2 == 0 { &a } else { &b };
        store.compare_and_set(grant("k", Revision::ABSENT, &format!("w{n}"), 1))
    });
    let outcomes = join_all(writes).await;
    let won: Vec<_> = outcomes.iter().filter(|o| matches!(o, WriteOutcome::Committed(_))).collect();
    assert_eq!(won.len(), 1, "{outcomes:?}");
    let revision = committed(won[0].clone());
    for outcome in &outcomes {
        if let WriteOutcome::Conflict(found) = outcome {
            let found = found.as_ref().expect("the winner");
            assert_eq!(found.revision, revision);
            assert_eq!(found.record.as_ref().unwrap().token(revision).0, revision.0);
        }
    }
    let read = b.read(&key("k")).await.unwrap().expect("it was written");
    assert_eq!(read.revision, revision);
}

#[tokio::test]
async fn many_writes_are_on_their_way_at_once() {
    // Which syncs none of them: a slow disk has a thousand syncs to do before the last call's time is up.
    let server = Server::start_with(Sync::Default, "");
    let store = open(&server.url()).await;
    // The server stands still: nothing is answered, and everything was sent.
    server.pause();
    let writes: Vec<_> = (0..1000)
        .map(|n| store.compare_and_set(grant(&format!("k{n}"), Revision::ABSENT, "w", 1)))
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.resume();
    let outcomes = join_all(writes).await;
    assert!(outcomes.iter().all(|o| matches!(o, WriteOutcome::Committed(_))), "{:?}", outcomes[0]);
    assert_eq!(store.stats().keys, 1000);
}

#[tokio::test]
async fn a_write_of_ones_own_is_scanned_at_once_in_the_order_of_bytes() {
    let server = Server::start();
    let store = open(&server.url()).await;
    let names = ["b", "a/=", "a/ü 🦀*>.", "a/0", "A"];
    for name in names {
        committed(store.compare_and_set(grant(name, Revision::ABSENT, "w", 1)).await);
    }
    let scan = |prefix: &str, after: Option<&str>, limit| {
        let range = Range { prefix: prefix.into(), after: after.map(Into::into), limit };
        let found = store.scan(range);
        async { found.await.unwrap().into_iter().map(|(k, _)| k.to_string()).collect::<Vec<_>>() }
    };
    assert_eq!(scan("", None, 9).await, ["A", "a/0", "a/=", "a/ü 🦀*>.", "b"]);
    assert_eq!(scan("a/", None, 9).await, ["a/0", "a/=", "a/ü 🦀*>."]);
    assert_eq!(scan("a/", Some("a/0"), 1).await, ["a/="]);
    let other = open(&server.url()).await;
    assert_eq!(other.stats(), store.stats());
}

#[tokio::test]
async fn a_key_that_was_removed_by_hand_is_absent_and_its_next_token_is_higher() {
    let server = Server::start();
    let store = open(&server.url()).await;
    let kv = context(&server.url()).await.get_key_value("leases").await.unwrap();
    let last = overwrite(&store, "jobs/1", Revision::ABSENT, 1..=3).await;
    assert!(kv.get("l.jobs/1").await.unwrap().is_some(), "the usual tools find it by its name");
    kv.delete("l.jobs/1").await.unwrap();
    assert!(store.read(&key("jobs/1")).await.unwrap().is_none());
    let stale = store.compare_and_set(grant("jobs/1", last, "w", 4)).await;
    assert!(matches!(stale, WriteOutcome::Conflict(None)), "{stale:?}");
    let next = committed(store.compare_and_set(grant("jobs/1", Revision::ABSENT, "w", 1)).await);
    assert!(next > last);
    kv.purge("l.jobs/1").await.unwrap();
    let next2 = overwrite(&store, "jobs/1", Revision::ABSENT, 1..=2).await;
    assert!(next2 > next);
    // And without a mark.
    let stream = context(&server.url()).await.get_stream("KV_leases").await.unwrap();
    stream.purge().filter("$KV.leases.l.jobs/1").await.unwrap();
    assert!(store.read(&key("jobs/1")).await.unwrap().is_none());
    assert!(overwrite(&store, "jobs/1", Revision::ABSENT, 1..=1).await > next2);
}

#[tokio::test]
async fn what_cannot_be_read_is_one_keys_trouble() {
    let server = Server::start();
    let store = open(&server.url()).await;
    committed(store.compare_and_set(grant("good", Revision::ABSENT, "w", 1)).await);
    let context = context(&server.url()).await;
    let put = |subject: &'static str, bytes: Vec<u8>| {
        let sent = context.publish(subject, bytes.into());
        async { sent.await.unwrap().await.unwrap().sequence }
    };
    let good = context.get_stream("KV_leases").await.unwrap();
    let good = good.get_last_raw_message_by_subject("$KV.leases.l.good").await.unwrap().payload;
    put("$KV.leases.l.junk", b"junk".to_vec()).await;
    put("$KV.leases.l.empty", Vec::new()).await;
    let alien = put("$KV.leases.l.alien", good.to_vec()).await;
    put("$KV.leases.l.no.key", b"junk".to_vec()).await;
    put("$KV.leases.l.=61", b"junk".to_vec()).await;
    let expect = |name: &'static str| {
        let read = store.read(&key(name));
        async { read.await.unwrap().expect("a message").record.unwrap_err() }
    };
    assert_eq!(expect("junk").await, CodecError::Checksum);
    assert_eq!(expect("empty").await, CodecError::Truncated);
    assert!(matches!(expect("alien").await, CodecError::Malformed(_)));
    // Held by somebody unknown: a write has to expect what is there.
    let over = store.compare_and_set(grant("alien", Revision::ABSENT, "w", 1)).await;
    assert!(matches!(over, WriteOutcome::Conflict(Some(f)) if f.revision == Revision(alien)));
    let again = open(&server.url()).await;
    assert_eq!(again.stats().keys, 4);
    ready(&again).await;
    committed(again.compare_and_set(grant("alien", Revision(alien), "w", 1)).await);
}

#[tokio::test]
async fn nodes_are_written_found_and_forgotten_without_a_trace() {
    use tenure::lease::{Moment, NodeRecord, NodeState, Nonce};
    use tenure::store::{NodeOutcome, SharedStore};
    let server = Server::start();
    let (a, b) = (open(&server.url()).await, open(&server.url()).await);
    let node = |n: u128| NodeRecord {
        state: NodeState::Alive,
        until: Moment(9),
        ..NodeRecord::unseen(Nonce(n), Nonce(1))
    };
    for n in 1..=3 {
        let NodeOutcome::Committed(first) = a.write_node(Revision::ABSENT, node(n)).await else {
            panic!("not written");
        };
        assert_eq!(b.write_node(Revision::ABSENT, node(n)).await, NodeOutcome::Conflict);
        let found = b.read_node(Nonce(n)).await.unwrap().unwrap();
        assert_eq!((found.revision, found.record.unwrap()), (first, node(n)));
    }
    let all = b.scan_nodes().await.unwrap();
    assert_eq!(all.iter().map(|f| f.incarnation.0).collect::<Vec<_>>(), [1, 2, 3]);
    let revision = all[1].revision;
    a.forget_node(Nonce(2), revision).await.unwrap();
    assert!(b.read_node(Nonce(2)).await.unwrap().is_none());
    assert_eq!(b.scan_nodes().await.unwrap().len(), 2);
    let stream = context(&server.url()).await.get_stream("KV_leases").await.unwrap();
    let gone = stream.get_last_raw_message_by_subject(&format!("$KV.leases.n.{}", Nonce(2))).await;
    assert!(gone.is_err(), "the mark is removed too");
    assert!(
        matches!(a.write_node(Revision::ABSENT, node(2)).await, NodeOutcome::Committed(r) if r > revision)
    );
    assert!(a.forget_node(Nonce(3), Revision(1)).await.is_err());
    // The feed of the other node goes past what was swept.
    ready(&b).await;
}

#[tokio::test]
async fn a_record_that_is_longer_than_the_server_permits_is_refused_for_good() {
    let server = Server::start_with(Sync::Default, "max_payload: 4096");
    let store = open(&server.url()).await;
    let mut long = grant("k", Revision::ABSENT, "w", 1);
    let value = Some("x".repeat(5_000).into());
    long.record = std::sync::Arc::new(Record { value, ..held("w", 1) });
    let outcome = store.compare_and_set(long).await;
    assert!(matches!(outcome, WriteOutcome::Refused(StoreError::TooLong(_))), "{outcome:?}");
    committed(store.compare_and_set(grant("k", Revision::ABSENT, "w", 1)).await);
}
