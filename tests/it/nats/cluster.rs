//! Three servers, three copies.

use std::time::Duration;

use async_nats::HeaderMap;
use futures_util::future::join_all;
use tenure::{
    lease::Revision,
    store::{
        Gate, LeaseStore, WriteOutcome,
        nats::{NatsOpenError, NatsStore, Options},
    },
};

use crate::nats::{
    feed::Listener,
    harness::{
        BUCKET, STREAM, context, eventually, fresh, grant, key, open_with, overwrite, ready,
    },
};

use crate::support::nats_server::{Cluster, Sync};

fn three(cluster: &Cluster) -> Options {
    Options::new(cluster.url(), BUCKET)
}

/// Which server leads the stream.
async fn leader(cluster: &Cluster) -> Option<usize> {
    let stream = context(&cluster.url()).await.get_stream(STREAM).await.ok()?;
    let leader = stream.cached_info().cluster.as_ref()?.leader.clone()?;
    leader.strip_prefix('s')?.parse().ok()
}

/// Writes a key until the write is committed; the revision. Unknown outcomes are settled by reading.
async fn persist(store: &NatsStore, name: &str, before: Revision, seq: u64) -> Revision {
    for _ in 0..200 {
        match store.compare_and_set(grant(name, before, "w", seq)).await {
            WriteOutcome::Committed(revision) => return revision,
            WriteOutcome::Conflict(Some(found)) => {
                let mine = found.record.as_ref().is_ok_and(|record| record.seq == seq);
                assert!(mine, "nobody else writes it: {found:?}");
                return found.revision;
            }
            WriteOutcome::Conflict(None) => panic!("the record is gone"),
            WriteOutcome::Refused(_) | WriteOutcome::Unknown(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    panic!("not written in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_when_the_leader_dies_or_stands_still_and_nothing_is_lost() {
    let mut cluster = Cluster::start(Sync::Default);
    let a = open_with(three(&cluster), fresh(3), None).await.unwrap();
    let b = open_with(three(&cluster), fresh(4), None).await.unwrap();
    let mut listener = Listener::new(&b);
    let mut last = Revision::ABSENT;
    let mut written = Vec::new();
    for seq in 1..=5 {
        last = overwrite(&a, "k", last, seq..=seq).await;
        written.push((seq, last));
    }
    for (round, kill) in [(0, true), (1, false)] {
        let down = leader(&cluster).await.expect("a leader");
        if kill {
            cluster.servers[down].kill();
        } else {
            cluster.servers[down].pause();
        }
        for seq in (6 + round * 5)..=(10 + round * 5) {
            let next = persist(&a, "k", last, seq).await;
            assert!(next > last);
            last = next;
            written.push((seq, last));
        }
        if kill {
            cluster.servers[down].run();
        } else {
            cluster.servers[down].resume();
        }
        ready(&a).await;
        ready(&b).await;
        eventually("the stream has a leader", || async { leader(&cluster).await.is_some() }).await;
    }
    // An election takes some 7 s, and sometimes more than the 15 s after which the store is loaded again. Then the
    // listener is told that changes up to a position were lost.
    let heard = listener.until("k", last).await;
    for (seq, revision) in written {
        let lost = listener.gaps > 0 && revision <= listener.resume.revision;
        assert!(heard.contains(&seq) || lost, "{seq} is missing: {listener:?}");
    }
    // A read may meet the election of the next leader.
    eventually("the last write is read", async || {
        let found = b.read(&key("k")).await;
        found.is_ok_and(|found| found.is_some_and(|found| found.revision == last))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rivals_on_three_servers_never_both_win() {
    let cluster = Cluster::start(Sync::Default);
    let mut stores = Vec::new();
    for server in &cluster.servers {
        let options = Options { url: server.url(), ..three(&cluster) };
        stores.push(open_with(options, fresh(3), None).await.unwrap());
    }
    let mut last = Revision::ABSENT;
    for seq in 1..=30 {
        let writes =
            (0..9).map(|n| stores[n % 3].compare_and_set(grant("k", last, &format!("w{n}"), seq)));
        let outcomes = join_all(writes).await;
        let won: Vec<Revision> = outcomes
            .iter()
            .filter_map(|o| if let WriteOutcome::Committed(r) = o { Some(*r) } else { None })
            .collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        for outcome in outcomes {
            if let WriteOutcome::Conflict(found) = &outcome {
                assert_eq!(found.as_ref().map(|f| f.revision), Some(won[0]), "{outcome:?}");
            }
        }
        last = won[0];
    }
}

/// A consumer that was just made is not known to every server yet, and a request for its messages finds
/// nobody: a start takes that for a beginning and not for a failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_opened_again_and_again() {
    let cluster = Cluster::start(Sync::Default);
    let a = open_with(three(&cluster), fresh(3), None).await.unwrap();
    overwrite(&a, "k", Revision::ABSENT, 1..=5).await;
    for round in 0..20 {
        let stores = cluster.servers.iter().map(|server| {
            let options = Options { url: server.url(), ..three(&cluster) };
            open_with(options, fresh(3), None)
        });
        for (server, store) in join_all(stores).await.into_iter().enumerate() {
            let store = store.unwrap_or_else(|why| panic!("round {round}, server {server}: {why}"));
            assert!(store.read(&key("k")).await.unwrap().is_some());
        }
    }
}

#[tokio::test]
async fn a_gate_holds_on_a_replicated_stream_and_a_single_copy_is_refused() {
    let cluster = Cluster::start(Sync::Default);
    let single = Options { replicas: 1, ..three(&cluster) };
    let why = open_with(single, fresh(3), None).await.expect_err("a single copy");
    assert!(matches!(&why, NatsOpenError::Unfit { .. }), "{why}");
    let context = context(&cluster.url()).await;
    assert!(context.get_stream(STREAM).await.is_err(), "and was not made");

    let store = open_with(three(&cluster), fresh(3), None).await.unwrap();
    let first = overwrite(&store, "k", Revision::ABSENT, 1..=1).await;
    let mut passed = Vec::new();
    for round in 0..2 {
        let found = store.read(&key("k")).await.unwrap().unwrap();
        let gate = store.gate(&key("k"), &found);
        let Some(Gate::Nats { publish_prefix, subject, .. }) = gate else { panic!("{gate:?}") };
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", first.0.to_string());
        headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", subject);
        let to = format!("{publish_prefix}orders");
        let sent = context.publish_with_headers(to, headers, "work".into()).await.unwrap().await;
        passed.push(sent.is_ok());
        if round == 0 {
            overwrite(&store, "k", first, 2..=2).await;
        }
    }
    assert_eq!(passed, [true, false]);
}
