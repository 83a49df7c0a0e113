//! Who may ask for the permits of a key, at one coordinator.
//!
//! A call for several permits has a turn while it takes them. Calls that come later wait behind it, and those that came
//! before it have their places in the queues of the permits already. So calls are served in the order of their arrival,
//! and a call for all permits does not starve.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedRwLockWriteGuard, RwLock},
    time::timeout,
};

use crate::{
    clock::{DashMap, dash_map},
    lease::Key,
};

/// The turns of all keys. Only those that a call for several permits has, or waits for, are kept.
#[derive(Debug)]
pub struct Turnstiles(DashMap<Key, Arc<RwLock<()>>>);

impl Default for Turnstiles {
    fn default() -> Self {
        Self(dash_map())
    }
}

/// A turn at a key. Later calls wait until it is dropped.
pub struct Turn<'a> {
    _place: Place<'a, OwnedRwLockWriteGuard<()>>,
}

/// What a call has of the turns of a key: the lock, or a guard of it. Its drop removes the turns that no other call
/// has or waits for. The drop of an owned guard gives back a reference to the lock, so the references are counted only
/// after it.
struct Place<'a, T> {
    turnstiles: &'a Turnstiles,
    key: Key,
    has: Option<T>,
}

impl<'a, T> Place<'a, T> {
    fn new(turnstiles: &'a Turnstiles, key: &Key, has: T) -> Self {
        Self { turnstiles, key: key.clone(), has: Some(has) }
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        drop(self.has.take());
        self.turnstiles.0.remove_if(&self.key, |_, turn| Arc::strong_count(turn) == 1);
    }
}

impl Turnstiles {
    /// Waits for this long, at most, until all earlier calls for several permits have had their turns. Returns whether
    /// they have.
    pub async fn pass(&self, key: &Key, patience: Duration) -> bool {
        // The reference into the map must not be held during the wait.
        let turn = self.0.get(key).map(|turn| Arc::clone(&turn));
        let Some(turn) = turn else { return true };
        let place = Place::new(self, key, Arc::clone(&turn));
        // The place keeps the only reference of this call.
        drop(turn);
        let Some(turn) = &place.has else { return true };
        match turn.try_read() {
            Ok(_) => true,
            Err(_) => timeout(patience, turn.read()).await.is_ok(),
        }
    }

    /// A turn, unless it does not come within this time.
    pub async fn turn(&self, key: &Key, patience: Duration) -> Option<Turn<'_>> {
        let turn = self.0.entry(key.clone()).or_default().clone();
        let place = Place::new(self, key, turn);
        let turn = place.has.as_ref()?;
        let had = match Arc::clone(turn).try_write_owned() {
            Ok(had) => Some(had),
            Err(_) => timeout(patience, Arc::clone(turn).write_owned()).await.ok(),
        };
        had.map(|turn| Turn { _place: Place::new(self, key, turn) })
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const NO_TIME: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_turn_holds_up_later_calls_and_leaves_nothing_behind() {
        let (turnstiles, key) = (Turnstiles::default(), Key::new("k").unwrap());
        let other = Key::new("other").unwrap();
        assert!(turnstiles.pass(&key, NO_TIME).await);
        assert_eq!(turnstiles.len(), 0, "a call for one permit needs no turn");
        let turn = turnstiles.turn(&key, NO_TIME).await.expect("the first turn");
        assert!(turnstiles.turn(&key, NO_TIME).await.is_none());
        assert!(!turnstiles.pass(&key, NO_TIME).await);
        assert!(turnstiles.pass(&other, NO_TIME).await);
        let order = Mutex::new(Vec::new());
        let second = async {
            let turn = turnstiles.turn(&key, LONG).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            order.lock().unwrap().push("the second turn ends");
            drop(turn);
        };
        let third = async {
            assert!(turnstiles.pass(&key, LONG).await);
            order.lock().unwrap().push("the third call passes");
        };
        tokio::join!(second, third, async { drop(turn) });
        assert_eq!(*order.lock().unwrap(), ["the second turn ends", "the third call passes"]);
        assert_eq!(turnstiles.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_ends_last_leaves_nothing_behind() {
        let (turnstiles, key) = (Turnstiles::default(), Key::new("k").unwrap());
        for _ in 0..2 {
            drop(turnstiles.turn(&key, NO_TIME).await.expect("a turn"));
            assert_eq!(turnstiles.len(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_up_or_waits_in_vain_leaves_nothing_behind() {
        let (turnstiles, key) = (Turnstiles::default(), Key::new("k").unwrap());
        let second = Duration::from_secs(1);
        // Each of these calls ends after the turn that it waits for, or before it.
        for turn_first in [true, false] {
            let turn = turnstiles.turn(&key, NO_TIME).await.expect("the first turn");
            let mut waiting = Box::pin(turnstiles.turn(&key, LONG));
            let mut passing = Box::pin(turnstiles.pass(&key, LONG));
            assert!(timeout(second, &mut waiting).await.is_err());
            assert!(timeout(second, &mut passing).await.is_err());
            if turn_first {
                drop(turn);
                drop((waiting, passing));
            } else {
                drop((waiting, passing));
                assert!(turnstiles.turn(&key, second).await.is_none());
                assert!(!turnstiles.pass(&key, second).await);
                assert_eq!(turnstiles.len(), 1, "the first turn goes on");
                drop(turn);
            }
            assert_eq!(turnstiles.len(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_handed_on_stays() {
        let (turnstiles, key) = (Turnstiles::default(), Key::new("k").unwrap());
        let first = turnstiles.turn(&key, NO_TIME).await.expect("the first turn");
        let (second, ()) = tokio::join!(turnstiles.turn(&key, LONG), async { drop(first) });
        let second = second.expect("the second turn");
        assert!(!turnstiles.pass(&key, NO_TIME).await, "the second turn still holds up calls");
        drop(second);
        assert_eq!(turnstiles.len(), 0);
    }
}
