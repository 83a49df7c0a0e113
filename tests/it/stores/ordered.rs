//! An order for a pool whose record is taken.

use std::sync::Arc;

use tenure::{
    lease::{Key, Policies, Policy, PoolOrder, Release},
    manager::{AcquireOne, AdminError, CallError, Manager, Parts},
};

use crate::stores::{
    any::{inner, owner},
    meddled::{Meddled, parts},
};

#[test]
fn an_order_that_waits_in_vain_says_so_and_changes_nothing() {
    let (_dir, inner) = inner();
    actix::System::new().block_on(async {
        let policies = Arc::new(Policies::new(Vec::new(), Policy::default()));
        let manager = Manager::open(Parts { policies, ..parts(Meddled::new(inner)) }).await;
        let manager = manager.expect("the manager opens");
        let pool = Key::of_pool("default");
        let another = AcquireOne::new(pool.clone(), owner("another node"), 60_000);
        let lease_id = manager.acquire(&another, manager.now()).await.expect("a grant").lease_id;
        let freeze = async || {
            let said = ("r", "by");
            manager.order_pool("default", &PoolOrder::Freeze, None, said, manager.now()).await
        };
        let ordered = freeze().await;
        let taken = |error: &AdminError| matches!(error, AdminError::Call(CallError::RecordTaken));
        assert!(ordered.as_ref().is_err_and(taken), "{ordered:?}");
        assert_eq!(manager.controls("default").frozen, None);
        manager
            .release(pool.as_str(), Release::new(lease_id), manager.now())
            .await
            .expect("a release");
        freeze().await.expect("it stands");
        assert!(manager.controls("default").frozen.is_some());
    });
}
