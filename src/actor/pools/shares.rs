//! What the members of a pool should have: shares, reserved places, and plans.

use std::{borrow::Cow, sync::OnceLock, time::Duration};

use bytes::Bytes;

use super::{
    fact::By,
    order::Order,
    pool::{Count, Joined, Place, Pool},
    unplaced_keys::UnplacedKeys,
    warm::WarmView,
};
use crate::{
    clock::{Chance, HashMap},
    lease::{
        Guard, Key, Moment, Nonce,
        balance::{Damping, Member, Plan, Standing, UNTAKEN, Unheld, band, choose, plan, targets},
    },
};

/// A key that has been free for longer than this is not about to be taken by a member that is short of leases.
const FRESH: Duration = Duration::from_secs(20);

/// A member's share, and how much it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many leases of the pool it should have.
    pub share: usize,
    /// How many leases of the pool it has.
    pub held: usize,
}

/// A member as shown to operators.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// The digest of the member's session.
    pub digest: Nonce,
    /// The weight and limits that the session declared when it joined.
    pub joined: Joined,
    /// Its share, and how much it holds.
    pub share: Share,
    /// Leases that it was asked to hand over and still holds.
    pub handovers: usize,
    /// It is set aside: it left its share untaken, and counts for what it holds.
    pub aside: bool,
    /// A newer session of its owner is the member instead.
    pub replaced: bool,
    /// It gets no further keys, by order of an operator.
    pub cordoned: bool,
    /// The load of its leases, where leases move by load.
    pub load: Option<u128>,
}

/// A pool as shown to operators.
#[derive(Clone, Debug)]
pub struct PoolView {
    /// The keys that members hold or nobody holds.
    pub keys: usize,
    /// The keys that nobody holds.
    pub free: usize,
    /// Those of them that are kept for a member that went.
    pub kept: usize,
    /// The members, in the order of their sessions' digests.
    pub members: Vec<MemberView>,
    /// Since when some members have leases that others should have, and how many leases must move.
    pub uneven: Option<(Moment, usize)>,
    /// The guard against a mass failure, if it stands.
    pub guard: Option<Guard>,
    /// Whether it is being balanced exactly and at once.
    pub rebalancing: bool,
    /// How much the most loaded member carries, as a part of the mean, where leases move by load.
    pub peak: Option<f64>,
    /// The keys that have no member to go to.
    pub unplaced: UnplacedKeys,
    /// Since when there have been some that no member can take.
    pub unplaced_since: Option<Moment>,
    /// The keys that members prepare for.
    pub warming: Vec<WarmView>,
}

/// What needs an operator.
#[derive(Clone, Debug)]
pub struct Noted {
    /// The number of sessions that joined.
    pub members: usize,
    /// The keys that nobody holds.
    pub free: usize,
    /// Since when some members have leases that others should have, and how many leases must move.
    pub uneven: Option<(Moment, usize)>,
    /// The guard against a mass failure, if it stands.
    pub guard: Option<Guard>,
    /// The keys that have no member to go to, at the last plan.
    pub unplaced: UnplacedKeys,
    /// Since when there have been some that no member can take.
    pub unplaced_since: Option<Moment>,
}

/// What must be done for the balance of a pool.
pub struct Proposal {
    /// The smallest number of leases that must move until the pool is balanced.
    pub moves: usize,
    /// How many leases members should be asked for now, whether or not they may be.
    pub asks: usize,
    /// The leases that the members at home here are asked for.
    pub orders: Vec<Order>,
    /// Members must hand over leases, or were asked to.
    pub is_uneven: bool,
    /// How much the most loaded member carries, as a part of the mean, where leases move by load.
    pub peak: Option<f64>,
}

/// What would be done now for the balance of a pool.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// The pool as it is.
    pub view: PoolView,
    /// The leases that must move until every member has its share.
    pub moves: usize,
    /// The leases whose members would be asked for them now, in the order of the keys.
    pub orders: Vec<Order>,
    /// How many more leases would be asked for, but must not move, or were not held for long enough.
    pub put_off: usize,
    /// The HTTP handlers' rendering of it.
    pub rendered: OnceLock<Bytes>,
}

impl Pool {
    /// The members that count, in the order of their sessions, where the pool has `unseen` more keys. Each has what its
    /// owner's earlier sessions still hold.
    pub fn counted(&self, unseen: usize) -> Vec<Member> {
        let replaced = self.replaced();
        let mut counts = Cow::Borrowed(&self.counts);
        for (earlier, newest) in &replaced {
            let counts = counts.to_mut();
            let Count { held, asked, .. } = counts.remove(earlier).unwrap_or_default();
            let count = counts.entry(*newest).or_default();
            (count.held, count.asked) = (count.held + held, count.asked + asked);
        }
        let (limits, apart, warm) = (self.limits(), self.held_apart(), self.warm_from());
        let member = |(digest, joined): (&Nonce, &Joined)| {
            let mut count = counts.get(digest).copied().unwrap_or_default();
            count.held -= apart.get(digest).copied().unwrap_or(0).min(count.held);
            let most = joined.capacity.map_or(usize::MAX, |most| most as usize);
            let most = most.min(limits.of(joined, count.held));
            Member {
                id: *digest,
                weight: joined.weight,
                capacity: if self.is_aside(*digest) { most.min(count.held) } else { most },
                held: count.held,
                // Those for which others prepare will be asked for.
                asked: count.asked + warm.get(digest).copied().unwrap_or(0),
                draining: joined.draining,
            }
        };
        let mut members: Vec<Member> = self.present(&replaced).map(member).collect();
        let held: usize = members.iter().map(|member| member.held).sum();
        self.prefer_newest(&mut members, held + self.free() + unseen);
        members
    }

    pub fn is_aside(&self, digest: Nonce) -> bool {
        self.standings.get(&digest).is_some_and(Standing::is_aside)
    }

    /// Whether a call for these keys, or for all keys if none are named, can take one that is free, or one that opens
    /// without a change of its holder. A member that asks for others only leaves those that are free untaken.
    pub fn can_take(&self, digest: Nonce, named: &[Key]) -> bool {
        let unheld = |key| {
            let is_unheld = |place: &Place| place.fact.by == By::Nobody;
            self.keys.get(key).is_some_and(is_unheld)
                && !self.is_apart(key)
                && self.may_have(digest, key)
        };
        named.is_empty() || named.iter().any(unheld)
    }

    /// Notes that a member asks for leases that it can take.
    fn asks(&mut self, digest: Nonce) {
        if self.standings.get_mut(&digest).is_some_and(Standing::asks) {
            self.moved();
        }
    }

    /// Sets members aside that leave their share untaken, and brings others back. Returns those that were set aside
    /// now, and whether a member must be judged again.
    pub fn judge(&mut self, now: Moment) -> (Vec<Nonce>, bool) {
        let is_ripe = |key| self.keys[key].open_for(now).is_some_and(|open| open >= UNTAKEN);
        let ripe = self.free() > 0 && self.open.keys().any(is_ripe);
        let (mut aside, mut again, mut moved) = (Vec::new(), false, false);
        let (members, targets) = (self.counted(0), self.targets(0));
        for member in members {
            let target = targets.get(&member.id).copied().unwrap_or(0);
            let asks = self.counts.get(&member.id).is_some_and(|count| count.taking > 0);
            let short = self.free() > 0 && !asks && member.held + band(target) < target;
            let standing = self.standings.entry(member.id).or_default();
            if standing.look(member.held, short, ripe, now) {
                moved = true;
                if standing.is_aside() {
                    aside.push(member.id);
                }
            }
            again |= standing.is_watched();
        }
        if moved {
            self.moved();
        }
        (aside, again)
    }

    /// The targets of the pool, with `unseen` more keys.
    pub fn targets(&mut self, unseen: usize) -> HashMap<Nonce, usize> {
        let compute = |pool: &Self| {
            let members = pool.counted(unseen);
            let held: usize = members.iter().map(|member| member.held).sum();
            let targets = targets(&members, held + pool.free() + unseen);
            members.iter().map(|member| member.id).zip(targets).collect::<HashMap<_, _>>()
        };
        if self.places_keys() {
            self.assign();
            return self.with_unseen(unseen);
        }
        if unseen > 0 {
            return compute(self);
        }
        if let Some(targets) = &self.targets {
            return targets.clone();
        }
        let targets = compute(self);
        self.targets = Some(targets.clone());
        targets
    }

    /// The targets of a pool by load, with `unseen` more keys, whose loads are not known: these are spread by their number.
    fn with_unseen(&self, unseen: usize) -> HashMap<Nonce, usize> {
        let mut all = self.targets.clone().unwrap_or_default();
        if unseen > 0 {
            let mut members = self.counted(0);
            for member in &mut members {
                let has = all.get(&member.id).copied().unwrap_or(0);
                (member.capacity, member.held) = (member.capacity.saturating_sub(has), 0);
            }
            for (member, more) in members.iter().zip(targets(&members, unseen)) {
                *all.entry(member.id).or_default() += more;
            }
        }
        all
    }

    fn unseen(&self, named: &[Key]) -> usize {
        named.iter().filter(|key| !self.keys.contains_key(key)).count()
    }

    /// A member's share and how much it holds. Keys in `named` that were never granted count as the pool's.
    pub fn share(&mut self, digest: Nonce, named: &[Key]) -> Share {
        let unseen = self.unseen(named);
        let held = self.counts.get(&digest).map_or(0, |count| count.held);
        let held = held.saturating_sub(self.held_apart().get(&digest).copied().unwrap_or(0));
        let share = match (&self.targets, unseen) {
            (Some(targets), 0) => targets.get(&digest).copied(),
            (_, 1..) if self.table.is_some() => self.share_with(digest, named),
            _ => self.targets(unseen).get(&digest).copied(),
        };
        Share { share: share.unwrap_or(0), held }
    }

    /// Reserves up to `most` of the places that a member may still fill. Returns how many, and whether the call can take
    /// a key that is free.
    pub fn reserve(&mut self, digest: Nonce, named: &[Key], most: usize) -> (usize, bool) {
        let taking = self.can_take(digest, named);
        if taking {
            self.asks(digest);
        }
        let Share { share, held } = self.share(digest, named);
        let reserved = self.counts.get(&digest).map_or(0, |count| count.reserved);
        let places = share.saturating_sub(held + reserved).min(most);
        if places > 0 {
            let count = self.counts.entry(digest).or_default();
            count.reserved += places;
            count.taking += usize::from(taking);
        }
        (places, taking)
    }

    /// A call that could take a key that is free is over.
    pub fn takes_no_more(&mut self, digest: Nonce) {
        if let Some(count) = self.counts.get_mut(&digest) {
            count.taking = count.taking.saturating_sub(1);
        }
    }

    /// Those of these keys that no member has taken yet and that this one may have: the pool's other members do not know
    /// them.
    pub fn unclaimed(&self, digest: Nonce, named: &[Key]) -> Vec<Key> {
        let is_unclaimed = |key: &&Key| {
            !self.keys.contains_key(key) && !self.is_apart(key) && self.may_have(digest, key)
        };
        named.iter().filter(is_unclaimed).cloned().collect()
    }

    /// Reserves up to `most` places beyond a member's share, within its capacity. Returns how many.
    pub fn reserve_beyond(&mut self, digest: Nonce, most: usize) -> usize {
        let replaced = self.replaced();
        let member = self.present(&replaced).find(|(present, _)| **present == digest);
        let Some((_, joined)) = member.filter(|(_, joined)| !joined.draining) else { return 0 };
        let capacity = joined.capacity.map_or(usize::MAX, |most| most as usize);
        let held = self.counts.get(&digest).map_or(0, |count| count.held);
        let capacity = capacity.min(self.limits().of(joined, held));
        let count = self.counts.entry(digest).or_default();
        let places = capacity.saturating_sub(count.held + count.reserved).min(most);
        count.reserved += places;
        places
    }

    /// Whether the member's share still covers what it holds and has reserved.
    pub fn fits(&mut self, digest: Nonce, named: &[Key]) -> bool {
        let Share { share, held } = self.share(digest, named);
        let reserved = self.counts.get(&digest).map_or(0, |count| count.reserved);
        held + reserved <= share
    }

    pub fn give_back(&mut self, digest: Nonce, places: usize) {
        if let Some(count) = self.counts.get_mut(&digest) {
            count.reserved = count.reserved.saturating_sub(places);
            if count.held == 0 && count.reserved == 0 {
                self.counts.remove(&digest);
            }
        }
        // Another call of the member may wait for these places.
        self.changed.send_modify(|count| *count += 1);
    }

    /// What a node must do that is the home node of the sessions for which `here` holds.
    pub fn propose(
        &self,
        here: impl Fn(Nonce) -> bool,
        movable: impl Fn(&Key) -> bool,
        now: Moment,
        damping: Damping,
    ) -> Proposal {
        if self.places_keys() {
            return self.propose_placed(here, movable, now, damping);
        }
        let plan = self.plan(&here, now, damping);
        let asked = self.members.keys().filter_map(|member| self.counts.get(member));
        let asked: usize = asked.map(|count| count.asked).sum();
        let asks = plan.asks.iter().sum();
        let orders = self.orders(&plan, here, movable, now, damping);
        Proposal { moves: plan.moves, asks, orders, is_uneven: asks + asked > 0, peak: None }
    }

    /// The plan by number.
    fn plan(&self, here: impl Fn(Nonce) -> bool, now: Moment, damping: Damping) -> Plan {
        // Some keys are shut without this node's knowledge, and a fence may take hours.
        let is_fresh = |key: &&Key| self.keys[key].open_for(now).is_some_and(|open| open < FRESH);
        let fresh = if self.free() > 0 { self.open.keys().filter(is_fresh).count() } else { 0 };
        let unheld = Unheld { keys: self.free(), fresh };
        // A node asks its own members first, in an order that changes with time.
        let turn = now.since(Moment::ZERO).as_secs() / damping.min_age.as_secs().max(1);
        let order = |member: &Member| {
            let mut chance = Chance::new(turn ^ (member.id.0 >> 64) as u64);
            (!here(member.id), chance.next_u64())
        };
        let members = self.counted(0);
        let mut plan = plan(&members, unheld, damping, order);
        if self.holds_still() {
            // Only members that leave are asked.
            let asks = plan.asks.iter_mut().zip(&members);
            asks.filter(|(_, member)| !member.draining).for_each(|(ask, _)| *ask = 0);
        }
        plan
    }

    /// Notes whether the pool is out of balance.
    pub fn note_balance(&mut self, proposal: &Proposal, now: Moment) {
        let since = self.uneven.map_or(now, |(since, _)| since);
        self.uneven = proposal.is_uneven.then_some((since, proposal.moves));
    }

    /// The leases that the members for which `here` holds must be asked for now, by number.
    fn orders(
        &self,
        plan: &Plan,
        here: impl Fn(Nonce) -> bool,
        movable: impl Fn(&Key) -> bool,
        now: Moment,
        damping: Damping,
    ) -> Vec<Order> {
        let replaced = self.replaced();
        let asks: HashMap<Nonce, usize> = self
            .present(&replaced)
            .zip(&plan.asks)
            .filter(|((digest, _), ask)| **ask > 0 && here(**digest))
            .map(|((digest, _), ask)| (*digest, *ask))
            .collect();
        if asks.is_empty() {
            return Vec::new();
        }
        let mut leases: HashMap<Nonce, Vec<(Key, Moment)>> = HashMap::default();
        for (key, place) in &self.keys {
            if let By::Session(digest) = place.fact.by
                && !place.fact.asked
                && asks.contains_key(&digest)
                && movable(key)
                && (self.members[&digest].draining || !self.is_apart(key))
                && self.warm_to(key).is_none()
            {
                leases.entry(digest).or_default().push((key.clone(), place.since));
            }
        }
        let mut orders = Vec::new();
        for (member, leases) in leases {
            let of_member = if self.members[&member].draining {
                // All of them, whatever their age.
                leases.into_iter().map(|(key, _)| key).collect()
            } else {
                choose(leases, asks[&member], now, damping)
            };
            let order = |key| Order { member, key, shift: None, to: None };
            orders.extend(of_member.into_iter().map(order));
        }
        orders
    }

    /// What all nodes together would do now, without doing it.
    pub fn dry_run(
        &mut self,
        movable: impl Fn(&Key) -> bool,
        now: Moment,
        damping: Damping,
    ) -> DryRun {
        let Proposal { moves, asks, mut orders, .. } =
            self.propose(|_| true, movable, now, damping);
        orders.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let put_off = asks.saturating_sub(orders.len());
        let (view, rendered) = (self.view(now), OnceLock::new());
        DryRun { view, moves, orders, put_off, rendered }
    }

    pub fn view(&mut self, now: Moment) -> PoolView {
        let targets = self.targets(0);
        let counted = self.counted(0);
        let held: usize = counted.iter().map(|member| member.held).sum();
        let (carried, unplaced) = (self.carried(), self.unplaced(now));
        let replaced = self.replaced();
        let view = |(digest, joined): (&Nonce, &Joined)| {
            let load = carried.as_ref().and_then(|(loads, _)| loads.get(digest).copied());
            let count = self.counts.get(digest).copied().unwrap_or_default();
            let share = targets.get(digest).copied();
            MemberView {
                digest: *digest,
                joined: joined.clone(),
                share: Share { share: share.unwrap_or(0), held: count.held },
                handovers: count.asked,
                aside: self.is_aside(*digest),
                cordoned: self.controls.is_cordoned(&joined.owner),
                replaced: replaced.contains_key(digest),
                load,
            }
        };
        PoolView {
            keys: held + self.free(),
            free: self.free(),
            kept: self.open.keys().filter(|key| self.keys[key].is_kept(now)).count(),
            members: self.members.iter().map(view).collect(),
            uneven: self.uneven,
            guard: self.guard().cloned(),
            rebalancing: self.rebalancing.is_some(),
            peak: carried.as_ref().map(|(_, peak)| *peak),
            unplaced,
            unplaced_since: self.unplaced_since,
            warming: self.warm_view(),
        }
    }
}
