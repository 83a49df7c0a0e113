//! What one process knows of a store that several use: its feed, its cache, its unknown outcomes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tenure::{
    clock::Clock,
    lease::{Epoch, Key, Revision},
    store::{Committed, FeedBatch, Health, Meta, Position, Witness},
};
use tokio::{sync::broadcast, time::Instant};

use super::{
    shape::Kind,
    state::{Data, Entry, Item, at, end_of},
};

/// How many batches a slow listener may fall behind before it has to read the history.
const FEED_BATCHES: usize = 128;
/// So many runs of missed numbers are told apart.
const MISSED: usize = 4096;
/// Where a process does not hear of the store for so long, it says so.
const DEGRADED_AFTER_MS: u128 = 2_000;

/// Why nothing may be granted.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub why: String,
    /// It thaws above this.
    pub epoch: Epoch,
    /// What was known before.
    pub remember: Witness,
}

pub(super) struct View {
    pub node: usize,
    pub clock: Arc<dyn Clock>,
    pub feed: broadcast::Sender<FeedBatch>,
    pub meta: Arc<Meta>,
    /// Which stream or table it was.
    pub made: u64,
    /// The last number that the feed came to.
    pub consumed: u64,
    pub latest: Position,
    /// The ring has everything after it.
    pub floor: Position,
    pub kept: Position,
    pub ring: VecDeque<Committed>,
    ring_length: usize,
    pub keys: BTreeMap<Key, Item>,
    /// No item had a higher revision, as far as is known.
    pub high: u64,
    missed: VecDeque<(u64, u64)>,
    /// The highest number that was seen, of the feed or of a write of its own.
    pub highest: u64,
    pub frozen: Option<Frozen>,
    pub suspect: Option<String>,
    /// A delivery is on its way.
    pub due: bool,
    /// The feed stands still until then, and brings only what is last of each key.
    pub stalled: Option<Instant>,
    /// It failed to reach the store since then.
    pub away: Option<Instant>,
    /// Writes are refused until then, and for how many rounds that has been going on.
    pub throttled: Option<(Instant, u32)>,
    /// An append to the log is on its way.
    pub flushing: bool,
}

impl View {
    /// What a process knows that just read everything.
    pub fn new(
        kind: Kind,
        node: usize,
        clock: Arc<dyn Clock>,
        data: &Data,
        ring_length: usize,
    ) -> Self {
        let mut view = Self {
            node,
            clock,
            feed: broadcast::Sender::new(FEED_BATCHES),
            meta: Arc::clone(&data.meta),
            made: data.made,
            consumed: 0,
            latest: Position::default(),
            floor: Position::default(),
            kept: Position::default(),
            ring: VecDeque::new(),
            ring_length,
            keys: BTreeMap::new(),
            high: 0,
            missed: VecDeque::new(),
            highest: 0,
            frozen: None,
            suspect: None,
            due: false,
            stalled: None,
            away: None,
            throttled: None,
            flushing: false,
        };
        view.load(kind, data);
        view
    }

    /// Reads everything anew.
    pub fn load(&mut self, kind: Kind, data: &Data) {
        if kind == Kind::Embedded {
            return;
        }
        self.ring.clear();
        self.missed.clear();
        self.keys.clone_from(&data.items);
        let high = data.items.values().map(|item| item.revision.0).max();
        self.high = self.high.max(high.unwrap_or(0));
        self.consumed = data.sequence;
        self.highest = data.sequence;
        self.made = data.made;
        if kind == Kind::Nats {
            self.latest = at(data.sequence).max(data.latest);
            self.kept = at(data.first().saturating_sub(1));
        } else {
            self.latest = end_of(data.sequence);
            self.kept = end_of(data.first().saturating_sub(1));
        }
        self.floor = self.latest;
    }

    pub fn earliest(&self) -> Position {
        self.kept.min(self.floor)
    }

    /// Its own write, or one that it was shown.
    pub fn saw(&mut self, key: &Key, item: &Item) {
        self.high = self.high.max(item.revision.0);
        let known = self.keys.get(key).map_or(Revision::ABSENT, |item| item.revision);
        if item.revision > known {
            self.keys.insert(key.clone(), item.clone());
        }
    }

    /// Takes in what the store has beyond what is known, and tells.
    pub fn deliver(&mut self, kind: Kind, data: &Data) -> usize {
        if data.sequence <= self.consumed {
            return 0;
        }
        match kind {
            Kind::Embedded => 0,
            Kind::Nats => self.follow(data),
            Kind::DynamoDb => self.poll(data),
        }
    }

    /// As a consumer of a stream: what the stream dropped is missed. How many gaps there were.
    fn follow(&mut self, data: &Data) -> usize {
        let dropping = self.stalled.take().is_some();
        let mut gaps = 0;
        let mut changes = Vec::new();
        for (number, entry) in data.log.range(self.consumed + 1..) {
            let is_last = |key| data.revision(key).0 <= *number;
            if dropping && entry.key.as_ref().is_some_and(|key| !is_last(key)) {
                continue;
            }
            self.skip_to(*number - 1);
            self.consumed = *number;
            let lost = self.take(*number, entry);
            if lost {
                gaps += 1;
                self.tell(&mut changes);
                self.ring.clear();
                self.latest = self.latest.max(at(*number - 1));
                self.floor = self.latest;
                let _ = self.feed.send(FeedBatch::Gap { resume: self.latest });
            }
            self.push(&entry.changes);
            changes.extend(entry.changes.iter().cloned());
        }
        self.tell(&mut changes);
        // What the stream had up to its last number, it has no more.
        self.skip_to(data.sequence);
        self.highest = self.highest.max(self.consumed);
        gaps
    }

    /// Whether changes before the entry were missed.
    fn take(&mut self, number: u64, entry: &Entry) -> bool {
        let Some(key) = &entry.key else { return false };
        if entry.removal {
            if self.keys.get(key).is_some_and(|item| item.revision.0 < number) {
                self.keys.remove(key);
            }
            return false;
        }
        if let Some(item) = &entry.item {
            self.saw(key, item);
        }
        let after = self.missed.partition_point(|(first, _)| *first <= entry.expected.0);
        after > 0 && self.missed[after - 1].1 >= entry.expected.0
    }

    fn skip_to(&mut self, last: u64) {
        if last <= self.consumed {
            return;
        }
        self.missed.push_back((self.consumed + 1, last));
        self.consumed = last;
        if self.missed.len() > MISSED
            && let (Some(first), Some(second)) = (self.missed.pop_front(), self.missed.front_mut())
        {
            second.0 = first.0;
        }
    }

    /// As a reader of a log without holes.
    fn poll(&mut self, data: &Data) -> usize {
        let first = data.first();
        let mut gaps = 0;
        if first > self.consumed + 1 {
            gaps = 1;
            self.latest = self.latest.max(end_of(first - 1));
            self.ring.clear();
            self.floor = self.latest;
            self.kept = self.kept.max(self.latest);
            let _ = self.feed.send(FeedBatch::Gap { resume: self.latest });
        }
        for (number, entry) in data.log.range(self.consumed + 1..) {
            self.consumed = *number;
            for change in &entry.changes {
                if let Some(item) = data.items.get(&change.key) {
                    self.saw(&change.key, item);
                }
            }
            self.push(&entry.changes);
            self.tell(&mut entry.changes.clone());
        }
        self.consumed = self.consumed.max(data.sequence);
        self.highest = self.highest.max(self.consumed);
        gaps
    }

    fn push(&mut self, changes: &[Committed]) {
        for change in changes {
            if self.ring.len() >= self.ring_length.max(1)
                && let Some(oldest) = self.ring.pop_front()
            {
                self.floor = oldest.position;
            }
            self.latest = change.position;
            self.ring.push_back(change.clone());
        }
    }

    fn tell(&self, changes: &mut Vec<Committed>) {
        if !changes.is_empty() {
            // Nobody listening is no fault.
            let _ = self.feed.send(FeedBatch::Changes(std::mem::take(changes).into()));
        }
    }

    /// The changes after a position, if the ring reaches back so far.
    pub fn after(&self, after: Position, limit: usize) -> Option<Vec<Committed>> {
        if after < self.floor {
            return None;
        }
        let first = self.ring.partition_point(|change| change.position <= after);
        Some(self.ring.iter().skip(first).take(limit).cloned().collect())
    }

    pub fn witness(&self) -> Witness {
        if let Some(frozen) = &self.frozen {
            return frozen.remember;
        }
        let (identity, epoch) = (self.meta.identity, self.meta.epoch);
        Witness { identity, epoch, highest: Revision(self.highest) }
    }

    /// Nothing may be granted from now on; the first reason stays.
    pub fn freeze(&mut self, why: &str, remember: Witness) {
        if self.frozen.is_none() {
            let epoch = remember.epoch.max(self.meta.epoch);
            self.frozen = Some(Frozen { why: why.to_owned(), epoch, remember });
        }
    }

    /// Why nothing is written now.
    pub fn refuses(&self, now: Instant) -> Option<String> {
        let frozen = self.frozen.as_ref().map(|frozen| format!("frozen: {}", frozen.why));
        let throttled = self.throttled.filter(|(until, _)| now < *until);
        let throttled = throttled.map(|_| "throttled".to_owned());
        frozen.or_else(|| self.suspect.clone()).or(throttled)
    }

    pub fn health(&self, now: Instant) -> Health {
        if let Some(frozen) = &self.frozen {
            return Health::Frozen(frozen.why.clone());
        }
        if let Some(why) = self.refuses(now) {
            return Health::Degraded(why);
        }
        match self.away {
            Some(since) if now.duration_since(since).as_millis() >= DEGRADED_AFTER_MS => {
                Health::Degraded("the store does not answer".to_owned())
            }
            _ => Health::Ready,
        }
    }

    /// A write was throttled: writes are refused for a while, which grows while this goes on.
    pub fn throttle(&mut self, now: Instant, jitter: impl Fn(u64) -> u64) {
        let rounds = match self.throttled {
            Some((until, rounds)) if now.saturating_duration_since(until).as_secs() < 10 => {
                rounds + 1
            }
            _ => 0,
        };
        let longest = (50_u64 << rounds.min(10)).min(2_000);
        let span = longest / 2 + jitter(longest / 2 + 1);
        self.throttled = Some((now + std::time::Duration::from_millis(span), rounds));
    }
}

/// Whether a store that a node remembers is this one, as it was or further on.
pub(super) fn went_backwards(witness: &Witness, data: &Data) -> Option<String> {
    let (identity, epoch) = (data.meta.identity, data.meta.epoch);
    if data.made != data.made_for {
        return Some("it was made anew, copied or restored".to_owned());
    }
    if epoch > witness.epoch {
        return None;
    }
    if identity != witness.identity {
        return Some("it is another store than this node knew".to_owned());
    }
    if epoch < witness.epoch {
        return Some("its epoch went backwards".to_owned());
    }
    let (now, known) = (data.sequence, witness.highest.0);
    (now < known).then(|| format!("it went backwards: it ends at {now}, and {known} was seen"))
}
