//! Logs what a dead node committed and did not log.
//!
//! The log names every store session that may have such changes. When all nodes of a session are terminal,
//! the items that it wrote are searched once, and the log stops naming it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::{nodes::NodeItem, shared::DynamoShared};
use crate::lease::Nonce;

/// Nodes that notice the same death wait up to this long at random, so that only one does the work.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// How many sessions the log names, approximately at most. Beyond that, the oldest of those that no node's record
/// names are taken for dead. A session that is alive registers again.
const MAX_SESSIONS: usize = 64;

/// Sessions of the log whose nodes are all terminal.
fn dead(me: Nonce, named: &[(Nonce, u64)], nodes: &[NodeItem]) -> Vec<Nonce> {
    let mut alive: HashMap<Nonce, bool> = HashMap::new();
    for node in nodes {
        if let Some(session) = node.session {
            // A node whose record cannot be judged counts as alive.
            let lives = !node.found.record.as_ref().is_ok_and(|record| record.state.is_terminal());
            *alive.entry(session).or_default() |= lives;
        }
    }
    let others = || named.iter().map(|(name, _)| *name).filter(|name| *name != me);
    let mut dead: Vec<Nonce> = others().filter(|name| alive.get(name) == Some(&false)).collect();
    let excess = named.len().saturating_sub(MAX_SESSIONS);
    dead.extend(others().filter(|name| !alive.contains_key(name)).take(excess));
    dead
}

impl DynamoShared {
    /// Starts to log what dead nodes did not log, if there are any.
    pub fn recover(self: &Arc<Self>, nodes: &[NodeItem]) {
        let dead = {
            let mut state = self.state();
            let me = state.me;
            let mut dead = dead(me, &state.sessions, nodes);
            dead.retain(|name| state.outbox.recovering.insert(*name));
            dead
        };
        if !dead.is_empty() && self.recent_failures().frozen.is_none() {
            tokio::spawn(recover(Arc::clone(self), dead));
        } else {
            self.forget_recovering(&dead);
        }
    }

    fn forget_recovering(&self, sessions: &[Nonce]) {
        let mut state = self.state();
        state.outbox.recovering.retain(|name| !sessions.contains(name));
    }
}

async fn recover(shared: Arc<DynamoShared>, sessions: Vec<Nonce>) {
    tokio::time::sleep(shared.jitter(MAX_DELAY)).await;
    let mut left: HashSet<Nonce> = sessions.iter().copied().collect();
    // A node that is alive looks dead between its death and its record as another incarnation.
    let Ok(nodes) = shared.all_nodes().await else { return shared.forget_recovering(&sessions) };
    {
        let state = shared.state();
        let still = dead(state.me, &state.sessions, &nodes);
        left.retain(|name| still.contains(name));
    }
    if !left.is_empty() {
        match look_through(&shared, &left).await {
            Ok(repaired) => {
                tracing::info!(sessions = left.len(), repaired, "logged the changes of dead nodes");
                shared.state().outbox.over.extend(left);
                shared.to_log.notify_one();
            }
            // The next check of the nodes starts it again.
            Err(why) => tracing::warn!(%why, "cannot log the changes of dead nodes yet"),
        }
    }
    shared.forget_recovering(&sessions);
}

/// Queues the changes that the log lacks of the items that these sessions wrote.
async fn look_through(
    shared: &DynamoShared,
    sessions: &HashSet<Nonce>,
) -> Result<usize, crate::lease::StoreError> {
    let mut repaired = 0;
    shared
        .scan(|page| {
            let mut state = shared.state();
            for item in page.items.iter().filter(|item| sessions.contains(&item.trail.writer)) {
                state.observe(item);
                let unlogged = state.unlogged(&item.key, item.revision.0).unwrap_or_default();
                if !unlogged.is_empty() {
                    repaired += 1;
                    state.outbox.repair(&item.key, unlogged);
                }
            }
        })
        .await?;
    Ok(repaired)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lease::{NodeRecord, NodeState, Revision},
        store::FoundNode,
    };

    fn node(session: u128, incarnation: u128, state: NodeState) -> NodeItem {
        let record = NodeRecord::unseen(Nonce(incarnation), Nonce(1)).terminal(state, Nonce(2));
        let found = FoundNode {
            incarnation: Nonce(incarnation),
            revision: Revision(1),
            record: Ok(record),
        };
        NodeItem { found, session: Some(Nonce(session)) }
    }

    #[test]
    fn a_session_is_dead_when_all_its_nodes_are() {
        let named = [(Nonce(1), 0), (Nonce(2), 0), (Nonce(3), 0), (Nonce(4), 0)];
        let nodes = [
            node(1, 10, NodeState::Dead),
            node(2, 20, NodeState::Dead),
            // The node was found dead once, and continues under another incarnation.
            node(3, 30, NodeState::Dead),
            node(3, 31, NodeState::Alive),
            node(5, 50, NodeState::Dead),
        ];
        assert_eq!(dead(Nonce(1), &named, &nodes), [Nonce(2)]);
    }
}
