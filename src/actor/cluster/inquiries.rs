//! Looks up unknown nodes that leases name.

use super::node::{Node, ROUNDS};
use crate::{
    lease::{NodeRecord, Revision},
    store::{FoundNode, NodeOutcome},
};

impl Node {
    /// Runs for as long as the process.
    pub(super) async fn inquire_forever(&self) {
        loop {
            self.coordinator.unknown_nodes.filled().await;
            self.answer_inquiries().await;
        }
    }

    /// Looks up unknown nodes that leases name. A node without a record gets one that says `dead` and nothing else.
    async fn answer_inquiries(&self) {
        let mut asked = self.coordinator.unknown_nodes.take().into_iter();
        while let Some(node) = asked.next() {
            if self.with(|membership| membership.peers().get(node).is_some()) {
                continue;
            }
            let found = self.shared().read_node(node).await;
            let now = self.coordinator.clock.now();
            match found {
                Ok(Some(FoundNode { revision, record: Ok(record), .. })) => {
                    self.with(|membership| membership.marked_dead(record, revision, now));
                }
                Ok(Some(_)) => continue,
                Ok(None) => {
                    let record = NodeRecord::unseen(node, self.coordinator.entropy.nonce());
                    let written = self.shared().write_node(Revision::ABSENT, record.clone()).await;
                    let NodeOutcome::Committed(revision) = written else {
                        self.coordinator.inquire(node);
                        tokio::time::sleep(self.ttl / ROUNDS).await;
                        continue;
                    };
                    let now = self.coordinator.clock.now();
                    self.with(|membership| membership.marked_dead(record, revision, now));
                }
                Err(_) => {
                    std::iter::once(node)
                        .chain(asked)
                        .for_each(|node| self.coordinator.inquire(node));
                    return tokio::time::sleep(self.ttl / ROUNDS).await;
                }
            }
            self.publish();
            self.sweep(node);
        }
    }
}
