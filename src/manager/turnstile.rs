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
    _place: Place<'a>,
    _turn: OwnedRwLockWriteGuard<()>,
}

/// Removes the turns of a key when nobody needs them any more.
struct Place<'a>(&'a Turnstiles, &'a Key);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Self(Turnstiles(turns), key) = self;
        turns.remove_if(*key, |_, turn| Arc::strong_count(turn) == 1);
    }
}

impl Turnstiles {
    /// Waits for this long, at most, until all earlier calls for several permits have had their turns. Returns whether
    /// they have.
    pub async fn pass(&self, key: &Key, patience: Duration) -> bool {
        // The reference into the map must not be held during the wait.
        let turn = self.0.get(key).map(|turn| Arc::clone(&turn));
        let Some(turn) = turn else { return true };
        let _place = Place(self, key);
        let passed = match turn.try_read() {
            Ok(_) => true,
            Err(_) => timeout(patience, turn.read()).await.is_ok(),
        };
        drop(turn);
        passed
    }

    /// A turn, unless it does not come within this time.
    pub async fn turn<'a>(&'a self, key: &'a Key, patience: Duration) -> Option<Turn<'a>> {
        let turn = self.0.entry(key.clone()).or_default().clone();
        let place = Place(self, key);
        let had = match Arc::clone(&turn).try_write_owned() {
            Ok(had) => Some(had),
            Err(_) => timeout(patience, Arc::clone(&turn).write_owned()).await.ok(),
        };
        drop(turn);
        had.map(|turn| Turn { _turn: turn, _place: place })
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
}
