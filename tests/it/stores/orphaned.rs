//! A write that lands when the actor that sent it is dead, and its successor has read the store.

use std::time::Duration;

use tenure::{actor::Mail, lease::KeyState, manager::AcquireOne};

use crate::{
    stores::{
        any::{inner, owner},
        meddled::{Meddled, open},
    },
    support::{clock::eventually, records::key},
};

#[test]
fn a_grant_that_lands_after_its_actor_died_ends_though_nobody_calls() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let (store, gate) = Meddled::gated(inner, |_| true);
        let manager = open(store.clone()).await;
        let one = AcquireOne::new(key("a"), owner("w"), 500);
        let call = manager.acquire(&one, manager.now());
        let answer = tokio::time::timeout(Duration::from_millis(300), call).await;
        assert!(answer.is_err(), "{answer:?}");

        manager.coordinator().registry.tell_all(|| Mail::Panic);
        let view = manager.view(&key("a")).await.expect("the successor answers");
        assert_eq!(view.owner, None);
        gate.add_permits(1);
        eventually("the tenure ended", async || {
            let found = store.inner.read(&key("a")).await.expect("a read");
            found.is_some_and(|found| found.record.expect("a record").state == KeyState::Free)
        })
        .await;
    });
}
