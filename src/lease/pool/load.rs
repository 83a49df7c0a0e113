//! How the leases of a pool are spread over its members by load, and which leases move.
//!
//! Guarantees: two nodes that see the same pool and the same loads compute the same. A lease moves only if the more loaded
//! of the two members then carries less, by at least a quarter of the load that moves, or if its member is above its limit.
//! No member gets a key beyond its capacity or its limit. A member without leases is first given one that others hold, and
//! more once it took that one.
//!
//! Does not guarantee: that loads are even. A key that is heavier than the mean of the members makes its member heavier.
//!
//! Assumes: loads are smoothed, so that one odd report does not move a lease ([`super::reports`]).

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeSet,
    time::Duration,
};

use crate::lease::{
    primitives::{Moment, Nonce},
    rules::Rules,
};

/// A load, in millionths of the unit that members report.
pub type Load = u64;

/// A member of a pool, by load.
#[derive(Clone, Debug, PartialEq)]
pub struct Carrier {
    /// The digest of the member's session.
    pub id: Nonce,
    /// The member's share of the load relative to other members.
    pub weight: u32,
    /// The load of the leases that it has and was not asked for.
    pub load: u128,
    /// The highest load that it accepts.
    pub most: u128,
    /// How many leases it has and was not asked for.
    pub leases: usize,
    /// The load of the heaviest of them.
    pub heaviest: Load,
    /// How many leases it may have.
    pub capacity: usize,
    /// It has no lease yet.
    pub is_new: bool,
    /// It is leaving.
    pub draining: bool,
}

/// A key that needs a member: nobody holds it, or its holder was asked for it.
#[derive(Clone, Debug)]
pub struct Homeless<K> {
    /// The key.
    pub key: K,
    /// Its class: where it may go.
    pub class: usize,
    /// Its load.
    pub load: Load,
    /// The member that was asked for it.
    pub from: Option<Nonce>,
    /// The member that had it before and comes back to it.
    pub former: Option<Nonce>,
}

/// A lease that may move.
#[derive(Clone, Debug)]
pub struct Leased<K> {
    /// The key.
    pub key: K,
    /// Its load.
    pub load: Load,
    /// When its tenure began.
    pub since: Moment,
}

/// When leases move.
#[derive(Clone, Copy, Debug)]
pub struct LoadRule {
    /// How far the load of a member may be from the mean, as a part of it.
    pub tolerance: f64,
    /// How many leases may be on their way at a time.
    pub at_once: usize,
    /// How long a lease must have been held.
    pub cooldown: Duration,
    /// The rules as they apply.
    pub applied: Rules,
}

/// A lease that moves, and what is gained.
#[derive(Clone, Debug, PartialEq)]
pub struct Move<K> {
    /// The key.
    pub key: K,
    /// The member that has it.
    pub from: Nonce,
    /// The member that is to get it.
    pub to: Nonce,
    /// Why it moves.
    pub why: Why,
}

/// Why a lease moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Its member does not meet what its class requires.
    Require {
        /// The class.
        class: usize,
    },
    /// A value of the label over which its class is spread has more keys than another one.
    Spread {
        /// The class.
        class: usize,
        /// The two values.
        values: [usize; 2],
        /// How many keys of the class each of them has.
        keys: [usize; 2],
    },
    /// Another member is preferred.
    Prefer {
        /// The class.
        class: usize,
    },
    /// The numbers of the leases of the two members differ.
    Number([usize; 2]),
    /// Loads become more even.
    Load(Gain),
}

/// What a move gains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The load of the key.
    pub load: Load,
    /// The load of the member that has it, before the move.
    pub from: u128,
    /// The load of the member that is to get it, before the move.
    pub to: u128,
    /// By how much the more loaded of the two then carries less, as a part of the mean. For a member that is over its
    /// limit: by how much it then carries less.
    pub gain: f64,
    /// The limit that the member is over, if that is why the lease moves.
    pub limit: Option<u128>,
}

impl Carrier {
    /// Its load for each unit of its weight.
    pub(super) fn level(&self) -> f64 {
        self.level_with(0, 0)
    }

    pub(super) fn level_with(&self, more: Load, less: Load) -> f64 {
        let load = (self.load + u128::from(more)).saturating_sub(less.into());
        load as f64 / f64::from(self.weight.max(1))
    }

    /// Whether it may have one more key of this load.
    pub(super) fn has_room(&self, load: Load) -> bool {
        !self.draining
            && self.leases < self.capacity
            && self.load < self.most
            && self.load + u128::from(load) <= self.most
    }

    /// Whether it must take its first key before others are asked for further ones.
    pub(super) fn waits(&self) -> bool {
        self.is_new && self.leases > 0
    }

    /// It has one more lease.
    pub fn take(&mut self, load: Load) {
        self.load += u128::from(load);
        self.leases += 1;
        self.heaviest = self.heaviest.max(load);
    }

    /// Whether it carries one key that is too heavy for any member, and little else.
    pub(super) fn is_hot(&self, mean: f64, tolerance: f64) -> bool {
        let rest = self.level_with(0, self.heaviest);
        self.level() - rest >= mean && rest <= tolerance * mean
    }

    /// Its place in the order of levels. Levels are not negative, so their bits have their order.
    pub(super) fn rank(&self, at: usize) -> Rank {
        (self.level().to_bits(), self.leases, self.id, at)
    }
}

/// The level of a member, the number of its leases, its session, and its position.
pub(super) type Rank = (u64, usize, Nonce, usize);

/// The mean of the loads, for each unit of weight, of the members that stay.
#[must_use]
pub fn mean(carriers: &[Carrier]) -> f64 {
    mean_of(carriers.iter().filter(|carrier| !carrier.draining))
}

fn mean_of<'a>(carriers: impl Iterator<Item = &'a Carrier>) -> f64 {
    let add = |sum: (u128, u64), carrier: &Carrier| {
        (sum.0 + carrier.load, sum.1 + u64::from(carrier.weight))
    };
    let (load, weight) = carriers.fold((0, 0), add);
    if weight == 0 { 0.0 } else { load as f64 / weight as f64 }
}

/// How much the most loaded member carries, as a part of the mean. Members that carry less than the mean and have no room
/// for more do not count. 1 if nobody carries anything.
#[must_use]
pub fn peak(carriers: &[Carrier]) -> f64 {
    let mut counted: Vec<&Carrier> = carriers.iter().filter(|carrier| !carrier.draining).collect();
    counted.sort_unstable_by_key(|carrier| carrier.rank(0));
    loop {
        let mean = mean_of(counted.iter().copied());
        match (counted.first(), counted.last()) {
            (Some(least), Some(_)) if least.level() < mean && !least.has_room(0) => {
                counted.remove(0);
            }
            (_, Some(most)) if mean > 0.0 => return most.level() / mean,
            _ => return 1.0,
        }
    }
}

/// A move that gains less than this part of what its giver gives is not worth it.
pub(super) const LEAST_GAIN: f64 = 0.25;
/// Once leases move, they do until no member is further from the mean than this part of the tolerance.
pub(super) const CALM: f64 = 0.5;

/// A pool is active for this time after a lease was granted: its leases then move until they are even. All nodes see that
/// alike.
pub const STIRRED: Duration = Duration::from_secs(10);

/// The leases that are to move. `leases` are those that may move, by member. `active`: leases are on their way, or were
/// granted lately ([`STIRRED`]). The members carry what [`place`](super::sites::place) gave them.
///
/// Each move takes a lease from the most loaded member that has one to give, for the least loaded one with room: the lease
/// after which the more loaded of the two carries the least. It ends when no member is further from the mean than half of
/// the tolerance, or no move gains enough. A member beyond its own limit gives leases away in any case.
pub fn improve<K: Ord + Clone>(
    carriers: &mut [Carrier],
    leases: &mut [Vec<Leased<K>>],
    rule: LoadRule,
    active: bool,
    now: Moment,
) -> Vec<Move<K>> {
    let mean = mean(carriers);
    if mean <= 0.0 {
        return Vec::new();
    }
    for of_member in leases.iter_mut() {
        of_member.retain(|lease| now.since(lease.since) >= rule.cooldown && lease.load > 0);
        of_member.sort_unstable_by(Leased::by_load);
    }
    let stay = carriers.iter().enumerate().filter(|(_, carrier)| !carrier.draining);
    let mut ranks: BTreeSet<Rank> = stay.map(|(at, carrier)| carrier.rank(at)).collect();
    let mut moves: Vec<Move<K>> = Vec::new();
    while moves.len() < rule.at_once {
        let active = active || !moves.is_empty();
        let found = relieve(carriers, leases, &ranks)
            .or_else(|| even_out(carriers, leases, &ranks, rule, active));
        let Some((from, to, at, gained)) = found else { break };
        let Leased { key, load, .. } = leases[from].remove(at);
        let (giver, taker) = (&carriers[from], &carriers[to]);
        let limit = (giver.load > giver.most).then_some(giver.most);
        let gain = Gain { load, from: giver.load, to: taker.load, gain: gained / mean, limit };
        let why = Why::Load(gain);
        moves.push(Move { key, from: carriers[from].id, to: carriers[to].id, why });
        for at in [from, to] {
            ranks.remove(&carriers[at].rank(at));
        }
        carriers[from].load = carriers[from].load.saturating_sub(load.into());
        carriers[from].leases -= 1;
        carriers[to].take(load);
        ranks.extend([from, to].map(|at| carriers[at].rank(at)));
    }
    moves
}

/// Who gives which lease to whom, and by how much the level falls.
type Found = (usize, usize, usize, f64);

impl<K: Ord> Leased<K> {
    /// The order of the leases of a member: the lightest first, and of equal loads the youngest.
    fn by_load(&self, other: &Self) -> Ordering {
        let place = |lease: &Self| (lease.load, Reverse(lease.since));
        place(self).cmp(&place(other)).then_with(|| self.key.cmp(&other.key))
    }
}

/// The position of the first lease of this load, or of the next higher one. The leases are in their order.
fn first_from<K>(leases: &[Leased<K>], load: Load) -> usize {
    leases.partition_point(|lease| lease.load < load)
}

/// The lightest lease that brings a member within its limit, or its heaviest one if none does.
fn relieve<K>(
    carriers: &[Carrier],
    leases: &[Vec<Leased<K>>],
    ranks: &BTreeSet<Rank>,
) -> Option<Found> {
    let over = |(_, carrier): &(usize, &Carrier)| !carrier.draining && carrier.load > carrier.most;
    carriers.iter().enumerate().filter(over).find_map(|(from, giver)| {
        let excess = giver.load - giver.most;
        let heaviest = leases[from].last()?.load;
        let enough = Load::try_from(excess).unwrap_or(Load::MAX);
        let at = first_from(&leases[from], enough.min(heaviest));
        let load = leases[from][at].load;
        let fits = |at: &usize| *at != from && carriers[*at].has_room(load);
        let to = ranks.iter().map(|rank| rank.3).find(fits)?;
        if carriers[to].waits() {
            // It is the one that should get the lease: others must not get it meanwhile.
            return None;
        }
        let gained = excess.min(load.into()) as f64 / f64::from(giver.weight.max(1));
        Some((from, to, at, gained))
    })
}

/// The best lease to move from the most loaded member to the least loaded one, if one of them is too far from the mean.
/// Members that have nothing to give, or no room, do not count for the mean: the others must be even among themselves.
fn even_out<K>(
    carriers: &[Carrier],
    leases: &[Vec<Leased<K>>],
    ranks: &BTreeSet<Rank>,
    rule: LoadRule,
    active: bool,
) -> Option<Found> {
    let tolerance = rule.tolerance * if active { CALM } else { 1.0 };
    let order: Vec<usize> = ranks.iter().map(|rank| rank.3).collect();
    let mut counted = &order[..];
    loop {
        let mean = mean_of(counted.iter().map(|at| &carriers[*at]));
        let (&lowest, &from) = (counted.first()?, counted.last()?);
        let (low, giver) = (carriers[lowest].level(), &carriers[from]);
        let level = giver.level();
        if lowest == from || level <= mean * (1.0 + tolerance) && low >= mean * (1.0 - tolerance) {
            return None;
        }
        if carriers[lowest].waits() {
            // What moves now would have to move again once it took its first key.
            return None;
        }
        if !carriers[lowest].has_room(0) {
            counted = &counted[1..];
            continue;
        }
        let others = &counted[..counted.len() - 1];
        if giver.is_hot(mean, rule.tolerance) {
            counted = others;
            continue;
        }
        let taker = &carriers[lowest];
        let after = |load: Load| taker.level_with(load, 0).max(giver.level_with(0, load));
        let fitting = leases[from].partition_point(|lease| taker.has_room(lease.load));
        if fitting == 0 && !leases[from].is_empty() {
            // Its limit leaves no room for any of them.
            counted = &counted[1..];
            continue;
        }
        // From the first load on that makes the taker the more loaded of the two, heavier ones are worse. Before it, lighter
        // ones are.
        let fitting = &leases[from][..fitting];
        let fills = |load| taker.level_with(load, 0) >= giver.level_with(0, load);
        let turn = fitting.partition_point(|lease| !fills(lease.load));
        let below = turn.checked_sub(1).map(|at| first_from(fitting, fitting[at].load));
        let candidates = below.into_iter().chain((turn < fitting.len()).then_some(turn));
        let best = candidates.map(|at| (at, &fitting[at])).min_by_key(|(_, lease)| {
            (after(lease.load).to_bits(), Reverse(lease.since), lease.load)
        });
        let found = best.filter(|(_, lease)| {
            let gives = level - giver.level_with(0, lease.load);
            rule.applied.a_lease_moves_for(level - after(lease.load), LEAST_GAIN * gives)
        });
        match found {
            Some((at, lease)) => return Some((from, lowest, at, level - after(lease.load))),
            None => counted = others,
        }
    }
}
