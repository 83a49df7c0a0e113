//! Acquire-any tells its caller of every lease that it is granted, whatever becomes of a write, and of the caller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use tempfile::TempDir;
use tenure::{
    lease::{Order, Owner},
    manager::{AcquireAny, AcquireAnyError, Candidates, Count, Manager, Trouble},
    store::{LeaseStore, Outcome, StoreError},
};
use tokio::sync::Semaphore;

use crate::{
    stores::meddled::{Meddled, open},
    support::{clock::eventually, records::key},
};

const MARK: Option<(u128, u64)> = Some((7, 7));

fn inner() -> (TempDir, Arc<dyn LeaseStore>) {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = crate::stores::embedded::open(dir.path());
    (dir, inner)
}

fn any(count: usize, mark: Option<(u128, u64)>) -> AcquireAny {
    AcquireAny {
        candidates: Candidates::Keys(vec![key("a"), key("b")]),
        count: Count::UpTo(count),
        order: Order::Listed,
        mark,
        ..AcquireAny::new(Owner::new("w").expect("a name"), 60_000)
    }
}

/// Which of the two keys somebody holds.
async fn held(manager: &Manager) -> Vec<&'static str> {
    let mut held = Vec::new();
    for name in ["a", "b"] {
        let view = manager.view(&key(name)).await.expect("a view");
        if view.owner.is_some() {
            held.push(name);
        }
    }
    held
}

#[test]
fn a_grant_in_doubt_is_followed_by_no_other() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let doubtful = AtomicBool::new(true);
        // The first write of `a` is made, and its answer is lost.
        let store = Meddled::writing(inner, move |inner, write| {
            let doubt = write.key == key("a") && doubtful.swap(false, SeqCst);
            let written = inner.compare_and_set(write);
            Box::pin(async move {
                let outcome = written.await;
                let lost = || Outcome::Unknown(StoreError::Unavailable("no answer".into()));
                if doubt { lost() } else { outcome }
            })
        });
        let manager = open(store).await;
        let first = manager.acquire_any(&any(1, MARK), manager.now()).await;
        assert!(matches!(first, Err(AcquireAnyError::Trouble(Trouble::Store(_)))), "{first:?}");
        let mut told = Vec::new();
        eventually("the repeated call is told", async || {
            let again = manager.acquire_any(&any(1, MARK), manager.now()).await;
            let grants = again.map(|taken| taken.grants).unwrap_or_default();
            told = grants.into_iter().map(|(key, _)| key).collect();
            !told.is_empty()
        })
        .await;
        assert_eq!(told, [key("a")]);
        assert_eq!(held(&manager).await, ["a"], "and nothing that nobody was told of");
    });
}

/// A coordinator whose writes of `b` wait for a permit.
async fn slow_at_b(inner: Arc<dyn LeaseStore>) -> (Arc<Manager>, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let gate = permits.clone();
    let store = Meddled::writing(inner, move |inner, write| {
        let gate = (write.key == key("b")).then(|| gate.clone());
        let inner = inner.clone();
        Box::pin(async move {
            if let Some(gate) = gate {
                let _permit = gate.acquire().await.expect("open");
            }
            inner.compare_and_set(write).await
        })
    });
    (open(store).await, permits)
}

/// The caller hangs up when `a` is granted and `b` is not.
async fn hang_up(manager: &Manager, mark: Option<(u128, u64)>) {
    let any = any(2, mark);
    let call = manager.acquire_any(&any, manager.now());
    let answer = tokio::time::timeout(Duration::from_millis(300), call).await;
    assert!(answer.is_err(), "{answer:?}");
}

#[test]
fn a_caller_that_hangs_up_leaves_nothing_behind() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let (manager, permits) = slow_at_b(inner).await;
        hang_up(&manager, None).await;
        eventually("a is given back", async || held(&manager).await.is_empty()).await;
        permits.add_permits(1);
        let seq = async || manager.view(&key("b")).await.expect("a view").token.0;
        eventually("b was granted", async || seq().await > 0).await;
        eventually("and is given back", async || held(&manager).await.is_empty()).await;
    });
}

#[test]
fn a_caller_that_hangs_up_may_ask_again_by_its_request_id() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let (manager, permits) = slow_at_b(inner).await;
        hang_up(&manager, MARK).await;
        permits.add_permits(1);
        eventually("both are held", async || held(&manager).await == ["a", "b"]).await;
        let again = manager.acquire_any(&any(2, MARK), manager.now()).await;
        let taken = again.expect("its grants");
        let keys: Vec<_> = taken.grants.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
    });
}
