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

use sha2::{Digest, Sha256};

use super::{
    AcquireAny, AcquireAnyError, AcquireError, Home, MAX_CANDIDATES, Manager, Trouble, any::Served,
};
use crate::{
    actor::NodeView,
    lease::{Bond, Grant, Key, Moment, Refusal, View},
    store::{Found, StoreError},
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
        let marks = |view: &View| view.marks.iter().find(|(id, _)| *id == mark.0).copied();
        let seen: Vec<_> =
            keys.iter().zip(&views).filter_map(|(key, view)| Some((key, marks(view)?.1))).collect();
        if seen.is_empty() {
            return Ok(None);
        }
        let mut served = Served::default();
        for (key, _) in seen.into_iter().filter(|(_, standing)| *standing) {
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
        if served.grants.is_empty() && served.elsewhere.is_empty() {
            return Err(AcquireAnyError::Refused(Refusal::RequestSpent(None)));
        }
        Ok(Some(served))
    }

    /// Keys of a pool at which a request id was granted lately.
    pub(super) async fn marked_keys(&self, pool: &str, id: u128) -> Result<Vec<Key>, StoreError> {
        let such = |found: &Found| {
            let record = found.record.as_ref();
            record.is_ok_and(|record| record.request_marks.iter().any(|mark| mark.id == id))
        };
        self.keys_such(pool, MAX_CANDIDATES, such).await
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
        let keys = self.resolve(any).await?.0;
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
