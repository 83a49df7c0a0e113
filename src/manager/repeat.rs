//! Calls that are repeated under one request id: which node serves them, and what they were granted.
//!
//! Guarantees: nodes that agree about who lives send a request id to the same one of them, which serves
//! one call of it at a time; a repeated call is given every lease that it was granted and that still
//! stands, or is told to come again.
//!
//! Does not guarantee: one grant for two calls that overlap at two nodes while these disagree about who
//! lives, which they do for less than a second after a node came or went (a quarter of `node.ttl`).
//!
//! Assumes: a look at a key that another node may have changed is a look into the store.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{
    AcquireAny, AcquireAnyError, AcquireError, Home, MAX_CANDIDATES, Manager, Trouble, any::Served,
};
use crate::{
    actor::NodeView,
    clock::HashSet,
    lease::{Bond, Grant, Key, Moment, Record, Refusal},
    store::Found,
};

/// What an acquire-any was granted.
#[derive(Debug, Default)]
pub struct Taken {
    /// By this node, now or before.
    pub grants: Vec<(Key, Grant)>,
    /// Before, and at home at other living nodes, which tell the rest: [`Manager::granted_here`].
    pub elsewhere: Vec<(Key, Home)>,
}

impl Manager {
    /// The node that serves the calls of a request id, when it is another: of the living ones that can be
    /// reached, the one whose digest with the id is the highest. So a node that comes or goes moves the
    /// ids that it has, and no others.
    #[must_use]
    pub fn server_of(&self, id: u128) -> Option<Home> {
        let nodes = self.nodes();
        let reached =
            |view: &&NodeView| !view.record.state.is_terminal() && !view.record.url.is_empty();
        let weight = |view: &&NodeView| {
            let mut digest = Sha256::new();
            digest.update(id.to_be_bytes());
            digest.update(view.record.incarnation.0.to_be_bytes());
            <[u8; 32]>::from(digest.finalize())
        };
        let server = nodes.iter().filter(reached).max_by_key(weight)?;
        let (node, url) = (server.record.incarnation, Some(server.record.url.clone()));
        (!server.this).then_some(Home { node, url })
    }

    /// A repeated call gets what it was granted, and never anything else.
    pub(super) async fn granted_before(
        &self,
        any: &AcquireAny,
        keys: &[Key],
        bond: Option<Bond>,
        mark: (u128, u64),
        received: Moment,
    ) -> Result<Option<Served>, AcquireAnyError> {
        let views = self.views(keys).await?;
        let (mut standing, mut seen) = (Vec::new(), false);
        for (key, view) in keys.iter().zip(&views) {
            let marked = view.marks.iter().find(|(id, _)| *id == mark.0);
            if view.granting == Some(mark.0) {
                // It may come yet, or never.
                standing.push(key);
            } else if let Some((_, stands)) = marked {
                seen = true;
                standing.extend(stands.then_some(key));
            }
        }
        let mut served = Served::default();
        for key in standing {
            match self.acquire_kept(&any.one(key, Some(mark)), bond, received.into()).await {
                Ok(unheard) => served.grants.push(unheard),
                Err(AcquireError::Refused(Refusal::RequestReused, _)) => {
                    return Err(AcquireAnyError::Refused(Refusal::RequestReused));
                }
                Err(AcquireError::Trouble(Trouble::Elsewhere(home))) => {
                    served.elsewhere.push((key.clone(), home));
                }
                // Less than all that it has would be taken for all.
                Err(AcquireError::Trouble(trouble)) => return Err(trouble.into()),
                // It ended meanwhile.
                Err(_) => {}
            }
        }
        if !served.grants.is_empty() || !served.elsewhere.is_empty() {
            return Ok(Some(served));
        }
        if seen { Err(AcquireAnyError::Refused(Refusal::RequestSpent(None))) } else { Ok(None) }
    }

    /// Keys of a pool at which a request id was granted lately, or is about to be.
    pub(super) async fn marked_keys(
        &self,
        pool: &str,
        named: &[Key],
        id: u128,
    ) -> Result<Vec<Key>, Trouble> {
        // The store does not say what is on its way, nor that there is a key which this call names first.
        let mut awake: HashSet<Key> = named.iter().cloned().collect();
        let marked = |key: &Key, found: &Found| {
            let of_it =
                |record: &Arc<Record>| record.request_marks.iter().any(|mark| mark.id == id);
            let marked = found.record.as_ref().is_ok_and(of_it);
            if !marked && self.world.registry.contains(key.as_str()) {
                awake.insert(key.clone());
            }
            marked
        };
        let marked = self.keys_such(pool, MAX_CANDIDATES, marked).await;
        let mut marked = marked.map_err(Trouble::Store)?;
        for key in awake {
            if self.world.registry.contains(key.as_str())
                && self.ask_view(&key).await?.granting == Some(id)
            {
                marked.push(key);
            }
        }
        Ok(marked)
    }

    /// What an earlier call with the same mark was granted, as far as it is at home here; nothing is
    /// granted anew.
    ///
    /// # Errors
    /// [`AcquireAnyError`].
    pub async fn granted_here(
        &self,
        any: &AcquireAny,
        received: Moment,
    ) -> Result<Vec<(Key, Grant)>, AcquireAnyError> {
        let Some(mark) = any.mark else { return Ok(Vec::new()) };
        let keys = self.resolve(any).await?.keys;
        match self.granted_before(any, &keys, None, mark, received).await {
            Ok(served) => Ok(Taken::from(served.unwrap_or_default()).grants),
            Err(AcquireAnyError::Refused(Refusal::RequestSpent(_))) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Whether the grant of a request id stands at this key.
    ///
    /// # Errors
    /// [`Trouble`] when the store cannot be read.
    pub async fn stands(&self, key: &Key, id: u128) -> Result<bool, Trouble> {
        let view = self.view(key).await?;
        Ok(view.marks.iter().any(|(mark, standing)| *mark == id && *standing))
    }
}
