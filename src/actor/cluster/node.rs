//! This node on a store that several nodes share, and what it publishes of the others.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    seals::seal_versions,
    sweep::{Left, sweep, sweep_strangers},
};
use crate::{
    actor::{coordinator::Coordinator, environment::digest},
    lease::{Membership, Moment, NodeRecord, Nonce, Peers},
    store::{Health, SharedStore, own_level},
};

/// How many times per time to live the node renews its record and reads the records of other nodes.
pub(super) const ROUNDS: u32 = 4;
/// The leases of a dead node are searched for again after this time: one of its writes may have landed late.
const SWEEP_AGAIN: Duration = Duration::from_secs(5);

/// This node on a store that several nodes share.
pub struct Node {
    pub(super) coordinator: Arc<Coordinator>,
    membership: Mutex<Membership>,
    /// Keys whose leases name nodes that are gone, as found by the searches so far.
    pub(super) left: Arc<Mutex<Left>>,
    pub(super) ttl: Duration,
    /// The node is leaving permanently.
    pub(super) stopping: AtomicBool,
    /// Its record is terminal because the store is frozen.
    pub(super) parked: AtomicBool,
    /// The log already says that the record in the store is older than the last write.
    pub(super) forgotten: AtomicBool,
}

impl Node {
    /// How long after its death a node counts as alive.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// A node that has no record in the store yet.
    #[must_use]
    pub fn new(coordinator: Arc<Coordinator>, url: &str, ttl: Duration) -> Arc<Self> {
        let context = coordinator.node_context();
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let newest = seal_versions().first().copied().unwrap_or_default();
        let version = NodeRecord::version_with_seal(env!("CARGO_PKG_VERSION"), newest);
        let membership =
            Membership::new(context.node, url, &version, ttl_ms, context.epoch).at(place());
        let membership = membership.of_level(own_level());
        Arc::new(Self {
            coordinator,
            membership: Mutex::new(membership),
            left: Arc::default(),
            ttl,
            stopping: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            forgotten: AtomicBool::new(false),
        })
    }

    pub(super) fn with<T>(&self, body: impl FnOnce(&mut Membership) -> T) -> T {
        body(&mut self.membership.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn shared(&self) -> &dyn SharedStore {
        self.coordinator.store.shared().expect("a node is made for a shared store")
    }

    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.coordinator.store.health(), Health::Frozen(_))
    }

    /// Publishes what the membership knows to the rest of the node.
    pub(super) fn publish(&self) {
        let frozen = match self.coordinator.store.health() {
            Health::Frozen(why) => Some(why),
            Health::Ready | Health::Degraded(_) => None,
        };
        let mut thawed = None;
        // Under the membership's lock, so that knowledge from before a leave or a rebirth is never published after it.
        self.with(|membership| {
            count(&self.coordinator, membership.peers());
            self.coordinator.change_node_context(|context| {
                if context.frozen != frozen.is_some() {
                    thawed = Some(frozen.clone());
                }
                context.frozen = frozen.is_some();
                context.level = self.coordinator.store.meta().level;
                (context.node, context.epoch) =
                    (membership.incarnation(), membership.record().epoch);
                // Read under the lock under which a clock jump ends all promising.
                let jumped = self.coordinator.jumped.load(Ordering::Acquire);
                context.until = if jumped { Moment::ZERO } else { membership.until() };
                context.resumed = membership.resumed();
                if context.peers.as_deref() != Some(membership.peers()) {
                    context.peers = Some(Arc::new(membership.peers().clone()));
                }
            });
        });
        if let Some(why) = thawed {
            self.coordinator.metrics.frozen(why.is_some());
            match &why {
                Some(why) => tracing::error!(why, "the store is frozen: nothing is granted"),
                None => tracing::warn!("the store is no longer frozen: leases are granted again"),
            }
            self.coordinator.bus.freeze(why.map(Into::into));
        }
    }

    /// Wakes the leases of a node that is gone, now and once more after a pause.
    pub(super) fn sweep(&self, node: Nonce) {
        let (coordinator, left) = (self.coordinator.clone(), self.left.clone());
        actix::spawn(async move {
            sweep(&coordinator, |home| home == node).await;
            tokio::time::sleep(SWEEP_AGAIN).await;
            let mut found = sweep(&coordinator, |home| home == node).await;
            found.entry(node).or_default();
            left.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        });
    }

    /// Wakes the leases of nodes that are gone or unknown. With `again`, does so once more after a pause.
    pub(super) fn sweep_strangers(&self, again: bool) {
        let (coordinator, left) = (self.coordinator.clone(), self.left.clone());
        actix::spawn(async move {
            let mut found = sweep_strangers(&coordinator).await;
            if again {
                tokio::time::sleep(SWEEP_AGAIN).await;
                found = sweep_strangers(&coordinator).await;
            }
            left.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        });
    }
}

/// Counts the nodes by their states, this one among the living.
fn count(coordinator: &Coordinator, peers: &Peers) {
    let mut by_state = [1, 0, 0];
    for peer in peers.iter().filter(|peer| !peer.is_own()) {
        by_state[peer.record.state as usize] += 1;
    }
    coordinator.metrics.nodes(by_state);
}

/// Names the machine and the network namespace of this process.
fn place() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let network = std::fs::read_link("/proc/self/ns/net").ok();
    let named = boot.zip(network).map(|(boot, network)| format!("{boot}{}", network.display()));
    named.map_or(0, |named| digest(named.as_bytes()))
}
