//! Looking through all keys for those that a dead node left.

use std::{sync::Arc, time::Duration};

use super::{Mail, World};
use crate::{
    lease::{Nonce, State},
    store::Range,
};

/// Keys read at a time.
const PAGE: usize = 1000;

/// Wakes the actors of taken keys whose home is such, a page at a time. Whether all keys were seen.
pub(super) async fn sweep(world: &Arc<World>, such: impl Fn(Nonce, State) -> bool) -> bool {
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
            let Ok(record) = &found.record else { continue };
            if record.state != State::Free && such(record.node, record.state) {
                let _ = world.registry.start(world, key);
                world.registry.tell(key.as_str(), || Mail::Nudge);
            }
        }
        tokio::task::yield_now().await;
    }
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
    sweep(&world, |home, _| home != terms.node && !living(home)).await;
}
