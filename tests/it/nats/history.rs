//! Changes after a position, also from before this node was started.

use tenure::{
    lease::Revision,
    store::{Committed, History, LeaseStore, Position, nats::NatsStore},
};

use crate::nats::{
    feed::Listener,
    harness::{committed, grant, open, overwrite},
};

use crate::support::nats_server::Server;

async fn changes(store: &NatsStore, after: Position, limit: usize) -> Vec<Committed> {
    match store.history(after, limit).await.unwrap() {
        History::Changes(changes) => changes,
        History::Gap { resume } => panic!("a gap up to {resume:?}"),
    }
}

fn what(changes: &[Committed]) -> Vec<(Position, String, u64)> {
    changes.iter().map(|c| (c.position, c.key.to_string(), c.change.token.0)).collect()
}

#[tokio::test]
async fn a_node_that_starts_has_the_history_of_those_before_it() {
    let mut server = Server::start();
    let store = open(&server.url()).await;
    let mut listener = Listener::new(&store);
    for n in 0..40 {
        overwrite(&store, &format!("k{n}"), Revision::ABSENT, 1..=5).await;
    }
    listener.seqs("k39", 5).await;
    let live = what(&listener.changes);
    store.close().await;
    server.kill();
    server.run();
    let store = open(&server.url()).await;
    assert_eq!(store.latest(), live.last().unwrap().0);
    assert_eq!(what(&changes(&store, store.earliest(), 1000).await), live);
    // In pieces, from anywhere.
    let mut after = live[16].0;
    let mut pieces = Vec::new();
    loop {
        let piece = changes(&store, after, 33).await;
        let Some(last) = piece.last() else { break };
        after = last.position;
        pieces.extend(what(&piece));
    }
    assert_eq!(pieces, live[17..]);
    // Where the old ends and the new begins there is no seam.
    let new = overwrite(&store, "new", Revision::ABSENT, 1..=2).await;
    let end = Position { revision: new, index: 0 };
    let all = changes(&store, Position { revision: new, index: 0 }, 10).await;
    assert!(all.is_empty(), "a position that this node's feed has yet to reach is waited for");
    assert_eq!(changes(&store, live[198].0, 10).await.last().unwrap().position, end);
}

#[tokio::test]
async fn two_changes_of_one_write_are_two_positions() {
    let server = Server::start();
    let store = open(&server.url()).await;
    let mut write = grant("k", Revision::ABSENT, "w", 1);
    write.changes.push(write.changes[0].clone());
    let revision = committed(store.compare_and_set(write).await);
    let again = open(&server.url()).await;
    for store in [&store, &again] {
        let all = changes(store, Position::default(), 9).await;
        let positions: Vec<_> = all.iter().map(|c| c.position).collect();
        assert_eq!(positions, [0, 1].map(|index| Position { revision, index }));
        assert_eq!(what(&changes(store, positions[0], 9).await), what(&all[1..]));
        assert_eq!(what(&changes(store, Position::default(), 1).await), what(&all[..1]));
        assert_eq!(store.latest(), positions[1]);
    }
}

#[tokio::test]
async fn a_change_that_is_not_its_keys_last_write_is_found_by_a_node_that_starts() {
    let server = Server::start();
    let store = open(&server.url()).await;
    let first = overwrite(&store, "k", Revision::ABSENT, 1..=1).await;
    let mut quiet = grant("k", first, "w", 1);
    quiet.changes.clear();
    let quiet = committed(store.compare_and_set(quiet).await);
    let again = open(&server.url()).await;
    assert_eq!(again.latest().revision, quiet);
    let found = changes(&again, Position::default(), 9).await;
    assert_eq!(found.iter().map(|c| c.position.revision).collect::<Vec<_>>(), [first]);
}

#[tokio::test]
async fn what_the_stream_dropped_is_a_gap_and_the_earliest_position_learns_of_it() {
    let server = Server::start();
    let store = open(&server.url()).await;
    overwrite(&store, "early", Revision::ABSENT, 1..=1).await;
    overwrite(&store, "k", Revision::ABSENT, 1..=40).await;
    overwrite(&store, "late", Revision::ABSENT, 1..=20).await;
    store.close().await;
    let store = open(&server.url()).await;
    let from = store.earliest();
    assert!(
        matches!(store.history(from, 1000).await.unwrap(), History::Gap { resume } if resume == store.latest())
    );
    let now = store.earliest();
    assert!(now > from);
    let kept = changes(&store, now, 1000).await;
    assert_eq!(kept.len(), 16, "what followed the last write that was dropped");
    assert!(kept.iter().all(|change| change.key.as_str() == "late"));
    let ahead = Position { revision: Revision(100_000), index: 0 };
    assert!(matches!(store.history(ahead, 10).await.unwrap(), History::Gap { .. }));
}
