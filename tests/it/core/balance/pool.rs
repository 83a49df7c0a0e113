//! A pool of members over keys, round by round: what the nodes see of it may be late, members take their
//! time to hand over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tenure::{
    clock::Chance,
    lease::{
        Moment, Nonce,
        balance::{Damping, Member, Unheld, band, choose, plan, targets},
    },
};

/// A round is a second.
pub const DAMPING: Damping =
    Damping { min_age: std::time::Duration::from_secs(10), at_once: 16, is_exact: false };

#[derive(Clone)]
struct Worker {
    weight: u32,
    draining: bool,
    /// The round in which its end is known.
    dies: Option<u64>,
    node: usize,
}

#[derive(Clone, Copy)]
struct Lease {
    by: Nonce,
    since: u64,
    /// The round in which it is handed over.
    leaves: Option<u64>,
}

/// Who plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    /// Each node, for the members that are at home there.
    Each,
    /// The first node, for all members. The others read what it wrote.
    One,
}

/// What one node planned for a member at home at another one, which has not read it yet.
struct Written {
    /// The round in which it is read.
    read: u64,
    id: Nonce,
    ask: usize,
    draining: bool,
}

/// What is seen of a pool.
#[derive(Clone)]
struct Seen {
    members: Vec<Member>,
    free: usize,
}

/// Here every free key is taken soon.
fn unheld(free: usize) -> Unheld {
    Unheld { keys: free, fresh: free }
}

pub struct Pool {
    chance: Chance,
    workers: BTreeMap<Nonce, Worker>,
    keys: Vec<Option<Lease>>,
    round: u64,
    seen: VecDeque<Seen>,
    nodes: usize,
    /// The most rounds that a node's view, and a hand-over, may be late.
    late: u64,
    slow: u64,
    /// Leases that were asked for.
    pub moved: usize,
    /// By node: what it asked for, and when.
    asked: Vec<BTreeSet<(u64, Nonce, usize)>>,
    pub planner: Planner,
    written: Vec<Written>,
}

impl Pool {
    pub fn new(seed: u64, keys: usize, nodes: usize, (late, slow): (u64, u64)) -> Self {
        Self {
            chance: Chance::new(seed),
            workers: BTreeMap::new(),
            keys: vec![None; keys],
            round: 0,
            seen: VecDeque::new(),
            nodes,
            late,
            slow,
            moved: 0,
            asked: vec![BTreeSet::new(); nodes],
            planner: Planner::Each,
            written: Vec::new(),
        }
    }

    pub fn draw(&mut self, below: u64) -> u64 {
        self.chance.next_u64() % below
    }

    pub fn join(&mut self, weight: u32) -> Nonce {
        let id = Nonce(u128::from(self.chance.next_u64()));
        let node = usize::try_from(self.draw(self.nodes as u64)).expect("small");
        self.workers.insert(id, Worker { weight, draining: false, dies: None, node });
        id
    }

    pub fn join_many(&mut self, count: u32) {
        for _ in 0..count {
            self.join(1);
        }
    }

    pub fn drain(&mut self, id: Nonce) {
        self.workers.get_mut(&id).expect("a member").draining = true;
    }

    /// Its session ends so many rounds later.
    pub fn crash(&mut self, id: Nonce, ttl: u64) {
        self.workers.get_mut(&id).expect("a member").dies = Some(self.round + ttl);
    }

    /// It closes its session: all its keys are free.
    pub fn close(&mut self, id: Nonce) {
        self.workers.remove(&id);
        self.keys.iter_mut().filter(|key| key.is_some_and(|l| l.by == id)).for_each(|k| *k = None);
    }

    pub fn ids(&self) -> Vec<Nonce> {
        self.workers.keys().copied().collect()
    }

    fn look(&self) -> Seen {
        let mut counts: BTreeMap<Nonce, (usize, usize)> = BTreeMap::new();
        for lease in self.keys.iter().flatten() {
            let count = counts.entry(lease.by).or_default();
            count.0 += 1;
            count.1 += usize::from(lease.leaves.is_some());
        }
        let member = |(id, worker): (&Nonce, &Worker)| {
            let (held, asked) = counts.get(id).copied().unwrap_or_default();
            Member {
                id: *id,
                weight: worker.weight,
                capacity: usize::MAX,
                held,
                asked,
                draining: worker.draining,
            }
        };
        let free = self.keys.iter().filter(|key| key.is_none()).count();
        Seen { members: self.workers.iter().map(member).collect(), free }
    }

    /// Leases that have to move at least.
    pub fn must_move(&self) -> usize {
        let Seen { members, free } = self.look();
        plan(&members, unheld(free), DAMPING, |member| member.id).moves
    }

    /// Nobody is short by more than its dead band, no key is free, and nobody is to hand anything over.
    pub fn is_settled(&self) -> bool {
        let Seen { members, free } = self.look();
        let targets = targets(&members, self.keys.len());
        let fits = |(member, target): (&Member, &usize)| {
            member.held + band(*target) >= *target && member.asked == 0
        };
        free == 0 && members.iter().zip(&targets).all(fits)
    }

    /// Whoever plans makes its plan, by what it sees, and asks.
    fn ask(&mut self) {
        let round = self.round;
        for written in
            self.written.extract_if(.., |written| written.read <= round).collect::<Vec<_>>()
        {
            self.ask_member(0, written.id, written.ask, written.draining);
        }
        let seen_since = self.round.saturating_sub(self.late);
        self.asked.iter_mut().for_each(|asked| asked.retain(|(when, ..)| *when >= seen_since));
        let planners = if self.planner == Planner::One { 1 } else { self.nodes };
        for node in 0..planners {
            let late = usize::try_from(self.draw(self.late + 1)).expect("small");
            let at = late.min(self.seen.len() - 1);
            let Seen { mut members, free } = self.seen[at].clone();
            let since = self.round.saturating_sub(at as u64);
            // What it asked for itself it knows at once.
            for member in &mut members {
                let own = self.asked[node].iter();
                member.asked +=
                    own.filter(|(when, by, _)| *when >= since && *by == member.id).count();
                let unread = self.written.iter().filter(|written| written.id == member.id);
                member.asked += unread.map(|written| written.ask).sum::<usize>();
            }
            let here = |id| self.workers.get(&id).is_some_and(|worker| worker.node == node);
            let order = |member: &Member| (!here(member.id), member.id);
            let plan = plan(&members, unheld(free), DAMPING, order);
            for (member, ask) in members.iter().zip(plan.asks) {
                let Some(worker) = self.workers.get(&member.id).cloned() else { continue };
                if ask == 0 {
                    continue;
                }
                if worker.node == node {
                    self.ask_member(node, member.id, ask, worker.draining);
                } else if self.planner == Planner::One {
                    let (id, draining) = (member.id, worker.draining);
                    let read = self.round + self.draw(self.late + 1);
                    self.written.push(Written { read, id, ask, draining });
                }
            }
        }
    }

    fn ask_member(&mut self, node: usize, id: Nonce, ask: usize, draining: bool) {
        let now = Moment(self.round * 1_000_000_000);
        let held = self.keys.iter().enumerate().filter_map(|(at, key)| Some((at, (*key)?)));
        let such = held.filter(|(_, lease)| lease.by == id && lease.leaves.is_none());
        let leases: Vec<_> =
            such.map(|(at, lease)| (at, Moment(lease.since * 1_000_000_000))).collect();
        let damping = if draining {
            Damping { min_age: std::time::Duration::ZERO, ..DAMPING }
        } else {
            DAMPING
        };
        for at in choose(leases, ask, now, damping) {
            let leaves = self.round + self.draw(self.slow + 1);
            if let Some(lease) = &mut self.keys[at] {
                lease.leaves = Some(leaves);
                self.moved += 1;
                self.asked[node].insert((self.round, id, at));
            }
        }
    }

    pub fn step(&mut self) {
        self.seen.push_front(self.look());
        self.seen.truncate(usize::try_from(self.late).expect("small") + 1);
        self.ask();
        let round = self.round;
        let dead: Vec<Nonce> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.dies.is_some_and(|dies| dies <= round))
            .map(|(id, _)| *id)
            .collect();
        dead.into_iter().for_each(|id| self.close(id));
        for key in &mut self.keys {
            // Who crashed hands nothing over.
            let lives =
                |lease: &Lease| self.workers.get(&lease.by).is_some_and(|w| w.dies.is_none());
            if key.is_some_and(|lease| lives(&lease) && lease.leaves.is_some_and(|at| at <= round))
            {
                *key = None;
            }
        }
        self.grant();
        self.round += 1;
    }

    /// Members that are short wait; a free key goes to one of them.
    fn grant(&mut self) {
        let Seen { members, .. } = self.look();
        let targets = targets(&members, self.keys.len());
        let short = |(member, target): (&Member, usize)| {
            let alive = self.workers[&member.id].dies.is_none();
            vec![member.id; if alive { target.saturating_sub(member.held) } else { 0 }]
        };
        let mut waiting: Vec<Nonce> = members.iter().zip(targets).flat_map(short).collect();
        self.chance.shuffle(&mut waiting);
        for key in self.keys.iter_mut().filter(|key| key.is_none()) {
            let Some(by) = waiting.pop() else { return };
            *key = Some(Lease { by, since: self.round, leaves: None });
        }
    }

    /// How many rounds it takes to settle.
    pub fn settle(&mut self, most: u64) -> u64 {
        for rounds in 0..most {
            if self.is_settled() {
                return rounds;
            }
            self.step();
        }
        panic!("not settled after {most} rounds");
    }

    pub fn run(&mut self, rounds: u64) {
        (0..rounds).for_each(|_| self.step());
    }
}
