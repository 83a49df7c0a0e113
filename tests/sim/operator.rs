//! Whoever restores the store from a copy, and raises its epoch afterwards, as `tenure restore` and
//! `tenure raise-epoch` do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure::{
    clock::Clock,
    lease::{Epoch, NodeRecord, NodeState, Nonce, Revision},
    store::{FoundNode, NodeOutcome, Raise, SharedStore},
};
use tokio::time::sleep;

use super::{
    faults::Nemesis,
    run::NODE_TTL,
    time::{SimClock, ms},
};

/// Where the store is operated from.
const OPERATOR: usize = 99;

type Living = BTreeMap<Nonce, (Revision, NodeRecord)>;

impl Nemesis {
    /// The store is put back to what it was a while ago.
    pub async fn regress(&self, copied: Duration, raised: Duration) {
        let server = &self.site.server;
        server.snapshot();
        sleep(copied).await;
        self.tell("regress", "store");
        if !server.kind().is_shared() {
            self.hosts[0].crash();
            server.regress();
            return self.hosts[0].start();
        }
        server.regress();
        // Until every node has noticed.
        sleep(Duration::from_secs(6) + raised).await;
        while !self.raise().await {
            sleep(ms(500)).await;
        }
        self.tell("epoch-raised", "store");
    }

    /// Finds every node dead, and raises the epoch; not while one of them lives.
    async fn raise(&self) -> bool {
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(1, 0, 0));
        let Ok(store) = self.site.server.open(OPERATOR, clock).await else { return false };
        let Some(shared) = store.shared() else { return true };
        let Ok(seen) = shared.own_revision().await else { return false };
        let Some(first) = living(shared).await else { return false };
        sleep(2 * NODE_TTL).await;
        let Some(then) = living(shared).await else { return false };
        let lives = |(node, found): (&Nonce, &(Revision, NodeRecord))| {
            first.get(node).is_none_or(|before| before.0 != found.0)
        };
        if then.iter().any(lives) {
            return false;
        }
        let nonce = || Nonce(u128::from(self.chance.borrow_mut().next_u64()) << 64 | 5);
        for (revision, record) in then.into_values() {
            let dead = record.terminal(NodeState::Dead, nonce());
            if !matches!(shared.write_node(revision, dead).await, NodeOutcome::Committed(_)) {
                return false;
            }
        }
        let epoch = Epoch(self.site.server.epoch().0 + 1);
        let raise = Raise { identity: nonce(), epoch, seen, restoring: false, secret: None };
        shared.raise_epoch(raise).await.is_ok()
    }
}

async fn living(shared: &dyn SharedStore) -> Option<Living> {
    let found = shared.scan_nodes().await.ok()?;
    let living = |node: FoundNode| {
        let record = node.record.ok().filter(|record| !record.state.is_terminal())?;
        Some((node.incarnation, (node.revision, record)))
    };
    Some(found.into_iter().filter_map(living).collect())
}
