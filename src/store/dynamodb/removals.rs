//! Looks for items that other nodes removed. The log of changes says that a key was forgotten or a session
//! has ended. It does not say when the item is removed. Until this task reads the item, the key counts as
//! existing.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::shared::DynamoShared;
use crate::{
    lease::{Key, KeyState, Moment},
    store::retention,
};

/// How often to check whether an item is due.
const TICK: Duration = Duration::from_secs(1);
/// How long a removal may take beyond the time for which an item must stay.
const SLACK: Duration = Duration::from_secs(10);
/// How much later an item that still exists is read once more.
const ONCE_MORE: Duration = Duration::from_secs(1200);
/// How many items are read at a time.
const BATCH: usize = 100;

/// The keys to read, in the order in which they are due.
type Due = VecDeque<(Moment, Key)>;

/// Runs as long as the store is open.
pub(super) async fn look(shared: Arc<DynamoShared>) {
    let (mut first, mut second) = (Due::new(), Due::new());
    loop {
        sleep(TICK).await;
        let now = shared.clock.now();
        let leaving = std::mem::take(&mut shared.state().leaving);
        first.extend(leaving.into_iter().map(|key| (now + retention() + SLACK, key)));
        for key in look_at(&shared, &mut first, now).await {
            second.push_back((now + ONCE_MORE, key));
        }
        look_at(&shared, &mut second, now).await;
    }
}

/// Reads the items that are due. The read itself takes in which are gone. Returns the keys whose items still
/// exist and may be removed yet.
async fn look_at(shared: &DynamoShared, due: &mut Due, now: Moment) -> Vec<Key> {
    let mut left = Vec::new();
    while due.front().is_some_and(|(at, _)| *at <= now) {
        let count = due.iter().take(BATCH).take_while(|(at, _)| *at <= now).count();
        let keys = due.drain(..count).map(|(_, key)| key);
        let keys: Vec<Key> = keys.filter(|key| shared.state().keys.contains_key(key)).collect();
        match shared.read_leases(&keys).await {
            Ok(found) => {
                let free = |found: &crate::store::Found| {
                    found.record.as_ref().is_ok_and(|record| record.state == KeyState::Free)
                };
                let pairs = keys.into_iter().zip(found);
                let pairs = pairs.filter(|(_, found)| found.as_ref().is_some_and(free));
                left.extend(pairs.map(|(key, _)| key));
            }
            Err(why) => {
                tracing::debug!(%why, "cannot check items that may be gone; retrying");
                due.extend(keys.into_iter().map(|key| (now + SLACK, key)));
            }
        }
    }
    left
}
