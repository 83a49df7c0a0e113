//! A pool on three nodes that hear of changes late, and members that join, are restarted, upgraded and lost.
//!
//! Each node runs the [`Pool`] of the product. The store, the sessions and the members' programs are played: a store has
//! one history, each node follows it in order and some rounds late, and knows its own writes at once. A round is a second.

mod serving;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    actor::pools::{
        fact::{By, Cooling, Fact},
        pool::{Joined, Pool},
    },
    clock::{Chance, HashSet},
    lease::{
        Announced, Epoch, Key, MassFailure, Moment, Nonce, Owner, PoolControls, PoolOrder,
        Revision, Rules, Said, Token, Warmups,
        balance::{Damping, band},
    },
};

const NODES: usize = 3;
/// After so many rounds the session of a member that crashed ends.
const TTL: u64 = 15;
/// After the end of a session, its keys are kept for their owner for so many rounds.
pub const REJOIN: u64 = 60;
const MASS_FAILURE: MassFailure = MassFailure { within_ms: 60_000, percent: 30 };
const DAMPING: Damping = Damping { min_age: Duration::from_secs(10), at_once: 16, is_exact: false };

/// A change in the store's history.
#[derive(Clone)]
enum News {
    Key(Key, Fact, Option<Owner>),
    Joined(Nonce, Joined),
    /// A session is over. The flag: it was lost.
    Gone(Nonce, bool),
    /// What operators and guards ordered, and how often orders were stored before.
    Orders(u64, Arc<PoolControls>),
}

struct Node {
    pool: Pool,
    /// How much of the history it has heard.
    heard: usize,
    /// How many orders had been stored when those were that it knows.
    orders: u64,
}

/// A call of a member that waits: it keeps a place and can take what comes free.
#[derive(Clone, Copy)]
struct Parked {
    places: usize,
    taking: bool,
}

struct Member {
    joined: Joined,
    node: usize,
    /// The round in which its session ends, if its program is gone.
    dies: Option<u64>,
    parked: Option<Parked>,
}

/// What is true of a key.
#[derive(Clone)]
struct Truth {
    by: Option<Nonce>,
    /// Who holds it, or held it last.
    owner: Option<Owner>,
    /// The round in which its holder hands it over, if it was asked.
    leaves: Option<u64>,
    /// Its last holder was asked for it.
    was_asked: bool,
    /// Until this round only its last owner may have it.
    kept_until: u64,
    revision: u64,
    seq: u64,
}

pub struct World {
    chance: Chance,
    rules: Rules,
    round: u64,
    /// The most rounds that a node is late.
    late: u64,
    nodes: Vec<Node>,
    /// What was committed, with its round and the node that wrote it.
    history: Vec<(u64, usize, News)>,
    /// The answers to requests: the round in which each comes, and to which node.
    answers: Vec<(u64, usize, Key, Token)>,
    keys: BTreeMap<Key, Truth>,
    members: BTreeMap<Nonce, Member>,
    stored: PoolControls,
    /// How often orders were stored.
    orders: u64,
    /// When each preparation was stored.
    began: BTreeMap<(Key, Token), u64>,
    pub warmups: Option<Warmups>,
    /// For how long an upgrade lasts at most.
    pub mixed_versions: Duration,
    /// When the latest order was given.
    ordered: u64,
    revision: u64,
    /// How often each key went to another owner.
    pub moves: BTreeMap<Key, usize>,
    /// How many keys each owner may have at most until a guard ends.
    pub most: Option<usize>,
    /// How often a guard began, and ended.
    pub guards: [usize; 2],
    /// What went wrong.
    pub faults: Vec<String>,
}

pub fn owner(name: &str) -> Owner {
    Owner::new(name).expect("an owner")
}

impl World {
    pub fn new(seed: u64, late: u64, keys: usize, rules: Rules) -> Self {
        let node = || Node { pool: Pool::new(Arc::default(), rules), heard: 0, orders: 0 };
        let (by, owner, leaves, was_asked) = (None, None, None, false);
        let (kept_until, revision, seq) = (0, 0, 1);
        let free = Truth { by, owner, leaves, was_asked, kept_until, revision, seq };
        let key = |at| Key::new(&format!("k/{at:03}")).expect("a key");
        let mut world = Self {
            chance: Chance::new(seed),
            rules,
            round: 0,
            late,
            nodes: (0..NODES).map(|_| node()).collect(),
            history: Vec::new(),
            answers: Vec::new(),
            keys: (0..keys).map(|at| (key(at), free.clone())).collect(),
            members: BTreeMap::new(),
            stored: PoolControls::default(),
            orders: 0,
            began: BTreeMap::new(),
            warmups: None,
            mixed_versions: Duration::from_secs(3_600),
            ordered: 0,
            revision: 1,
            moves: BTreeMap::new(),
            most: None,
            guards: [0, 0],
            faults: Vec::new(),
        };
        let keys: Vec<Key> = world.keys.keys().cloned().collect();
        keys.iter().for_each(|key| world.change(0, key, Cooling::Over, |_| ()));
        world
    }

    pub fn draw(&mut self, below: u64) -> u64 {
        self.chance.next_u64() % below
    }

    fn now(&self) -> Moment {
        Moment::ZERO + Duration::from_secs(1_000 + self.round)
    }

    fn fault(&mut self, fault: String) {
        self.faults.push(format!("round {}: {fault}", self.round));
    }

    /// The store commits a change that one node writes. It knows it at once.
    fn commit(&mut self, writer: usize, news: News) {
        self.hear(writer, &news);
        self.history.push((self.round, writer, news));
    }

    fn hear(&mut self, node: usize, news: &News) {
        let (now, wall_ms) = (self.now(), 0);
        let Node { pool, orders, .. } = &mut self.nodes[node];
        match news {
            News::Key(key, fact, owner) => pool.learn(key, *fact, owner.as_ref(), now),
            News::Joined(digest, joined) => drop(pool.join(*digest, joined.clone())),
            News::Gone(digest, lost) => {
                let stays = |joined: &Joined| !joined.draining;
                if *lost && pool.members.get(digest).is_some_and(stays) {
                    pool.lose(*digest, MASS_FAILURE, wall_ms, now);
                }
                pool.leave(*digest);
            }
            News::Orders(at, _) if at < orders => {}
            News::Orders(at, controls) => {
                *orders = *at;
                pool.obey(controls, true, now);
            }
        }
    }

    /// Each node hears all that is too old for it to miss, and some of the rest.
    fn follow(&mut self) {
        for node in 0..NODES {
            let late = self.draw(self.late + 1);
            while let Some(next) = self.history.get(self.nodes[node].heard) {
                let (round, writer, news) = next.clone();
                if round + late > self.round {
                    break;
                }
                self.nodes[node].heard += 1;
                if writer != node {
                    self.hear(node, &news);
                }
            }
        }
    }

    fn here(&self, node: usize) -> impl Fn(Nonce) -> bool + use<> {
        let here = self.members.iter().filter(|(_, member)| member.node == node);
        let here: HashSet<Nonce> = here.map(|(digest, _)| *digest).collect();
        move |digest| here.contains(&digest)
    }

    /// A session of this owner joins the pool, on any node.
    pub fn join(&mut self, owner: &Owner, version: Option<&str>) {
        let version = version.map(Into::into);
        self.join_as(owner, Announced { version, ..Announced::default() });
    }

    /// A session joins that is not ready yet.
    pub fn join_unready(&mut self, owner: &Owner) {
        self.join_as(owner, Announced { unready: true, ..Announced::default() });
    }

    fn join_as(&mut self, owner: &Owner, announced: Announced) {
        self.revision += 1;
        let digest = Nonce(u128::from(self.chance.next_u64()));
        let node = usize::try_from(self.draw(NODES as u64)).expect("small");
        let joined = Joined {
            owner: owner.clone(),
            weight: 1,
            capacity: None,
            node: Nonce(node as u128),
            draining: false,
            returns: Some(Token::of(Epoch(1), Revision(self.revision))),
            announced: announced.into(),
        };
        let member = Member { joined: joined.clone(), node, dies: None, parked: None };
        self.members.insert(digest, member);
        self.commit(node, News::Joined(digest, joined));
    }

    /// What a session says of itself changes.
    fn announce(&mut self, digest: Nonce, change: impl FnOnce(&mut Joined)) {
        let member = self.members.get_mut(&digest).expect("a member");
        change(&mut member.joined);
        let (joined, node) = (member.joined.clone(), member.node);
        self.commit(node, News::Joined(digest, joined));
    }

    /// All members say that they are ready.
    pub fn all_ready(&mut self) {
        let unready = self.members.iter().filter(|(_, it)| it.joined.announced.unready);
        let unready: Vec<Nonce> = unready.map(|(digest, _)| *digest).collect();
        for digest in unready {
            self.announce(digest, |joined| {
                Arc::make_mut(&mut joined.announced).unready = false;
            });
        }
    }

    /// The newest session of an owner.
    pub fn session_of(&self, owner: &Owner) -> Option<Nonce> {
        let of_owner = self.members.iter().filter(|(_, member)| member.joined.owner == *owner);
        of_owner.max_by_key(|(_, member)| member.joined.returns).map(|(digest, _)| *digest)
    }

    /// The owners whose programs run.
    pub fn owners(&self) -> Vec<Owner> {
        let runs = self.members.values().filter(|member| member.dies.is_none());
        let mut owners: Vec<Owner> = runs.map(|member| member.joined.owner.clone()).collect();
        owners.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        owners
    }

    pub fn drain(&mut self, digest: Nonce) {
        self.announce(digest, |joined| joined.draining = true);
    }

    /// The program is gone. Its session ends later.
    pub fn crash(&mut self, digest: Nonce) {
        let dies = self.round + TTL;
        self.members.get_mut(&digest).expect("a member").dies = Some(dies);
    }

    /// The member stops, and offers its keys to its own owner.
    pub fn stop(&mut self, digest: Nonce) {
        self.end(digest, false);
    }

    fn end(&mut self, digest: Nonce, lost: bool) {
        let Some(Member { node, joined, .. }) = self.members.remove(&digest) else { return };
        let held = self.keys.iter().filter(|(_, truth)| truth.by == Some(digest));
        let held: Vec<Key> = held.map(|(key, _)| key.clone()).collect();
        let is_kept = !joined.draining && self.rules.keys_wait_for_their_member();
        let kept = if is_kept { REJOIN } else { 0 };
        self.commit(node, News::Gone(digest, lost));
        for key in held {
            let until = self.round + kept;
            let cooling = Cooling::Begins(Duration::from_secs(kept));
            self.change(node, &key, cooling, |truth| {
                (truth.by, truth.leaves, truth.kept_until) = (None, None, until);
            });
        }
    }

    fn change(
        &mut self,
        writer: usize,
        key: &Key,
        cooling: Cooling,
        change: impl FnOnce(&mut Truth),
    ) {
        let truth = self.keys.get_mut(key).expect("it is known");
        change(truth);
        truth.seq += 1;
        let by = truth.by.map_or(By::Nobody, By::Session);
        let token = Token::of(Epoch(1), Revision(truth.revision));
        let (asked, seq, shut) = (truth.leaves.is_some(), truth.seq, false);
        let (fact, owner) = (Fact { by, token, seq, asked, shut, cooling }, truth.owner.clone());
        self.commit(writer, News::Key(key.clone(), fact, owner));
    }

    pub fn order(&mut self, order: &PoolOrder) {
        self.ordered = self.round;
        let writer = usize::try_from(self.draw(NODES as u64)).expect("small");
        self.store(writer, order);
    }

    /// Ends what stands, also a guard.
    pub fn end_orders(&mut self) {
        let PoolControls { cordoned, paused, .. } = self.stored.clone();
        let owners = cordoned.into_keys().map(|name| PoolOrder::Uncordon(owner(&name)));
        let keys = paused.into_keys().filter_map(|key| Key::new(&key).ok());
        let all = [PoolOrder::Thaw, PoolOrder::EndGuard];
        let all = all.into_iter().chain(owners).chain(keys.map(PoolOrder::Resume));
        all.for_each(|order| self.order(&order));
    }

    pub fn any_key(&mut self) -> Key {
        let at = self.draw(self.keys.len() as u64);
        self.keys.keys().nth(usize::try_from(at).expect("small")).expect("a key").clone()
    }

    fn store(&mut self, writer: usize, order: &PoolOrder) {
        if !self.stored.carry_out(order, Said::default()) {
            return;
        }
        match order {
            PoolOrder::Guard(_) => self.guards[0] += 1,
            PoolOrder::EndGuard => self.guards[1] += 1,
            _ => {}
        }
        for (key, warming) in &self.stored.warming {
            let key = Key::new(key).expect("a key");
            self.began.entry((key, warming.token)).or_insert(self.round);
        }
        let most = self.warmups.map_or(0, |warmups| warmups.most);
        if self.stored.warming.len() > most {
            self.fault(format!("{} preparations, {most} allowed", self.stored.warming.len()));
        }
        // Whoever stores orders reads those that are stored.
        let controls = Arc::new(self.stored.clone());
        self.orders += 1;
        self.commit(writer, News::Orders(self.orders, controls));
    }

    /// Guards that a node noticed are stored, and those that are over end.
    fn keep_guard(&mut self, node: usize) {
        let pool = &self.nodes[node].pool;
        let order = match (&pool.losses.noticed, &pool.controls.guard) {
            (Some(guard), None) => PoolOrder::Guard(guard.clone()),
            _ if pool.is_guard_over() => PoolOrder::EndGuard,
            _ => return,
        };
        self.store(node, &order);
    }

    pub fn held(&self, owner: &Owner) -> usize {
        let is_held = |truth: &&Truth| truth.by.is_some() && truth.owner.as_ref() == Some(owner);
        self.keys.values().filter(is_held).count()
    }

    /// The owner of each key.
    pub fn assignment(&self) -> BTreeMap<Key, Option<Owner>> {
        let holder = |truth: &Truth| truth.by.and_then(|_| truth.owner.clone());
        self.keys.iter().map(|(key, truth)| (key.clone(), holder(truth))).collect()
    }

    /// The most often that a key went to another owner, and how many of them did.
    pub fn moved(&self) -> (usize, usize) {
        (self.moves.values().copied().max().unwrap_or(0), self.moves.values().sum())
    }

    pub fn is_guarded(&self) -> bool {
        self.stored.guard.is_some()
    }

    pub fn step(&mut self) {
        self.round += 1;
        self.follow();
        let dead = self.members.iter().filter(|(_, it)| it.dies.is_some_and(|it| it <= self.round));
        let dead: Vec<Nonce> = dead.map(|(digest, _)| *digest).collect();
        dead.into_iter().for_each(|digest| self.end(digest, true));
        self.answer();
        for node in 0..NODES {
            self.plan(node);
            self.keep_guard(node);
            self.warm(node);
        }
        self.hand_over();
        let mut callers: Vec<Nonce> = self.members.keys().copied().collect();
        self.chance.shuffle(&mut callers);
        callers.into_iter().for_each(|digest| self.call(digest));
        let holders: HashSet<Nonce> = self.keys.values().filter_map(|truth| truth.by).collect();
        let left = |(digest, member): &(&Nonce, &Member)| {
            member.joined.draining && member.dies.is_none() && !holders.contains(*digest)
        };
        let left: Vec<Nonce> =
            self.members.iter().filter(left).map(|(digest, _)| *digest).collect();
        left.into_iter().for_each(|digest| self.end(digest, false));
    }

    pub fn run(&mut self, rounds: u64) {
        (0..rounds).for_each(|_| self.step());
    }

    /// Every key is held, no member was asked, and no member is short by more than its dead band.
    fn is_settled(&self) -> bool {
        let stays = |member: &&Member| !member.joined.draining && member.dies.is_none();
        let staying = self.members.values().filter(stays).count();
        let is_held = |truth: &Truth| truth.by.is_some() && truth.leaves.is_none();
        let target = self.keys.len() / staying.max(1);
        let has_share = |owner: Owner| self.held(&owner) + band(target) >= target;
        staying == self.members.len()
            && self.keys.values().all(is_held)
            && self.owners().into_iter().all(has_share)
    }

    /// Runs until the pool is at rest. That it does not come to rest is a fault.
    pub fn settle(&mut self, most: u64) {
        for _ in 0..most {
            if self.is_settled() {
                return;
            }
            self.step();
        }
        let held: Vec<_> = self.owners().iter().map(|owner| self.held(owner)).collect();
        self.fault(format!("not settled after {most} s: {held:?}"));
    }

    /// Runs until every key is held by a member that stays.
    pub fn place(&mut self, most: u64) {
        for _ in 0..most {
            if self.keys.values().all(|truth| truth.by.is_some() && truth.leaves.is_none()) {
                return;
            }
            self.step();
        }
    }

    /// Nothing moves in a pool that is at rest.
    pub fn rest(&mut self, rounds: u64) {
        let (before, moves) = (self.assignment(), self.moved().1);
        self.run(rounds);
        if self.assignment() != before || self.moved().1 != moves {
            self.fault("leases move although nothing happens".into());
        }
        if !self.stored.warming.is_empty() || self.is_guarded() {
            self.fault(format!("something is left: {:?}", self.stored));
        }
    }
}
