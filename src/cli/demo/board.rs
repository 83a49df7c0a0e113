//! What is known of the demo: who has which shard, from the event stream; who lives, and what was written, from the
//! workers.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Display,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;

use super::{
    scenario::{SHARDS, shard_key, worker_name},
    tables::{Outcome, Read, Tables},
};
use crate::{clock::Clock, lease::Moment};

/// How many lines are kept. They are printed ten times per second.
const LINES: usize = 500;
/// How many late writes are kept for the summary.
const LATE_WRITES: usize = 64;

/// The board, which the event stream and the workers fill, and all others read.
pub type SharedBoard = Arc<Mutex<Board>>;

pub fn locked(board: &SharedBoard) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a worker fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Alive,
    Paused,
    Dead,
}

/// Who has a shard.
pub struct Place {
    pub owner: Option<String>,
    pub token: u64,
    /// Since when this is known.
    pub since: Moment,
}

/// What a worker had when it was killed or paused, and who got it.
pub struct Loss {
    pub at: Moment,
    /// When it went on, if it did.
    pub woken: Option<Moment>,
    /// Its shards, with its tokens.
    pub had: BTreeMap<String, u64>,
    /// Those with a new owner: its name, its token, and the time of the grant.
    pub taken: BTreeMap<String, (String, u64, Moment)>,
}

/// A write of a worker that had lost its lease.
pub struct LateWrite {
    /// Who wrote.
    pub worker: usize,
    pub read: Read,
    pub checked: Outcome,
    pub unchecked: Outcome,
}

pub struct Board {
    pub url: String,
    clock: Arc<dyn Clock>,
    began: Moment,
    pub shards: BTreeMap<String, Place>,
    /// The workers, in the order of their numbers.
    pub lives: Vec<Life>,
    /// What workers lost, by their places in `lives`: the last time of each.
    pub losses: BTreeMap<usize, Loss>,
    pub tables: Tables,
    /// The first late writes.
    pub late: Vec<LateWrite>,
    /// The latest changes, one line each.
    pub lines: VecDeque<String>,
    /// How many of the lines were not printed yet.
    unsaid: usize,
}

impl Board {
    pub fn new(url: String, clock: Arc<dyn Clock>) -> Self {
        let began = clock.now();
        let free = || Place { owner: None, token: 0, since: Moment::ZERO };
        let shards = (0..SHARDS).map(|index| (shard_key(index), free())).collect();
        Self {
            url,
            clock,
            began,
            shards,
            lives: Vec::new(),
            losses: BTreeMap::new(),
            tables: Tables::default(),
            late: Vec::new(),
            lines: VecDeque::new(),
            unsaid: 0,
        }
    }

    pub fn seconds(&self) -> f64 {
        self.clock.now().since(self.began).as_secs_f64()
    }

    /// Adds a line to the latest changes.
    pub fn say(&mut self, what: impl Display) {
        self.lines.push_back(format!("{:5.1} s  {what}", self.seconds()));
        self.unsaid += 1;
        if self.lines.len() > LINES {
            self.lines.pop_front();
        }
    }

    /// Changes that were not printed yet.
    pub fn unsaid(&mut self) -> Vec<String> {
        let from = self.lines.len().saturating_sub(self.unsaid);
        self.unsaid = 0;
        self.lines.iter().skip(from).cloned().collect()
    }

    /// Takes in a change of ownership.
    pub fn learn(&mut self, kind: &str, event: &Value) {
        let data = &event["data"];
        let (Some(key), Some(token)) = (data["key"].as_str(), data["token"].as_u64()) else {
            return;
        };
        let owner = data["owner"].as_str().map(str::to_owned);
        let now = self.clock.now();
        if let Some(owner) = &owner {
            self.say(format_args!("{kind:<9} {key}  to {owner}, token {token}"));
            for loss in self.losses.values_mut().filter(|loss| loss.had.contains_key(key)) {
                let taken = (owner.clone(), token, now);
                loss.taken.entry(key.to_owned()).or_insert(taken);
            }
        } else {
            let from = data["previous"]["owner"].as_str().unwrap_or("nobody");
            self.say(format_args!("{kind:<9} {key}  of {from}, token {token}"));
        }
        self.shards.insert(key.to_owned(), Place { owner, token, since: now });
    }

    /// A worker begins, or begins anew.
    pub fn begins(&mut self, index: usize) {
        if index == self.lives.len() {
            self.lives.push(Life::Alive);
        } else {
            self.lives[index] = Life::Alive;
        }
    }

    pub fn killed(&mut self, index: usize) {
        let held = self.loses(index);
        self.lives[index] = Life::Dead;
        self.say(format_args!("KILLED    {}, which held {held} shards", worker_name(index)));
    }

    pub fn paused(&mut self, index: usize) {
        let held = self.loses(index);
        self.lives[index] = Life::Paused;
        let name = worker_name(index);
        self.say(format_args!(
            "PAUSED    {name}, between a check of its {held} leases and its writes"
        ));
    }

    /// Notes what a worker has that will lose it. Returns how many shards these are.
    fn loses(&mut self, index: usize) -> usize {
        let name = worker_name(index);
        let held = self.shards.iter().filter(|(_, place)| place.owner.as_ref() == Some(&name));
        let had: BTreeMap<_, _> = held.map(|(key, place)| (key.clone(), place.token)).collect();
        let count = had.len();
        let (at, taken) = (self.clock.now(), BTreeMap::new());
        self.losses.insert(index, Loss { at, woken: None, had, taken });
        count
    }

    pub fn resumed(&mut self, index: usize) {
        self.lives[index] = Life::Alive;
        let now = self.clock.now();
        let Some(loss) = self.losses.get_mut(&index) else { return };
        loss.woken = Some(now);
        let (name, pause) = (worker_name(index), now.since(loss.at).as_secs_f64());
        self.say(format_args!("WOKEN     {name}, after {pause:.1} s: it finishes its writes"));
    }

    /// What a worker reads of its shards before it writes.
    pub fn read<'a>(&mut self, held: impl Iterator<Item = (&'a str, u64)>) -> Vec<Read> {
        held.map(|(key, token)| self.tables.read(key, token)).collect()
    }

    /// Writes what follows from a worker's reads.
    pub fn write(&mut self, worker: usize, reads: Vec<Read>) {
        for read in reads {
            let (checked, unchecked) = self.tables.write(&read);
            let Outcome::Refused { highest } = checked else { continue };
            let landed = match unchecked {
                Outcome::Overwrote { before, after } => format!("{before} became {after}"),
                _ => "in time".to_owned(),
            };
            let (key, token) = (&read.key, read.token);
            self.say(format!(
                "{key}, late: refused (token {token} < {highest}) / landed ({landed})"
            ));
            if self.late.len() < LATE_WRITES {
                self.late.push(LateWrite { worker, read, checked, unchecked });
            }
        }
    }

    fn living(&self) -> usize {
        self.lives.iter().filter(|life| **life == Life::Alive).count()
    }

    /// How many shards each worker should have.
    pub fn share(&self) -> usize {
        SHARDS.div_ceil(self.living().max(1))
    }

    pub fn is_anything_free(&self) -> bool {
        self.shards.values().any(|place| place.owner.is_none())
    }

    pub fn all_held_by_the_living(&self) -> bool {
        let living = |place: &Place| {
            let mut alive = (0..self.lives.len()).filter(|at| self.lives[*at] == Life::Alive);
            alive.any(|index| place.owner.as_ref() == Some(&worker_name(index)))
        };
        self.shards.values().all(living)
    }

    /// Whether a shard changed hands a moment ago.
    pub fn is_fresh(&self, place: &Place) -> bool {
        place.owner.is_some() && self.clock.now().since(place.since) < Duration::from_secs(2)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::ManualClock;

    fn board() -> Board {
        Board::new("http://127.0.0.1:1".into(), Arc::new(ManualClock::new()))
    }

    fn granted(board: &mut Board, key: &str, owner: &str, token: u64) {
        board.learn("granted", &json!({"data": {"key": key, "owner": owner, "token": token}}));
    }

    #[test]
    fn what_a_paused_worker_loses_is_told_with_its_first_new_owner() {
        let mut board = board();
        board.begins(0);
        board.begins(1);
        granted(&mut board, "shard-01", "worker-1", 5);
        assert_eq!(board.share(), 16);
        board.paused(0);
        assert_eq!(board.share(), 32, "a paused worker takes nothing");
        assert!(!board.all_held_by_the_living());
        granted(&mut board, "shard-01", "worker-2", 8);
        granted(&mut board, "shard-01", "worker-1", 9);
        let loss = &board.losses[&0];
        assert_eq!(loss.had["shard-01"], 5);
        assert_eq!((loss.taken["shard-01"].0.as_str(), loss.taken["shard-01"].1), ("worker-2", 8));
    }

    #[test]
    fn a_late_write_is_kept_and_said() {
        let mut board = board();
        let late = board.read([("shard-01", 5)].into_iter());
        let reads = board.read([("shard-01", 8)].into_iter());
        board.write(0, reads);
        assert!(board.late.is_empty());
        board.write(1, late);
        assert_eq!(board.late[0].checked, Outcome::Refused { highest: 8 });
        assert_eq!(board.late[0].worker, 1);
        let said = board.unsaid();
        assert!(said[0].contains("refused (token 5 < 8) / landed (1 became 1)"), "{said:?}");
        assert!(board.unsaid().is_empty());
    }

    #[test]
    fn the_lines_have_a_bound() {
        let mut board = board();
        (0..2 * LINES).for_each(|line| board.say(line));
        assert_eq!(board.lines.len(), LINES);
        assert_eq!(board.unsaid().len(), LINES);
    }
}
