//! One pool: its members, and who holds which of its keys.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    fact::{By, Cooling, Fact},
    key_map::KeyMap,
    losses::Losses,
    unplaced_keys::UnplacedKeys,
    warm::WarmState,
};
use crate::{
    actor::runtime::watch,
    clock::{HashMap, HashSet},
    lease::{
        Announced, Key, Moment, Nonce, Owner, PlaceTable, PoolControls, Rules, Token,
        balance::Standing,
        load::{Carrier, Load},
        sites::Sites,
    },
};

/// A session that joined a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The owner of the session.
    pub owner: Owner,
    /// Its weight among the members.
    pub weight: u32,
    /// The highest number of leases that it may have at a time.
    pub capacity: Option<u32>,
    /// The session's home node when it was last read.
    pub node: Nonce,
    /// It drains: it hands everything over.
    pub draining: bool,
    /// Where members come back to their keys, the token of its session: of several sessions of an owner, the newest
    /// counts.
    pub returns: Option<Token>,
    /// What it says of itself.
    pub announced: Arc<Announced>,
}

impl Joined {
    /// Whether the member says the same but for its loads.
    fn differs_in_load_only(&self, before: &Self) -> bool {
        let unloaded = |joined: &Self| {
            let mut joined = joined.clone();
            let announced = Arc::make_mut(&mut joined.announced);
            (announced.loads, announced.load_limit) = Default::default();
            joined
        };
        unloaded(self) == unloaded(before)
    }
}

#[derive(Clone)]
pub struct Place {
    pub fact: Fact,
    /// Since when the fact holds, on this node's clock, or since when this node knows it.
    pub since: Moment,
    /// When its lock-delay is over, as far as this node knows.
    cooled: Moment,
    pub indexing: u64,
    /// How often changes had been missed when the fact was learnt.
    pub misses: u64,
    /// Who holds the key, or held it last; known only where members come back.
    pub owner: Option<Arc<Owner>>,
    /// Its holder got it from another one that was asked for it.
    pub was_moved: bool,
}

impl Place {
    /// Whether the key is kept for its last owner.
    pub fn is_kept(&self, now: Moment) -> bool {
        let is_shut = self.cooled > now || self.fact.cooling == Cooling::Stands;
        self.fact.by == By::Nobody && self.owner.is_some() && is_shut
    }

    /// For how long the key could have been granted to anybody, as far as this node knows. `None` while it cannot.
    pub fn open_for(&self, now: Moment) -> Option<Duration> {
        let opened = self.since.max(self.cooled);
        let open = self.fact.by == By::Nobody && !self.fact.shut && opened <= now;
        open.then(|| now.since(opened))
    }
}

#[derive(Clone, Copy, Default)]
pub struct Count {
    pub held: usize,
    pub asked: usize,
    /// Places that calls of the session may still fill.
    pub reserved: usize,
    /// Those of these calls that can take a key that is free.
    pub taking: usize,
}

/// A pool that a session joined.
pub struct Pool {
    /// The rules as they apply.
    pub rules: Rules,
    pub members: BTreeMap<Nonce, Joined>,
    /// Whether its members come back to their keys.
    pub returns: bool,
    /// Since when its members have two versions or more.
    pub mixed_since: Option<Moment>,
    /// Whether keys that come free go to the newest version, and no others move.
    pub is_mixed: bool,
    pub keys: KeyMap<Place>,
    /// Sessions that ended and may still have leases, with their owners; known only where members come back.
    pub gone: HashMap<Nonce, Owner>,
    /// By session, whether or not it is a member.
    pub counts: HashMap<Nonce, Count>,
    /// The keys that nobody holds.
    pub open: KeyMap<()>,
    /// The keys whose holders were asked for them.
    pub asked_for: KeyMap<()>,
    /// The number of the present search of the store, or of the last one.
    pub indexing: u64,
    /// How often changes were missed.
    pub misses: u64,
    /// Whether all keys are known.
    pub indexed: watch::Sender<bool>,
    pub targets: Option<HashMap<Nonce, usize>>,
    /// How far loads may be from their mean, as a part of it, where leases move by load.
    pub by_load: Option<f64>,
    /// What the policies say about where keys go; `None` if they go anywhere.
    pub table: Option<Arc<PlaceTable>>,
    /// Where it is known for which member each key is: the members with these keys, and which keys each may have.
    pub seated: Option<Box<(Vec<Carrier>, Sites)>>,
    /// Since when keys cannot be placed because no member can take them.
    pub unplaced_since: Option<Moment>,
    /// The keys that had no member to go to at the last plan.
    pub unplaced_keys: UnplacedKeys,
    /// The last known load of each key that a member reported.
    pub loads: KeyMap<Load>,
    /// Where that is known: the member that each key without one is for.
    pub placed: KeyMap<Nonce>,
    /// Whether each member takes the leases that it should have.
    pub standings: Standings,
    /// How often a key became free, or its holder was asked for it.
    pub opened: u64,
    pub changed: watch::Sender<u64>,
    /// Keys that were handed over because that was asked for, and that nobody was granted since.
    pub handed_over: KeyMap<()>,
    /// The calls that wait for keys, by how often a key had been opened when each began to wait.
    pub parked: BTreeMap<u64, usize>,
    /// Since when leases must move, and how many.
    pub uneven: Option<(Moment, usize)>,
    /// What operators ordered, and whether a guard stands.
    pub controls: Arc<PoolControls>,
    /// Until when the pool is balanced exactly and at once.
    pub rebalancing: Option<Moment>,
    pub losses: Losses,
    /// What this node knows of keys that members prepare for.
    pub warm: WarmState,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            members: BTreeMap::new(),
            returns: false,
            mixed_since: None,
            is_mixed: false,
            keys: KeyMap::default(),
            gone: HashMap::default(),
            counts: HashMap::default(),
            open: KeyMap::default(),
            asked_for: KeyMap::default(),
            indexing: 0,
            misses: 0,
            indexed: watch::Sender::new(false),
            targets: None,
            by_load: None,
            table: None,
            seated: None,
            unplaced_since: None,
            unplaced_keys: UnplacedKeys::default(),
            loads: KeyMap::default(),
            placed: KeyMap::default(),
            standings: HashMap::default(),
            opened: 0,
            changed: watch::Sender::new(0),
            handed_over: KeyMap::default(),
            parked: BTreeMap::new(),
            uneven: None,
            controls: Arc::default(),
            rebalancing: None,
            losses: Losses::default(),
            warm: WarmState::default(),
        }
    }
}

impl Pool {
    /// A pool for which operators ordered this.
    pub fn new(controls: Arc<PoolControls>, rules: Rules) -> Self {
        Self { controls, rules, ..Self::default() }
    }

    pub fn moved(&mut self) {
        self.targets = None;
        self.changed.send_modify(|count| *count += 1);
    }

    /// How many keys nobody holds.
    pub fn unheld_keys(&self) -> usize {
        self.open.len()
    }

    /// Counts what a fact says about a key, or counts it no longer.
    fn count(&mut self, key: &Key, fact: Fact, begins: bool) {
        let list = |list: &mut KeyMap<()>| match begins {
            true => drop(list.insert(key.clone(), ())),
            false => drop(list.remove(key)),
        };
        let sign = if begins { 1 } else { -1 };
        match fact.by {
            By::Nobody => list(&mut self.open),
            By::Other if fact.asked => list(&mut self.asked_for),
            By::Other => {}
            By::Session(digest) => {
                let count = self.counts.entry(digest).or_default();
                count.held = count.held.wrapping_add_signed(sign);
                if fact.asked {
                    count.asked = count.asked.wrapping_add_signed(sign);
                    list(&mut self.asked_for);
                }
                if count.held == 0 && count.reserved == 0 {
                    self.counts.remove(&digest);
                    self.gone.remove(&digest);
                }
            }
        }
    }

    /// Notes a fact about a key, and who holds it or held it last. It has no effect if a newer one was learnt since changes
    /// were missed for the last time. What was known before that yields: the store may have forgotten it.
    pub fn learn(&mut self, key: &Key, fact: Fact, owner: Option<&Owner>, now: Moment) {
        let (indexing, misses) = (self.indexing, self.misses);
        let replaces = self.rules.a_reading_replaces_what_a_pool_knew();
        let owner = owner.filter(|_| self.returns).map(|owner| Arc::new(owner.clone()));
        let was_moved = false;
        let mut place =
            Place { fact, since: now, cooled: Moment::ZERO, indexing, misses, owner, was_moved };
        if let Some(known) = self.keys.get_mut(key) {
            known.indexing = indexing;
            let (old, since, cooled) = (known.fact, known.since, known.cooled);
            let was_moved = known.was_moved;
            let stands = known.misses == misses || !replaces;
            let is_newer = (old.token, old.seq) < (fact.token, fact.seq);
            if old.says_the_same(fact) || stands && !is_newer {
                known.misses = misses;
                known.owner = known.owner.take().or(place.owner);
                return;
            }
            place.owner = place.owner.or_else(|| known.owner.take());
            if is_newer && old.asked && fact.by == By::Nobody {
                self.handed_over.insert(key.clone(), ());
            }
            self.count(key, old, false);
            place.cooled = cooled;
            let state = |fact: Fact| (fact.by, fact.token, fact.shut);
            if state(old) == state(fact) {
                (place.since, place.was_moved) = (since, was_moved);
            } else {
                let is_granted = fact.by != By::Nobody && old.by != fact.by;
                place.was_moved = is_granted && (old.asked || self.handed_over.contains_key(key));
            }
        }
        match fact.cooling {
            Cooling::Begins(span) => place.cooled = now + span,
            Cooling::Unchanged | Cooling::Stands => {}
            Cooling::Over => place.cooled = place.cooled.min(now),
        }
        if fact.by == By::Nobody || fact.asked {
            self.opened += 1;
        }
        if fact.by != By::Nobody {
            self.handed_over.remove(key);
        }
        self.count(key, fact, true);
        self.keys.insert(key.clone(), place);
        if self.goes_as_placed(key, fact.by) {
            self.changed.send_modify(|count| *count += 1);
        } else {
            self.moved();
        }
    }

    /// Removes a key that was forgotten after this tenure, if no holder is known.
    pub fn forget(&mut self, key: &Key, token: Token) {
        let gone = |place: &&Place| place.fact.by == By::Nobody && place.fact.token <= token;
        if let Some(fact) = self.keys.get(key).filter(gone).map(|place| place.fact) {
            self.keys.remove(key);
            self.loads.remove(key);
            self.handed_over.remove(key);
            self.count(key, fact, false);
            self.moved();
        }
    }

    /// A call at this node was granted a key. The feed has not reported it yet.
    pub fn granted(&mut self, key: &Key, digest: Nonce, token: Token, now: Moment) {
        let newer = self.keys.get(key).is_none_or(|place| place.fact.token < token);
        if newer {
            let by = By::Session(digest);
            let cooling = Cooling::Over;
            let fact = Fact { by, token, seq: 0, asked: false, shut: false, cooling };
            let owner = self.members.get(&digest).map(|joined| joined.owner.clone());
            self.learn(key, fact, owner.as_ref(), now);
        }
    }

    /// Notes what a session says of itself. Returns the sessions that a newer one of their owner replaced by now.
    pub fn join(&mut self, digest: Nonce, joined: Joined) -> Vec<Nonce> {
        self.returns = joined.returns.is_some();
        if self.members.get(&digest) == Some(&joined) {
            return Vec::new();
        }
        let owner = joined.owner.clone();
        let labels = self.members.get(&digest).map(|before| &before.announced.labels);
        let is_relabelled = labels.is_some_and(|labels| *labels != joined.announced.labels);
        self.note_loads(digest, &joined.announced.clone());
        let before = self.members.insert(digest, joined);
        if before.is_some_and(|before| self.members[&digest].differs_in_load_only(&before)) {
            // The next plan looks at loads. They change too often to compute anew who is to have what each time.
            return Vec::new();
        }
        // The next plan says whether this is so. Until then, no key goes to an old version.
        self.is_mixed |= self.mixed_since.is_none() && self.has_versions();
        if is_relabelled {
            // Calls that wait for keys which it may not have any more leave their queues.
            self.reopen();
        } else {
            self.moved();
        }
        self.replaced_of(&owner)
    }

    /// Whether a member has labels.
    pub fn has_labels(&self) -> bool {
        self.members.values().any(|joined| !joined.announced.labels.is_empty())
    }

    pub fn leave(&mut self, digest: Nonce) {
        self.standings.remove(&digest);
        if let Some(joined) = self.members.remove(&digest) {
            if joined.returns.is_some() && self.counts.contains_key(&digest) {
                self.gone.insert(digest, joined.owner);
            }
            self.moved();
        }
    }

    /// All keys must be read again.
    pub fn missed_changes(&mut self) {
        self.misses += 1;
        self.indexed.send_replace(false);
    }

    /// `by_load`: how far loads may be from their mean, if leases move by load. `table`: where keys go, if policies say so.
    pub fn begin_indexing(&mut self, by_load: Option<f64>, table: Option<PlaceTable>) {
        self.indexing += 1;
        if by_load != self.by_load || table.as_ref() != self.table.as_deref() {
            (self.by_load, self.table) = (by_load, table.map(Arc::new));
            self.placed = KeyMap::default();
            self.reopen();
        }
    }

    /// Every key of the store was read.
    pub fn end_indexing(&mut self) {
        let indexing = self.indexing;
        let gone: Vec<Key> = self
            .keys
            .iter()
            .filter(|(_, place)| place.indexing != indexing)
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.loads.remove(&key);
            self.handed_over.remove(&key);
            if let Some(place) = self.keys.remove(&key) {
                self.count(&key, place.fact, false);
            }
        }
        self.moved();
        self.indexed.send_replace(true);
    }

    /// How often a key became free, or its holder was asked for it.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Whoever waits for keys looks again which of them it may be granted.
    pub fn reopen(&mut self) {
        self.opened += 1;
        self.moved();
    }

    /// The keys that nobody holds and that the member may be granted.
    pub fn unheld(&self, digest: Nonce) -> Vec<Key> {
        self.find(&self.open, |key| self.is_for(digest, key))
    }

    /// How many keys others than this session hold that the session may be granted.
    pub fn others(&self, digest: Nonce) -> usize {
        let PoolControls { frozen, paused, warming, .. } = &*self.controls;
        let is_apart = frozen.is_some() || !paused.is_empty() || !warming.is_empty();
        if self.table.is_none() && !is_apart {
            let held = self.counts.get(&digest).map_or(0, |count| count.held);
            return self.keys.len() - self.unheld_keys() - held;
        }
        let is_other = |(key, place): &(&Key, &Place)| {
            place.fact.is_of_another(digest)
                && self.may_have(digest, key)
                && self.is_open_to_shares(key)
        };
        self.keys.iter().filter(is_other).count()
    }

    /// The keys that others than this session hold and were asked for, and that the session may be granted.
    pub fn coming(&self, digest: Nonce) -> Vec<Key> {
        self.find(&self.asked_for, |key| self.is_coming(digest, key))
    }

    fn find(&self, among: &KeyMap<()>, wanted: impl Fn(&Key) -> bool) -> Vec<Key> {
        let wanted = |key: &&Key| wanted(key) && self.is_open_to_shares(key);
        among.keys().filter(wanted).cloned().collect()
    }

    /// Whether others than this session hold the key and were asked for it, and the session may be granted it.
    pub fn is_coming(&self, digest: Nonce, key: &Key) -> bool {
        let fact = self.keys.get(key).map(|place| place.fact);
        let is_coming = fact.is_some_and(|fact| fact.asked && fact.is_of_another(digest));
        is_coming && self.is_for(digest, key)
    }

    pub fn has(&self, digest: Nonce, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|place| place.fact.by == By::Session(digest))
    }

    /// Whether no holder of the key is known.
    pub fn is_free(&self, key: &Key) -> bool {
        self.keys.get(key).is_none_or(|place| place.fact.by == By::Nobody)
    }

    /// This node asked for a lease under this token. The feed may not have reported it yet, and the lease must not be asked
    /// for twice. Or the feed has reported already that the tenure is over.
    pub fn asked(&mut self, key: &Key, token: Token) {
        if let Some(place) = self.keys.get_mut(key)
            && !place.fact.asked
            && place.fact.token == token
            && place.fact.by != By::Nobody
        {
            place.fact.asked = true;
            let by = place.fact.by;
            self.opened += 1;
            self.asked_for.insert(key.clone(), ());
            if let By::Session(digest) = by {
                self.counts.entry(digest).or_default().asked += 1;
            }
            if self.places_keys() {
                self.moved();
            }
        }
    }

    /// A lease could not be asked for. It is treated as if its tenure had just begun, so the next try comes after the
    /// minimum age.
    pub fn spare(&mut self, key: &Key, now: Moment) {
        if let Some(place) = self.keys.get_mut(key) {
            place.since = now;
        }
    }

    /// Removes the members that are not among these.
    pub fn keep_only(&mut self, living: &HashSet<Nonce>) {
        let gone: Vec<Nonce> =
            self.members.keys().filter(|digest| !living.contains(*digest)).copied().collect();
        gone.into_iter().for_each(|digest| self.leave(digest));
    }
}

pub type Name = Arc<str>;
/// Whether each member takes the leases that it should have.
pub type Standings = HashMap<Nonce, Standing>;

#[cfg(test)]
mod tests;
