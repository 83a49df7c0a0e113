//! What a call that forgets a key learns of the store.

use std::sync::atomic::Ordering::SeqCst;

use tenure::{
    lease::{ChangeKind, Release},
    manager::AcquireOne,
    store::{History, Position},
};

use crate::{
    stores::{
        any::{inner, owner},
        meddled::{Meddled, open},
    },
    support::records::key,
};

/// A record that is read later may be the one of the next grant, and must not be removed.
#[test]
fn the_write_alone_says_which_record_is_forgotten() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let store = Meddled::new(inner);
        let manager = open(store.clone()).await;
        let one = AcquireOne::new(key("a"), owner("w"), 60_000);
        let grant = manager.acquire(&one, manager.now()).await.expect("a grant");
        let release = Release::new(grant.lease_id);
        manager.release("a", release, manager.now()).await.expect("a release");
        store.unreadable.store(true, SeqCst);
        let forgotten = manager.forget("a", None, ("test", "test"), manager.now()).await;
        assert_eq!(forgotten.expect("it is free").forgotten, 1);
        let history = store.inner.history(Position::default(), 10).await.expect("a history");
        let History::Changes(changes) = history else { panic!("{history:?}") };
        let last = changes.last().expect("changes");
        assert_eq!(last.change.kind, ChangeKind::Forgotten);
    });
}
