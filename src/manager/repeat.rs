//! Calls that are repeated under one request id: which node serves them, and what they were granted.
//!
//! Guarantees: nodes that agree about who lives send a request id to the same node, which serves one call with it at a
//! time. A repeated call gets every lease that it was granted and that is still held, or is told to try again.
//!
//! Does not guarantee: a single grant for two calls that overlap at two nodes while these disagree about who lives.
//! They may disagree for a quarter of `node.ttl` after a node came or went (less than 1 s at the default).
//!
//! Assumes: the view of a key that another node may have changed is read from the store.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{AcquireAny, AcquireError, CallError, Home, MAX_CANDIDATES, Manager, any::Served};
use crate::{
    actor::NodeView,
    clock::HashSet,
    lease::{Bond, Grant, Key, Moment, Record, Refusal},
    store::Found,
};

/// What an acquire-any was granted.
#[derive(Debug, Default)]
pub struct Taken {
    /// Grants by this node, now or earlier.
    pub grants: Vec<(Key, Grant)>,
    /// Earlier grants whose home nodes are other living nodes. [`Manager::granted_here`] at these nodes returns the
    /// rest.
    pub elsewhere: Vec<(Key, Home)>,
}

impl Manager {
    /// The node that serves the calls of a request id, if it is another one. Of the living nodes with an address, it is
    /// the one with the highest digest of the id and its incarnation. So when a node comes or goes, only the ids that
    /// it serves move.
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

    /// Gives a repeated call what it was granted earlier, and nothing else.
    pub(super) async fn granted_before(
        &self,
        any: &AcquireAny,
        keys: &[Key],
        bond: Option<Bond>,
        mark: (u128, u64),
        received: Moment,
    ) -> Result<Option<Served>, AcquireError> {
        let views = self.views(keys).await?;
        let (mut standing, mut seen) = (Vec::new(), false);
        for (key, view) in keys.iter().zip(&views) {
            let marked = view.marks.iter().find(|(id, _)| *id == mark.0);
            if view.granting == Some(mark.0) {
                // The grant may or may not still happen.
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
                    return Err(AcquireError::Refused(Refusal::RequestReused, None));
                }
                Err(AcquireError::Call(CallError::Elsewhere(home))) => {
                    served.elsewhere.push((key.clone(), home));
                }
                // The tenure ended meanwhile, or no policy names the key any more.
                Err(AcquireError::Call(CallError::Invalid(_)) | AcquireError::Refused(..)) => {}
                // The caller would take a part for the whole.
                Err(error) => return Err(error),
            }
        }
        if !served.grants.is_empty() || !served.elsewhere.is_empty() {
            return Ok(Some(served));
        }
        let spent = AcquireError::Refused(Refusal::RequestSpent(None), None);
        if seen { Err(spent) } else { Ok(None) }
    }

    /// Keys of a pool that were recently granted under a request id, or are about to be.
    pub(super) async fn marked_keys(
        &self,
        pool: &str,
        named: &[Key],
        id: u128,
    ) -> Result<Vec<Key>, CallError> {
        // The store does not show grants in flight, nor a key that has no record yet and that this call names.
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
        let mut marked = marked.map_err(CallError::Store)?;
        for key in awake {
            if self.world.registry.contains(key.as_str())
                && self.ask_view(&key).await?.granting == Some(id)
            {
                marked.push(key);
            }
        }
        Ok(marked)
    }

    /// What an earlier call with the same mark was granted, as far as this is the home node. Grants nothing new.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn granted_here(
        &self,
        any: &AcquireAny,
        received: Moment,
    ) -> Result<Vec<(Key, Grant)>, AcquireError> {
        let Some(mark) = any.mark else { return Ok(Vec::new()) };
        let keys = self.resolve(any).await?.keys;
        match self.granted_before(any, &keys, None, mark, received).await {
            Ok(served) => Ok(Taken::from(served.unwrap_or_default()).grants),
            Err(AcquireError::Refused(Refusal::RequestSpent(_), _)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Whether the tenure that was granted under a request id still lasts at this key.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn stands(&self, key: &Key, id: u128) -> Result<bool, CallError> {
        let view = self.view(key).await?;
        Ok(view.marks.iter().any(|(mark, standing)| *mark == id && *standing))
    }
}
