//! What the suite needs to know of a store, and to do to it.

use std::sync::Arc;

use tenure::{
    lease::Key,
    store::{LeaseStore, Witness},
};

/// How a record is spoiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Some of its bits changed.
    Rot,
    /// A sound record of a version that this program does not know.
    Newer,
}

/// A store of its own for one test, gone when this is dropped.
///
/// What a store cannot have done to it is answered with `false`: the demand does not apply to it. A
/// store that could and is not able to just now panics.
#[allow(async_fn_in_trait, reason = "used with types that are known, never as an object")]
pub trait Subject: Send + Sync + Sized + 'static {
    /// An empty store.
    async fn start() -> Self;

    /// Another handle on the same data. Where there can be one only: that one, closed and opened
    /// again.
    async fn open(&self) -> Arc<dyn LeaseStore> {
        self.open_with(None).await
    }

    /// The same, by a node that remembers the store.
    async fn open_with(&self, witness: Option<Witness>) -> Arc<dyn LeaseStore>;

    /// Whether several handles live at a time.
    fn several(&self) -> bool;

    /// Removes a key's record behind the store's back.
    async fn delete_by_hand(&self, _key: &Key) -> bool {
        false
    }

    /// Spoils a key's record behind the store's back.
    async fn spoil(&self, _key: &Key, _damage: Damage) -> bool {
        false
    }

    /// Makes the store forget the oldest of its history; it may write to keys that start with
    /// `forget/`.
    async fn forget_history(&self, _store: &Arc<dyn LeaseStore>) -> bool {
        false
    }

    /// Puts the store out of reach, or back into it.
    async fn out_of_reach(&self, _away: bool) -> bool {
        false
    }
}

/// Two handles that are used at the same time; the same one twice where there can be one only.
pub async fn two(subject: &impl Subject) -> [Arc<dyn LeaseStore>; 2] {
    let first = subject.open().await;
    if subject.several() {
        let second = subject.open().await;
        return [first, second];
    }
    [first.clone(), first]
}
