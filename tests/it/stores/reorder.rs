//! An order on a kept lease is given anew by the session's home, also when the store cannot be read at that
//! moment.

use std::sync::atomic::Ordering::SeqCst;

use tenure::{
    lease::{Key, Owner, Revoke},
    manager::AcquireOne,
};

use crate::{
    stores::meddled::{Meddled, open},
    support::{clock::eventually, records::plain_session},
};

#[test]
fn an_order_is_given_anew_once_the_store_can_be_read_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = crate::stores::embedded::open(dir.path());
    actix::System::new().block_on(async {
        let store = Meddled::new(inner);
        let manager = open(store.clone()).await;
        let owner = Owner::new("w").expect("an owner");
        let opened = manager.open_session(&owner, 60_000, plain_session(), manager.now()).await;
        let id = opened.expect("a session").id;
        let key = Key::new("k").expect("a key");
        let mut one = AcquireOne::new(key.clone(), owner, 60_000);
        one.session = Some(id);
        manager.acquire(&one, manager.now()).await.expect("a grant");
        let order = Revoke {
            reason: "maintenance".into(),
            actor: "root".into(),
            immediately: false,
            owner: None,
            token: None,
            floor: None,
        };
        manager.revoke(&key, order, manager.now()).await.expect("an order");
        let revision =
            async || store.inner.read(&key).await.expect("a read").expect("it is there").revision;
        let before = revision().await;

        store.unreadable.store(true, SeqCst);
        manager.coordinator().sessions.reissue(id.digest, &key);
        eventually("it was tried, and again", async || store.refused.load(SeqCst) >= 2).await;
        assert_eq!(revision().await, before, "nothing was written from what could not be read");
        store.unreadable.store(false, SeqCst);
        eventually("it is given anew", async || revision().await > before).await;
        let record = store.inner.read(&key).await.expect("a read").expect("it is there").record;
        let order = record.expect("a record").revocation.clone().expect("the order stands");
        assert_eq!((&*order.reason, &*order.actor), ("maintenance", "root"));
    });
}
