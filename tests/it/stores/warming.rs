//! Preparations of members that cannot be stored.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tenure::{
    lease::{Balance, Key, Owner, Policies, Policy, PoolControls, Release, SessionId, SessionSpec},
    manager::{AcquireOne, Manager, Parts},
};

use crate::{
    stores::meddled::{Meddled, parts},
    support::{
        clock::eventually,
        records::{key, plain_session},
    },
};

fn one(key: Key, name: &str) -> AcquireOne {
    AcquireOne::new(key, Owner::new(name).expect("a name"), 60_000)
}

async fn join(manager: &Manager, name: &str) -> SessionId {
    let spec = SessionSpec { pool: Some("default".into()), ..plain_session() };
    let owner = Owner::new(name).expect("a name");
    manager.open_session(&owner, 60_000, spec, manager.now()).await.expect("a session").id
}

/// Writes this into the record of the pool.
async fn write_orders(manager: &Manager, value: &str) {
    let pool = Key::of_pool("default");
    let one = AcquireOne { wait_ms: 10_000, ..one(pool.clone(), "another program") };
    let lease_id = manager.acquire(&one, manager.now()).await.expect("a grant").lease_id;
    let release = Release { value: Some(value.into()), ..Release::new(lease_id) };
    manager.release(pool.as_str(), release, manager.now()).await.expect("a release");
}

#[test]
fn preparations_that_cannot_be_stored_are_tried_again_after_growing_pauses() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = crate::stores::embedded::open(dir.path());
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    let store = Meddled::writing(inner, move |inner, write| {
        counted.fetch_add(usize::from(write.key == Key::of_pool("default")), SeqCst);
        inner.compare_and_set(write)
    });
    actix::System::new().block_on(async {
        let policy =
            Policy { balance: Balance::Count, warmup_timeout_ms: 60_000, ..Policy::default() };
        let policies = Arc::new(Policies::new(Vec::new(), policy));
        let manager = Manager::open(Parts { policies, ..parts(store) }).await;
        let manager = manager.expect("the manager opens");
        write_orders(&manager, "what no program can read").await;
        let a = join(&manager, "a").await;
        let of_a = AcquireOne { session: Some(a), ..one(key("k"), "a") };
        manager.acquire(&of_a, manager.now()).await.expect("a grant");
        join(&manager, "b").await;
        let before = writes.load(SeqCst);
        manager.drain_session(a, manager.now()).await.expect("it drains");
        let tried = || writes.load(SeqCst) - before;
        eventually("it is tried", async || tried() > 0).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        // Each attempt begins and ends a tenure of the record. Ten pauses that double from 10 ms are longer than 3 s.
        assert!((4..=20).contains(&tried()), "{} writes in 3 s", tried());

        write_orders(&manager, &PoolControls::default().to_value()).await;
        let begun = async || manager.controls("default").warming.contains_key("k");
        eventually("the preparation begins", begun).await;
    });
}
