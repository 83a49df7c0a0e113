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
    actor::Mail,
    lease::{CandidateOrder, Key, Mutant, Owner, Release, Revoke, Rules, SessionId},
    manager::{AcquireAny, AcquireError, AcquireOne, CallError, Candidates, Count, Manager, Parts},
    store::{LeaseStore, StoreError, WriteOutcome, dynamodb::Options},
};
use tokio::sync::watch;

use crate::{
    dynamodb::kit::{open_with, options},
    stores::meddled::{Meddled, open, parts},
    support::{
        clock::eventually,
        dynamo_endpoint::Endpoint,
        proxy::{Fate, HttpProxy},
        records::{key, plain_session},
    },
};

pub(super) const MARK: Option<(u128, u64)> = Some((7, 7));

pub(super) fn inner() -> (TempDir, Arc<dyn LeaseStore>) {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = crate::stores::embedded::open(dir.path());
    (dir, inner)
}

pub(super) fn any(count: usize, mark: Option<(u128, u64)>) -> AcquireAny {
    AcquireAny {
        candidates: Candidates::Keys(vec![key("a"), key("b")]),
        count: Count::UpTo(count),
        order: CandidateOrder::Listed,
        mark,
        ..AcquireAny::new(owner("w"), 60_000)
    }
}

pub(super) fn owner(name: &str) -> Owner {
    Owner::new(name).expect("a name")
}

/// A session of `w` that sends its heartbeats.
pub(super) async fn beating(manager: &Arc<Manager>) -> SessionId {
    let opened = manager.open_session(&owner("w"), 1_000, plain_session(), manager.now()).await;
    let session = opened.expect("a session").id;
    let beats = manager.clone();
    actix::spawn(async move {
        while beats.beat_session(session, None, beats.now()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    session
}

/// Which of the two keys somebody holds.
pub(super) async fn held(manager: &Manager) -> Vec<&'static str> {
    let mut held = Vec::new();
    for name in ["a", "b"] {
        let view = manager.view(&key(name)).await.expect("a view");
        if view.owner.is_some() {
            held.push(name);
        }
    }
    held
}

/// Repeats the call until it is told what it was granted.
async fn told_at_last(manager: &Manager) -> Vec<Key> {
    let mut told = Vec::new();
    eventually("the repeated call is told", async || {
        let again = manager.acquire_any(&any(1, MARK), manager.now()).await;
        let grants = again.map(|taken| taken.grants).unwrap_or_default();
        told = grants.into_iter().map(|(key, _)| key).collect();
        !told.is_empty()
    })
    .await;
    told
}

#[test]
fn a_grant_in_doubt_is_followed_by_no_other() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let unknown_next = AtomicBool::new(true);
        // The first write of `a` is made, and its answer is lost.
        let store = Meddled::writing(inner, move |inner, write| {
            let unknown = write.key == key("a") && unknown_next.swap(false, SeqCst);
            let written = inner.compare_and_set(write);
            Box::pin(async move {
                let outcome = written.await;
                let lost = || WriteOutcome::Unknown(StoreError::Unavailable("no answer".into()));
                if unknown { lost() } else { outcome }
            })
        });
        let manager = open(store).await;
        let first = manager.acquire_any(&any(1, MARK), manager.now()).await;
        assert!(matches!(first, Err(AcquireError::Call(CallError::Store(_)))), "{first:?}");
        assert_eq!(told_at_last(&manager).await, [key("a")]);
        assert_eq!(held(&manager).await, ["a"], "and nothing that nobody was told of");
    });
}

/// A coordinator whose next writes of `b` wait, once the test shuts the gate, until it opens the gate.
async fn gated_at_b(
    inner: Arc<dyn LeaseStore>,
    rules: Rules,
) -> (Arc<Manager>, watch::Sender<bool>) {
    let (gate, open) = watch::channel(true);
    let store = Meddled::writing(inner, move |inner, write| {
        let gated = (write.key == key("b")).then(|| open.clone());
        let inner = inner.clone();
        Box::pin(async move {
            if let Some(mut gated) = gated {
                gated.wait_for(|open| *open).await.expect("the test goes on");
            }
            inner.compare_and_set(write).await
        })
    });
    let manager = Manager::open(Parts { rules, ..parts(store) }).await;
    (manager.expect("the manager opens"), gate)
}

/// What a repeated call under a session is told when one of its two leases is revoked while it is served.
async fn told_beside_a_revocation(inner: Arc<dyn LeaseStore>, rules: Rules) -> Vec<Key> {
    let (manager, gate) = gated_at_b(inner, rules).await;
    let session = beating(&manager).await;
    let call = AcquireAny { session: Some(session), ..any(2, MARK) };
    let first = manager.acquire_any(&call, manager.now()).await.expect("two leases");
    assert_eq!(first.grants.len(), 2);

    // While a write of `b` is in flight, a repeated call is granted `a` again at once and waits for `b`.
    gate.send_replace(false);
    let pins = manager.clone();
    actix::spawn(async move { pins.pin(&key("b"), "slow", "test", pins.now()).await.is_ok() });
    let repeats = manager.clone();
    let again = actix::spawn(async move { repeats.acquire_any(&call, repeats.now()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let order = Revoke {
        reason: "test".into(),
        actor: "test".into(),
        immediately: false,
        owner: None,
        token: None,
        floor: None,
    };
    manager.revoke(&key("a"), order, manager.now()).await.expect("it is revoked");
    eventually("a has ended", async || held(&manager).await == ["b"]).await;
    eventually("its end was heard of", async || {
        let alive = manager.beat_session(session, None, manager.now()).await;
        alive.expect("it lives").holdings.count == 1
    })
    .await;
    gate.send_replace(true);
    let told = again.await.expect("no panic").expect("what it still has");
    told.grants.into_iter().map(|(key, _)| key).collect()
}

#[test]
fn a_lease_that_ends_while_a_call_is_served_is_not_told() {
    let (_dir, inner) = inner();
    let told = actix::System::new().block_on(told_beside_a_revocation(inner, Rules::default()));
    assert_eq!(told, [key("b")]);
}

#[test]
fn a_lease_that_is_told_although_it_ended_is_noticed() {
    let (_dir, inner) = inner();
    let rules = Rules::breaking(Some(Mutant::EndDuringACallUnseen));
    let told = actix::System::new().block_on(told_beside_a_revocation(inner, rules));
    assert_eq!(told, [key("a"), key("b")]);
}

#[test]
fn an_actor_that_dies_while_it_grants_keeps_no_other_key_from_the_caller() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let (gate, open_gate) = watch::channel(true);
        // Writes of `b` are made. Their answers wait for the gate.
        let store = Meddled::writing(inner, move |inner, write| {
            let gated = (write.key == key("b")).then(|| open_gate.clone());
            let written = inner.compare_and_set(write);
            Box::pin(async move {
                let outcome = written.await;
                if let Some(mut gated) = gated {
                    gated.wait_for(|open| *open).await.expect("the test goes on");
                }
                outcome
            })
        });
        let manager = open(store).await;
        let take = async |name| {
            let one = AcquireOne::new(key(name), owner("x"), 60_000);
            manager.acquire(&one, manager.now()).await.expect("a grant").lease_id
        };
        let (a, b) = (take("a").await, take("b").await);
        let waits = manager.clone();
        let waiter = actix::spawn(async move {
            let any = AcquireAny { wait_ms: 8_000, ..any(1, None) };
            waits.acquire_any(&any, waits.now()).await
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let release = async |name, lease_id| {
            let release = Release::new(lease_id);
            manager.release(name, release, manager.now()).await
        };
        gate.send_replace(false);
        let died = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            manager.coordinator().registry.post("b", Mail::Panic).expect("an actor");
            tokio::time::sleep(Duration::from_millis(200)).await;
            gate.send_replace(true);
            release("a", a).await
        };
        let (_, released) = futures_util::future::join(release("b", b), died).await;
        assert!(matches!(released, Ok(true)), "{released:?}");
        let told = waiter.await.expect("no panic").expect("one of the two");
        let told: Vec<_> = told.grants.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(told.len(), 1);
        eventually("it holds what it was told of", async || held(&manager).await == told).await;
    });
}

#[test]
fn a_repeated_call_takes_no_other_key_while_its_grant_is_in_doubt() {
    let endpoint = Endpoint::start();
    actix::System::new().block_on(async {
        let proxy = HttpProxy::to(endpoint.addr()).await;
        let options =
            Options { request_timeout: Duration::from_millis(300), ..options(&proxy.url()) };
        let store = open_with(options, None).await.expect("it opens");
        let manager = open(store).await;
        // Whatever is written of `a` is lost on its way, unnoticed; reads go on.
        let lost = Arc::new(AtomicBool::new(true));
        let loses = lost.clone();
        proxy.rule(move |operation, body| {
            let of_a = operation == "PutItem" && body.contains("\"l#a\"");
            if of_a && loses.load(SeqCst) { Fate::Hang } else { Fate::Pass }
        });
        let first = manager.acquire_any(&any(1, MARK), manager.now()).await;
        assert!(matches!(first, Err(AcquireError::Call(_))), "{first:?}");
        // As chance orders them, too.
        let other = Candidates::Keys(vec![key("b"), key("a")]);
        let again = AcquireAny { candidates: other, ..any(1, MARK) };
        for _ in 0..3 {
            let answer = manager.acquire_any(&again, manager.now()).await;
            assert!(matches!(answer, Err(AcquireError::Call(_))), "{answer:?}");
        }
        lost.store(false, SeqCst);
        assert_eq!(told_at_last(&manager).await, [key("a")]);
        assert_eq!(held(&manager).await, ["a"], "and nothing besides");
    });
}

/// Some more than are tried at a time.
const MANY: usize = 10_100;

#[test]
fn a_key_that_comes_free_while_the_keys_are_listed_is_granted() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let manager = open(inner).await;
        let one = |n: usize| AcquireOne::new(key(&format!("big/{n:05}")), owner("h"), 600_000);
        let ones: Vec<_> = (0..MANY).map(one).collect();
        let grants = ones.iter().map(|one| manager.acquire(one, manager.now()));
        let grants = futures_util::future::join_all(grants).await;
        let waiting = AcquireAny {
            candidates: Candidates::Prefix("big/".into()),
            wait_ms: 5_000,
            ..AcquireAny::new(owner("w"), 60_000)
        };
        for (n, after_ms) in [0, 5, 10, 20, 40, 80, 160].into_iter().enumerate() {
            let n = MANY - 1 - n;
            let lease_id = grants[n].as_ref().expect("a grant").lease_id;
            let release = async {
                tokio::time::sleep(Duration::from_millis(after_ms)).await;
                let release = Release::new(lease_id);
                manager.release(ones[n].key.as_str(), release, manager.now()).await
            };
            let call = manager.acquire_any(&waiting, manager.now());
            let (taken, released) = futures_util::future::join(call, release).await;
            assert!(matches!(released, Ok(true)), "{released:?}");
            let taken = taken.unwrap_or_else(|e| panic!("after {after_ms} ms: {e:?}"));
            assert_eq!(taken.grants[0].0, ones[n].key);
        }
    });
}
