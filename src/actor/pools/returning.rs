//! Members that come back to their keys: pools with a `rejoin_window`.
//!
//! Guarantees: of several sessions of one owner only the newest is a member. What the others still hold counts as its
//! own, so that nothing is asked of other members while it takes its leases back.
//!
//! Does not guarantee: that a key waits for its last owner. The lock-delay of the key does.

use super::{
    fact::By,
    pool::{Joined, Place, Pool},
};
use crate::{
    clock::HashMap,
    lease::{Key, Nonce, Owner, Token},
};

impl Pool {
    /// The newest session of each owner.
    fn newest(&self) -> HashMap<&Owner, (Token, Nonce)> {
        let mut newest = HashMap::default();
        for (digest, joined) in &self.members {
            // Until it is ready, an earlier session of its owner is the member.
            let Some(token) = joined.returns.filter(|_| !joined.announced.unready) else {
                continue;
            };
            let known = newest.entry(&joined.owner).or_insert((token, *digest));
            *known = (*known).max((token, *digest));
        }
        newest
    }

    /// The sessions of an owner that a newer one replaced.
    pub fn replaced_of(&self, owner: &Owner) -> Vec<Nonce> {
        let sessions = self.members.iter().filter(|(_, joined)| joined.owner == *owner);
        let sessions: Vec<Nonce> = sessions.map(|(digest, _)| *digest).collect();
        if sessions.len() < 2 {
            return Vec::new();
        }
        let replaced = self.replaced();
        sessions.into_iter().filter(|digest| replaced.contains_key(digest)).collect()
    }

    /// Sessions whose leases count as those of a newer session of the same owner, each with that session.
    pub fn replaced(&self) -> HashMap<Nonce, Nonce> {
        let newest = self.newest();
        if newest.is_empty() {
            return HashMap::default();
        }
        let members = self.members.iter().filter(|(_, joined)| joined.returns.is_some());
        let members = members.map(|(digest, joined)| (*digest, &joined.owner));
        let gone = self.gone.iter().map(|(digest, owner)| (*digest, owner));
        let by = |(digest, owner): (Nonce, &Owner)| {
            let (_, newest) = *newest.get(owner)?;
            (newest != digest).then_some((digest, newest))
        };
        members.chain(gone).filter_map(by).collect()
    }

    /// The members that count, in the order of their sessions: those that are ready and were not replaced.
    pub fn present<'a, 'b>(
        &'a self,
        replaced: &'b HashMap<Nonce, Nonce>,
    ) -> impl Iterator<Item = (&'a Nonce, &'a Joined)> + use<'a, 'b> {
        let counts = move |(digest, joined): &(&Nonce, &Joined)| {
            let unready = joined.announced.unready && self.rules.an_unready_member_has_no_share();
            !unready && !replaced.contains_key(*digest)
        };
        self.members.iter().filter(counts)
    }

    /// How many leases earlier sessions of the member's owner still hold.
    pub fn inherits(&self, digest: Nonce) -> usize {
        let replaced = self.replaced();
        let earlier = replaced.iter().filter(|(_, newest)| **newest == digest);
        let held = earlier.filter_map(|(earlier, _)| self.counts.get(earlier));
        held.map(|count| count.held).sum()
    }

    /// The keys that the member's owner held last, or still holds by an earlier session. If keys are named, only those
    /// among them.
    pub fn former(&self, digest: Nonce, named: &[Key]) -> Vec<Key> {
        let Some(joined) = self.members.get(&digest).filter(|joined| joined.returns.is_some())
        else {
            return Vec::new();
        };
        let replaced = self.replaced();
        let is_cordoned = self.is_cordoned(&joined.owner);
        let is_former = |place: &Place| match place.fact.by {
            By::Nobody if is_cordoned => false,
            By::Nobody => place.owner.as_deref() == Some(&joined.owner),
            By::Session(earlier) => replaced.get(&earlier) == Some(&digest),
            By::Other => false,
        };
        if named.is_empty() {
            let may = |(key, place): &(&Key, &Place)| {
                is_former(place) && !self.is_apart_by_order(key) && self.allows(joined, key)
            };
            let open = self.open.keys().map(|key| (key, &self.keys[key]));
            let former: Vec<Key> = open.filter(may).map(|(key, _)| key.clone()).collect();
            if !replaced.values().any(|newest| *newest == digest) {
                return former;
            }
            let held = self.keys.iter().filter(|(_, place)| place.fact.by != By::Nobody);
            let held = held.filter(may).map(|(key, _)| key.clone());
            return former.into_iter().chain(held).collect();
        }
        let former = |key: &&Key| {
            let is_former = self.keys.get(key).is_some_and(is_former);
            is_former && !self.is_apart_by_order(key) && self.allows(joined, key)
        };
        named.iter().filter(former).cloned().collect()
    }
}
