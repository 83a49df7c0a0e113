//! Members that come, leave and prepare, on two nodes that share a store and hear of changes one after the other.
//!
//! Shows: there are never more preparations than allowed; a holder is asked when the next one is prepared or had its time,
//! and never before; a key that is prepared for is offered to no other member; and whatever happened, the pool settles with
//! every member near its share and no preparation left.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    fact::{By, Cooling, Fact},
    order::Order,
    pool::{Joined, Pool},
    shares::Share,
};
use crate::{
    clock::{Chance, HashSet},
    lease::{
        Epoch, Key, Moment, Nonce, Owner, PoolControls, PoolOrder, Revision, Said, Token, Warmups,
        balance::{Damping, band},
    },
};

const KEYS: usize = 60;
const WARMUPS: Warmups = Warmups { timeout_ms: 6_000, most: 5 };
const DAMPING: Damping = Damping { min_age: Duration::ZERO, at_once: 16, is_exact: false };
/// The rounds with changes of members, and those in which the pool settles. A round is a second.
const CHANGES: u64 = 120;
const SETTLES: u64 = 120;

/// What is true of a key.
#[derive(Clone, Copy, Debug)]
struct Truth {
    by: Option<Nonce>,
    asked: bool,
    revision: u64,
    seq: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    node: usize,
    draining: bool,
    /// Whether it says when it is prepared.
    answers: bool,
}

struct World {
    chance: Chance,
    now: Moment,
    nodes: [Pool; 2],
    /// What the second node did not hear yet.
    late: Vec<(Key, Truth)>,
    keys: BTreeMap<Key, Truth>,
    members: BTreeMap<Nonce, Member>,
    stored: PoolControls,
    /// When each preparation began.
    began: BTreeMap<(Key, Token), Moment>,
    next: u128,
    revision: u64,
    moves: usize,
}

fn fact(truth: Truth) -> Fact {
    let by = truth.by.map_or(By::Nobody, By::Session);
    let token = Token::of(Epoch(1), Revision(truth.revision));
    let (asked, seq, shut, cooling) = (truth.asked, truth.seq, false, Cooling::Over);
    Fact { by, token, seq, asked, shut, cooling }
}

impl World {
    fn new(seed: u64) -> Self {
        let key = |at| Key::new(&format!("k/{at:02}")).expect("a key");
        let free = Truth { by: None, asked: false, revision: 0, seq: 0 };
        let mut world = Self {
            chance: Chance::new(seed),
            now: Moment::ZERO + Duration::from_secs(100),
            nodes: [Pool::default(), Pool::default()],
            late: Vec::new(),
            keys: (0..KEYS).map(|at| (key(at), free)).collect(),
            members: BTreeMap::new(),
            stored: PoolControls::default(),
            began: BTreeMap::new(),
            next: 0,
            revision: 1,
            moves: 0,
        };
        (0..3).for_each(|_| world.join());
        let keys: Vec<Key> = world.keys.keys().cloned().collect();
        keys.iter().for_each(|key| world.change(key, |truth| truth.seq += 1));
        world
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.chance.next_u64().is_multiple_of(count)
    }

    fn joined(digest: Nonce, draining: bool) -> Joined {
        let owner = Owner::new(&format!("w{}", digest.0)).expect("an owner");
        let (weight, capacity, node, returns) = (1, None, Nonce(0), None);
        Joined { owner, weight, capacity, node, draining, returns, announced: Arc::default() }
    }

    fn join(&mut self) {
        self.next += 1;
        let (digest, answers) = (Nonce(self.next), !self.one_in(4));
        let node = usize::from(self.one_in(2));
        self.members.insert(digest, Member { node, draining: false, answers });
        for pool in &mut self.nodes {
            pool.join(digest, Self::joined(digest, false));
        }
    }

    /// Changes a key. The first node hears of it at once, the second one in the next round.
    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Truth)) {
        let truth = self.keys.get_mut(key).expect("it is known");
        change(truth);
        let truth = *truth;
        self.nodes[0].learn(key, fact(truth), None, self.now);
        self.late.push((key.clone(), truth));
    }

    fn hear(&mut self) {
        for (key, truth) in std::mem::take(&mut self.late) {
            self.nodes[1].learn(&key, fact(truth), None, self.now);
        }
    }

    fn here(&self, node: usize) -> impl Fn(Nonce) -> bool + use<> {
        let members = self.members.clone();
        move |digest| members.get(&digest).is_some_and(|member| member.node == node)
    }

    fn obey(&mut self) {
        let controls = Arc::new(self.stored.clone());
        for (key, warming) in &self.stored.warming {
            let key = Key::new(key).expect("a key");
            self.began.entry((key, warming.token)).or_insert(self.now);
        }
        self.nodes.iter_mut().for_each(|pool| pool.obey(&controls, true, self.now));
    }

    fn ask(&mut self, order: &Order) {
        let truth = self.keys[&order.key];
        if truth.by == Some(order.member) && !truth.asked {
            self.change(&order.key, |truth| {
                truth.asked = true;
                truth.seq += 1;
            });
        }
    }

    fn plan(&mut self, node: usize) {
        let (here, now) = (self.here(node), self.now);
        let pool = &mut self.nodes[node];
        pool.judge(now);
        let proposal = pool.propose(&here, |_| true, now, DAMPING);
        let cold = pool.warm_moves(proposal.orders, |_| false);
        for order in cold {
            let others = self
                .members
                .iter()
                .filter(|(other, member)| **other != order.member && !member.draining);
            assert_eq!(others.count(), 0, "a member has room, and should prepare for {order:?}");
            self.ask(&order);
        }
    }

    fn store(&mut self, node: usize) {
        let (here, now) = (self.here(node), self.now);
        let steps = self.nodes[node].warm_steps(here, Some(WARMUPS), now, 0).steps;
        self.stored.carry_out(&PoolOrder::Warm(steps), Said::default());
        assert!(self.stored.warming.len() <= WARMUPS.most, "{:?}", self.stored.warming);
        self.obey();
    }

    fn prepare(&mut self) {
        for (key, warming) in self.stored.warming.clone() {
            let member = self.members.get(&warming.to).copied();
            let Some(member) = member.filter(|member| member.answers) else { continue };
            if self.one_in(3) {
                let key = Key::new(&key).expect("a key");
                self.nodes[member.node].note_prepared(warming.to, &[key]);
            }
        }
    }

    fn ask_prepared(&mut self, node: usize) {
        let (here, now) = (self.here(node), self.now);
        let due = self.nodes[node].warm_due(here, |_| false, Some(WARMUPS), now);
        for due in due {
            let warming = &self.stored.warming[due.order.key.as_str()];
            let began = self.began[&(due.order.key.clone(), warming.token)];
            let timeout = Duration::from_millis(WARMUPS.timeout_ms);
            assert!(warming.ready || now.since(began) >= timeout, "{warming:?} since {began:?}");
            self.ask(&due.order);
        }
    }

    fn hand_over(&mut self) {
        let asked: Vec<Key> =
            self.keys.iter().filter(|(_, it)| it.asked).map(|(key, _)| key.clone()).collect();
        for key in asked {
            if self.one_in(2) {
                self.change(&key, |truth| {
                    (truth.by, truth.asked) = (None, false);
                    truth.seq += 1;
                });
            }
        }
    }

    fn take(&mut self) {
        for (digest, member) in self.members.clone() {
            let pool = &mut self.nodes[member.node];
            let mut keys = pool.warm_to_take(digest, &[]);
            let Share { share, held } = pool.share(digest, &[]);
            let free = pool.unheld(digest);
            for key in &free {
                let to = pool.warm_to(key);
                assert!(to.is_none_or(|to| to == digest), "{key} is prepared for by {to:?}");
            }
            keys.extend(free.into_iter().take(share.saturating_sub(held + keys.len())));
            let taken: HashSet<Key> = keys.into_iter().collect();
            for key in taken {
                if self.keys[&key].by.is_none() {
                    self.revision += 1;
                    let revision = self.revision;
                    self.moves += 1;
                    self.change(&key, |truth| {
                        *truth =
                            Truth { by: Some(digest), asked: false, revision, seq: truth.seq + 1 };
                    });
                }
            }
        }
    }

    fn leave(&mut self, digest: Nonce) {
        self.members.remove(&digest);
        self.nodes.iter_mut().for_each(|pool| pool.leave(digest));
        let held = self.keys.iter().filter(|(_, truth)| truth.by == Some(digest));
        let held: Vec<Key> = held.map(|(key, _)| key.clone()).collect();
        for key in held {
            self.change(&key, |truth| {
                (truth.by, truth.asked) = (None, false);
                truth.seq += 1;
            });
        }
    }

    /// Something happens to the members. At least two of them stay.
    fn disturb(&mut self) {
        let staying = self.members.iter().filter(|(_, member)| !member.draining);
        let staying: Vec<Nonce> = staying.map(|(digest, _)| *digest).collect();
        if staying.len() < 3 || self.one_in(3) && staying.len() < 7 {
            return self.join();
        }
        let one = staying[usize::try_from(self.chance.next_u64()).unwrap_or(0) % staying.len()];
        if self.one_in(2) {
            return self.leave(one);
        }
        self.members.get_mut(&one).expect("it is there").draining = true;
        for pool in &mut self.nodes {
            pool.join(one, Self::joined(one, true));
        }
    }

    fn round(&mut self, changes: bool) {
        self.now = self.now + Duration::from_secs(1);
        self.hear();
        if changes && self.one_in(6) {
            self.disturb();
        }
        for node in [0, 1] {
            self.plan(node);
            self.store(node);
        }
        self.prepare();
        for node in [0, 1] {
            self.store(node);
            self.ask_prepared(node);
        }
        self.hand_over();
        self.take();
        let gone = self.members.iter().filter(|(digest, member)| {
            member.draining && self.keys.values().all(|truth| truth.by != Some(**digest))
        });
        let gone: Vec<Nonce> = gone.map(|(digest, _)| *digest).collect();
        gone.into_iter().for_each(|digest| self.leave(digest));
    }
}

#[test]
fn a_pool_whose_members_prepare_settles_whatever_happens() {
    for seed in 0..30 {
        let mut world = World::new(seed);
        (0..CHANGES).for_each(|_| world.round(true));
        for settles in 0..SETTLES {
            if settles == SETTLES - 20 {
                world.moves = 0;
            }
            world.round(false);
        }
        let held = |digest| world.keys.values().filter(|truth| truth.by == Some(digest)).count();
        let held: BTreeMap<Nonce, usize> =
            world.members.keys().map(|digest| (*digest, held(*digest))).collect();
        let target = KEYS / held.len();
        let is_even = held.values().all(|held| target.saturating_sub(*held) <= band(target));
        assert!(is_even && held.values().sum::<usize>() == KEYS, "seed {seed}: {held:?}");
        assert!(world.stored.warming.is_empty(), "seed {seed}: {:?}", world.stored.warming);
        assert_eq!(world.moves, 0, "seed {seed}: leases move in a pool that settled");
    }
}
