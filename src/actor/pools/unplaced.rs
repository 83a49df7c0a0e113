//! The keys of a pool that have no member to go to, and why.

use super::{
    pool::{Joined, Place, Pool},
    unplaced_keys::{KeptOut, UnplacedKeys},
};
use crate::{
    clock::HashMap,
    lease::{Key, Moment, Nonce, Owner, Unplaced},
};

/// A member that stays, how many leases it is to have, and whether it may have a key.
type Candidate<'a> = (Nonce, &'a Joined, usize, bool);

/// Whether a member may have a key as far as one reason goes.
type Step<'a> = (Unplaced, &'a dyn Fn(&Candidate<'_>) -> bool);

impl Pool {
    /// The keys that have no member to go to. It looks at the keys only while some are free.
    pub fn unplaced(&mut self, now: Moment) -> UnplacedKeys {
        let mut found = UnplacedKeys::default();
        if self.unheld_keys() == 0 {
            return found;
        }
        let targets = self.targets(0);
        let replaced = self.replaced();
        let present = || self.present(&replaced).filter(|(_, joined)| !joined.draining);
        let held = |digest: &Nonce| self.counts.get(digest).map_or(0, |count| count.held);
        let has_room =
            |digest: &Nonce| targets.get(digest).is_some_and(|target| held(digest) < *target);
        let owners: HashMap<&Owner, bool> =
            present().map(|(digest, joined)| (&joined.owner, has_room(digest))).collect();
        let given = self.given();
        let mut open: Vec<&Key> = Vec::new();
        for key in self.open.keys() {
            let place = &self.keys[key];
            if given.contains_key(key) || self.warm_to(key).is_some() {
                continue;
            }
            match self.held_back(key, place, &owners, now) {
                Some(why) => found.add(why, key),
                None if self.places_keys() && self.placed.contains_key(key) => {}
                None => open.push(key),
            }
        }
        let leases = |digest: &Nonce| targets.get(digest).copied().unwrap_or(0);
        if self.places_keys() {
            for key in open {
                let candidates = present().map(|(digest, joined)| {
                    (*digest, joined, leases(digest), self.allows(joined, key))
                });
                found.add(self.why(candidates.collect()), key);
            }
        } else {
            let short = |digest: &Nonce| leases(digest).saturating_sub(held(digest));
            let places: usize = targets.keys().map(short).sum();
            let lacking = open.len().saturating_sub(places);
            if lacking > 0 {
                let candidates = present().map(|(digest, joined)| {
                    (*digest, joined, leases(digest).max(held(digest)), true)
                });
                let why = self.why(candidates.collect());
                open.sort_unstable();
                open.into_iter().rev().take(lacking).for_each(|key| found.add(why, key));
            }
        }
        found.trim();
        found
    }

    /// Why a member is given no further key.
    pub fn kept_out(&mut self, digest: Nonce, now: Moment) -> KeptOut {
        let keys = self.unplaced(now).counts;
        let replaced = self.replaced();
        let member = self.members.get(&digest).and_then(|joined| {
            if joined.draining {
                Some("is leaving")
            } else if joined.announced.unready {
                Some("is not ready")
            } else if self.is_cordoned(&joined.owner) {
                Some("belongs to a cordoned owner")
            } else {
                replaced
                    .contains_key(&digest)
                    .then_some("was replaced by a newer session of its owner")
            }
        });
        KeptOut { member, keys }
    }

    /// Notes since when keys cannot be placed because no member can take them.
    pub fn note_unplaced(&mut self, now: Moment) -> UnplacedKeys {
        let unplaced = self.unplaced(now);
        let needs = unplaced.counts.keys().any(|why| why.needs_members());
        self.unplaced_since = needs.then(|| self.unplaced_since.unwrap_or(now));
        self.unplaced_keys = unplaced.clone();
        unplaced
    }

    /// What keeps a key from all members, or from all but some. `owners`: those of the members, and whether each lacks some
    /// of its share.
    fn held_back(
        &self,
        key: &Key,
        place: &Place,
        owners: &HashMap<&Owner, bool>,
        now: Moment,
    ) -> Option<Unplaced> {
        let former = place.owner.as_deref().and_then(|owner| owners.get(owner));
        let is_kept = place.is_kept(now);
        let is_taken_back = former.is_some_and(|has_room| *has_room || !is_kept);
        if self.controls.paused(key).is_some_and(|said| said.to.is_none()) {
            Some(Unplaced::Paused)
        } else if is_taken_back {
            None
        } else if is_kept {
            Some(Unplaced::Kept)
        } else if !self.is_open_to_shares(key) {
            Some(Unplaced::Frozen)
        } else {
            None
        }
    }

    /// Why none of these members is to have a key.
    fn why(&self, candidates: Vec<Candidate<'_>>) -> Unplaced {
        if candidates.is_empty() {
            return Unplaced::NoMember;
        }
        let mut left = candidates;
        let steps: [Step<'_>; 5] = [
            (Unplaced::Require, &|(.., allowed)| *allowed),
            (Unplaced::Cordoned, &|(_, joined, ..)| !self.controls.is_cordoned(&joined.owner)),
            (Unplaced::Capacity, &|(_, joined, leases, _)| {
                joined.capacity.is_none_or(|most| *leases < most as usize)
            }),
            (Unplaced::SetAside, &|(digest, ..)| !self.is_aside(*digest)),
            (Unplaced::Guard, &|(_, joined, leases, _)| {
                self.guard().is_none_or(|guard| *leases < guard.share(joined.weight))
            }),
        ];
        for (why, goes_on) in steps {
            left.retain(|candidate| goes_on(candidate));
            if left.is_empty() {
                return why;
            }
        }
        if self.by_load.is_some() { Unplaced::LoadLimit } else { Unplaced::Capacity }
    }
}
