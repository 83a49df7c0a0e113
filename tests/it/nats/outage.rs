//! The server restarts, stands still, loses its files; the wire breaks.

use std::time::Duration;

use futures_util::future::join_all;
use tenure::{
    lease::{Moment, NodeRecord, NodeState, Nonce, Revision},
    store::{
        Health, LeaseStore, NodeOutcome, Position, Range, SharedStore, WriteOutcome, nats::Options,
    },
};
use tokio::time::timeout;

use crate::nats::{
    feed::Listener,
    harness::{
        committed, eventually, fresh, frozen, grant, key, open, open_with, options, overwrite,
        ready, usual,
    },
};
use crate::support::proxy::{Proxy, Way};

use crate::support::nats_server::Server;

#[tokio::test]
async fn a_killed_server_comes_back_with_everything_and_the_feed_has_no_gap() {
    let mut server = Server::start();
    let store = open(&server.url()).await;
    let mut listener = Listener::new(&store);
    let mut last = overwrite(&store, "k", Revision::ABSENT, 1..=5).await;
    for round in 0..3 {
        server.kill();
        eventually("it is noticed", || async { matches!(store.health(), Health::Degraded(_)) })
            .await;
        let away = store.compare_and_set(grant("k", last, "w", 99)).await;
        assert!(matches!(away, WriteOutcome::Refused(_)), "nothing can be sent: {away:?}");
        server.run();
        ready(&store).await;
        last = overwrite(&store, "k", last, (6 + round * 5)..=(10 + round * 5)).await;
        listener.seqs("k", 10 + round * 5).await;
    }
    assert_eq!(listener.seqs("k", 20).await, (1..=20).collect::<Vec<_>>());
    assert_eq!(listener.gaps, 0);
    let read = store.read(&key("k")).await.unwrap().unwrap();
    assert_eq!(read.revision, last);
}

#[tokio::test]
async fn every_call_ends_within_seconds_while_the_server_stands_still_or_is_away() {
    let mut server = Server::start();
    let store = open_with(usual(&server.url()), fresh(3), None).await.unwrap();
    let first = overwrite(&store, "k", Revision::ABSENT, 1..=1).await;
    let limit = Duration::from_secs(9);
    for away in [false, true] {
        if away {
            server.kill();
        } else {
            server.pause();
        }
        let node = NodeRecord {
            state: NodeState::Alive,
            until: Moment(1),
            ..NodeRecord::unseen(Nonce(1), Nonce(1))
        };
        let read = timeout(limit, store.read(&key("k")));
        let write = timeout(limit, store.compare_and_set(grant("k", first, "w", 2)));
        let wrote = timeout(limit, store.write_node(Revision::ABSENT, node));
        let nodes = timeout(limit, store.scan_nodes());
        let ahead = Position { revision: Revision(1000), index: 0 };
        let history = timeout(limit, store.history(ahead, 10));
        let meta = timeout(limit, store.refresh_meta());
        let scan = timeout(limit, store.scan(Range { limit: 9, ..Range::default() }));
        let (read, write, wrote, nodes, history, meta, scan) =
            tokio::join!(read, write, wrote, nodes, history, meta, scan);
        assert!(read.unwrap().is_err() && nodes.unwrap().is_err() && meta.unwrap().is_err());
        assert!(history.unwrap().is_err());
        assert!(matches!(write.unwrap(), WriteOutcome::Unknown(_) | WriteOutcome::Refused(_)));
        assert!(matches!(wrote.unwrap(), NodeOutcome::Unknown(_) | NodeOutcome::Refused(_)));
        assert_eq!(scan.unwrap().unwrap().len(), 1, "a scan answers from memory");
        eventually("it is noticed", || async { matches!(store.health(), Health::Degraded(_)) })
            .await;
        if !away {
            server.resume();
            ready(&store).await;
        }
    }
    timeout(limit, store.close()).await.expect("it ends, with no server");
    let closed = store.compare_and_set(grant("k", first, "w", 2)).await;
    assert!(matches!(closed, WriteOutcome::Refused(_)));
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown_and_happened_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.addr()).await;
    let quick = Options {
        request_timeout: Duration::from_millis(300),
        ..options(&format!("nats://{}", proxy.addr))
    };
    let store = open_with(quick, fresh(3), None).await.unwrap();
    let before = overwrite(&store, "k", Revision::ABSENT, 1..=1).await;
    proxy.set(Way::Deaf);
    let writes =
        (0..20).map(|n| store.compare_and_set(grant(&format!("n{n}"), Revision::ABSENT, "w", 1)));
    let outcomes = join_all(writes).await;
    assert!(outcomes.iter().all(|o| matches!(o, WriteOutcome::Unknown(_))), "{outcomes:?}");
    proxy.set(Way::Broken);
    proxy.set(Way::Open);
    ready(&store).await;
    for n in 0..20 {
        let found = store.read(&key(&format!("n{n}"))).await.unwrap().expect("it was sent");
        assert!(found.revision > before);
    }
    let other = open(&server.url()).await;
    let last = committed(other.compare_and_set(grant("k", before, "w", 2)).await);
    // 20 writes, and nothing twice: the sequences between are theirs.
    assert_eq!(last.0 - before.0, 21);
}

#[tokio::test]
async fn a_server_that_lost_its_files_freezes_the_store() {
    let mut server = Server::start();
    let store = open(&server.url()).await;
    overwrite(&store, "k", Revision::ABSENT, 1..=5).await;
    server.kill();
    server.wipe();
    server.run();
    frozen(&store).await;
    let refused = store.compare_and_set(grant("other", Revision::ABSENT, "w", 1)).await;
    assert!(matches!(refused, WriteOutcome::Refused(_)));
}
