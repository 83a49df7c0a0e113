//! What one principal holds of a kind, leases or sessions.
//!
//! Guarantees: a key counts once, whoever tells of it and how often. What the feed tells counts, in its order. A grant
//! that this node tells of itself does not count if the feed told of its end before. A key that the principal offers to
//! a successor counts until the feed tells of a later grant, or the offer is over.
//!
//! Assumes: marks are digests of 64 bits under a secret key, so no two keys in one account have the same one.

use crate::{
    clock::HashMap,
    lease::{Moment, Token},
};

/// What stands for a key.
pub(super) type Mark = u64;

/// The keys that one principal holds or offers, or that calls in progress may give it.
#[derive(Debug, Default)]
pub(super) struct Account {
    keys: HashMap<Mark, Entry>,
    /// Keys that calls in progress may take and have not chosen.
    places: usize,
    /// Keys that calls in progress wait for.
    awaited: HashMap<Mark, Awaited>,
    /// While all records are read: the tenures that ended meanwhile. Once the feed told of an end, the feed will tell of each
    /// later grant as well, and no record counts.
    ended: Option<HashMap<Mark, Token>>,
    /// When the first offer is over, or earlier; `None` without offers.
    first_over: Option<Moment>,
}

#[derive(Debug, Default)]
struct Entry {
    /// The tenure that the principal holds; 0 if it holds none.
    held: Token,
    /// A call was granted `held`, and the feed has not told of that yet.
    is_ahead: bool,
    /// The last tenure whose end, or after whose end another principal's grant, the feed told while a call was in
    /// progress.
    ended: Token,
    /// Calls in progress that may be granted the key.
    calls: u32,
    /// The reading of all records, or the time after it, in which the tenure was told of.
    reading: u32,
    /// The principal's last tenure ended with an offer: its token, and when the offer is over.
    offer: Option<(Token, Moment)>,
}

/// A key that calls in progress wait for. They choose one key once they are granted it, so it does not count.
#[derive(Debug, Default)]
struct Awaited {
    /// Calls that wait for the key.
    calls: u32,
    /// As in an entry: the last tenure that the feed told to be over meanwhile.
    ended: Token,
}

/// No tenure.
const NONE: Token = Token(0);

impl Entry {
    fn is_idle(&self) -> bool {
        self.held == NONE && self.calls == 0 && self.offer.is_none()
    }

    /// The key was granted under this token. That ends the offer of an earlier tenure.
    fn end_offer_before(&mut self, token: Token) {
        self.offer.take_if(|(offered, _)| *offered < token);
    }
}

impl Account {
    /// How much of a limit is used.
    pub fn used(&self) -> usize {
        self.keys.len() + self.places
    }

    /// A call begins that may be granted the key. Returns whether the limit allows it. A key that the principal holds,
    /// or that another call of it may be granted, does not count again.
    pub fn begin(&mut self, mark: Mark, most: usize, now: Moment) -> bool {
        if !self.keys.contains_key(&mark) && self.left(1, most, now) == 0 {
            return false;
        }
        self.enter(mark);
        true
    }

    /// A call about the key begins that no limit refuses.
    pub fn enter(&mut self, mark: Mark) {
        self.keys.entry(mark).or_default().calls += 1;
    }

    /// Whether the limit has room for so many keys of each of these groups. What the principal holds of a group, or another
    /// call of it may be granted, does not count again.
    pub fn has_room(&mut self, groups: &[(Vec<Mark>, usize)], most: usize, now: Moment) -> bool {
        let known =
            |marks: &[Mark]| marks.iter().filter(|mark| self.keys.contains_key(mark)).count();
        let missing = |(marks, count): &(Vec<Mark>, usize)| count.saturating_sub(known(marks));
        let wanted = groups.iter().map(missing).sum();
        self.left(wanted, most, now) >= wanted
    }

    /// How much the limit leaves. If that is less than wanted, offers that are over are removed first.
    fn left(&mut self, wanted: usize, most: usize, now: Moment) -> usize {
        let left = most.saturating_sub(self.used());
        if left >= wanted || self.first_over.is_none_or(|over| now < over) {
            return left;
        }
        self.first_over = None;
        for entry in self.keys.values_mut() {
            entry.offer.take_if(|(_, over)| *over <= now);
            let over = entry.offer.map(|(_, over)| over);
            self.first_over = self.first_over.into_iter().chain(over).min();
        }
        self.keys.retain(|_, entry| !entry.is_idle());
        most.saturating_sub(self.used())
    }

    /// The tenure ended with an offer of the key. A grant that the feed told of since then ended the offer.
    pub fn offered(&mut self, mark: Mark, token: Token, over: Moment) {
        let Some(entry) = self.keys.get_mut(&mark) else { return };
        if entry.held <= token && entry.ended <= token {
            entry.offer = Some((token, over));
            self.first_over = self.first_over.into_iter().chain([over]).min();
        }
    }

    /// A call chooses a key for one of its places.
    pub fn choose(&mut self, mark: Mark) {
        self.places = self.places.saturating_sub(1);
        self.enter(mark);
        // The feed may have told the end of the tenure before the node told the call of it.
        if let (Some(awaited), Some(entry)) = (self.awaited.get(&mark), self.keys.get_mut(&mark)) {
            entry.ended = entry.ended.max(awaited.ended);
        }
    }

    /// A call that has a place waits for the key, among others.
    pub fn wait(&mut self, mark: Mark) {
        self.awaited.entry(mark).or_default().calls += 1;
    }

    /// The call waits for the key no longer.
    pub fn leave(&mut self, mark: Mark) {
        let Some(awaited) = self.awaited.get_mut(&mark) else { return };
        awaited.calls = awaited.calls.saturating_sub(1);
        if awaited.calls == 0 {
            self.awaited.remove(&mark);
        }
    }

    /// The call was not granted the key that it chose, and has its place again.
    pub fn choose_anew(&mut self, mark: Mark) {
        self.finish(mark, None, 0);
        self.places += 1;
    }

    /// A call ends that could be granted the key.
    pub fn finish(&mut self, mark: Mark, granted: Option<Token>, reading: u32) {
        let Some(entry) = self.keys.get_mut(&mark) else { return };
        entry.calls = entry.calls.saturating_sub(1);
        if let Some(token) = granted.filter(|token| *token > entry.ended && *token > entry.held) {
            (entry.held, entry.reading, entry.is_ahead) = (token, reading, true);
        }
        self.tidy(mark);
    }

    /// Takes up to `wanted` places. Returns how many the limit allows.
    pub fn take(&mut self, wanted: usize, most: usize, now: Moment) -> usize {
        let taken = wanted.min(self.left(wanted, most, now));
        self.places += taken;
        taken
    }

    /// Gives places back.
    pub fn give_back(&mut self, places: usize) {
        self.places = self.places.saturating_sub(places);
    }

    /// The feed tells of a grant.
    pub fn granted(&mut self, mark: Mark, token: Token, reading: u32) {
        if let Some(ended) = &mut self.ended {
            ended.remove(&mark);
        }
        let entry = self.keys.entry(mark).or_default();
        (entry.held, entry.reading, entry.is_ahead) = (token, reading, false);
        entry.end_offer_before(token);
    }

    /// The feed tells of the end of a tenure under this token, or of a grant under it to another principal. The principal
    /// holds nothing then, unless this node granted it the key and the feed has not told of that yet. The end may have a
    /// lower token than the tenure that counts: a write from before the store went backwards may end a later tenure.
    pub fn told_of_end(&mut self, mark: Mark, token: Token) {
        let told = self.keys.get(&mark).filter(|entry| !entry.is_ahead);
        self.ended(mark, told.map_or(token, |entry| token.max(entry.held)));
        if let Some(ended) = &mut self.ended {
            ended.insert(mark, Token(u64::MAX));
        }
    }

    /// This tenure is over, with all earlier ones.
    pub fn ended(&mut self, mark: Mark, token: Token) {
        if let Some(ended) = &mut self.ended {
            let last = ended.entry(mark).or_default();
            *last = token.max(*last);
        }
        if let Some(awaited) = self.awaited.get_mut(&mark) {
            awaited.ended = awaited.ended.max(token);
        }
        let Some(entry) = self.keys.get_mut(&mark) else { return };
        entry.ended = entry.ended.max(token);
        if entry.held <= token {
            (entry.held, entry.is_ahead) = (NONE, false);
        }
        entry.end_offer_before(token);
        self.tidy(mark);
    }

    /// The tenure under which the principal holds the key.
    pub fn held(&self, mark: Mark) -> Option<Token> {
        self.keys.get(&mark).map(|entry| entry.held).filter(|held| *held != NONE)
    }

    /// How many keys the principal holds.
    #[cfg(any(test, feature = "testing"))]
    pub fn all_held(&self) -> usize {
        self.keys.values().filter(|entry| entry.held != NONE).count()
    }

    /// All records are read from now on.
    pub fn reading(&mut self) {
        self.ended = Some(HashMap::default());
    }

    /// A record that was read says that the principal holds the key. The feed may have told of the end, or of a later grant,
    /// in this reading. `replaces`: what was told before this reading yields, also under a higher token.
    pub fn found(&mut self, mark: Mark, token: Token, reading: u32, replaces: bool) {
        let told = self.ended.as_ref().and_then(|ended| ended.get(&mark));
        if told.is_some_and(|ended| *ended >= token) {
            return;
        }
        let entry = self.keys.entry(mark).or_default();
        let is_known = entry.reading >= reading || !replaces;
        let held = if is_known { entry.held.max(token) } else { token };
        entry.is_ahead &= held == entry.held;
        (entry.held, entry.reading) = (held, reading);
    }

    /// All records were read. What neither they nor the feed told of in this reading is not held.
    pub fn read(&mut self, reading: u32) {
        self.ended = None;
        for entry in self.keys.values_mut().filter(|entry| entry.reading < reading) {
            (entry.held, entry.is_ahead) = (NONE, false);
        }
        self.keys.retain(|_, entry| !entry.is_idle());
    }

    fn tidy(&mut self, mark: Mark) {
        if self.keys.get(&mark).is_some_and(Entry::is_idle) {
            self.keys.remove(&mark);
        }
    }
}

#[cfg(test)]
mod tests;
