//! The order in which a call tries its candidates. Nodes try them in different orders, so that they seldom collide.

use tokio::sync::oneshot;

use super::call::AnyCall;
use crate::{
    actor::Mail,
    clock::Chance,
    lease::{CandidateOrder, Key, Nonce, View, arrange},
    manager::{Manager, error::CallError},
};

impl AnyCall<'_> {
    /// The candidates in the order in which they are tried.
    pub async fn order(&self, keys: Vec<Key>) -> Result<Vec<Key>, CallError> {
        let Some(lead) = keys.first() else { return Ok(keys) };
        if self.any.order == CandidateOrder::Listed || keys.len() == 1 {
            return Ok(keys);
        }
        let mine = self.formerly_mine(&keys).await?;
        let shuffle = self.manager.shuffle(lead, keys.len()).await;
        let nodes = self.manager.living();
        let near = |at: usize| self.manager.is_nearest(&keys[at], &nodes);
        let mine = |at: usize| mine.get(at).copied().unwrap_or(false);
        let order = arrange(self.any.order, shuffle, mine, near);
        Ok(order.into_iter().map(|at| keys[at].clone()).collect())
    }

    /// Which keys the owner was the last to hold. Only the sticky order asks.
    async fn formerly_mine(&self, keys: &[Key]) -> Result<Vec<bool>, CallError> {
        if self.any.order != CandidateOrder::Sticky {
            return Ok(Vec::new());
        }
        let rules = self.manager.coordinator.protocol;
        let own = &self.any.owner;
        let mine = |view: &View| view.previous.as_ref().is_some_and(|p| rules.is_owner(&p.0, own));
        Ok(self.manager.views(keys).await?.iter().map(mine).collect())
    }
}

impl Manager {
    /// A permutation of this many keys, drawn by the actor of the first one.
    async fn shuffle(&self, lead: &Key, count: usize) -> Vec<usize> {
        let (sender, receiver) = oneshot::channel();
        // The channel closes if no actor gets the mail.
        let mail = Mail::Shuffle(count, sender);
        let _ = self.coordinator.registry.post(lead.as_str(), mail);
        match receiver.await {
            Ok(shuffle) => shuffle,
            Err(_) => Chance::new(self.coordinator.entropy.next_u64()).permutation(count),
        }
    }

    /// The living nodes, including this one. Empty if there is no other node.
    fn living(&self) -> Vec<Nonce> {
        let nodes = self.nodes();
        let living = nodes.iter().filter(|view| view.this || !view.record.state.is_terminal());
        let living: Vec<_> = living.map(|view| view.record.incarnation).collect();
        if living.len() > 1 { living } else { Vec::new() }
    }

    /// Whether this node has the highest claim to a key among the living nodes. Each node tries its own part of the
    /// keys first: a node learns a moment late what another one granted.
    fn is_nearest(&self, key: &Key, living: &[Nonce]) -> bool {
        let claim = |node: &Nonce| Chance::of((node.0 >> 64) as u64, key.as_str()).next_u64();
        let mine = self.incarnation();
        living.iter().max_by_key(|node| claim(node)).is_none_or(|nearest| *nearest == mine)
    }
}
