//! The tasks of this node among the others, which run for as long as the process.

use std::sync::Arc;

use super::node::Node;
use crate::actor::runtime::tasks::supervise;

impl Node {
    /// Writes the first record and reads those of the other nodes. Then continues in the background.
    pub(crate) async fn start(self: &Arc<Self>) {
        self.renew().await;
        self.watch().await;
        supervise(self, "renewal", |node| async move { node.renew_forever().await });
        supervise(self, "inquiries", |node| async move { node.inquire_forever().await });
        supervise(self, "watch", |node| async move { node.watch_forever().await });
        supervise(self, "tombstones", |node| async move { node.collect_forever().await });
        self.sweep_strangers(false);
    }
}
