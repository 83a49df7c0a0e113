//! Has members prepare for the keys that they are to have, and asks the holders of these keys once they are prepared.
//!
//! Guarantees: a holder is not asked for a key before the member that is to have it is prepared, or had its time for that.
//! The exceptions are a member that leaves and whose time for preparations is over, and a key for which no member has room.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};

use super::balance::{ask, is_late};
use crate::{
    actor::coordinator::Coordinator,
    lease::{Key, Nonce, Token},
};

/// How often it is looked whether the time for preparations is over.
const LOOK: Duration = Duration::from_millis(100);
/// How many values are read, or requests written, at a time.
const AT_ONCE: usize = 64;

/// Runs for as long as the process.
pub async fn warm(coordinator: &Arc<Coordinator>) {
    let pools = &coordinator.pools;
    let mut told = BTreeMap::new();
    loop {
        tokio::select! {
            () = pools.warming_changed() => {}
            () = tokio::time::sleep(LOOK), if pools.is_warming() => {}
        }
        ask_holders(coordinator).await;
        read_values(coordinator).await;
        tell(coordinator, &mut told);
    }
}

async fn ask_holders(coordinator: &Arc<Coordinator>) {
    let now = coordinator.clock.now();
    let here = |digest| coordinator.sessions.get(digest).is_some();
    for name in coordinator.pools.names() {
        let table = coordinator.policy_table();
        let warmups = table.warmups(&name);
        let due = coordinator.pools.change_known(&name, |pool| {
            pool.warm_due(here, |member| is_late(coordinator, &name, member), warmups, now)
        });
        let asks = due.unwrap_or_default().into_iter().map(async |due| {
            if let Some(metrics) = table.named(&name) {
                metrics.warmups.over(due.ready);
            }
            ask(coordinator, &name, due.order, now).await;
        });
        stream::iter(asks).buffer_unordered(AT_ONCE).collect::<()>().await;
    }
}

/// Reads the values of the keys that members at home here are to prepare for.
async fn read_values(coordinator: &Arc<Coordinator>) {
    let here = |digest| coordinator.sessions.get(digest).is_some();
    let unread = coordinator.pools.warm_unread(here);
    let reads = unread.into_iter().map(|unread| read_value(coordinator, unread));
    stream::iter(reads).buffer_unordered(AT_ONCE).collect::<()>().await;
}

async fn read_value(coordinator: &Coordinator, (pool, key, token): (Box<str>, Key, Token)) {
    match coordinator.store.read(&key).await {
        Ok(found) => {
            let record = found.and_then(|found| found.record.ok());
            let value = record.and_then(|record| record.value.clone());
            coordinator.pools.warm_value((&pool, key, token), value);
        }
        // It is read again at the next look.
        Err(error) => {
            tracing::debug!(%key, %error, "cannot read the value of a key to prepare for")
        }
    }
}

type Told = BTreeMap<Nonce, Vec<(Key, Token, bool)>>;

/// Tells those who keep sessions here by streams what they are to prepare for, where that changed.
fn tell(coordinator: &Coordinator, told: &mut Told) {
    let here = |digest| coordinator.sessions.get(digest).is_some();
    let now = coordinator.pools.warm_told(here);
    let before = std::mem::take(told);
    let sessions = before.keys().chain(now.keys().filter(|digest| !before.contains_key(digest)));
    for digest in sessions.filter(|digest| before.get(digest) != now.get(digest)) {
        if let Some(session) = coordinator.sessions.get(*digest) {
            session.tell_followers();
        }
    }
    *told = now;
}
