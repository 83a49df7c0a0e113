//! Pools whose leases move by load.
//!
//! Guarantees: while it is known for which member a key without one is, no other is granted it. All nodes compute that
//! from the same loads: those that are stored.
//!
//! Does not guarantee: that all nodes have read the same loads. A key for which two nodes name two members goes to the
//! first that takes it. If neither does, a member that takes nothing is set aside as in any pool.

use std::time::Duration;

use super::{
    fact::By,
    pool::{Joined, Place, Pool},
    shares::{Order, Proposal, Shift},
};
use crate::{
    clock::HashMap,
    lease::{
        Announced, Key, Moment, Nonce, Owner,
        balance::Damping,
        load::{Carrier, Homeless, Leased, Load, LoadRule, Move, STIRRED, improve, peak, place},
        reports::load_of,
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

/// A pool by load.
struct Weighed {
    carriers: Vec<Carrier>,
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
        self.loads.get(key).map_or(usual.load, |load| (*load).max(usual.least))
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
        self.by_load.is_none()
            || self.placed.get(key) == Some(&digest)
            || !self.keys.contains_key(key)
    }

    /// Gives the keys without a member to members, unless that is done.
    pub fn assign(&mut self) {
        if self.targets.is_none() && self.by_load.is_some() {
            let weighed = self.weigh();
            let targets = weighed.carriers.iter().map(|carrier| (carrier.id, carrier.leases));
            self.targets = Some(targets.collect());
            let id = |at: usize| weighed.carriers[at].id;
            self.placed = weighed.placed.into_iter().map(|(key, at)| (key, id(at))).collect();
        }
    }

    /// Gives them anew, by the loads that are known now.
    pub fn assign_again(&mut self) {
        if self.by_load.is_none() || self.placed.is_empty() && self.unheld_keys == 0 {
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
                most: joined(member.id).announced.load_limit.map_or(u128::MAX, u128::from),
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
        let comes_back = |member: &&crate::lease::balance::Member| {
            joined(member.id).returns.is_some() && !member.draining
        };
        let owners: HashMap<&Owner, Nonce> = members
            .iter()
            .filter(comes_back)
            .map(|member| (&joined(member.id).owner, member.id))
            .collect();
        let (mut held, mut on_the_way) = (vec![0; members.len()], 0);
        let mut homeless = Vec::new();
        for (key, place) in &self.keys {
            let load = self.load_of(key, usual);
            let from = match place.fact.by {
                By::Other => continue,
                By::Nobody => None,
                By::Session(digest) => {
                    let Some(at) = at(digest) else { continue };
                    let shown = self.loads.get(key).copied().unwrap_or(usual.load);
                    held[at] += u128::from(shown);
                    let carrier = &mut carriers[at];
                    if !place.fact.asked && !carrier.draining {
                        carrier.take(load);
                        continue;
                    }
                    on_the_way += usize::from(!carrier.draining);
                    Some(carrier.id)
                }
            };
            let owner = place.owner.as_deref().filter(|_| from.is_none());
            let former = owner.and_then(|owner| owners.get(owner).copied());
            let is_open = former.is_some() || from.is_some() || self.is_open_to_shares(key);
            if is_open && !self.is_apart(key) {
                homeless.push(Homeless { key: key.clone(), load, from, former });
            }
        }
        for carrier in &mut carriers {
            // It keeps what it has and gets nothing more.
            if self.is_aside(carrier.id) || self.controls.is_cordoned(&joined(carrier.id).owner) {
                carrier.capacity = carrier.leases;
            }
        }
        let placed = place(&mut carriers, homeless);
        Weighed { carriers, by_member, placed, held, on_the_way }
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
    pub fn propose_by_load(
        &self,
        tolerance: f64,
        here: impl Fn(Nonce) -> bool,
        movable: impl Fn(&Key) -> bool,
        now: Moment,
        damping: Damping,
    ) -> Proposal {
        let Weighed { mut carriers, by_member, on_the_way, .. } = self.weigh();
        let peak = Some(peak(&carriers));
        let mut orders = Vec::new();
        let mut leases: Vec<Vec<Leased<&Key>>> = vec![Vec::new(); carriers.len()];
        let (usual, mut leaving) = (self.usual_load(), 0);
        for (key, Place { fact, since, was_moved, .. }) in &self.keys {
            let By::Session(digest) = fact.by else { continue };
            let Some(&at) = by_member.get(&digest) else { continue };
            let is_leaving = carriers[at].draining;
            leaving += usize::from(is_leaving);
            if fact.asked || !movable(key) || self.is_apart(key) && !is_leaving {
                continue;
            }
            if !is_leaving {
                let load = self.load_of(key, usual);
                let rests =
                    if *was_moved { Duration::ZERO } else { damping.min_age * (COOLDOWN - 1) };
                leases[at].push(Leased { key, load, since: *since - rests });
            } else if here(digest) {
                orders.push(Order { member: digest, key: key.clone(), shift: None });
            }
        }
        let mut moves = leaving;
        let mut is_uneven = on_the_way + leaving > 0;
        if !self.holds_still() {
            let is_stirred = |place: &Place| place.fact.asked || now.since(place.since) < STIRRED;
            let active = self.keys.values().any(is_stirred);
            let at_once = if damping.is_exact { usize::MAX } else { AT_ONCE };
            let rule = LoadRule {
                tolerance: if damping.is_exact { tolerance * EXACT } else { tolerance },
                at_once: at_once.saturating_sub(on_the_way),
                cooldown: damping.min_age * COOLDOWN,
            };
            let all = LoadRule { at_once: MOST_MOVES, cooldown: Duration::ZERO, ..rule };
            moves += improve(&mut carriers.clone(), &mut leases.clone(), all, active, now).len();
            let shifts = improve(&mut carriers, &mut leases, rule, active, now);
            is_uneven |= !shifts.is_empty();
            let member = |digest| {
                let Joined { owner, weight, .. } = &self.members[&digest];
                (owner.clone(), *weight)
            };
            let order = |shift: Move<&Key>| {
                let (from, to, gain) = (member(shift.from), member(shift.to), shift.gain);
                let (member, key) = (shift.from, shift.key.clone());
                Order { member, key, shift: Some(Box::new(Shift { from, to, gain })) }
            };
            orders.extend(shifts.into_iter().filter(|shift| here(shift.from)).map(order));
        }
        let asks = moves;
        Proposal { moves, asks, orders, is_uneven, peak }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        actor::pools::fact::{Cooling, Fact},
        clock::{Clock, SystemClock},
        lease::{Epoch, Revision, Token},
    };

    const MIN_AGE: Damping =
        Damping { min_age: Duration::from_secs(10), at_once: 16, is_exact: false };

    fn key(at: usize) -> Key {
        Key::new(&format!("k/{at}")).expect("a key")
    }

    fn joined(member: usize, announced: Announced) -> Joined {
        let owner = Owner::new(&format!("w{member}")).expect("an owner");
        let (weight, capacity, node, draining, returns) = (1, None, Nonce(0), false, None);
        Joined { owner, weight, capacity, node, draining, returns, announced }
    }

    /// A pool whose keys have loads by the law of Zipf, and are spread by their number.
    fn zipf(keys: usize, members: usize) -> Pool {
        let mut pool = Pool::default();
        pool.begin_indexing(Some(0.1));
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
        let proposal = pool.propose_by_load(0.1, |_| true, |_| true, now, MIN_AGE);
        let took = clock.now().since(start);
        println!("{} moves of 100 000 keys and 1 000 members planned in {took:?}", proposal.moves);
        assert!(proposal.orders.len() == AT_ONCE && proposal.moves > 500, "{}", proposal.moves);
        assert!(took < Duration::from_secs(2), "{took:?}");
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
        pool.begin_indexing(Some(0.1));
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
