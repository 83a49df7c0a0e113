//! Which keys of a pool go to which members, where policies say so by labels: [`PlaceRule`](crate::lease::PlaceRule). Keys of one policy are a class.
//!
//! Guarantees: no key goes to a member that does not meet what its class requires. Keys are spread over the values of the
//! label that their class names, so that the values differ by one key at most, unless the members of a value have no room.
//! Among members with room and the same value, a key goes to those that meet the earlier preferences, and among these to
//! the least loaded one. Every move improves the first of these that it changes, so moves come to an end.
//!
//! Does not guarantee: that two members swap keys, so that each gets one that it is better for.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{
    load::{Carrier, Gain, Homeless, LEAST_GAIN, Leased, LoadRule, Move, Rank, Why, mean},
    place_table::PlaceTable,
};
use crate::lease::{labels::Labels, primitives::Moment};

/// What a member is to the keys of a class that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// It runs an older version than others, during an upgrade.
    pub is_older: bool,
    /// How far it is from what is preferred.
    pub tier: u32,
    /// The position of its value of the label over which keys are spread.
    pub value: usize,
}

/// What the members of a pool are to its classes, and how many keys of each class each value has.
#[derive(Clone, Debug)]
pub struct Sites {
    /// Members that are the same to all classes: what they are to each.
    groups: Vec<Vec<Option<Seat>>>,
    /// The group of each member.
    of: Vec<usize>,
    /// The values over which each class is spread; empty if it is not.
    values: Vec<Vec<Box<str>>>,
    /// How many keys each of them has.
    counts: Vec<Vec<usize>>,
}

impl Sites {
    /// All members may have all keys.
    #[must_use]
    pub fn anywhere(members: usize) -> Self {
        let seat = Seat { is_older: false, tier: 0, value: 0 };
        let (groups, of) = (vec![vec![Some(seat)]], vec![0; members]);
        Self { groups, of, values: vec![Vec::new()], counts: vec![vec![0]] }
    }

    /// `members`: the labels of each member, and whether it runs an older version than others, during an upgrade.
    #[must_use]
    pub fn of<'a>(
        table: &PlaceTable,
        members: impl Iterator<Item = (&'a Labels, bool)> + Clone,
    ) -> Self {
        let mut values: Vec<Vec<Box<str>>> = Vec::new();
        for (class, rule) in table.rules().iter().enumerate() {
            let mut of_class = BTreeSet::new();
            if rule.spread.is_some() {
                let allowed =
                    members.clone().filter(|(labels, _)| table.allows_class(class, labels));
                of_class.extend(allowed.map(|(labels, _)| rule.spread_value(labels)));
            }
            values.push(of_class.into_iter().map(Into::into).collect());
        }
        let (mut groups, mut of) = (Vec::<Vec<Option<Seat>>>::new(), Vec::new());
        for (labels, is_older) in members {
            let seat = |(class, values): (usize, &Vec<Box<str>>)| {
                let rule = &table.rules()[class];
                let value = || values.iter().position(|it| **it == *rule.spread_value(labels));
                table.allows_class(class, labels).then(|| Seat {
                    is_older,
                    tier: rule.tier(labels),
                    value: value().unwrap_or(0),
                })
            };
            let seats: Vec<Option<Seat>> = values.iter().enumerate().map(seat).collect();
            let known = groups.iter().position(|group| *group == seats);
            of.push(known.unwrap_or_else(|| {
                groups.push(seats);
                groups.len() - 1
            }));
        }
        let counts = values.iter().map(|values| vec![0; values.len().max(1)]).collect();
        Self { groups, of, values, counts }
    }

    /// What a member is to the keys of a class; `None` if it may have none.
    #[must_use]
    pub fn seat(&self, class: usize, at: usize) -> Option<Seat> {
        self.groups[self.of[at]][class]
    }

    /// How many classes there are.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.counts.len()
    }

    /// A value of the label over which a class is spread; empty for the members without that label.
    #[must_use]
    pub fn value(&self, class: usize, value: usize) -> &str {
        self.values[class].get(value).map_or("", |value| value)
    }

    /// Whether the keys of a class are spread.
    fn is_spread(&self, class: usize) -> bool {
        !self.values[class].is_empty()
    }

    /// A member has one more key of a class.
    pub fn add(&mut self, class: usize, at: usize) {
        if let Some(seat) = self.seat(class, at).filter(|_| self.is_spread(class)) {
            self.counts[class][seat.value] += 1;
        }
    }

    /// A member has one key less of a class.
    fn take(&mut self, class: usize, at: usize) {
        if let Some(seat) = self.seat(class, at).filter(|_| self.is_spread(class)) {
            self.counts[class][seat.value] -= 1;
        }
    }

    /// How many members may have keys of each class.
    fn allowed(&self) -> Vec<usize> {
        let classes = 0..self.counts.len();
        let allowed =
            |class| (0..self.of.len()).filter(|at| self.seat(class, *at).is_some()).count();
        classes.map(allowed).collect()
    }
}

/// The members with room, in the order of what they carry, by group.
struct Order(Vec<BTreeSet<Rank>>);

impl Order {
    fn of(carriers: &[Carrier], sites: &Sites) -> Self {
        let mut order = Self(vec![BTreeSet::new(); sites.groups.len()]);
        (0..carriers.len()).for_each(|at| order.insert(carriers, sites, at));
        order
    }

    fn insert(&mut self, carriers: &[Carrier], sites: &Sites, at: usize) {
        if carriers[at].has_room(0) {
            self.0[sites.of[at]].insert(carriers[at].rank(at));
        }
    }

    fn remove(&mut self, carriers: &[Carrier], sites: &Sites, at: usize) {
        self.0[sites.of[at]].remove(&carriers[at].rank(at));
    }

    /// The best member for a key of a class: of those whose seat is `wanted` and that `fits`.
    fn best(
        &self,
        sites: &Sites,
        class: usize,
        wanted: impl Fn(Seat) -> bool,
        fits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let of_group = |(seats, ranks): (&Vec<Option<Seat>>, &BTreeSet<Rank>)| {
            let seat = seats[class].filter(|seat| wanted(*seat))?;
            let rank = *ranks.iter().find(|rank| fits(rank.3))?;
            Some(((seat.is_older, sites.counts[class][seat.value], seat.tier, rank), rank.3))
        };
        let found = sites.groups.iter().zip(&self.0).filter_map(of_group);
        found.min_by_key(|(rank, _)| *rank).map(|(_, at)| at)
    }
}

/// Gives each key to a member that may have it and has room. Keys whose former members come back to them go there first, if
/// these may have them; then keys that few members may have, and the heaviest ones. Returns the keys that found a member,
/// with its position.
pub fn place<K: Ord>(
    carriers: &mut [Carrier],
    sites: &mut Sites,
    mut keys: Vec<Homeless<K>>,
) -> Vec<(K, usize)> {
    let allowed = sites.allowed();
    keys.sort_unstable_by(|a, b| {
        let first =
            |key: &Homeless<K>| (key.former.is_none(), allowed[key.class], Reverse(key.load));
        first(a).cmp(&first(b)).then_with(|| a.key.cmp(&b.key))
    });
    let mut order = Order::of(carriers, sites);
    let mut placed = Vec::with_capacity(keys.len());
    for Homeless { key, class, load, from, former } in keys {
        let fits = |at: usize| {
            let carrier = &carriers[at];
            let waits = from.is_some() && carrier.waits();
            Some(carrier.id) != from && carrier.has_room(load) && !waits
        };
        let former = former.and_then(|id| carriers.iter().position(|carrier| carrier.id == id));
        let former = former.filter(|at| sites.seat(class, *at).is_some() && fits(*at));
        let best = || order.best(sites, class, |_| true, fits);
        let Some(at) = former.or_else(best) else { continue };
        order.remove(carriers, sites, at);
        carriers[at].take(load);
        sites.add(class, at);
        order.insert(carriers, sites, at);
        placed.push((key, at));
    }
    placed
}

/// The leases that may move, by member and class, the youngest last.
pub type ByClass<K> = Vec<Vec<Vec<Leased<K>>>>;

/// A lease that is to move: its member, its class, its position among the member's leases of the class, the member that is
/// to get it, and why.
type Found = (usize, usize, usize, usize, Why);

/// A pool for which moves are planned.
struct Board<'a, K> {
    carriers: &'a mut [Carrier],
    sites: &'a mut Sites,
    leases: ByClass<K>,
    order: Order,
    rule: LoadRule,
    by_load: bool,
}

/// The leases that are to move. `active`: leases are on their way, or were granted lately. `by_load`: loads are to be even,
/// and not the number of keys. The members carry what [`place`] gave them.
pub fn improve<K: Ord + Clone>(
    carriers: &mut [Carrier],
    sites: &mut Sites,
    mut leases: ByClass<K>,
    (rule, by_load): (LoadRule, bool),
    active: bool,
    now: Moment,
) -> Vec<Move<K>> {
    for of_class in leases.iter_mut().flatten() {
        of_class.retain(|lease| now.since(lease.since) >= rule.cooldown);
        of_class
            .sort_unstable_by(|a, b| (a.since, Reverse(&a.key)).cmp(&(b.since, Reverse(&b.key))));
    }
    let order = Order::of(carriers, sites);
    let mut board = Board { carriers, sites, leases, order, rule, by_load };
    let mut moves = Vec::new();
    while moves.len() < rule.at_once {
        let active = active || !moves.is_empty();
        let found = board
            .misplaced()
            .or_else(|| board.relieve())
            .or_else(|| board.spread())
            .or_else(|| board.prefer())
            .or_else(|| board.even_out(active));
        let Some(found) = found else { break };
        moves.push(board.carry_out(found));
    }
    moves
}

impl<K: Ord + Clone> Board<'_, K> {
    fn carry_out(&mut self, (from, class, at, to, why): Found) -> Move<K> {
        let Leased { key, load, .. } = self.leases[from][class].remove(at);
        let moved = Move { key, from: self.carriers[from].id, to: self.carriers[to].id, why };
        for member in [from, to] {
            self.order.remove(self.carriers, self.sites, member);
        }
        let giver = &mut self.carriers[from];
        (giver.load, giver.leases) = (giver.load.saturating_sub(load.into()), giver.leases - 1);
        self.carriers[to].take(load);
        self.sites.take(class, from);
        self.sites.add(class, to);
        for member in [from, to] {
            self.order.insert(self.carriers, self.sites, member);
        }
        moved
    }

    /// The members that stay and have leases of a class that may move, with the load of the youngest of these.
    fn givers(&self, class: usize) -> impl Iterator<Item = (usize, &Leased<K>)> {
        let stay = self.carriers.iter().enumerate().filter(|(_, carrier)| !carrier.draining);
        stay.filter_map(move |(at, _)| Some((at, self.leases[at][class].last()?)))
    }

    /// The best other member for a lease. A member that must take its first key before others are asked for further ones
    /// gets none meanwhile, and nobody else gets it in its place.
    fn best(
        &self,
        class: usize,
        from: usize,
        load: super::load::Load,
        wanted: impl Fn(Seat) -> bool,
    ) -> Option<usize> {
        let fits = |at: usize| at != from && self.carriers[at].has_room(load);
        let best = self.order.best(self.sites, class, wanted, fits);
        best.filter(|at| !self.carriers[*at].waits())
    }

    fn classes(&self) -> std::ops::Range<usize> {
        0..self.sites.counts.len()
    }

    /// A lease of a member that may not have it, if another one can take it.
    fn misplaced(&self) -> Option<Found> {
        self.classes().find_map(|class| {
            let wrong = |(at, _): &(usize, &Leased<K>)| self.sites.seat(class, *at).is_none();
            self.givers(class).filter(wrong).find_map(|(from, lease)| {
                let to = self.best(class, from, lease.load, |_| true)?;
                Some((from, class, self.leases[from][class].len() - 1, to, Why::Require { class }))
            })
        })
    }

    /// The lightest lease that brings a member within its limit, or its heaviest one if none does.
    fn relieve(&self) -> Option<Found> {
        let over = |carrier: &Carrier| !carrier.draining && carrier.load > carrier.most;
        let over = self.carriers.iter().enumerate().filter(|(_, carrier)| over(carrier));
        over.flat_map(|(from, giver)| self.classes().map(move |class| (from, giver, class)))
            .filter_map(|(from, giver, class)| {
                let excess = giver.load - giver.most;
                let rank = |load: u64| match u128::from(load) >= excess {
                    true => (false, load),
                    false => (true, u64::MAX - load),
                };
                let leases = self.leases[from][class].iter().enumerate();
                let lightest = leases.filter(|(_, lease)| lease.load > 0);
                let (at, lease) = lightest
                    .min_by(|(_, a), (_, b)| (rank(a.load), &a.key).cmp(&(rank(b.load), &b.key)))?;
                let to = self.best(class, from, lease.load, |_| true)?;
                let gained = excess.min(lease.load.into()) as f64 / f64::from(giver.weight.max(1));
                let gain = self.gain(from, to, lease.load, gained);
                Some((rank(lease.load), (from, class, at, to, Why::Load(gain))))
            })
            .min_by_key(|(rank, (from, class, ..))| (*from, *rank, *class))
            .map(|(_, found)| found)
    }

    fn gain(&self, from: usize, to: usize, load: super::load::Load, gained: f64) -> Gain {
        let (giver, taker, mean) = (&self.carriers[from], &self.carriers[to], mean(self.carriers));
        let limit = (giver.load > giver.most).then_some(giver.most);
        let gain = if mean > 0.0 { gained / mean } else { 0.0 };
        Gain { load, from: giver.load, to: taker.load, gain, limit }
    }

    /// A lease of a value that has two keys more than another one, at least, whose members have room.
    fn spread(&self) -> Option<Found> {
        self.classes().filter(|class| self.sites.is_spread(*class)).find_map(|class| {
            let counts = &self.sites.counts[class];
            let mut values: Vec<usize> = (0..counts.len()).collect();
            values.sort_unstable_by_key(|value| (counts[*value], *value));
            let value = |at: usize| self.sites.seat(class, at).map(|seat| seat.value);
            values.iter().rev().find_map(|most| {
                let of_most = self.givers(class).filter(|(at, _)| value(*at) == Some(*most));
                let (from, lease) = of_most.max_by_key(|(at, _)| {
                    let tier = self.sites.seat(class, *at).map(|seat| seat.tier);
                    (tier, self.carriers[*at].rank(*at))
                })?;
                let fewer = values.iter().take_while(|few| counts[**few] + 2 <= counts[*most]);
                fewer.copied().find_map(|few| {
                    let to = self.best(class, from, lease.load, |seat| seat.value == few)?;
                    let why = Why::Spread {
                        class,
                        values: [*most, few],
                        keys: [counts[*most], counts[few]],
                    };
                    Some((from, class, self.leases[from][class].len() - 1, to, why))
                })
            })
        })
    }

    /// A lease for which a member with the same value is preferred that has room. The one that is furthest from what is
    /// preferred comes first.
    fn prefer(&self) -> Option<Found> {
        self.classes().find_map(|class| {
            let seated = |(at, lease)| Some((self.sites.seat(class, at)?, at, lease));
            let mut givers: Vec<(Seat, usize, &Leased<K>)> =
                self.givers(class).filter_map(seated).filter(|(seat, ..)| seat.tier > 0).collect();
            givers.sort_unstable_by_key(|(seat, at, _)| {
                (Reverse(seat.tier), Reverse(self.carriers[*at].rank(*at)))
            });
            givers.into_iter().find_map(|(seat, from, lease)| {
                let better = |it: Seat| it.value == seat.value && it.tier < seat.tier;
                let to = self.best(class, from, lease.load, better)?;
                Some((from, class, self.leases[from][class].len() - 1, to, Why::Prefer { class }))
            })
        })
    }

    /// The lease of the most loaded member that makes the more loaded of it and another one carry the least. Both have the
    /// same value, and are preferred alike.
    fn even_out(&self, active: bool) -> Option<Found> {
        let tolerance = self.rule.tolerance * if active { super::load::CALM } else { 1.0 };
        let mean = mean(self.carriers);
        let mut givers: Vec<usize> =
            (0..self.carriers.len()).filter(|at| !self.carriers[*at].draining).collect();
        givers.sort_unstable_by_key(|at| Reverse(self.carriers[*at].rank(*at)));
        givers.into_iter().find_map(|from| {
            let giver = &self.carriers[from];
            if self.by_load && giver.is_hot(mean, self.rule.tolerance) {
                return None;
            }
            let found = self.classes().filter_map(|class| self.eases(class, from, tolerance));
            found.min_by_key(|(rank, _)| *rank).map(|(_, found)| found)
        })
    }

    /// What moves from this member to the least loaded one that can have its leases of a class.
    fn eases(&self, class: usize, from: usize, tolerance: f64) -> Option<(Rank, Found)> {
        let (giver, leases) = (&self.carriers[from], &self.leases[from][class]);
        let lightest = leases.iter().map(|lease| lease.load).filter(|load| *load > 0).min()?;
        let seat = self.sites.seat(class, from)?;
        let alike = |it: Seat| it.value == seat.value && it.tier == seat.tier;
        let to = self.best(class, from, lightest, alike)?;
        let taker = &self.carriers[to];
        let (high, low) = (giver.level(), taker.level());
        if high - low <= tolerance * (high + low) {
            return None;
        }
        let after = |load| taker.level_with(load, 0).max(giver.level_with(0, load));
        let moves = leases.iter().enumerate().filter(|(_, lease)| {
            let gives = high - giver.level_with(0, lease.load);
            lease.load > 0
                && taker.has_room(lease.load)
                && self.rule.applied.a_lease_moves_for(high - after(lease.load), LEAST_GAIN * gives)
        });
        let (at, lease) = moves.min_by_key(|&(_, lease)| {
            (after(lease.load).to_bits(), Reverse(lease.since), &lease.key)
        })?;
        let why = if self.by_load {
            Why::Load(self.gain(from, to, lease.load, high - after(lease.load)))
        } else {
            Why::Number([giver.leases, taker.leases])
        };
        Some((taker.rank(to), (from, class, at, to, why)))
    }
}
