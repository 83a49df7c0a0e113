//! Renews this node's own record.
//!
//! Guarantees: no promise is decided after the last committed record of this node ran out. A node that was found dead,
//! or whose clock stood still, continues as another incarnation.

use std::sync::atomic::Ordering;

use super::node::{Node, ROUNDS};
use crate::{
    actor::mail::Mail,
    lease::{Epoch, Moment, NodeRecord, NodeState, Renewal, Revision},
    store::{FoundNode, NodeOutcome, StoreError},
    telemetry::recent::Interruption,
};

impl Node {
    /// Runs for as long as the process.
    pub(super) async fn renew_forever(&self) {
        loop {
            tokio::select! {
                biased;
                () = self.coordinator.membership.notified() => {}
                () = tokio::time::sleep(self.ttl / ROUNDS) => {}
            }
            self.renew().await;
        }
    }

    /// Renews this node's own record once, and waits until the write is settled.
    pub(super) async fn renew(&self) {
        if self.stopping.load(Ordering::Acquire) {
            return;
        }
        self.follow_epoch().await;
        if self.is_frozen() {
            // The node's promises run out, so that no client relies on them when the store continues, and an operator
            // can raise the epoch without stopping this node.
            if !self.parked.swap(true, Ordering::AcqRel) {
                self.say_farewell().await;
            }
            return self.publish();
        }
        // Reads the clock, so that a stop of the clock is noticed before the record is renewed, even if no client
        // calls.
        self.coordinator.now();
        if self.coordinator.jumped.load(Ordering::Acquire) || self.parked.load(Ordering::Acquire) {
            self.be_reborn().await;
        }
        let now = self.coordinator.clock.now();
        let nonce = self.coordinator.entropy.nonce();
        let load = self.coordinator.homed();
        let (expected, record) = self.with(|membership| membership.renewal(now, nonce, load));
        let record = NodeRecord { common: self.coordinator.common(), ..record };
        if !self.coordinator.protocol.a_record_counts_only_once_committed() {
            self.coordinator.change_node_context(|context| context.until = record.until);
        }
        match self.shared().write_node(expected, record.clone()).await {
            NodeOutcome::Committed(revision) => {
                self.forgotten.store(false, Ordering::Release);
                self.renewed(record, revision).await;
            }
            NodeOutcome::Refused(error) => self.not_renewed(&error),
            NodeOutcome::Conflict => self.look_at_oneself().await,
            NodeOutcome::Unknown(error) => {
                self.not_renewed(&error);
                self.look_at_oneself().await;
            }
        }
        self.publish();
    }

    async fn renewed(&self, record: NodeRecord, revision: Revision) {
        if !self.with(|membership| membership.is_committed())
            && !self.register(&record, revision).await
        {
            return;
        }
        let now = self.coordinator.clock.now();
        self.coordinator.metrics.renewed(true);
        if self.with(|membership| membership.renewed(record, revision, now)) == Renewal::Resumed {
            tracing::warn!("this node may promise again: each of its leases gets one more ttl");
            self.coordinator.metrics.lapses_expired.increment(1);
            self.coordinator.recent.interrupted(now, Interruption::RecordRanOut);
            self.publish();
            self.coordinator.lapsed();
        }
    }

    /// R7: an incarnation promises nothing before the store's own record counts it. Whoever raises the epoch either
    /// sees this registration, or makes it fail.
    async fn register(&self, record: &NodeRecord, revision: Revision) -> bool {
        if !self.coordinator.protocol.a_node_registers_before_it_promises() {
            return true;
        }
        match self.shared().register(record.epoch).await {
            Ok(true) => return true,
            Ok(false) => {
                // This record tells the other nodes at once that the incarnation is over. If the write fails, they
                // wait until the record runs out.
                let dead = record.terminal(NodeState::Dead, self.coordinator.entropy.nonce());
                let _ = self.shared().write_node(revision, dead).await;
                self.be_reborn().await;
            }
            Err(error) => self.not_renewed(&error),
        }
        false
    }

    fn not_renewed(&self, error: &StoreError) {
        self.coordinator.metrics.renewed(false);
        tracing::warn!(%error, "this node's record was not renewed; retrying");
    }

    /// This node's own record is not as expected: an earlier renewal landed after all, or other nodes found this node
    /// dead.
    async fn look_at_oneself(&self) {
        let (incarnation, known, leaving, wrote) =
            self.with(|k| (k.incarnation(), k.is_committed(), k.is_leaving(), k.revision()));
        match self.shared().read_node(incarnation).await {
            Ok(Some(FoundNode { revision, record: Ok(record), .. }))
                if !record.state.is_terminal() =>
            {
                if revision < wrote {
                    self.say_forgotten();
                }
                // No other node writes a living record of this incarnation.
                self.renewed(record, revision).await;
            }
            Ok(None) if !known => {}
            Ok(_) if leaving => {}
            // The store went backwards. The raise of the epoch writes `dead` for such a node, and relies on that.
            Ok(Some(found)) if found.revision <= wrote => self.say_forgotten(),
            Ok(_) => {
                if !self.is_frozen() {
                    tracing::warn!("this node was found dead: it continues as another incarnation");
                    self.coordinator.metrics.lapses_found_dead.increment(1);
                    let now = self.coordinator.clock.now();
                    self.coordinator.recent.interrupted(now, Interruption::FoundDead);
                    self.be_reborn().await;
                }
            }
            Err(error) => self.not_renewed(&error),
        }
    }

    fn say_forgotten(&self) {
        if !self.forgotten.swap(true, Ordering::AcqRel) {
            tracing::error!(
                "this node's record is older than its last write: the store seems to have gone backwards, and nothing \
                 is promised until the record can be renewed or the epoch is raised"
            );
        }
    }

    /// Continues as another incarnation, under the store's present epoch.
    async fn be_reborn(&self) {
        self.coordinator.change_node_context(|context| context.until = Moment::ZERO);
        let meta = match self.shared().refresh_meta().await {
            Ok(meta) => meta,
            Err(error) => return self.not_renewed(&error),
        };
        let (before, last) = self.with(|membership| {
            let before = membership.record().epoch;
            let last =
                membership.record().terminal(NodeState::Dead, self.coordinator.entropy.nonce());
            let expected = membership.revision();
            membership.reborn(
                self.coordinator.entropy.nonce(),
                meta.epoch,
                self.coordinator.clock.now(),
            );
            (before, (expected, last))
        });
        self.coordinator.jumped.store(false, Ordering::Release);
        self.parked.store(false, Ordering::Release);
        self.forgotten.store(false, Ordering::Release);
        self.publish();
        if meta.epoch > before {
            self.begin_epoch(meta.epoch);
        }
        if last.0 != Revision::ABSENT {
            // This record tells the other nodes at once that the incarnation is over. If the write fails, they wait
            // until the record runs out.
            let _ = self.shared().write_node(last.0, last.1).await;
        }
        self.coordinator.registry.tell_all(|| Mail::Nudge);
    }

    /// R7: everything known of leases may be what the store forgot, and revisions are assigned again. A store that went
    /// backwards may also name home nodes that have no record any more, and sessions that no client asks about.
    fn begin_epoch(&self, epoch: Epoch) {
        tracing::warn!(epoch = epoch.0, "the epoch was raised: every lease is read again");
        self.coordinator.registry.tell_all(|| Mail::Reload);
        self.sweep_strangers(true);
    }

    /// R7: an incarnation keeps the epoch that it began with. Under a raised epoch the node needs another incarnation.
    async fn follow_epoch(&self) {
        let known = self.with(|membership| membership.record().epoch);
        if !self.is_frozen() && self.coordinator.store.meta().epoch == known {
            return;
        }
        let Ok(meta) = self.shared().refresh_meta().await else { return };
        if meta.epoch > known {
            self.be_reborn().await;
        }
    }

    /// Announces that this node leaves: it promises nothing more, and other nodes may adopt its leases at once.
    pub(crate) async fn leave(&self) {
        self.stopping.store(true, Ordering::Release);
        self.say_farewell().await;
    }

    /// Makes this node's own record terminal.
    async fn say_farewell(&self) {
        let left = self.with(|membership| membership.leave(self.coordinator.entropy.nonce()));
        self.publish();
        let Some((mut expected, record)) = left else { return };
        for _ in 0..ROUNDS {
            match self.shared().write_node(expected, record.clone()).await {
                NodeOutcome::Committed(_) => return,
                // An earlier renewal landed, or another node was faster.
                NodeOutcome::Conflict | NodeOutcome::Unknown(_) => {
                    match self.shared().read_node(record.incarnation).await {
                        Ok(Some(FoundNode { revision, record: Ok(there), .. }))
                            if !there.state.is_terminal() =>
                        {
                            expected = revision;
                        }
                        _ => return,
                    }
                }
                NodeOutcome::Refused(error) => {
                    tracing::warn!(%error, "cannot mark this node as drained; others adopt its leases later");
                    return;
                }
            }
        }
    }
}
