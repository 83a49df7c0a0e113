//! Looking through all keys for those that a dead node left.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Mail, World, sessions::End};
use crate::{
    lease::{Key, Nonce, Record, State},
    store::Range,
};

/// Keys read at a time.
const PAGE: usize = 1000;

/// Looks at every key's record, a page at a time. Whether all keys were seen.
async fn look(world: &World, mut each: impl FnMut(&Key, &Record)) -> bool {
    let mut after = None;
    loop {
        let range = Range { prefix: String::new(), after: after.take(), limit: PAGE };
        let page = match world.store.scan(range).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the leases of dead nodes cannot be looked for");
                tokio::time::sleep(Duration::from_millis(500)).await;
                return false;
            }
        };
        let Some((last, _)) = page.last() else { return true };
        after = Some(last.as_str().to_owned());
        for (key, found) in &page {
            if let Ok(record) = &found.record {
                each(key, record);
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Whether a record leaves its home something to do: a tenure, an offer, a lock-delay, a fence.
pub(super) fn is_pending(record: &Record) -> bool {
    record.state != State::Free || !record.fences().is_empty()
}

/// Wakes the actors of keys that such a home left with something to do, and has the leases of sessions
/// looked for whose end it wrote: it may have died before it told them. Whether all keys were seen.
pub(super) async fn sweep(world: &Arc<World>, such: impl Fn(Nonce) -> bool) -> bool {
    look(world, |key, record| {
        if !such(record.node) {
            return;
        }
        if is_pending(record) {
            let _ = world.registry.start(world, key);
            world.registry.tell(key.as_str(), || Mail::Nudge);
        } else if let Some(digest) = key.session() {
            world.sessions.left(digest, End::of_record(record));
        }
    })
    .await
}

/// The homes that are named by records with something left to do; `None` when not all keys were seen.
pub(super) async fn named(world: &World) -> Option<BTreeSet<Nonce>> {
    let mut named = BTreeSet::new();
    let complete = look(world, |_, record| {
        if is_pending(record) {
            named.insert(record.node);
        }
    });
    complete.await.then_some(named)
}

/// At the start: leases of nodes that are gone, or that nobody knows.
pub(super) async fn sweep_strangers(world: Arc<World>) {
    while !world.registry.has_arbiters() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let terms = world.terms();
    let living = |home: Nonce| {
        let peers = terms.peers.as_ref();
        let peer = peers.and_then(|peers| peers.get(home));
        peer.is_some_and(|peer| !peer.record.state.is_terminal())
    };
    sweep(&world, |home| home != terms.node && !living(home)).await;
}
