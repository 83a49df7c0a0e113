//! What a call for a fair share reads.

use std::sync::atomic::Ordering::SeqCst;

use tenure::{
    lease::{Owner, Release, SessionSpec},
    manager::{AcquireAny, AcquireOne, Candidates, Count, Taken},
};

use crate::{
    stores::meddled::{Meddled, open},
    support::{
        clock::eventually,
        records::{key, plain_session},
    },
};

#[test]
fn the_pool_is_looked_through_for_a_repeated_call_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = crate::stores::embedded::open(dir.path());
    actix::System::new().block_on(async {
        let store = Meddled::new(inner);
        let manager = open(store.clone()).await;
        let owner = Owner::new("w").expect("a name");
        for name in ["a", "b"] {
            let one = AcquireOne::new(key(name), owner.clone(), 60_000);
            let grant = manager.acquire(&one, manager.now()).await.expect("a grant");
            let release = Release::new(grant.lease_id);
            manager.release(name, release, manager.now()).await.expect("a release");
        }
        let spec = SessionSpec { pool: Some("default".into()), ..plain_session() };
        let opened = manager.open_session(&owner, 60_000, spec, manager.now()).await;
        let session = opened.expect("a session").id;
        let fair = |mark: Option<u128>| AcquireAny {
            candidates: Candidates::Pool("default".into()),
            count: Count::Fair,
            session: Some(session),
            mark: mark.map(|id| (id, 7)),
            ..AcquireAny::new(owner.clone(), 60_000)
        };
        let ask = async |mark| manager.acquire_any(&fair(mark), manager.now()).await;
        // It counts the pool.
        let mut all = ask(None).await.expect("both keys").grants;
        let (given_back, grant) = all.pop().expect("two");
        let release = Release::new(grant.lease_id);
        manager.release(given_back.as_str(), release, manager.now()).await.expect("a release");

        store.scans.store(0, SeqCst);
        let (mut id, mut first) = (0, None);
        eventually("the key is seen to be free", async || {
            id += 1;
            first = ask(Some(id)).await.ok();
            first.is_some()
        })
        .await;
        let tokens = |taken: Taken| taken.grants.into_iter().map(|(key, g)| (key, g.view.token));
        let first: Vec<_> = tokens(first.expect("a grant")).collect();
        assert_eq!(first.len(), 1);
        assert_eq!(store.scans.load(SeqCst), 0, "nobody was granted anything under this id");
        let again: Vec<_> = tokens(ask(Some(id)).await.expect("its grant")).collect();
        assert_eq!(again, first);
        assert!(store.scans.load(SeqCst) > 0, "it may be a repeated call");
    });
}
