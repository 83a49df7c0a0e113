//! Pools that do not move as they otherwise would: by order of an operator, or after a mass failure.
//!
//! Guarantees: in a frozen pool, a fair call is granted only keys that its owner held last, and those that were handed
//! over because that was asked for: before the freeze, or by a drain. A member of a cordoned owner is granted no further
//! key. No fair call is granted a paused key, or one that an order gives to another member. An
//! order gives no key to a member whose labels its policy does not allow. While a guard stands, no member
//! gets more than the share that it had before.
//!
//! Does not guarantee: anything for acquires that name their keys without asking for a share. They do not look at pools.

use std::{sync::Arc, time::Duration};

use super::{
    fact::By,
    order::Order,
    pool::{Joined, Place, Pool},
};
use crate::{
    clock::HashMap,
    lease::{Guard, Key, MassFailure, Moment, Nonce, Owner, PoolControls, Said, balance::Damping},
};

/// How long an order to balance exactly and at once holds, if it does not succeed before.
const REBALANCE: Duration = Duration::from_secs(600);

/// How many leases members may have because of orders and the guard.
pub struct Limits<'a> {
    pool: &'a Pool,
    guard: Option<&'a Guard>,
    /// In a frozen pool: for each owner, the keys that nobody holds and that it held last.
    former: HashMap<&'a Owner, usize>,
    /// In a frozen pool: the keys that are being handed over, or were.
    passed_on: usize,
}

pub fn say_guarded(pool: &str, guard: &Guard) {
    let Guard { members, least, keys, .. } = guard;
    tracing::error!(
        pool,
        members,
        least,
        keys,
        "the pool lost many of its members at once: the others get no more than their former shares, until the members \
         are back or `tenure pool end-guard` is called"
    );
}

impl Limits<'_> {
    /// How many leases a member that holds `held` may have, without its own limit.
    pub fn of(&self, joined: &Joined, held: usize) -> usize {
        if self.pool.is_cordoned(&joined.owner) {
            return held;
        }
        let guarded = self.guard.map_or(usize::MAX, |guard| guard.share(joined.weight).max(held));
        if self.pool.is_frozen() {
            let former = self.former.get(&joined.owner).copied().unwrap_or(0);
            return guarded.min(held + former + self.passed_on);
        }
        guarded
    }
}

impl Pool {
    /// The guard against a mass failure: one that stands, or one that was noticed and is not stored yet.
    pub fn guard(&self) -> Option<&Guard> {
        self.controls.guard.as_ref().or(self.losses.noticed.as_ref())
    }

    fn guard_in_force(&self) -> Option<&Guard> {
        self.guard().filter(|_| self.rules.a_guard_holds_members_to_their_shares())
    }

    fn is_frozen(&self) -> bool {
        self.controls.frozen.is_some() && self.rules.a_frozen_pool_stays_as_it_is()
    }

    /// Whether the members of an owner get no further keys.
    pub fn is_cordoned(&self, owner: &Owner) -> bool {
        self.controls.is_cordoned(owner) && self.rules.a_cordoned_member_gets_no_further_key()
    }

    pub fn limits(&self) -> Limits<'_> {
        let (mut former, mut passed_on) = (HashMap::default(), 0);
        if self.is_frozen() {
            passed_on = self.handed_over.len()
                + self.counts.values().map(|count| count.asked).sum::<usize>();
            let free = self.open.keys().map(|key| &self.keys[key]);
            for owner in free.filter_map(|place| place.owner.as_deref()) {
                *former.entry(owner).or_default() += 1;
            }
        }
        Limits { pool: self, guard: self.guard_in_force(), former, passed_on }
    }

    /// Whether no lease moves between members that stay.
    pub fn holds_still(&self) -> bool {
        let upgrades = self.is_mixed && self.rules.an_upgrade_stops_the_balance();
        upgrades || self.is_frozen() || self.guard_in_force().is_some()
    }

    /// Whether members that ask for their shares may be granted the key, unless they held it last.
    pub fn is_open_to_shares(&self, key: &Key) -> bool {
        let passes_on = || {
            let asked = |place: &Place| place.fact.asked;
            self.handed_over.contains_key(key) || self.keys.get(key).is_some_and(asked)
        };
        !self.is_apart(key) && (!self.is_frozen() || passes_on())
    }

    /// The members that orders give keys to, by owner: those that may get further keys.
    fn takers(&self) -> HashMap<&str, (Nonce, &Joined)> {
        let replaced = self.replaced();
        let may =
            |(_, joined): &(&Nonce, &Joined)| !joined.draining && !self.is_cordoned(&joined.owner);
        let takers = self.present(&replaced).filter(may);
        takers.map(|(digest, joined)| (joined.owner.as_str(), (*digest, joined))).collect()
    }

    /// The keys that orders give to a member, each with that member, if it has room for the key.
    pub fn given(&self) -> HashMap<Key, Nonce> {
        let ordered = self
            .controls
            .paused
            .iter()
            .filter_map(|(key, said)| Some((Key::new(key).ok()?, said.to.as_deref()?)));
        let ordered: Vec<_> = ordered.collect();
        if ordered.is_empty() {
            return HashMap::default();
        }
        let takers = self.takers();
        let given = ordered.into_iter().filter_map(|(key, to)| {
            let (digest, joined) =
                *takers.get(to).filter(|(_, joined)| self.allows(joined, &key))?;
            let held = self.counts.get(&digest).map_or(0, |count| count.held);
            let has_room = || joined.capacity.is_none_or(|most| held < most as usize);
            (self.has(digest, &key) || has_room()).then_some((key, digest))
        });
        given.collect()
    }

    /// Whether a key is not for the shares of members: it is paused, or goes to one member, by an order or because that
    /// one prepares for it.
    pub fn is_apart(&self, key: &Key) -> bool {
        self.is_apart_by_order(key) || self.warm_to(key).is_some()
    }

    /// Whether a key is not for the shares of members because of an order.
    pub fn is_apart_by_order(&self, key: &Key) -> bool {
        let is_apart = |said: &Said| match said.to {
            None => self.rules.a_paused_key_goes_to_nobody(),
            Some(_) => self.given().contains_key(key),
        };
        self.controls.paused(key).is_some_and(is_apart)
    }

    /// How many keys each member holds because of such orders. They do not count for its share.
    pub fn held_apart(&self) -> HashMap<Nonce, usize> {
        let mut held = HashMap::default();
        for (key, digest) in self.given() {
            if self.has(digest, &key) {
                *held.entry(digest).or_default() += 1;
            }
        }
        held
    }

    /// The keys that such orders give to the member and that nobody holds. If keys are named, only those among them.
    pub fn to_take(&self, digest: Nonce, named: &[Key]) -> Vec<Key> {
        let is_meant = |key: &Key| match named {
            [] => self.keys.contains_key(key),
            named => named.contains(key),
        };
        let to_take = self
            .given()
            .into_iter()
            .filter(|(key, to)| *to == digest && self.is_free(key) && is_meant(key));
        to_take.map(|(key, _)| key).collect()
    }

    /// How many keys nobody holds, without those that are not for shares.
    pub fn free(&self) -> usize {
        let known = self.controls.paused.keys().filter_map(|key| self.keys.get_key_value(key));
        let is_apart =
            |(key, place): &(&Key, &Place)| place.fact.by == By::Nobody && self.is_apart(key);
        self.unheld_keys() - known.filter(is_apart).count()
    }

    /// From now on these orders hold. `known`: this node knew the orders before these.
    pub fn obey(&mut self, controls: &Arc<PoolControls>, known: bool, now: Moment) {
        if known && controls.rebalances > self.controls.rebalances {
            self.rebalancing = Some(now + REBALANCE);
        }
        if controls.guard.is_some() {
            // It is stored now. Another node may have noticed it first.
            self.losses.noticed = None;
        } else if self.is_guard_over() {
            // Some members are back. Further losses count together with the losses of the others.
            self.losses.noticed = None;
        } else if self.controls.guard.is_some() {
            self.losses.forget();
        }
        self.controls = controls.clone();
        self.warm_changed(now);
        self.reopen();
    }

    /// The limits of moves, unless the pool is to be balanced exactly and at once.
    pub fn damping(&self, usual: Damping) -> Damping {
        match self.rebalancing {
            Some(_) => Damping { min_age: Duration::ZERO, at_once: usize::MAX, is_exact: true },
            None => usual,
        }
    }

    /// Whether the pool is to be balanced exactly and at once. That ends when no lease must move.
    pub fn is_rebalancing(&mut self, moves: usize, now: Moment) -> bool {
        self.rebalancing = self.rebalancing.filter(|until| moves > 0 && now < *until);
        self.rebalancing.is_some()
    }

    /// A member is lost: it neither drained nor closed its session.
    pub fn lose(&mut self, digest: Nonce, rule: MassFailure, wall_ms: u64, now: Moment) {
        let replaced = self.replaced();
        let members: Vec<_> = self.present(&replaced).collect();
        let Some(owner) = members.iter().find(|(lost, _)| **lost == digest) else { return };
        let owner = owner.1.owner.clone();
        let before = Guard {
            at_ms: wall_ms,
            members: members.len(),
            least: 0,
            weight: members.iter().map(|(_, joined)| u64::from(joined.weight)).sum(),
            keys: self.counted_keys(),
        };
        let others = members.into_iter().filter(|(other, _)| **other != digest);
        let others: Vec<Owner> = others.map(|(_, joined)| joined.owner.clone()).collect();
        let is_back = |owner: &Owner| others.contains(owner);
        if self.controls.guard.is_none() && self.losses.note(&owner, before, is_back, rule, now) {
            self.moved();
        }
    }

    /// The keys that members hold or that nobody holds.
    fn counted_keys(&self) -> usize {
        let held = self.members.keys().filter_map(|member| self.counts.get(member));
        self.free() + held.map(|count| count.held).sum::<usize>()
    }

    /// Whether the members that the guard waits for are back.
    pub fn is_guard_over(&self) -> bool {
        let replaced = self.replaced();
        self.controls.guard.as_ref().is_some_and(|guard| {
            let stay = self.present(&replaced).filter(|(_, joined)| !joined.draining);
            guard.is_over(stay.count())
        })
    }

    /// The keys that these members hold, that are not for them, and that they were not asked for.
    pub fn paused_orders(&self, here: impl Fn(Nonce) -> bool) -> Vec<Order> {
        let given = self.given();
        let held = self.controls.paused.keys().filter_map(|key| self.keys.get_key_value(key));
        let orders = held.filter_map(|(key, place)| match place.fact.by {
            By::Session(member)
                if !place.fact.asked
                    && here(member)
                    && self.is_apart(key)
                    && given.get(key) != Some(&member) =>
            {
                Some(Order { member, key: key.clone(), shift: None, to: None })
            }
            _ => None,
        });
        orders.collect()
    }
}
