//! Watches the records of the other nodes, and marks those dead that did not renew theirs in time.

use super::node::{Node, ROUNDS};
use crate::{
    lease::{Findings, Moment, NodeRecord, Revision},
    store::{FoundNode, NodeOutcome},
};

impl Node {
    /// Runs for as long as the process.
    pub(super) async fn watch_forever(&self) {
        loop {
            tokio::time::sleep(self.ttl / ROUNDS).await;
            self.watch().await;
        }
    }

    /// Reads every node's record, and marks nodes dead that let D pass (R3).
    pub(super) async fn watch(&self) {
        let asked = self.coordinator.clock.now();
        let found = match self.shared().scan_nodes().await {
            Ok(found) => found,
            Err(error) => return tracing::warn!(%error, "cannot read the nodes' records; retrying"),
        };
        let protocol = self.coordinator.protocol;
        let now = protocol.a_reading_is_paired_with(asked, self.coordinator.clock.now());
        let findings = self.judge(found, asked, now);
        let mut gone = findings.gone;
        for (expected, tombstone) in findings.dead {
            let node = tombstone.incarnation;
            if self.mark_dead(expected, tombstone, now).await {
                gone.push(node);
            }
        }
        self.publish();
        self.raise_level().await;
        findings.lost.into_iter().for_each(|node| self.coordinator.inquire(node));
        gone.into_iter().for_each(|node| self.sweep(node));
    }

    /// What these records, read between the two moments, say of the other nodes.
    fn judge(&self, found: Vec<FoundNode>, asked: Moment, now: Moment) -> Findings {
        let protocol = self.coordinator.protocol;
        let nonce = || self.coordinator.entropy.nonce();
        self.with(|membership| {
            let readable = |found: FoundNode| {
                let record = found.record.ok()?;
                let known = membership.peers().get(record.incarnation).map(|peer| &peer.record);
                Some((found.revision, protocol.a_terminal_record_counts_as_read(record, known)))
            };
            let found: Vec<_> = found.into_iter().filter_map(readable).collect();
            membership.read(&found, asked, now, nonce)
        })
    }

    /// Marks a node dead. Returns whether the record is written; otherwise the next round reads it again.
    async fn mark_dead(&self, expected: Revision, tombstone: NodeRecord, now: Moment) -> bool {
        let protocol = self.coordinator.protocol;
        let tombstone = protocol.a_tombstone_keeps_the_nodes_instants(tombstone, now, self.ttl);
        let (node, url) = (tombstone.incarnation, tombstone.url.clone());
        let written = self.shared().write_node(expected, tombstone.clone()).await;
        let NodeOutcome::Committed(revision) = written else {
            tracing::info!(%node, url, "a node was not marked dead; retrying");
            return false;
        };
        tracing::warn!(%node, url, "a node did not renew its record in time: it is marked dead");
        let now = self.coordinator.clock.now();
        self.with(|membership| membership.marked_dead(tombstone, revision, now));
        true
    }
}
