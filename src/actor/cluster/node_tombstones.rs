//! Removes terminal records of nodes.

use std::{sync::PoisonError, time::Duration};

use super::{node::Node, sweep::named};

/// Terminal records that no lease needs are kept for this long, so that operators can see them.
const KEEP_TOMBSTONES: Duration = Duration::from_secs(600);
/// How often terminal records that no lease needs are searched for.
const COLLECT: Duration = Duration::from_secs(60);

impl Node {
    /// Runs for as long as the process.
    pub(super) async fn collect_forever(&self) {
        loop {
            tokio::time::sleep(COLLECT).await;
            self.collect().await;
        }
    }

    /// Removes terminal records that no lease needs any more. Reads only the keys that named the node when it was found
    /// gone.
    async fn collect(&self) {
        let now = self.coordinator.clock.now();
        let old: Vec<_> = self.with(|membership| {
            membership
                .tombstones()
                .filter(|(_, _, since)| now.since(*since) > KEEP_TOMBSTONES)
                .collect()
        });
        let left = || self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left().retain(|node, _| self.with(|membership| membership.peers().get(*node).is_some()));
        for (node, revision, _) in old {
            let Some(keys) = left().get(&node).cloned() else { continue };
            match named(&self.coordinator, node, keys).await {
                Ok(none) if none.is_empty() => {
                    let _ = self.shared().forget_node(node, revision).await;
                }
                Ok(some) => drop(left().insert(node, some)),
                Err(error) => {
                    tracing::debug!(%error, "a tombstone is kept: its leases cannot be read")
                }
            }
        }
    }
}
