//! Node records of stores that several nodes share.

use std::sync::Arc;

use tenure::{
    lease::{Epoch, Level, Moment, NodeRecord, NodeState, Nonce, Revision},
    store::{LeaseStore, NodeOutcome, SharedStore},
};

use crate::stores::{
    lab::{eventually, nonce, pages, soon},
    subject::{Subject, two},
};

fn record(incarnation: Nonce) -> NodeRecord {
    NodeRecord {
        nonce: nonce(),
        incarnation,
        state: NodeState::Alive,
        url: "http://10.0.0.1:7373".into(),
        version: "0.1.0".into(),
        load: 7,
        epoch: Epoch(0),
        ttl_ms: 3_000,
        written: Moment(u64::MAX - 1),
        until: Moment(u64::MAX),
        unseen: false,
        place: 5,
        common: tenure::lease::Common { policies: 6, access: 7 },
        level: Level(7),
    }
}

async fn written(store: &dyn SharedStore, expected: Revision, record: NodeRecord) -> Revision {
    match soon(store.write_node(expected, record)).await {
        NodeOutcome::Committed(revision) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

async fn read(store: &dyn SharedStore, incarnation: Nonce) -> Option<(Revision, NodeRecord)> {
    let found = soon(store.read_node(incarnation)).await.expect("it is read")?;
    assert_eq!(found.incarnation, incarnation);
    Some((found.revision, found.record.expect("a sound record")))
}

fn shared(stores: &[Arc<dyn LeaseStore>; 2]) -> Option<[&dyn SharedStore; 2]> {
    Some([stores[0].shared()?, stores[1].shared()?])
}

pub async fn a_node_record_is_written_under_its_revision(subject: &impl Subject) {
    let stores = two(subject).await;
    let Some([a, b]) = shared(&stores) else { return };
    let me = nonce();
    assert!(read(a, me).await.is_none());
    let nothing = soon(a.write_node(Revision(3), record(me))).await;
    assert_eq!(nothing, NodeOutcome::Conflict, "there is none to replace");
    let born = record(me);
    let first = written(a, Revision::ABSENT, born.clone()).await;
    assert_eq!(read(b, me).await, Some((first, born)));
    for expected in [Revision::ABSENT, Revision(first.0 + 1)] {
        assert_eq!(soon(b.write_node(expected, record(me))).await, NodeOutcome::Conflict);
    }
    let mut highest = first;
    for n in 0..5 {
        let renewed = NodeRecord { load: n, ..record(me) };
        let revision = written([a, b][n as usize % 2], highest, renewed.clone()).await;
        assert!(revision > highest);
        assert_eq!(read(a, me).await, Some((revision, renewed.clone())));
        assert_eq!(read(b, me).await, Some((revision, renewed)));
        highest = revision;
    }
    // Of many that judge it dead at once, one is heard.
    let dead = || record(me).terminal(NodeState::Dead, nonce());
    let verdicts = (0..16).map(|n| soon([a, b][n % 2].write_node(highest, dead())));
    let verdicts = futures_util::future::join_all(verdicts).await;
    let won = verdicts.iter().filter(|v| matches!(v, NodeOutcome::Committed(_))).count();
    let lost = verdicts.iter().filter(|v| **v == NodeOutcome::Conflict).count();
    assert_eq!((won, lost), (1, 15), "{verdicts:?}");
    assert!(pages(&stores[0], "", 100).await.is_empty(), "a node is not a lease");
}

pub async fn a_terminal_record_stays_until_it_is_forgotten(subject: &impl Subject) {
    let stores = two(subject).await;
    let Some([a, b]) = shared(&stores) else { return };
    let me = nonce();
    let mut long = record(me);
    long.url = format!("https://{}:65535/", "n".repeat(253)).into();
    let first = written(a, Revision::ABSENT, long.clone()).await;
    let drained = long.terminal(NodeState::Drained, nonce());
    let second = written(a, first, drained.clone()).await;
    assert_eq!(read(b, me).await, Some((second, drained.clone())));
    let stale = soon(b.write_node(first, record(me))).await;
    assert_eq!(stale, NodeOutcome::Conflict, "who was sent off does not come back");
    let again = subject.open().await;
    assert_eq!(read(again.shared().expect("shared"), me).await, Some((second, drained)));
    let refused = soon(b.forget_node(me, first)).await;
    assert!(refused.is_err() || read(a, me).await.is_some(), "under another revision it stays");
    assert!(read(a, me).await.is_some());
    soon(b.forget_node(me, second)).await.expect("it is forgotten");
    assert!(read(a, me).await.is_none());
    assert!(read(b, me).await.is_none());
    // A record that somebody makes because a lease names a node without one.
    let unseen = NodeRecord::unseen(me, nonce());
    let revision = written(a, Revision::ABSENT, unseen.clone()).await;
    assert_eq!(read(b, me).await, Some((revision, unseen)));
}

pub async fn every_handle_sees_every_node(subject: &impl Subject) {
    let stores = two(subject).await;
    let Some([a, b]) = shared(&stores) else { return };
    let mut all = Vec::new();
    for n in 0..12 {
        let mine = record(nonce());
        written([a, b][n % 2], Revision::ABSENT, mine.clone()).await;
        all.push(mine);
        for store in [a, b] {
            let mut seen: Vec<_> = soon(store.scan_nodes()).await.expect("scanned");
            seen.sort_by_key(|found| found.incarnation);
            let seen: Vec<_> = seen.into_iter().map(|found| found.record.expect("sound")).collect();
            let mut wanted = all.clone();
            wanted.sort_by_key(|record| record.incarnation);
            assert_eq!(seen, wanted, "a scan of nodes sees what was committed before");
        }
    }
    eventually("leases are listed without nodes", async || {
        pages(&stores[0], "", 100).await.is_empty()
    })
    .await;
}
