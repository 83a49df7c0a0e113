//! The store's own record: its identity, its epoch, and what happens when it went backwards.

use tenure::{
    lease::{Epoch, Nonce, Revision},
    store::{Health, Raise, Witness, WriteOutcome},
};

use crate::stores::{
    lab::{commit, eventually, grant, key, nonce, raise, soon},
    subject::{Subject, two},
};

pub async fn every_handle_sees_the_same_store(subject: &impl Subject) {
    let mut seen = Vec::new();
    for _ in 0..2 {
        for store in two(subject).await {
            let meta = store.meta();
            assert_eq!(store.health(), Health::Ready);
            let lease_id = meta.secret.lease_id(&key("k"), Nonce(7)).reveal();
            seen.push((meta.identity, meta.epoch, meta.created_ms, lease_id));
        }
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
}

pub async fn a_raised_epoch_is_seen(subject: &impl Subject) {
    let stores = two(subject).await;
    let (Some(first), Some(second)) = (stores[0].shared(), stores[1].shared()) else { return };
    let before = stores[0].meta();
    let raised = Epoch(before.epoch.0 + 1);
    let identity = nonce();
    soon(raise(first, identity, raised, false)).await.expect("it is raised");
    let meta = soon(second.refresh_meta()).await.expect("it is read");
    assert_eq!((meta.identity, meta.epoch), (identity, raised));
    assert_eq!((stores[1].meta().identity, stores[1].meta().epoch), (identity, raised));
    assert_eq!(meta.created_ms, before.created_ms);
    let lease_id = |meta: &tenure::store::Meta| meta.secret.lease_id(&key("k"), Nonce(7));
    assert!(lease_id(&meta) == lease_id(&before), "lease ids stay what they were");
    for back in [raised, before.epoch] {
        let refused = soon(raise(second, nonce(), back, false)).await;
        assert!(refused.is_err(), "an epoch only rises");
    }
    let again = subject.open().await;
    assert_eq!((again.meta().identity, again.meta().epoch), (identity, raised));
    commit(&again, grant(&key("after"), Revision::ABSENT, 1)).await;
}

pub async fn a_raised_epoch_and_a_node_that_registers_notice_each_other(subject: &impl Subject) {
    let stores = two(subject).await;
    let (Some(operator), Some(node)) = (stores[0].shared(), stores[1].shared()) else { return };
    let before = stores[0].meta().epoch;
    let raised = Epoch(before.0 + 1);
    let own = async || soon(operator.own_revision()).await.expect("it is read");
    let first = own().await;
    assert_eq!(own().await, first, "reading changes nothing");

    // The node is faster.
    assert!(soon(node.register(before)).await.expect("it is counted"));
    let unseen =
        Raise { identity: nonce(), epoch: raised, seen: first, restoring: false, secret: None };
    for restoring in [false, true] {
        let refused = soon(operator.raise_epoch(Raise { restoring, ..unseen })).await;
        assert!(refused.is_err(), "a raise that did not see the node");
    }

    // The operator is faster.
    let second = own().await;
    assert_ne!(second, first);
    let seen = Raise { seen: second, ..unseen };
    soon(operator.raise_epoch(seen)).await.expect("it is raised");
    assert!(!soon(node.register(before)).await.expect("it is judged"), "of an earlier epoch");
    assert_ne!(own().await, second);
    assert!(soon(node.register(raised)).await.expect("it is counted"));
}

pub async fn a_store_that_went_backwards_is_frozen_until_its_epoch_is_raised(
    subject: &impl Subject,
) {
    let store = subject.open().await;
    if store.shared().is_none() {
        return;
    }
    let known = key("known");
    let first = commit(&store, grant(&known, Revision::ABSENT, 1)).await;
    eventually("the change was heard", async || store.latest().revision > Revision(0)).await;
    let witness = store.shared().expect("shared").witness();
    assert_eq!((witness.identity, witness.epoch), (store.meta().identity, store.meta().epoch));
    assert!(witness.highest >= store.latest().revision, "{witness:?}");
    let same = subject.open_with(Some(witness)).await;
    assert_eq!(same.health(), Health::Ready, "it did not go backwards");

    let ahead = Witness { highest: Revision(witness.highest.0 + 1_000), ..witness };
    let other = Witness { identity: nonce(), ..witness };
    let later = Witness { epoch: Epoch(witness.epoch.0 + 1), ..witness };
    let mut frozen = Vec::new();
    for remembered in [ahead, other, later] {
        let store = subject.open_with(Some(remembered)).await;
        assert!(
            matches!(store.health(), Health::Frozen(_)),
            "{remembered:?}: {:?}",
            store.health()
        );
        let refused = soon(store.compare_and_set(grant(&known, first, 2))).await;
        assert!(matches!(refused, WriteOutcome::Refused(_)), "{refused:?}");
        let read = soon(store.read(&known)).await.expect("it is read still");
        assert_eq!(read.expect("a record").revision, first);
        frozen.push(store);
    }
    let raised = Epoch(witness.epoch.0 + 2);
    let shared = store.shared().expect("shared");
    soon(raise(shared, nonce(), raised, false)).await.expect("raised");
    let mut highest = first;
    for (n, store) in frozen.iter().enumerate() {
        soon(store.shared().expect("shared").refresh_meta()).await.expect("read");
        assert_eq!(store.health(), Health::Ready, "thawed");
        highest = commit(store, grant(&known, highest, n as u64 + 2)).await;
    }
}
