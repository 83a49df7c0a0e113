//! What a fair call costs of a member that is short of leases while others hold all keys.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tenure::{
    lease::{Key, SessionId, SessionSpec},
    manager::{AcquireAny, AcquireError, Availability, Candidates, Count, Manager},
};

use crate::{
    stores::{
        any::{inner, owner},
        meddled::open,
    },
    support::records::{key, plain_session},
};

const KEYS: usize = 2_000;
/// A call asks for its session, and for little else, however many keys others hold.
const MOST: u64 = 10;

async fn join(manager: &Manager, name: &str) -> SessionId {
    let spec = SessionSpec { pool: Some("default".into()), ..plain_session() };
    let opened = manager.open_session(&owner(name), 60_000, spec, manager.now()).await;
    opened.expect("a session").id
}

fn call(name: &str, session: SessionId, of: (Candidates, Count), wait_ms: u64) -> AcquireAny {
    let (candidates, count) = of;
    AcquireAny {
        candidates,
        count,
        session: Some(session),
        wait_ms,
        ..AcquireAny::new(owner(name), 60_000)
    }
}

fn keys() -> Vec<Key> {
    (0..KEYS).map(|at| key(&format!("k/{at}"))).collect()
}

/// How the call is refused, and how many calls to actors it takes.
async fn refused(manager: &Manager, any: &AcquireAny) -> (Availability, u64) {
    let asked = &manager.coordinator().registry.asked;
    let before = asked.load(Relaxed);
    let answer = manager.acquire_any(any, manager.now()).await;
    let Err(AcquireError::NoneOfShare(counts, share, _)) = answer else {
        panic!("it is refused: {answer:?}")
    };
    assert_eq!((share.share, share.held), (KEYS / 2, 0));
    (counts, asked.load(Relaxed) - before)
}

async fn all_held() -> (tempfile::TempDir, Arc<Manager>, SessionId) {
    let (dir, store) = inner();
    let manager = open(store).await;
    let (holder, short) = (join(&manager, "a").await, join(&manager, "b").await);
    for keys in keys().chunks(500) {
        let of = (Candidates::Keys(keys.to_vec()), Count::UpTo(keys.len()));
        let taken = manager.acquire_any(&call("a", holder, of, 0), manager.now()).await;
        assert_eq!(taken.expect("grants").grants.len(), keys.len());
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    (dir, manager, short)
}

#[test]
fn a_fair_call_without_a_wait_asks_no_key_that_others_hold() {
    actix::System::new().block_on(async {
        let (_dir, manager, short) = all_held().await;
        let of_pool = || (Candidates::Pool("default".into()), Count::Fair);
        let named = || (Candidates::Keys(keys()[..500].to_vec()), Count::Fair);
        for of in [of_pool, named] {
            let (_, waiting) = refused(&manager, &call("b", short, of(), 1)).await;
            let (counts, at_once) = refused(&manager, &call("b", short, of(), 0)).await;
            assert!(
                at_once <= MOST && at_once <= waiting,
                "{at_once} calls, {waiting} with a wait"
            );
            assert_eq!((counts.keys, counts.held), (counts.held, counts.keys));
            assert!([500, KEYS].contains(&counts.held), "{counts:?}");
        }
    });
}
