//! Pools where it is known for which member each key without one is: those whose leases move by load, and those whose
//! policies say where keys go.
//!
//! Guarantees: while it is known for which member a key without one is, no other is granted it by a fair call. No member is
//! granted a key by a fair call whose policy its labels do not meet. All nodes compute the same from what is stored: loads
//! and labels.
//!
//! Does not guarantee: that all nodes have read the same loads and labels. A key for which two nodes name two members goes to the
//! first that takes it. If neither does, a member that takes nothing is set aside as in any pool.

use std::time::Duration;

use super::{
    fact::By,
    order::{Order, Shift},
    pool::{Joined, Place, Pool},
    shares::Proposal,
    upgrading::is_older,
};
use crate::{
    clock::HashMap,
    lease::{
        Announced, Key, Moment, Nonce, Owner,
        balance::{self, Damping},
        load::{Carrier, Homeless, Leased, Load, LoadRule, Move, STIRRED, Why, improve, peak},
        reports::load_of,
        sites::{self, ByClass, Sites, place},
    },
};

/// How many times longer a lease that moved must have been held before it moves again, than any other one.
const COOLDOWN: u32 = 6;
/// A key counts at least the mean divided by this.
const IDLE: Load = 10;
/// How many leases are on their way at a time.
const AT_ONCE: usize = 16;
/// How many moves are planned ahead, to tell how uneven the pool is.
const MOST_MOVES: usize = 1_000;
/// How far the numbers of the leases of two members may be from their mean, as a part of it, where they do not move by load.
const BY_NUMBER: f64 = 0.05;
/// The part of its tolerance to which a pool is balanced by order.
const EXACT: f64 = 0.25;

/// How keys count without a load of their own.
#[derive(Clone, Copy)]
struct Usual {
    /// A key whose load is not known: the mean of the others.
    load: Load,
    /// The least that any key counts, so that idle keys are spread too.
    least: Load,
}

/// A pool whose keys are placed.
struct Weighed {
    carriers: Vec<Carrier>,
    sites: Sites,
    by_member: HashMap<Nonce, usize>,
    placed: Vec<(Key, usize)>,
    /// The loads of what each member holds, with what it was asked for, as they were reported.
    held: Vec<u128>,
    /// How many leases of members that stay were asked for.
    on_the_way: usize,
}

impl Pool {
    /// Notes the loads that a member reports: those of the keys that it holds, and those that nobody reported before. A load
    /// that it reported before and removed is no longer known.
    pub fn note_loads(&mut self, digest: Nonce, announced: &Announced) {
        let before = self.members.get(&digest).map(|joined| &joined.announced.loads);
        let removed = before.into_iter().flat_map(|loads| loads.keys());
        let removed = removed.filter(|key| !announced.loads.contains_key(*key));
        let removed = removed.filter_map(|key| Key::new(key).ok());
        let removed: Vec<Key> = removed.filter(|key| self.has(digest, key)).collect();
        for key in removed {
            self.loads.remove(&key);
        }
        for (key, load) in &announced.loads {
            let Ok(key) = Key::new(key) else { continue };
            if self.has(digest, &key) || !self.loads.contains_key(&key) {
                self.loads.insert(key, *load);
            }
        }
    }

    /// How keys count whose load is not known, and those that are idle.
    fn usual_load(&self) -> Usual {
        let sum: u128 = self.loads.values().copied().map(u128::from).sum();
        let mean = sum.checked_div(self.loads.len() as u128);
        match mean.and_then(|mean| Load::try_from(mean).ok()) {
            Some(mean) if mean > 0 => Usual { load: mean, least: mean / IDLE },
            // Nothing is known, or all keys are idle: they are spread by their number.
            _ => Usual { load: load_of(1.0), least: load_of(1.0) },
        }
    }

    fn load_of(&self, key: &Key, usual: Usual) -> Load {
        if self.by_load.is_none() {
            return load_of(1.0);
        }
        self.loads.get(key).map_or(usual.load, |load| (*load).max(usual.least))
    }

    /// Whether it is known for which member each key without one is.
    pub fn places_keys(&self) -> bool {
        self.by_load.is_some() || self.table.is_some()
    }

    fn class_of(&self, key: &Key) -> usize {
        self.table.as_ref().map_or(0, |table| table.class_of(key.as_str()))
    }

    /// Whether the labels of a member meet what the policy of a key requires.
    pub fn allows(&self, joined: &Joined, key: &Key) -> bool {
        let labels = &joined.announced.labels;
        self.table.as_ref().is_none_or(|table| table.allows(key.as_str(), labels))
    }

    /// Whether the labels of a session meet what the policy of a key requires.
    pub fn may_have(&self, digest: Nonce, key: &Key) -> bool {
        let allows = |joined| self.allows(joined, key);
        self.table.is_none() || self.members.get(&digest).is_some_and(allows)
    }

    /// Whether a key that changed its holder went where it was placed, so that all else stays as it was.
    pub fn goes_as_placed(&mut self, key: &Key, by: By) -> bool {
        match by {
            By::Nobody => self.placed.contains_key(key),
            By::Session(digest) if self.placed.get(key) == Some(&digest) => {
                self.placed.remove(key);
                true
            }
            _ => false,
        }
    }

    /// Whether a key without a member is for this one.
    pub fn is_for(&self, digest: Nonce, key: &Key) -> bool {
        let is_new = || !self.keys.contains_key(key) && self.may_have(digest, key);
        !self.places_keys() || self.placed.get(key) == Some(&digest) || is_new()
    }

    /// Gives the keys without a member to members, unless that is done.
    pub fn assign(&mut self) {
        if self.targets.is_none() && self.places_keys() {
            let Weighed { carriers, sites, placed, .. } = self.weigh();
            self.targets =
                Some(carriers.iter().map(|carrier| (carrier.id, carrier.leases)).collect());
            self.placed = placed.into_iter().map(|(key, at)| (key, carriers[at].id)).collect();
            self.seated = Some(Box::new((carriers, sites)));
        }
    }

    /// The share of a member where these keys, which were never granted, are placed too.
    pub fn share_with(&mut self, digest: Nonce, named: &[Key]) -> Option<usize> {
        self.assign();
        let (mut carriers, mut sites) = *self.seated.clone()?;
        let at = carriers.iter().position(|carrier| carrier.id == digest)?;
        let (usual, new) = (self.usual_load(), self.unclaimed(digest, named));
        let homeless = |key: Key| {
            let (class, load) = (self.class_of(&key), self.load_of(&key, usual));
            Homeless { key, class, load, from: None, former: None }
        };
        place(&mut carriers, &mut sites, new.into_iter().map(homeless).collect());
        Some(carriers[at].leases)
    }

    /// Gives them anew, by the loads and labels that are known now.
    pub fn assign_again(&mut self) {
        if !self.places_keys() || self.placed.is_empty() && self.unheld_keys() == 0 {
            return;
        }
        let before = std::mem::take(&mut self.placed);
        self.targets = None;
        self.assign();
        if before != self.placed {
            self.reopen();
            self.assign();
        }
    }

    fn weigh(&self) -> Weighed {
        let (usual, replaced) = (self.usual_load(), self.replaced());
        let members = self.counted(0);
        let joined = |id| &self.members[&id];
        let mut carriers: Vec<Carrier> = members
            .iter()
            .map(|member| Carrier {
                id: member.id,
                weight: member.weight,
                load: 0,
                most: self.most_of(joined(member.id)),
                leases: 0,
                heaviest: 0,
                capacity: member.capacity,
                is_new: member.held == 0,
                draining: member.draining,
            })
            .collect();
        let by_member: HashMap<Nonce, usize> =
            members.iter().enumerate().map(|(at, member)| (member.id, at)).collect();
        let at = |digest| {
            let newest = || by_member.get(replaced.get(&digest)?);
            by_member.get(&digest).or_else(newest).copied()
        };
        let comes_back =
            |member: &&balance::Member| joined(member.id).returns.is_some() && !member.draining;
        let owners: HashMap<&Owner, Nonce> = members
            .iter()
            .filter(comes_back)
            .map(|member| (&joined(member.id).owner, member.id))
            .collect();
        let mut sites = match &self.table {
            None => Sites::anywhere(members.len()),
            Some(table) => {
                let newest = self.newest_version().filter(|_| self.is_mixed);
                let of = |member: &balance::Member| {
                    let joined = joined(member.id);
                    (&joined.announced.labels, newest.is_some() && is_older(joined, newest))
                };
                Sites::of(table, members.iter().map(of))
            }
        };
        let (mut held, mut on_the_way) = (vec![0; members.len()], 0);
        let mut homeless = Vec::new();
        for (key, place) in &self.keys {
            let (class, load) = (self.class_of(key), self.load_of(key, usual));
            let warm_to = self.warm_to(key).and_then(|to| by_member.get(&to).copied());
            let from = match place.fact.by {
                By::Other => continue,
                By::Nobody => None,
                By::Session(digest) => {
                    let Some(at) = at(digest) else { continue };
                    let shown = self.loads.get(key).copied().unwrap_or(usual.load);
                    held[at] += u128::from(shown);
                    if let Some(to) = warm_to {
                        // It counts where it goes.
                        on_the_way += usize::from(!carriers[at].draining);
                        carriers[to].take(load);
                        sites.add(class, to);
                        continue;
                    }
                    let carrier = &mut carriers[at];
                    if !place.fact.asked && !carrier.draining {
                        carrier.take(load);
                        sites.add(class, at);
                        continue;
                    }
                    on_the_way += usize::from(!carrier.draining);
                    Some(carrier.id)
                }
            };
            if let Some(to) = warm_to {
                carriers[to].take(load);
                sites.add(class, to);
                continue;
            }
            let owner = place.owner.as_deref().filter(|_| from.is_none());
            let former = owner.and_then(|owner| owners.get(owner).copied());
            let is_open = former.is_some() || from.is_some() || self.is_open_to_shares(key);
            if is_open && !self.is_apart(key) {
                homeless.push(Homeless { key: key.clone(), class, load, from, former });
            }
        }
        for carrier in &mut carriers {
            // It keeps what it has and gets nothing more.
            if self.is_aside(carrier.id) || self.is_cordoned(&joined(carrier.id).owner) {
                carrier.capacity = carrier.leases;
            }
        }
        let placed = place(&mut carriers, &mut sites, homeless);
        Weighed { carriers, sites, by_member, placed, held, on_the_way }
    }

    /// The highest load that a member accepts.
    fn most_of(&self, joined: &Joined) -> u128 {
        let limit = joined.announced.load_limit.filter(|_| self.by_load.is_some());
        limit.map_or(u128::MAX, u128::from)
    }

    /// What each member carries, and how much the most loaded one does, as a part of the mean. `None` for a pool whose
    /// leases do not move by load.
    pub fn carried(&self) -> Option<(HashMap<Nonce, u128>, f64)> {
        self.by_load?;
        let Weighed { carriers, held, .. } = self.weigh();
        let peak = peak(&carriers);
        Some((carriers.iter().map(|carrier| carrier.id).zip(held).collect(), peak))
    }

    /// The leases that members must be asked for now.
    pub fn propose_placed(
        &self,
        here: impl Fn(Nonce) -> bool,
        movable: impl Fn(&Key) -> bool,
        now: Moment,
        damping: Damping,
    ) -> Proposal {
        let Weighed { carriers, sites, by_member, on_the_way, .. } = self.weigh();
        let peak = self.by_load.map(|_| peak(&carriers));
        let mut orders = Vec::new();
        let mut leases: ByClass<&Key> = vec![vec![Vec::new(); sites.classes()]; carriers.len()];
        let (usual, mut leaving) = (self.usual_load(), 0);
        for (key, Place { fact, since, was_moved, .. }) in &self.keys {
            let By::Session(digest) = fact.by else { continue };
            let Some(&at) = by_member.get(&digest) else { continue };
            let is_leaving = carriers[at].draining;
            leaving += usize::from(is_leaving);
            let is_apart = self.is_apart(key) && !is_leaving;
            if fact.asked || !movable(key) || is_apart || self.warm_to(key).is_some() {
                continue;
            }
            if !is_leaving {
                let load = self.load_of(key, usual);
                let rests =
                    if *was_moved { Duration::ZERO } else { damping.min_age * (COOLDOWN - 1) };
                leases[at][self.class_of(key)].push(Leased { key, load, since: *since - rests });
            } else if here(digest) {
                orders.push(Order { member: digest, key: key.clone(), shift: None, to: None });
            }
        }
        let mut moves = leaving;
        let mut is_uneven = on_the_way + leaving > 0;
        if !self.holds_still() {
            let is_stirred = |place: &Place| place.fact.asked || now.since(place.since) < STIRRED;
            let active = self.keys.values().any(is_stirred);
            let at_once = if damping.is_exact { usize::MAX } else { AT_ONCE };
            let tolerance = self.by_load.unwrap_or(BY_NUMBER);
            let rule = LoadRule {
                tolerance: if damping.is_exact { tolerance * EXACT } else { tolerance },
                at_once: at_once.saturating_sub(on_the_way),
                cooldown: damping.min_age * COOLDOWN,
                applied: self.rules,
            };
            let all = LoadRule { at_once: MOST_MOVES, cooldown: Duration::ZERO, ..rule };
            let moving =
                |rule: LoadRule| self.moving(&carriers, &sites, &leases, rule, active, now);
            moves += moving(all).len();
            let shifts = moving(rule);
            is_uneven |= !shifts.is_empty();
            let order = |shift: Move<&Key>| {
                let (member, key) = (shift.from, shift.key.clone());
                let to = Some(shift.to);
                Order { member, key, shift: Some(Box::new(self.shift(&shift, &sites))), to }
            };
            orders.extend(shifts.into_iter().filter(|shift| here(shift.from)).map(order));
        }
        let asks = moves;
        Proposal { moves, asks, orders, is_uneven, peak }
    }

    fn moving<'a>(
        &self,
        carriers: &[Carrier],
        sites: &Sites,
        leases: &ByClass<&'a Key>,
        rule: LoadRule,
        active: bool,
        now: Moment,
    ) -> Vec<Move<&'a Key>> {
        let mut carriers = carriers.to_vec();
        if self.table.is_some() {
            let (mut sites, by_load) = (sites.clone(), self.by_load.is_some());
            let leases = leases.clone();
            return sites::improve(&mut carriers, &mut sites, leases, (rule, by_load), active, now);
        }
        let mut leases: Vec<_> = leases.iter().map(|of_member| of_member[0].clone()).collect();
        improve(&mut carriers, &mut leases, rule, active, now)
    }

    /// The move as it is told to operators.
    fn shift(&self, shift: &Move<&Key>, sites: &Sites) -> Shift {
        let member = |digest| {
            let Joined { owner, weight, .. } = &self.members[&digest];
            (owner.clone(), *weight)
        };
        let (from, to) = (member(shift.from), member(shift.to));
        let rule = |class: usize| self.table.as_ref().map(|table| &table.rules()[class]);
        let detail = match shift.why {
            Why::Load(_) => String::new(),
            Why::Number([has, gets]) => format!("{} holds {has} leases, {} {gets}", from.0, to.0),
            Why::Require { class } => {
                let labels = &self.members[&shift.from].announced.labels;
                let missing = rule(class).map(|rule| rule.missing(labels)).unwrap_or_default();
                format!("{} does not meet {missing}, {} does", from.0, to.0)
            }
            Why::Prefer { class } => {
                let labels = &self.members[&shift.to].announced.labels;
                let met = rule(class).map(|rule| rule.met(labels)).unwrap_or_default();
                format!("{} is preferred to {}: it meets {met}", to.0, from.0)
            }
            Why::Spread { class, values, keys } => {
                let name = rule(class).and_then(|rule| rule.spread.as_deref()).unwrap_or_default();
                let shown = values.map(|value| match sites.value(class, value) {
                    "" => format!("members without {name}"),
                    value => format!("{name}={value}"),
                });
                format!("{} have {} of these keys, {} {}", shown[0], keys[0], shown[1], keys[1])
            }
        };
        Shift { from, to, why: shift.why, detail }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::{
        actor::pools::fact::{Cooling, Fact},
        clock::{Clock, SystemClock},
        lease::{
            Epoch, LabelRule, Labels, PlaceRule, PlaceTable, Policies, Policy, Revision, Rules,
            Token,
        },
    };

    const MIN_AGE: Damping =
        Damping { min_age: Duration::from_secs(10), at_once: 16, is_exact: false };

    fn key(at: usize) -> Key {
        Key::new(&format!("k/{at}")).expect("a key")
    }

    fn joined(member: usize, announced: Announced) -> Joined {
        let owner = Owner::new(&format!("w{member}")).expect("an owner");
        let (weight, capacity, node, draining, returns) = (1, None, Nonce(0), false, None);
        let announced = announced.into();
        Joined { owner, weight, capacity, node, draining, returns, announced }
    }

    /// A pool whose keys have loads by the law of Zipf, and are spread by their number.
    fn zipf(keys: usize, members: usize) -> Pool {
        let mut pool = Pool::default();
        pool.begin_indexing(Some(0.1), None);
        (0..members)
            .for_each(|at| drop(pool.join(Nonce(at as u128), joined(at, Announced::default()))));
        for at in 0..keys {
            let by = By::Session(Nonce((at * 7919 % members) as u128));
            let token = Token::of(Epoch(1), Revision(1));
            let (asked, shut, cooling) = (false, false, Cooling::Over);
            let fact = Fact { by, token, seq: 1, asked, shut, cooling };
            pool.learn(&key(at), fact, None, Moment::ZERO);
            pool.loads.insert(key(at), load_of(1_000.0 / (at as f64 + 1.0).sqrt()));
        }
        pool
    }

    /// What a plan costs while the pool is uneven. It runs once per second at most, and holds up the fair calls of this node.
    #[test]
    fn a_plan_of_many_keys_takes_a_part_of_a_second() {
        let pool = zipf(100_000, 1_000);
        let now = Moment::ZERO + Duration::from_secs(100);
        let clock = SystemClock::new();
        let start = clock.now();
        let proposal = pool.propose_placed(|_| true, |_| true, now, MIN_AGE);
        let took = clock.now().since(start);
        println!("{} moves of 100 000 keys and 1 000 members planned in {took:?}", proposal.moves);
        assert!(proposal.orders.len() == AT_ONCE && proposal.moves > 500, "{}", proposal.moves);
        assert!(took < Duration::from_secs(5), "{took:?}");
    }

    /// Where policies say where keys go: half of the keys go to half of the members, spread over ten zones.
    fn placed(keys: usize, members: usize) -> Pool {
        let rule = |text| LabelRule::parse(text).expect("a rule");
        let policy = |prefix: &str, place| Policy {
            prefix: prefix.into(),
            pool: "p".into(),
            place,
            ..Policy::default()
        };
        let (require, prefer) = ([rule("gpu")].into(), [rule("disk=ssd")].into());
        let place = PlaceRule { require, prefer, spread: Some("zone".into()) };
        let policies = vec![policy("k/", PlaceRule::default()), policy("k/1", place)];
        let policies = Arc::new(Policies::new(policies, Policy::default()));
        let mut pool = Pool::default();
        pool.begin_indexing(None, PlaceTable::of_pool(&policies, "p", Rules::default()));
        for at in 0..members {
            let mut labels = Labels::from([("zone".into(), format!("{}", at % 10).into())]);
            if at % 2 == 0 {
                labels.insert("gpu".into(), "1".into());
            }
            if at % 3 == 0 {
                labels.insert("disk".into(), "ssd".into());
            }
            pool.join(Nonce(at as u128), joined(at, Announced { labels, ..Announced::default() }));
        }
        for at in 0..keys {
            let token = Token::of(Epoch(1), Revision(1));
            let (asked, shut, cooling) = (false, false, Cooling::Over);
            let fact = Fact { by: By::Nobody, token, seq: 1, asked, shut, cooling };
            pool.learn(&key(at), fact, None, Moment::ZERO);
        }
        pool
    }

    /// What it costs to give all keys to members, and to plan once they hold them.
    #[test]
    fn many_keys_find_their_members_in_a_second_or_so() {
        let mut pool = placed(100_000, 1_000);
        let clock = SystemClock::new();
        let start = clock.now();
        pool.assign();
        let took = clock.now().since(start);
        println!("100 000 free keys were given to 1 000 members in {took:?}");
        assert_eq!((pool.placed.len(), pool.unplaced(Moment::ZERO).total()), (100_000, 0));
        assert!(took < Duration::from_secs(10), "{took:?}");
        for (key, to) in &pool.placed.clone() {
            let to = *to;
            assert!(pool.may_have(to, key) && pool.is_for(to, key), "{key}");
            let token = Token::of(Epoch(1), Revision(2));
            pool.granted(key, to, token, Moment::ZERO);
        }
        let now = Moment::ZERO + Duration::from_secs(100);
        let start = clock.now();
        let proposal = pool.propose_placed(|_| true, |_| true, now, MIN_AGE);
        let took = clock.now().since(start);
        println!("a plan of 100 000 keys and 1 000 members took {took:?}");
        assert_eq!(
            (proposal.moves, proposal.orders.len()),
            (0, 0),
            "they are where they are to be"
        );
        assert!(took < Duration::from_secs(10), "{took:?}");
        // The labels of a tenth of the members change: what they may not have moves, a few at a time.
        for at in (0..1_000).step_by(10) {
            pool.join(Nonce(at as u128), joined(at, Announced::default()));
        }
        let start = clock.now();
        let proposal = pool.propose_placed(|_| true, |_| true, now, MIN_AGE);
        let took = clock.now().since(start);
        println!("{} moves planned in {took:?}", proposal.moves);
        assert_eq!(proposal.orders.len(), AT_ONCE);
        assert!(took < Duration::from_secs(10), "{took:?}");
        let of_order = |order: &Order| order.shift.as_deref().expect("it is known").reason();
        assert!(proposal.orders.iter().all(|order| of_order(order) == "require"));
    }

    #[test]
    fn loads_that_change_wake_nobody() {
        let mut pool = zipf(100, 5);
        let changes = |pool: &Pool| pool.changed.get();
        let before = changes(&pool);
        let loads = BTreeMap::from([("k/5".into(), load_of(7.0))]);
        let announced = Announced { loads, ..Announced::default() };
        let held_by = pool.members.keys().copied().find(|digest| pool.has(*digest, &key(5)));
        let member = usize::try_from(held_by.expect("a member").0).expect("small");
        pool.join(Nonce(member as u128), joined(member, announced.clone()));
        assert_eq!(changes(&pool), before);
        assert_eq!(pool.loads[&key(5)], load_of(7.0));
        pool.join(Nonce(member as u128), Joined { weight: 2, ..joined(member, announced) });
        assert_ne!(changes(&pool), before);
    }

    #[test]
    fn free_keys_go_to_a_member_that_raises_its_limit() {
        let mut pool = Pool::default();
        pool.begin_indexing(Some(0.1), None);
        let limited = |load_limit| joined(0, Announced { load_limit, ..Announced::default() });
        pool.join(Nonce(0), limited(Some(0)));
        let (by, token) = (By::Nobody, Token::of(Epoch(1), Revision(1)));
        let (asked, shut, cooling) = (false, false, Cooling::Over);
        let fact = Fact { by, token, seq: 1, asked, shut, cooling };
        pool.learn(&key(0), fact, None, Moment::ZERO);
        pool.assign();
        assert!(!pool.is_for(Nonce(0), &key(0)));
        pool.join(Nonce(0), limited(None));
        pool.assign_again();
        assert!(pool.is_for(Nonce(0), &key(0)));
    }
}
