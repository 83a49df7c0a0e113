//! A read that failed is tried again, and the lease was read from the start meanwhile.

use std::{pin::pin, sync::atomic::Ordering::SeqCst, time::Duration};

use tenure::{actor::Mail, manager::AcquireOne};
use tokio::time::timeout;

use crate::{
    stores::{
        any::{inner, owner},
        meddled::{Meddled, open},
    },
    support::records::key,
};

#[test]
fn a_late_try_of_a_read_replaces_no_lease_with_a_write_in_flight() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let (store, gate) = Meddled::gated(inner, |_| true);
        let manager = open(store.clone()).await;
        store.unreadable.store(true, SeqCst);
        let of = |name: &str| AcquireOne::new(key("a"), owner(name), 60_000);
        let early = of("early");
        let refused =
            timeout(Duration::from_millis(50), manager.acquire(&early, manager.now())).await;
        assert!(!matches!(refused, Ok(Ok(_))), "{refused:?}");
        assert!(store.refused.load(SeqCst) > 0, "the lease was read");
        store.unreadable.store(false, SeqCst);
        // As at a raised epoch. The try after the failure is due 100 to 200 ms after it.
        manager.coordinator().registry.tell_all(|| Mail::Reload);
        let one = of("one");
        let left = timeout(Duration::from_millis(20), manager.acquire(&one, manager.now())).await;
        assert!(left.is_err(), "it is written: {left:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let other = AcquireOne { wait_ms: 10_000, ..of("other") };
        let mut granted = pin!(manager.acquire(&other, manager.now()));
        assert!(timeout(Duration::from_millis(100), &mut granted).await.is_err(), "it waits");
        gate.add_permits(10);
        granted.await.expect("the first caller had left");
        let found = store.inner.read(&key("a")).await.expect("a read").expect("a record");
        let stored = found.record.expect("a record").tenure.clone().expect("a tenure");
        assert_eq!(stored.owner.as_str(), "other", "the store and the answer agree");
    });
}
