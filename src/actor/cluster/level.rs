//! Raises the level of the store once every node knows more (docs/upgrades.md).

use super::node::Node;
use crate::{
    lease::{Level, NodeRecord},
    store::StoreError,
};

impl Node {
    /// Raises the store's level, if all nodes know a higher one. Where they do not, this costs no request.
    pub(super) async fn raise_level(&self) {
        let level = self.coordinator.store.meta().level;
        let rises = self.with(|membership| {
            membership.is_committed() && membership.level().is_some_and(|known| known > level)
        });
        if !rises || self.is_frozen() {
            return;
        }
        match self.level_for_all(level).await {
            Ok(now) if now > level => {
                tracing::info!(
                    level = now.0,
                    "all nodes know this level: new fields may be written"
                );
                self.publish();
            }
            Ok(_) => {}
            Err(error) => tracing::info!(%error, "the store's level is not raised yet; retrying"),
        }
    }

    /// Raises the store's level from this one. Returns what it is then.
    async fn level_for_all(&self, level: Level) -> Result<Level, StoreError> {
        // Read before the nodes' records: a node that registers later changes it.
        let seen = self.shared().own_revision().await?;
        let nodes: Vec<_> =
            self.shared().scan_nodes().await?.into_iter().map(|found| found.record).collect();
        match NodeRecord::level_of_all(&nodes) {
            Some(known) if known > level => {
                self.shared().raise_level(known, seen).await?;
                Ok(self.coordinator.store.meta().level)
            }
            _ => Ok(level),
        }
    }
}
