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

use super::{
    call::AnyCall,
    request::{AcquireAny, MAX_CANDIDATES},
    taken::{Served, Taken},
};
use crate::{
    actor::NodeView,
    clock::{DashMap, HashSet},
    lease::{Grant, Key, Moment, Record, Refusal},
    manager::{
        Manager,
        error::{AcquireError, CallError, Home},
        looks::Looks,
    },
    store::Found,
};

/// A request id that is being served. Its drop ends that, however the call ends.
pub(in crate::manager) struct Serving(Arc<DashMap<u128, ()>>, u128);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.remove(&self.1);
    }
}

/// What is known of the grants under a request id.
#[derive(Default)]
struct Known<'k> {
    /// The keys whose grants stand or may still happen.
    standing: Vec<&'k Key>,
    /// There was such a grant.
    seen: bool,
    /// One of them is over.
    in_part: bool,
}

impl AnyCall<'_> {
    /// Declares the call's request id, if it has one, as being served. Of two calls with one id at a time, the later
    /// one is refused.
    pub fn begin(&self) -> Result<Option<Serving>, CallError> {
        let Some((id, _)) = self.any.mark else { return Ok(None) };
        if self.manager.serving.insert(id, ()).is_some() {
            return Err(CallError::InFlight);
        }
        Ok(Some(Serving(self.manager.serving.clone(), id)))
    }

    /// Gives a repeated call what it was granted earlier of these keys, and nothing else. `None` if that was nothing.
    pub async fn granted_before(&self, keys: &[Key]) -> Result<Option<Served>, AcquireError> {
        let Some((id, _)) = self.any.mark else { return Ok(None) };
        let Known { standing, seen, in_part } = self.known(keys, id).await?;
        let mut served = Served { in_part, ..Served::default() };
        for key in standing {
            self.grant_again(key, &mut served).await?;
        }
        if served.is_empty() && seen {
            return Err(AcquireError::Refused(Refusal::RequestSpent(None), None));
        }
        Ok(Some(served).filter(|served| !served.is_empty()))
    }

    /// What is known of the grants of these keys under a request id.
    async fn known<'k>(&self, keys: &'k [Key], id: u128) -> Result<Known<'k>, CallError> {
        let mut known = Known::default();
        for (key, view) in keys.iter().zip(self.manager.views(keys).await?) {
            let marked = view.marks.iter().find(|(marked, _)| *marked == id);
            if view.granting == Some(id) {
                known.standing.push(key);
            } else if let Some((_, stands)) = marked {
                known.seen = true;
                known.in_part |= !stands;
                known.standing.extend(stands.then_some(key));
            }
        }
        Ok(known)
    }

    async fn grant_again(&self, key: &Key, served: &mut Served) -> Result<(), AcquireError> {
        match self.acquire(key, self.request(key)).await {
            Ok(unheard) => served.grants.push(unheard),
            Err(AcquireError::Call(CallError::Elsewhere(home))) => {
                served.elsewhere.push((key.clone(), home));
            }
            Err(AcquireError::Refused(Refusal::RequestReused, _)) => {
                return Err(AcquireError::Refused(Refusal::RequestReused, None));
            }
            // The tenure ended meanwhile, or no policy names the key any more.
            Err(AcquireError::Refused(..) | AcquireError::Call(CallError::Invalid(_))) => {}
            // The caller would take a part for the whole.
            Err(error) => return Err(error),
        }
        Ok(())
    }
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

    /// What an earlier call with the same mark was granted, as far as this is the home node. Grants nothing new.
    /// `looks` counts the records that the search for candidates looks at.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn granted_here(
        &self,
        any: &AcquireAny,
        received: Moment,
        looks: Looks<'_>,
    ) -> Result<Vec<(Key, Grant)>, AcquireError> {
        if any.mark.is_none() {
            return Ok(Vec::new());
        }
        let call = AnyCall { looks, ..AnyCall::new(self, any, received) };
        let keys = call.resolve().await?.keys;
        match call.granted_before(&keys).await {
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

    /// Keys of a pool that were recently granted under a request id, or are about to be.
    pub(super) async fn marked_keys(
        &self,
        pool: &str,
        named: &[Key],
        id: u128,
        looks: Looks<'_>,
    ) -> Result<Vec<Key>, CallError> {
        // The store does not show grants in flight, nor a key that has no record yet and that this call names.
        let mut awake: HashSet<Key> = named.iter().cloned().collect();
        let marked = |key: &Key, found: &Found| {
            let of_it =
                |record: &Arc<Record>| record.request_marks.iter().any(|mark| mark.id == id);
            let marked = found.record.as_ref().is_ok_and(of_it);
            if !marked && self.coordinator.registry.contains(key.as_str()) {
                awake.insert(key.clone());
            }
            marked
        };
        let mut marked = self.keys_such(pool, MAX_CANDIDATES, marked, looks).await?;
        for key in awake {
            if self.coordinator.registry.contains(key.as_str())
                && self.ask_view(&key).await?.granting == Some(id)
            {
                marked.push(key);
            }
        }
        Ok(marked)
    }
}
