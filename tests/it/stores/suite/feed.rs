//! Changes: told after their write is durable, per key in the order of `seq`, and a gap is said.

use tenure::{
    lease::{ChangeKind, Key, Revision, Token},
    store::{Committed, History, LeaseStore, Position, WriteOutcome},
};

use std::sync::Arc;

use crate::stores::{
    lab::{
        Listener, assert_whole, change, commit, grant, history, key, released, soon, sound, told,
    },
    subject::{Subject, two},
};

/// Grants and releases of some keys through both handles, two changes in one write now and then.
/// Returns how many changes there were.
async fn some_changes(stores: &[Arc<dyn LeaseStore>; 2], keys: &[Key], rounds: u64) -> usize {
    let mut changes = 0;
    for (n, key) in keys.iter().enumerate() {
        let (mut highest, mut seq) = (Revision::ABSENT, 0);
        for round in 0..rounds {
            let store = &stores[(n + round as usize) % 2];
            seq += 1;
            let mut write = grant(key, highest, seq);
            if (n as u64 + round).is_multiple_of(3) {
                seq += 1;
                write.changes.push(change(ChangeKind::Pinned, seq));
            }
            changes += write.changes.len();
            highest = commit(store, write).await;
            // A write that changes nothing of what people see, such as another ttl.
            if round == 1 {
                let mut write = grant(key, highest, seq);
                write.changes.clear();
                highest = commit(store, write).await;
            }
        }
    }
    changes
}

fn of_key<'a>(changes: &'a [Committed], key: &Key) -> Vec<&'a Committed> {
    changes.iter().filter(|change| change.key == *key).collect()
}

pub async fn every_handle_hears_every_change_in_order(subject: &impl Subject) {
    let stores = two(subject).await;
    let mut listeners = [Listener::new(&stores[0]), Listener::new(&stores[1])];
    let keys: Vec<Key> = (0..10).map(|n| key(&format!("heard/{n}"))).collect();
    let changes = some_changes(&stores, &keys, 6).await;
    for (listener, store) in listeners.iter_mut().zip(&stores) {
        listener.until(store, changes).await;
        assert_whole(&listener.heard);
        assert_eq!((listener.heard.len(), listener.gaps), (changes, 0));
        assert_eq!(store.latest(), listener.at, "the position of the latest change it told");
    }
    let heard = listeners.map(|listener| listener.heard.iter().map(told).collect::<Vec<_>>());
    assert_eq!(heard[0], heard[1], "both handles tell the same");

    // A token is told as the number that it became.
    let mut listener = Listener::new(&stores[1]);
    let key = key("token");
    let granted = commit(&stores[0], grant(&key, Revision::ABSENT, 1)).await;
    let (revision, record) = sound(&stores[0], &key).await;
    assert_eq!(revision, granted);
    let there = tenure::store::Found { revision, record: Ok(record.clone()) };
    let after = Arc::new(released(&there));
    let mut end = change(ChangeKind::Released, 2);
    end.token = record.token(revision);
    end.previous = record.tenure.as_ref().map(|tenure| (tenure.owner.clone(), end.token));
    let write = tenure::store::Write {
        key: key.clone(),
        expected: granted,
        record: after,
        changes: vec![end.clone()],
    };
    commit(&stores[0], write).await;
    listener.until(&stores[1], 2).await;
    let heard = of_key(&listener.heard, &key);
    assert_eq!(heard[0].change.token, Token::of(record.epoch, granted));
    assert_eq!(heard[1].change, end, "the rest is told as it was written");
}

pub async fn what_was_not_committed_is_not_told(subject: &impl Subject) {
    let stores = two(subject).await;
    let mut listener = Listener::new(&stores[0]);
    let key = key("quiet");
    let first = commit(&stores[0], grant(&key, Revision::ABSENT, 1)).await;
    for n in 0..10 {
        let stale = soon(stores[n % 2].compare_and_set(grant(&key, Revision::ABSENT, 7))).await;
        assert!(matches!(stale, WriteOutcome::Conflict(_)), "{stale:?}");
    }
    commit(&stores[1], grant(&key, first, 2)).await;
    listener.until(&stores[0], 2).await;
    assert_whole(&listener.heard);
    let all = history(&stores[0], Position::default(), 100).await;
    assert_eq!(all.len(), 2, "{all:?}");
}

pub async fn the_history_is_the_feed_from_any_position(subject: &impl Subject) {
    let stores = two(subject).await;
    let empty = soon(stores[0].history(Position::default(), 10)).await;
    assert!(matches!(empty, Ok(History::Changes(ref none)) if none.is_empty()), "{empty:?}");
    let mut listener = Listener::new(&stores[0]);
    let keys: Vec<Key> = (0..6).map(|n| key(&format!("past/{n}"))).collect();
    let changes = some_changes(&stores, &keys, 5).await;
    listener.until(&stores[0], changes).await;
    let heard: Vec<String> = listener.heard.iter().map(told).collect();
    let again = subject.open().await;
    crate::stores::lab::eventually("the other handles heard of all", async || {
        stores[1].latest() >= listener.at && again.latest() >= listener.at
    })
    .await;
    let stores = if subject.several() { stores.to_vec() } else { Vec::new() };
    for store in stores.iter().chain([&again]) {
        assert!(store.earliest() <= Position::default().max(listener.heard[0].position));
        for page in [1, 2, 7, 1000] {
            let read = history(store, Position::default(), page).await;
            assert_eq!(read.iter().map(told).collect::<Vec<_>>(), heard, "{page} a page");
        }
        for (at, change) in listener.heard.iter().enumerate() {
            let read = history(store, change.position, 3).await;
            let read: Vec<_> = read.iter().map(told).collect();
            assert_eq!(read, heard[at + 1..], "after {:?}", change.position);
        }
    }
}

pub async fn what_is_no_longer_kept_is_said(subject: &impl Subject) {
    let store = subject.open().await;
    let kept = key("kept");
    let first = commit(&store, grant(&kept, Revision::ABSENT, 1)).await;
    if !subject.forget_history(&store).await {
        return;
    }
    // A handle that was there all the time may have kept more than the store.
    let store = subject.open().await;
    crate::stores::lab::eventually("the gap is said", async || {
        matches!(soon(store.history(Position::default(), 10)).await, Ok(History::Gap { .. }))
    })
    .await;
    let gap = soon(store.history(Position::default(), 10)).await;
    let Ok(History::Gap { resume }) = gap else { panic!("{gap:?}") };
    assert!(resume > Position::default());
    assert!(store.earliest() > Position::default());
    let goes_on = soon(store.history(resume, 10)).await;
    assert!(matches!(goes_on, Ok(History::Changes(_))), "{goes_on:?}");
    let (revision, record) = sound(&store, &kept).await;
    assert_eq!((revision, record.seq), (first, 1), "records are never forgotten");
    commit(&store, grant(&kept, first, 2)).await;
    let mut last = Vec::new();
    crate::stores::lab::eventually("what follows is told", async || {
        last = history(&store, resume, 1000).await;
        last.iter().any(|change| change.key == kept)
    })
    .await;
    assert_eq!(of_key(&last, &kept).len(), 1);
}
