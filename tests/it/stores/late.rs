//! A store that does not say for long what became of its writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use tenure::{
    lease::Owner,
    manager::{AcquireOne, Manager},
};

use crate::{
    stores::meddled::{Meddled, open},
    support::{clock::eventually, records::key},
};

/// More ends of one thread than are written at a time.
const ENDS: usize = 300;
/// A caller waits for so long for a write, and for some moments more.
const LATE: std::ops::Range<Duration> = Duration::from_secs(9)..Duration::from_secs(14);

fn one(name: &str, owner: &str, ttl_ms: u64) -> AcquireOne {
    AcquireOne::new(key(name), Owner::new(owner).expect("a name"), ttl_ms)
}

/// Who holds a key.
async fn owner(manager: &Manager, name: &str) -> Option<String> {
    let view = manager.view(&key(name)).await.expect("a view");
    view.owner.map(|owner| owner.as_str().to_owned())
}

#[test]
fn callers_are_answered_while_writes_hang_and_nothing_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = crate::stores::embedded::open(dir.path());
    let hangs = Arc::new(AtomicBool::new(false));
    let disk = hangs.clone();
    let store = Meddled::writing(inner, move |inner, write| {
        let (disk, inner) = (disk.clone(), inner.clone());
        Box::pin(async move {
            while disk.load(SeqCst) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            inner.compare_and_set(write).await
        })
    });
    actix::System::new().block_on(async {
        let manager = open(store).await;
        let held: Vec<_> = (0..ENDS).map(|n| one(&format!("held/{n}"), "h", 1_000)).collect();
        let grants = held.iter().map(|one| manager.acquire(one, manager.now()));
        let grants = futures_util::future::join_all(grants).await;
        assert!(grants.iter().all(Result::is_ok));

        hangs.store(true, SeqCst);
        let began = manager.now();
        // Its grant hangs, and the other call waits behind it; all the ends fall due beside them.
        let marked = AcquireOne { mark: Some((1, 1)), ..one("k", "a", 60_000) };
        let first = manager.acquire(&marked, manager.now());
        let behind = one("k", "b", 60_000);
        let behind = manager.acquire(&behind, manager.now());
        let (first, behind) = futures_util::future::join(first, behind).await;
        let took = manager.now().since(began);
        assert!(first.is_err() && behind.is_err(), "{first:?} {behind:?}");
        assert!(LATE.contains(&took), "{took:?}");

        hangs.store(false, SeqCst);
        eventually("the grant is told to who asks again", async || {
            manager.acquire(&marked, manager.now()).await.is_ok()
        })
        .await;
        assert_eq!(owner(&manager, "k").await.as_deref(), Some("a"));
        eventually("every end was written", async || {
            for n in (0..ENDS).rev() {
                if owner(&manager, &format!("held/{n}")).await.is_some() {
                    return false;
                }
            }
            true
        })
        .await;
    });
}
