//! Records of sessions that are over, and of keys that were forgotten, are removed.

use tenure::lease::{Key, Revision};

use crate::stores::{
    lab::{Listener, commit, eventually, found, grant, key, nonce, pages, released, soon},
    subject::{Subject, two},
};

const DEAD: usize = 20;

/// Also for a handle that has it in a cache, and for one that is opened later.
pub async fn a_forgotten_session_is_gone_for_every_handle(subject: &impl Subject) {
    let stores = two(subject).await;
    let stays = key("stays");
    commit(&stores[0], grant(&stays, Revision::ABSENT, 1)).await;
    let sessions: Vec<Key> = (0..DEAD).map(|_| Key::of_session(nonce())).collect();
    let mut last = Vec::new();
    for session in &sessions {
        commit(&stores[0], grant(session, Revision::ABSENT, 1)).await;
        let there = found(&stores[0], session).await.expect("it was written");
        let over = tenure::store::Write {
            expected: there.revision,
            record: std::sync::Arc::new(released(&there)),
            ..grant(session, there.revision, 2)
        };
        last.push(commit(&stores[0], over).await);
    }
    let listed = async |at: usize| pages(&stores[at], "", 7).await.len();
    eventually("all are listed", async || listed(1).await == DEAD + 1).await;
    for (session, revision) in sessions.iter().zip(&last) {
        eventually("it is forgotten", async || {
            soon(stores[1].forget(session, *revision)).await.is_ok_and(|gone| gone)
        })
        .await;
        for store in &stores {
            assert!(found(store, session).await.is_none());
        }
        assert!(soon(stores[0].forget(session, *revision)).await.expect("an answer"), "twice");
    }
    for at in 0..2 {
        eventually("they are listed no more", async || listed(at).await == 1).await;
    }
    drop(stores);
    let again = subject.open().await;
    assert_eq!(pages(&again, "", 7).await.len(), 1);
    assert!(found(&again, &stays).await.is_some());
}

pub async fn only_the_expected_revision_is_forgotten(subject: &impl Subject) {
    let stores = two(subject).await;
    let session = Key::of_session(nonce());
    let first = commit(&stores[0], grant(&session, Revision::ABSENT, 1)).await;
    let second = commit(&stores[1], grant(&session, first, 2)).await;
    for store in &stores {
        assert_ne!(soon(store.forget(&session, first)).await, Ok(true));
        assert_eq!(found(store, &session).await.map(|found| found.revision), Some(second));
    }
}

/// It may be made anew, and what is written later is heard.
pub async fn a_forgotten_key_begins_anew(subject: &impl Subject) {
    let stores = two(subject).await;
    let session = Key::of_session(nonce());
    let mut before = Listener::new(&stores[1]);
    let first = commit(&stores[0], grant(&session, Revision::ABSENT, 1)).await;
    // A record goes long after every node has heard of its end.
    before.until(&stores[1], 1).await;
    eventually("it is forgotten", async || {
        soon(stores[0].forget(&session, first)).await.is_ok_and(|gone| gone)
    })
    .await;
    let mut heard = Listener::new(&stores[1]);
    let again = commit(&stores[1], grant(&session, Revision::ABSENT, 1)).await;
    assert!(again > first, "{again:?} after {first:?}");
    heard.until(&stores[1], 1).await;
    assert_eq!(found(&stores[0], &session).await.map(|found| found.revision), Some(again));
    let third = commit(&stores[0], grant(&session, again, 2)).await;
    drop(stores);
    let later = subject.open().await;
    assert_eq!(found(&later, &session).await.map(|found| found.revision), Some(third));
}

/// Also a key that is no session's: what comes after is above all that was.
pub async fn the_revisions_of_a_forgotten_key_go_on(subject: &impl Subject) {
    let stores = two(subject).await;
    let mut listeners: Vec<_> = stores.iter().map(Listener::new).collect();
    let ordinary = key("ordinary");
    let mut last = commit(&stores[0], grant(&ordinary, Revision::ABSENT, 1)).await;
    for round in 0..3 {
        let there = found(&stores[0], &ordinary).await.expect("it was written");
        let over = tenure::store::Write {
            expected: there.revision,
            record: std::sync::Arc::new(released(&there)),
            ..grant(&ordinary, there.revision, 2)
        };
        let end = commit(&stores[0], over).await;
        assert!(end > last);
        // Every handle has heard of its last change long before.
        for (listener, store) in listeners.iter_mut().zip(&stores) {
            listener.until(store, 2 * (round + 1)).await;
        }
        let by = &stores[round % 2];
        eventually("it is forgotten", async || {
            soon(by.forget(&ordinary, end)).await.is_ok_and(|gone| gone)
        })
        .await;
        for store in &stores {
            assert!(found(store, &ordinary).await.is_none());
        }
        last = commit(&stores[(round + 1) % 2], grant(&ordinary, Revision::ABSENT, 1)).await;
        assert!(last > end, "{last:?} after {end:?}");
    }
}
