//! The members of pools, for those who route requests to them.

use std::{collections::BTreeMap, sync::Arc};

use super::pool::Pool;
use crate::{
    actor::runtime::watch,
    clock::HashMap,
    lease::{Nonce, Owner},
};

/// What routers must know of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Its owner.
    pub owner: Owner,
    /// Where it serves its keys.
    pub address: Option<Box<str>>,
}

/// The members of a pool, by session.
pub type Roster = BTreeMap<Nonce, Routed>;

/// The members of each pool that a router ever followed.
#[derive(Default)]
pub struct Rosters(HashMap<Box<str>, watch::Sender<Arc<Roster>>>);

impl Rosters {
    /// The members of a pool from now on.
    pub fn follow(&mut self, name: &str, pool: Option<&Pool>) -> watch::Receiver<Arc<Roster>> {
        let make = || watch::Sender::new(Arc::new(roster_of(pool)));
        self.0.entry(name.into()).or_insert_with(make).subscribe()
    }

    /// The members of a pool may have changed.
    pub fn publish(&self, name: &str, pool: Option<&Pool>) {
        let Some(sender) = self.0.get(name) else { return };
        let roster = roster_of(pool);
        if *sender.get() != roster {
            sender.send_replace(Arc::new(roster));
        }
    }
}

fn roster_of(pool: Option<&Pool>) -> Roster {
    let members = pool.into_iter().flat_map(|pool| &pool.members);
    let routed = members.map(|(digest, joined)| {
        let address = joined.announced.address.clone();
        (*digest, Routed { owner: joined.owner.clone(), address })
    });
    routed.collect()
}
