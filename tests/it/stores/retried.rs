//! A read that failed is tried again, and the lease was read from the start meanwhile.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use tenure::{
    actor::Mail,
    manager::{AcquireError, AcquireOne},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    stores::{
        any::{inner, owner},
        meddled::{Meddled, open},
    },
    support::records::key,
};

#[test]
fn a_late_try_replaces_no_lease_with_a_write_in_flight() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let gate = Arc::new(Semaphore::new(0));
        let held = gate.clone();
        let store = Meddled::writing(inner, move |inner, write| {
            let (gate, inner) = (held.clone(), inner.clone());
            Box::pin(async move {
                let _permit = gate.acquire().await.expect("open");
                inner.compare_and_set(write).await
            })
        });
        let manager = open(store.clone()).await;
        store.unreadable.store(true, SeqCst);
        let unread = timeout(Duration::from_millis(20), manager.view(&key("a"))).await;
        assert!(!matches!(unread, Ok(Ok(_))), "{unread:?}");
        store.unreadable.store(false, SeqCst);
        // As at a raised epoch. The try after the failure is due within 200 ms.
        manager.coordinator().registry.tell_all(|| Mail::Reload);
        let of = |name: &str| AcquireOne::new(key("a"), owner(name), 60_000);
        let (one, other) = (of("one"), of("other"));
        let mut first = pin!(manager.acquire(&one, manager.now()));
        assert!(timeout(Duration::from_millis(400), &mut first).await.is_err(), "it is written");
        let mut second = pin!(manager.acquire(&other, manager.now()));
        assert!(timeout(Duration::from_millis(100), &mut second).await.is_err(), "it waits");
        gate.add_permits(2);
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_ok(), "{first:?}");
        assert!(matches!(second, Err(AcquireError::Refused(..))), "{second:?}");
    });
}
