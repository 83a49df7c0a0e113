//! Looks for items that other nodes removed. The log of changes says that a key was forgotten or a session is over; when
//! the item goes, nobody says. Until it is looked for, the key counts as one that exists.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::shared::Shared;
use crate::{
    lease::{Key, Moment, State},
    store::burial,
};

/// How often it is seen whether a look is due.
const TICK: Duration = Duration::from_secs(1);
/// What a removal may take besides the time for which an item stays at least.
const SLACK: Duration = Duration::from_secs(10);
/// An item that is still there after that is looked for once more, this much later.
const ONCE_MORE: Duration = Duration::from_secs(1200);
/// So many are looked for at a time.
const BATCH: usize = 100;

/// Keys that are looked for, the first due first.
type Due = VecDeque<(Moment, Key)>;

/// Goes on for as long as the store is open.
pub(super) async fn look(shared: Arc<Shared>) {
    let (mut first, mut second) = (Due::new(), Due::new());
    loop {
        sleep(TICK).await;
        let now = shared.clock.now();
        let leaving = std::mem::take(&mut shared.state().leaving);
        first.extend(leaving.into_iter().map(|key| (now + burial() + SLACK, key)));
        for key in look_at(&shared, &mut first, now).await {
            second.push_back((now + ONCE_MORE, key));
        }
        look_at(&shared, &mut second, now).await;
    }
}

/// Reads what is due, which takes note of what is gone; gives back what is still there and may go yet.
async fn look_at(shared: &Shared, due: &mut Due, now: Moment) -> Vec<Key> {
    let mut left = Vec::new();
    while due.front().is_some_and(|(at, _)| *at <= now) {
        let count = due.iter().take(BATCH).take_while(|(at, _)| *at <= now).count();
        let keys = due.drain(..count).map(|(_, key)| key);
        let keys: Vec<Key> = keys.filter(|key| shared.state().keys.contains_key(key)).collect();
        match shared.read_leases(&keys).await {
            Ok(found) => {
                let free = |found: &crate::store::Found| {
                    found.record.as_ref().is_ok_and(|record| record.state == State::Free)
                };
                let pairs = keys.into_iter().zip(found);
                let pairs = pairs.filter(|(_, found)| found.as_ref().is_some_and(free));
                left.extend(pairs.map(|(key, _)| key));
            }
            Err(why) => {
                tracing::debug!(%why, "items that may be gone could not be looked for");
                due.extend(keys.into_iter().map(|key| (now + SLACK, key)));
            }
        }
    }
    left
}
