//! What is granted to a caller that has left is given back, and delays nobody else.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tenure::{
    actor::Mail,
    lease::Release,
    manager::{AcquireAll, AcquireAny, AcquireOne, Manager, Take, Wanted},
    store::{LeaseStore, StoreError, WriteOutcome},
};
use tokio::sync::Semaphore;

use crate::{
    stores::{
        any::{MARK, any, beating, held, inner, owner},
        meddled::{Meddled, open},
    },
    support::{clock::eventually, records::key},
};

/// A coordinator whose writes of `b` wait for a permit.
async fn slow_at_b(inner: Arc<dyn LeaseStore>) -> (Arc<Manager>, Arc<Semaphore>) {
    let (store, permits) = Meddled::gated(inner, |written| *written == key("b"));
    (open(store).await, permits)
}

/// The caller hangs up when `a` is granted and `b` is not.
async fn hang_up(manager: &Manager, mark: Option<(u128, u64)>) {
    let any = any(2, mark);
    let call = manager.acquire_any(&any, manager.now());
    let answer = tokio::time::timeout(Duration::from_millis(300), call).await;
    assert!(answer.is_err(), "{answer:?}");
}

/// The caller asks, and does not look for the answer before it hangs up. By then `a` is granted.
async fn hang_up_unheard<T>(
    manager: &Manager,
    call: impl Future<Output = T>,
    meanwhile: impl Future<Output = ()>,
) {
    let mut call = pin!(call);
    let mut unheard = Context::from_waker(Waker::noop());
    assert!(matches!(call.as_mut().poll(&mut unheard), Poll::Pending));
    meanwhile.await;
    eventually("a is granted", async || holder_of_a(manager).await.as_deref() == Some("w")).await;
}

async fn holder_of_a(manager: &Manager) -> Option<String> {
    let view = manager.view(&key("a")).await.expect("a view");
    view.owner.map(|owner| owner.to_string())
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
fn a_grant_on_its_way_to_a_caller_that_hangs_up_is_given_back() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let manager = open(inner).await;
        let one = AcquireOne::new(key("a"), owner("w"), 60_000);
        hang_up_unheard(&manager, manager.acquire(&one, manager.now()), async {}).await;
        eventually("it is given back", async || held(&manager).await.is_empty()).await;
    });
}

#[test]
fn a_grant_on_its_way_to_a_caller_that_may_ask_again_stays() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let manager = open(inner).await;
        let mut one = AcquireOne::new(key("a"), owner("w"), 60_000);
        one.mark = MARK;
        hang_up_unheard(&manager, manager.acquire(&one, manager.now()), async {}).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        manager.acquire(&one, manager.now()).await.expect("the grant of the first call");
    });
}

#[test]
fn a_grant_on_its_way_to_a_waiter_of_a_session_is_given_back() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let manager = open(inner).await;
        let session = beating(&manager).await;
        let one = AcquireOne::new(key("a"), owner("x"), 60_000);
        let first = manager.acquire(&one, manager.now()).await.expect("a grant");
        let waits = AcquireAny { session: Some(session), wait_ms: 30_000, ..any(1, None) };
        let b = AcquireOne::new(key("b"), owner("x"), 60_000);
        manager.acquire(&b, manager.now()).await.expect("a grant");
        let mut call = Box::pin(manager.acquire_any(&waits, manager.now()));
        // It waits in both queues, and looks at nothing from now on.
        let queued = tokio::time::timeout(Duration::from_millis(300), call.as_mut()).await;
        assert!(queued.is_err(), "{queued:?}");
        let release = Release::new(first.lease_id);
        hang_up_unheard(&manager, call, async {
            manager.release("a", release, manager.now()).await.expect("a release");
        })
        .await;
        eventually("it is given back", async || held(&manager).await == ["b"]).await;
    });
}

#[test]
fn a_grant_that_the_store_does_not_let_be_released_is_released_later() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let refusals = AtomicUsize::new(3);
        // The grant of `a` is written. The writes after it are refused three times, and `b` gets no answer.
        let store = Meddled::writing(inner, move |inner, write| {
            if write.key == key("b") {
                return Box::pin(std::future::pending());
            }
            let ends = write.key == key("a") && write.changes.iter().all(|c| c.kind.ends_tenure());
            let left = || refusals.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            if ends && left().is_ok() {
                let full = WriteOutcome::Refused(StoreError::Full("no room".into()));
                return Box::pin(async { full });
            }
            inner.compare_and_set(write)
        });
        let manager = open(store).await;
        hang_up(&manager, None).await;
        eventually("a is released", async || held(&manager).await.is_empty()).await;
    });
}

/// A call for `a` and `b` is refused, since another owner holds `b`. It hangs up while the store is about to refuse the
/// release of `a`.
fn a_refused_list_is_given_back_although_its_caller_hangs_up(mark: Option<(u128, u64)>) {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let permits = Arc::new(Semaphore::new(0));
        let (gate, refusals) = (permits.clone(), AtomicUsize::new(1));
        let store = Meddled::writing(inner, move |inner, write| {
            let ends = write.key == key("a") && write.changes.iter().all(|c| c.kind.ends_tenure());
            let left = || refusals.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            if ends && left().is_ok() {
                let gate = gate.clone();
                return Box::pin(async move {
                    let _permit = gate.acquire().await.expect("open");
                    WriteOutcome::Refused(StoreError::Full("no room".into()))
                });
            }
            inner.compare_and_set(write)
        });
        let manager = open(store).await;
        let b = AcquireOne::new(key("b"), owner("x"), 60_000);
        manager.acquire(&b, manager.now()).await.expect("a grant");
        let keys = ["a", "b"].map(|name| Wanted { key: key(name), take: Take::Permits(1) });
        let all = AcquireAll { mark, ..AcquireAll::new(keys.to_vec(), owner("w"), 60_000) };
        let call = manager.acquire_all(&all, manager.now());
        let answer = tokio::time::timeout(Duration::from_millis(300), call).await;
        assert!(answer.is_err(), "{answer:?}");
        assert_eq!(held(&manager).await, ["a", "b"]);
        permits.add_permits(1);
        eventually("a is given back", async || held(&manager).await == ["b"]).await;
    });
}

#[test]
fn a_refused_list_is_given_back_although_its_caller_leaves() {
    a_refused_list_is_given_back_although_its_caller_hangs_up(None);
}

#[test]
fn a_refused_list_with_a_request_id_is_given_back_although_its_caller_leaves() {
    a_refused_list_is_given_back_although_its_caller_hangs_up(MARK);
}

#[test]
fn a_release_that_gets_no_answer_holds_up_no_other() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        // `b` is never granted, and `a` never released.
        let store = Meddled::writing(inner, move |inner, write| {
            let ends = write.changes.iter().all(|change| change.kind.ends_tenure());
            if write.key == key("b") || write.key == key("a") && ends {
                return Box::pin(std::future::pending());
            }
            inner.compare_and_set(write)
        });
        let manager = open(store).await;
        hang_up(&manager, None).await;
        let c = AcquireOne::new(key("c"), owner("w"), 60_000);
        hang_up_unheard(&manager, manager.acquire(&c, manager.now()), async {}).await;
        let began = manager.now();
        let free = async || manager.view(&key("c")).await.expect("a view").owner.is_none();
        eventually("c is given back", free).await;
        let took = manager.now().since(began);
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!(held(&manager).await, ["a"]);
    });
}

#[test]
fn a_grant_is_given_back_although_the_actor_of_its_key_rests() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let store = Meddled::writing(inner, move |inner, write| {
            if write.key == key("b") {
                return Box::pin(std::future::pending());
            }
            inner.compare_and_set(write)
        });
        let manager = open(store).await;
        let registry = &manager.coordinator().registry;
        let any = any(2, None);
        let call = manager.acquire_any(&any, manager.now());
        hang_up_unheard(&manager, call, async {
            let taken = async || holder_of_a(&manager).await.is_some();
            eventually("a is taken", taken).await;
            let rests = async || registry.post("a", Mail::Panic).is_err();
            eventually("the actor of a has died too often", rests).await;
        })
        .await;
        eventually("a is given back", async || held(&manager).await.is_empty()).await;
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
