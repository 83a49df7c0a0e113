//! Who has each key of a pool: all keys, and then the changes.
//!
//! Guarantees: a page has each of its keys as the store had it at some moment after the page's position. So whoever
//! follows the changes after the position of the first page, and keeps the newest route of each key, misses nothing.

use std::sync::Arc;

use super::{CallError, Manager, looks::Looks};
use crate::{
    actor::{Roster, watch},
    lease::{Change, ChangeKind, Key, KeySet, KeyState, Nonce, Owner, Token},
    store::{Found, Position},
};

/// Whether a key has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteState {
    /// It has.
    Held,
    /// It has, and the owner was asked to hand it over.
    HandingOver,
    /// Nobody has it now.
    Free,
    /// Its record was removed.
    Gone,
}

/// Who has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Whether it has an owner.
    pub state: RouteState,
    /// The owner.
    pub owner: Option<Owner>,
    /// The token of the owner's tenure, or of the last one.
    pub token: Token,
    /// The number of the key's last change.
    pub seq: u64,
    /// The session that keeps the lease.
    pub session: Option<Nonce>,
}

/// A page of the keys of a pool.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    /// The position from which the changes are to be followed.
    pub position: Position,
    /// The keys in the order of their names.
    pub keys: Vec<(Key, Route)>,
    /// The key after which the next page begins.
    pub next: Option<String>,
}

impl Route {
    /// Who has the key after a change. `None` if the change says nothing about that.
    #[must_use]
    pub fn of_change(change: &Change) -> Option<Self> {
        let state = match change.kind {
            ChangeKind::Granted => RouteState::Held,
            ChangeKind::HandoverRequested => RouteState::HandingOver,
            ChangeKind::Forgotten => RouteState::Gone,
            kind if kind.ends_tenure() => RouteState::Free,
            _ => return None,
        };
        let is_held = matches!(state, RouteState::Held | RouteState::HandingOver);
        Some(Self {
            state,
            owner: change.owner.clone().filter(|_| is_held),
            token: change.token,
            seq: change.seq,
            session: change.session.filter(|_| is_held),
        })
    }

    /// Who has the key as its record says. `None` for a record that cannot be interpreted.
    fn of_record(found: &Found) -> Option<Self> {
        let record = found.record.as_ref().ok()?;
        let is_held = record.state == KeyState::Held;
        let tenure = record.tenure.as_ref().filter(|_| is_held);
        Some(Self {
            state: match (is_held, &record.handover) {
                (false, _) => RouteState::Free,
                (true, None) => RouteState::Held,
                (true, Some(_)) => RouteState::HandingOver,
            },
            owner: tenure.map(|tenure| tenure.owner.clone()),
            token: record.token(found.revision),
            seq: record.seq,
            session: record.session_ref().filter(|_| is_held).map(|of| of.session),
        })
    }
}

impl Manager {
    /// A page of the keys of a pool that are in the set `within`, if given, and who has them. `looks` counts the records that the
    /// search looks at.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn assignment(
        &self,
        pool: &str,
        within: Option<&KeySet>,
        after: Option<String>,
        limit: usize,
        looks: Looks<'_>,
    ) -> Result<Assignment, CallError> {
        let mut assignment = Assignment { position: self.latest(), ..Assignment::default() };
        let mut scan = self.scan(Some(pool.to_owned()), "", after, within, looks);
        while let Some(page) = scan.page(self).await? {
            for (key, found) in page {
                if key.is_internal() {
                    continue;
                }
                if assignment.keys.len() == limit {
                    assignment.next = assignment.keys.last().map(|(key, _)| key.to_string());
                    return Ok(assignment);
                }
                assignment.keys.extend(Route::of_record(&found).map(|route| (key, route)));
            }
        }
        Ok(assignment)
    }

    /// The members of a pool, and their addresses, from now on.
    #[must_use]
    pub fn roster(&self, pool: &str) -> watch::Receiver<Arc<Roster>> {
        self.coordinator.pools.roster(pool)
    }

    /// Where a member of a pool serves its keys, as far as this node knows it.
    #[must_use]
    pub fn address_of(&self, session: Nonce) -> Option<Box<str>> {
        self.coordinator.pools.address(session)
    }
}
