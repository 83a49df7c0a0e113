//! What one principal holds of a kind, leases or sessions.
//!
//! Guarantees: a key counts once, whoever tells of it and how often. What the feed tells counts, in its order. A grant
//! that this node tells of itself does not count if the feed told of its end before.
//!
//! Assumes: marks are digests of 64 bits under a secret key, so no two keys in one account have the same one.

use crate::{clock::HashMap, lease::Token};

/// What stands for a key.
pub(super) type Mark = u64;

/// The keys that one principal holds, or that calls in progress may give it.
#[derive(Debug, Default)]
pub(super) struct Account {
    keys: HashMap<Mark, Entry>,
    /// Keys that calls in progress may take and have not chosen.
    places: usize,
    /// While all records are read: the tenures that ended meanwhile.
    ended: Option<HashMap<Mark, Token>>,
}

#[derive(Debug, Default)]
struct Entry {
    /// The tenure that the principal holds; 0 if it holds none.
    held: Token,
    /// The last tenure whose end the feed told while a call was in progress.
    ended: Token,
    /// Calls in progress that may be granted the key.
    calls: u32,
    /// The reading of all records, or the time after it, in which the tenure was told of.
    reading: u32,
}

/// No tenure.
const NONE: Token = Token(0);

impl Entry {
    fn is_idle(&self) -> bool {
        self.held == NONE && self.calls == 0
    }
}

impl Account {
    /// How much of a limit is used.
    pub fn used(&self) -> usize {
        self.keys.len() + self.places
    }

    /// A call begins that may be granted the key. Returns whether the limit allows it. A key that the principal holds,
    /// or that another call of it may be granted, does not count again.
    pub fn begin(&mut self, mark: Mark, most: usize) -> bool {
        if !self.keys.contains_key(&mark) && self.used() >= most {
            return false;
        }
        self.keys.entry(mark).or_default().calls += 1;
        true
    }

    /// A call chooses a key for one of its places.
    pub fn choose(&mut self, mark: Mark) {
        self.places = self.places.saturating_sub(1);
        self.keys.entry(mark).or_default().calls += 1;
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
            (entry.held, entry.reading) = (token, reading);
        }
        self.tidy(mark);
    }

    /// Takes up to `wanted` places. Returns how many the limit allows.
    pub fn take(&mut self, wanted: usize, most: usize) -> usize {
        let taken = wanted.min(most.saturating_sub(self.used()));
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
        (entry.held, entry.reading) = (token, reading);
    }

    /// The feed tells of the end of a tenure, or this node ended it.
    pub fn ended(&mut self, mark: Mark, token: Token) {
        if let Some(ended) = &mut self.ended {
            ended.insert(mark, token);
        }
        let Some(entry) = self.keys.get_mut(&mark) else { return };
        entry.ended = entry.ended.max(token);
        if entry.held <= token {
            entry.held = NONE;
        }
        self.tidy(mark);
    }

    /// The tenure under which the principal holds the key.
    pub fn held(&self, mark: Mark) -> Option<Token> {
        self.keys.get(&mark).map(|entry| entry.held).filter(|held| *held != NONE)
    }

    /// All records are read from now on.
    pub fn reading(&mut self) {
        self.ended = Some(HashMap::default());
    }

    /// A record that was read says that the principal holds the key. The feed may have told of the end before.
    pub fn found(&mut self, mark: Mark, token: Token, reading: u32) {
        let told = self.ended.as_ref().and_then(|ended| ended.get(&mark));
        if told.is_some_and(|ended| *ended >= token) {
            return;
        }
        let entry = self.keys.entry(mark).or_default();
        entry.held = entry.held.max(token);
        entry.reading = reading;
    }

    /// All records were read. What neither they nor the feed told of in this reading is not held.
    pub fn read(&mut self, reading: u32) {
        self.ended = None;
        for entry in self.keys.values_mut().filter(|entry| entry.reading < reading) {
            entry.held = NONE;
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
mod tests {
    use super::*;

    const READING: u32 = 3;

    fn holding(marks: &[Mark]) -> Account {
        let mut account = Account::default();
        marks.iter().for_each(|mark| account.granted(*mark, Token(10), READING));
        account
    }

    #[test]
    fn a_key_counts_once_and_another_one_is_refused_at_the_limit() {
        let mut account = holding(&[1]);
        assert!(account.begin(1, 1), "the principal has it");
        assert!(!account.begin(2, 1) && account.begin(2, 2) && account.begin(2, 2));
        assert_eq!((account.begin(3, 2), account.used()), (false, 2));
        account.finish(2, None, READING);
        assert_eq!(account.used(), 2, "another call may be granted it");
        account.finish(2, None, READING);
        assert_eq!((account.begin(3, 2), account.used()), (true, 2));
        account.finish(1, Some(Token(11)), READING);
        assert_eq!(account.held(1), Some(Token(11)));
        account.ended(1, Token(10));
        assert_eq!(account.held(1), Some(Token(11)), "it was reclaimed");
        account.ended(1, Token(11));
        assert_eq!(account.used(), 1);
    }

    #[test]
    fn a_grant_counts_until_its_end_whatever_is_told_first() {
        let told: [fn(&mut Account); 3] = [
            |account| account.granted(1, Token(5), READING),
            |account| account.ended(1, Token(5)),
            |account| account.finish(1, Some(Token(5)), READING),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1]] {
            let mut account = Account::default();
            assert!(account.begin(1, 1));
            order.iter().for_each(|at: &usize| told[*at](&mut account));
            assert_eq!(account.used(), 0, "{order:?}");
        }
    }

    #[test]
    fn a_revived_tenure_counts_again() {
        let mut account = holding(&[1]);
        assert!(account.begin(1, 1));
        account.ended(1, Token(10));
        account.granted(1, Token(10), READING);
        account.finish(1, None, READING);
        assert_eq!(account.held(1), Some(Token(10)));
    }

    #[test]
    fn places_are_what_is_left_and_turn_into_keys() {
        let mut account = holding(&[1, 2]);
        assert_eq!(account.take(10, 5), 3);
        assert_eq!((account.take(1, 5), account.begin(9, 5)), (0, false));
        account.choose(3);
        account.choose(4);
        assert_eq!(account.used(), 5);
        account.finish(3, Some(Token(11)), READING);
        account.choose_anew(4);
        assert_eq!(account.used(), 5);
        account.give_back(2);
        assert_eq!(account.used(), 3);
    }

    #[test]
    fn a_reading_finds_what_was_missed_and_drops_what_is_over() {
        let mut account = holding(&[1, 2, 3]);
        assert!(account.begin(3, 9));
        account.reading();
        account.found(1, Token(10), READING + 1);
        account.found(4, Token(12), READING + 1);
        // This one ended after its record was read, and that one before.
        account.found(5, Token(12), READING + 1);
        account.ended(5, Token(12));
        account.ended(6, Token(13));
        account.found(6, Token(13), READING + 1);
        // One is granted meanwhile, to which an older record belongs.
        account.granted(7, Token(20), READING + 1);
        account.found(7, Token(14), READING + 1);
        account.read(READING + 1);
        assert_eq!([1, 4, 7].map(|mark| account.held(mark)), [10, 12, 20].map(|t| Some(Token(t))));
        assert_eq!(account.used(), 4, "a call for the third is in progress");
        account.finish(3, None, READING + 1);
        assert_eq!(account.used(), 3);
    }
}
