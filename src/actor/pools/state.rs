//! What is known of all pools together.

use std::sync::Arc;

use super::{
    fact::was_asked,
    pool::{Joined, Name, Pool},
    roster::Rosters,
};
use crate::{
    clock::{HashMap, HashSet},
    lease::{Announced, Epoch, Nonce, PoolControls, Record, Rules, Token},
};

/// When orders were stored, in the sequence of the tenures of the pool's record: the token of the latest, and whether that
/// tenure is over. It is stored at the end of a tenure.
pub type StoredAt = (Token, bool);

/// Sessions of which this node learnt something while their records were being read. The records may be older than that.
#[derive(Default)]
pub struct Meanwhile {
    /// The sessions that ended.
    pub ended: HashSet<Nonce>,
    /// The sessions that changed. What this node knows of them is newer than what it reads.
    pub changed: HashSet<Nonce>,
}

#[derive(Default)]
pub struct PoolsState {
    /// The rules as they apply.
    pub rules: Rules,
    pub pools: HashMap<Name, Pool>,
    /// The pool of each session that joined one.
    pub joined: HashMap<Nonce, Name>,
    /// Sessions of other nodes whose records must still be read.
    pub joins: HashSet<Nonce>,
    /// What this node learns of sessions while records of sessions are being read; otherwise `None`.
    pub meanwhile: Option<Meanwhile>,
    /// Sessions that a newer one of their owner replaced, and that were not told yet.
    pub replaced: HashSet<Nonce>,
    /// What operators ordered for each pool, as far as it was read, and when it was stored.
    pub controls: HashMap<Box<str>, (StoredAt, Arc<PoolControls>)>,
    /// The pools whose orders must be read; `None` if those of all pools must.
    pub controls_due: Option<HashSet<Box<str>>>,
    /// The members of the pools that routers follow.
    pub rosters: Rosters,
    /// Whether all living sessions were searched for, or are being searched for.
    pub searched: bool,
    /// How often everything had to be read again. What was read before the last time does not count.
    pub misses: u64,
    /// The epoch of the store when changes were missed for the last time.
    pub epoch: Epoch,
}

impl PoolsState {
    pub fn join(&mut self, digest: Nonce, name: &str, joined: Joined) {
        let known = self.pools.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| name.into());
        let controls = || self.controls.get(&*name).map(|(_, controls)| controls.clone());
        let make = || Pool::new(controls().unwrap_or_default(), self.rules);
        let pool = self.pools.entry(name.clone()).or_insert_with(make);
        let replaced = pool.join(digest, joined);
        self.replaced.extend(replaced);
        self.rosters.publish(&name, self.pools.get(&name));
        self.joined.insert(digest, name);
    }

    /// This node knows of a change of a session. A record that is being read may be older. Returns whether one is.
    pub fn changes(&mut self, digest: Nonce) -> bool {
        let meanwhile = self.meanwhile.as_mut();
        meanwhile.map(|Meanwhile { changed, .. }| changed.insert(digest)).is_some()
    }

    pub fn leave(&mut self, digest: Nonce) {
        self.joins.remove(&digest);
        if let Some(Meanwhile { ended, .. }) = &mut self.meanwhile {
            ended.insert(digest);
        }
        if let Some(name) = self.joined.remove(&digest)
            && let Some(pool) = self.pools.get_mut(&name)
        {
            pool.leave(digest);
            self.rosters.publish(&name, Some(pool));
        }
    }

    /// Notes what the record of a living session says. `returns`: its token, if its pool's members come back.
    pub fn read(&mut self, digest: Nonce, record: &Record, returns: Option<Token>) {
        let (Some(spec), Some(tenure)) = (&record.spec, &record.tenure) else { return };
        let Some(name) = &spec.pool else { return };
        let joined = Joined {
            owner: tenure.owner.clone(),
            weight: spec.weight,
            capacity: spec.capacity,
            node: record.node,
            draining: was_asked(record),
            returns,
            announced: Announced::of_value(record.value.as_deref()).into(),
        };
        self.join(digest, name, joined);
    }

    /// A session was asked to hand everything over. The record of a session that is not known must be read.
    pub fn drains(&mut self, digest: Nonce) {
        if let Some(name) = self.joined.get(&digest).cloned()
            && let Some(pool) = self.pools.get_mut(&name)
            && let Some(member) = pool.members.get(&digest)
        {
            let joined = Joined { draining: true, ..member.clone() };
            let replaced = pool.join(digest, joined);
            self.replaced.extend(replaced);
            if self.changes(digest) {
                // What else the record says is read after this.
                self.joins.insert(digest);
            }
        } else {
            self.joins.insert(digest);
        }
    }

    pub fn member(&self, digest: Nonce) -> Option<&Joined> {
        self.pools.get(self.joined.get(&digest)?)?.members.get(&digest)
    }

    /// Removes the sessions that are not among these.
    pub fn keep_only(&mut self, living: &HashSet<Nonce>) {
        for (name, pool) in &mut self.pools {
            pool.keep_only(living);
            self.rosters.publish(name, Some(pool));
        }
        self.joined.retain(|digest, _| living.contains(digest));
    }
}
