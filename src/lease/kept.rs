//! R6: what one session keeps, as its home knows it: what its heartbeats keep and say, and which lease is told that
//! the session is over.
//!
//! Decides only; the shell brings what its feed and its searches find, and performs what is decided.
//!
//! Guarantees: while a lease of the session may be unknown, it says so; an end that was heard of during a search is
//! not undone by what the search read before; what is heard late of one tenure changes nothing about a later one of the
//! same key; a grant that follows the session's end is told of it.
//!
//! Assumes: changes are brought in the order of the feed.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{Handover, Key, Record, Revision, Revoke, SessionOver, Token};

/// The leases that a session keeps.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    leases: BTreeMap<Key, Token>,
    /// XOR over the leases.
    sum: u64,
    /// Those that an administrator ordered to end, in which tenure.
    revoked: BTreeMap<Key, Token>,
    /// Those that are to be handed over, in which tenure.
    asked: BTreeMap<Key, Token>,
    /// Who asked to hand over all of them.
    draining: Option<Box<str>>,
    /// Tenures that ended while the store was being searched: what the search finds of them is old.
    gone: BTreeMap<Key, Token>,
    /// The session's end.
    over: Option<SessionOver>,
    /// How often changes were missed.
    doubts: u64,
    survey: Survey,
}

/// Whether all leases of a session are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survey {
    /// They are to be looked for; before they are known, no heartbeat may be answered.
    #[default]
    Due,
    /// They are known.
    Done,
    /// This node does not keep the session any more: nobody looks for them.
    Left,
}

/// The leases that a session keeps, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// How many.
    pub count: usize,
    /// XOR, over all of them, of the first 64 bits of SHA-256 of `key ‖ 0 ‖ token` (decimal).
    pub digest: u64,
}

/// What is to be done about a lease that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptEffect {
    /// This tenure is to be handed over, and its time runs.
    HandOver(Token, Handover),
    /// The author of the order against it is gone: the session's home gives it anew.
    Reissue,
}

impl Kept {
    /// What is known of a session that came to be at home here: just made, or, with what it had announced when it
    /// left, adopted.
    #[must_use]
    pub fn new(made: bool, announced: BTreeMap<Key, Token>) -> Self {
        let survey = if made { Survey::Done } else { Survey::Due };
        Self { revoked: announced, survey, ..Self::default() }
    }

    /// How many, and their digest.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        Holdings { count: self.leases.len(), digest: self.sum }
    }

    /// Those that an administrator ordered to end, with their tenures: the session's heartbeats do not keep them.
    #[must_use]
    pub fn revoked(&self) -> Vec<(Key, Token)> {
        self.revoked.iter().map(|(key, token)| (key.clone(), *token)).collect()
    }

    /// Whether this tenure of a key was ordered to end: a promise that the session made since is not one of it.
    #[must_use]
    pub fn is_revoked(&self, key: &Key, token: Token) -> bool {
        self.revoked.get(key) == Some(&token)
    }

    /// Those that are to be handed over, with their tenures, and are not ordered to end.
    #[must_use]
    pub fn asked(&self) -> Vec<(Key, Token)> {
        let stands =
            |key: &Key, token| !self.is_revoked(key, token) && self.leases.contains_key(key);
        let asked = self.asked.iter().filter(|(key, token)| stands(key, **token));
        asked.map(|(key, token)| (key.clone(), *token)).collect()
    }

    /// Who asked it to hand everything over: it is to be given nothing more.
    #[must_use]
    pub fn drained_by(&self) -> Option<&str> {
        self.draining.as_deref()
    }

    /// Whether all its leases are known.
    #[must_use]
    pub fn survey(&self) -> Survey {
        self.survey
    }

    /// How often changes had been missed by now.
    #[must_use]
    pub fn doubts(&self) -> u64 {
        self.doubts
    }

    /// Whether its end is durable.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// From now on every answer to a heartbeat says that this tenure is to end.
    pub fn announce_revoked(&mut self, key: &Key, token: Token) {
        self.revoked.insert(key.clone(), token);
    }

    /// From now on every answer to a heartbeat says that this is to be handed over: one of its leases, or, under its
    /// own key, all of them.
    pub fn asked_to_hand_over(&mut self, key: &Key, token: Token, ask: &Handover) {
        if key.is_session() {
            self.draining.get_or_insert_with(|| ask.actor.clone());
        } else {
            self.asked.insert(key.clone(), token);
        }
    }

    /// A grant under the session is durable. What the lease is to be told, where the session ended before.
    pub fn granted(&mut self, key: &Key, token: Token) -> Option<SessionOver> {
        self.revoked.retain(|revoked, ordered| revoked != key || *ordered >= token);
        if self.leases.get(key).is_none_or(|known| *known < token) {
            self.insert(key, token);
        }
        self.over.clone()
    }

    /// A tenure that it kept ended.
    pub fn ended(&mut self, key: &Key, token: Token) {
        let over = |known: &mut BTreeMap<Key, Token>| match known.get(key) {
            Some(known_token) if *known_token <= token => known.remove(key),
            _ => None,
        };
        if let Some(token) = over(&mut self.leases) {
            self.sum ^= share(key, token);
        }
        over(&mut self.revoked);
        over(&mut self.asked);
        if self.survey != Survey::Done {
            let gone = self.gone.entry(key.clone()).or_default();
            *gone = token.max(*gone);
        }
    }

    /// The session's tombstone is durable.
    pub fn ends(&mut self, over: SessionOver) {
        self.over = Some(over);
    }

    /// A search that began when changes had been missed so often found one of its leases, whose record a node wrote that
    /// is `present` or is not. What it read before further changes were missed may be over.
    pub fn found(
        &mut self,
        doubts: u64,
        key: &Key,
        revision: Revision,
        record: &Record,
        present: bool,
    ) -> Option<KeptEffect> {
        if doubts != self.doubts {
            return None;
        }
        let (token, ordered) = (record.token(revision), record.revocation.is_some());
        let is_old = self.gone.get(key).is_some_and(|gone| token <= *gone);
        if !is_old && self.leases.get(key).is_none_or(|known| *known < token) {
            self.insert(key, token);
        }
        if !ordered {
            return record.handover.as_deref().map(|ask| KeptEffect::HandOver(token, ask.clone()));
        }
        if self.leases.get(key) == Some(&token) {
            self.revoked.insert(key.clone(), token);
        }
        (!present).then_some(KeptEffect::Reissue)
    }

    /// All of them were found by a search that began when changes had been missed so often.
    pub fn completed(&mut self, doubts: u64) {
        if self.doubts == doubts && self.survey == Survey::Due {
            self.gone.clear();
            // What was announced of others is over.
            let Self { revoked, leases, .. } = self;
            revoked.retain(|key, _| leases.contains_key(key));
            self.survey = Survey::Done;
        }
    }

    /// Some changes were missed. Whether a search is to begin because of that.
    pub fn doubted(&mut self) -> bool {
        self.leases.clear();
        self.sum = 0;
        self.gone.clear();
        self.doubts += 1;
        let done = self.survey == Survey::Done;
        if done {
            self.survey = Survey::Due;
        }
        done
    }

    /// This node does not keep the session any more. What was announced goes on where it comes back.
    pub fn left(&mut self) -> BTreeMap<Key, Token> {
        self.survey = Survey::Left;
        std::mem::take(&mut self.revoked)
    }

    fn insert(&mut self, key: &Key, token: Token) {
        self.sum ^= share(key, token);
        if let Some(before) = self.leases.insert(key.clone(), token) {
            self.sum ^= share(key, before);
        }
    }
}

fn share(key: &Key, token: Token) -> u64 {
    let mut hash = Sha256::new();
    hash.update(key.as_str().as_bytes());
    hash.update([0]);
    hash.update(token.0.to_string().as_bytes());
    let hash = hash.finalize();
    u64::from_be_bytes(hash[..8].try_into().unwrap_or_default())
}

impl Record {
    /// The order against a lease that this session keeps, as the session's present home gives it anew. It announces
    /// the order first: the end waits for what this home promised before.
    #[must_use]
    pub fn order_anew(&self, revision: Revision, session: super::Nonce) -> Option<Revoke> {
        let kept = self.bond().is_some_and(|bond| bond.session == session);
        let order = self.revocation.as_ref().filter(|_| kept)?;
        Some(Revoke {
            reason: order.reason.clone(),
            actor: order.actor.clone(),
            immediately: false,
            owner: None,
            // Its successor has no order against it.
            token: Some(self.token(revision)),
            floor: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Behavior, Bond, ChangeKind, Nonce, Owner, Revocation, State, Tenure};

    const SESSION: Nonce = Nonce(7);

    fn key(name: &str) -> Key {
        Key::new(name).expect("a key")
    }

    /// A lease of the session, granted by the write of this revision.
    fn record(ordered: bool) -> Record {
        let bond = Bond { session: SESSION, lock_delay_ms: None, behavior: Behavior::Release };
        let tenure = Tenure {
            grant_nonce: Nonce(1),
            owner: Owner::new("w").expect("an owner"),
            token: Token(3),
            ttl_ms: 10_000,
            acquired_at_ms: 0,
            bond: Some(Box::new(bond)),
        };
        let order = || Box::new(Revocation { reason: "r".into(), actor: "a".into() });
        Record {
            state: State::Held,
            tenure: Some(tenure),
            revocation: ordered.then(order),
            ..Record::absent()
        }
    }

    fn adopted(announced: &[(&str, Token)]) -> Kept {
        Kept::new(false, announced.iter().map(|(name, token)| (key(name), *token)).collect())
    }

    #[test]
    fn an_order_that_was_announced_goes_on_when_the_session_comes_back() {
        let mut kept = adopted(&[("k", Token(3))]);
        // The search finds the lease as it was before the order was durable.
        assert_eq!(kept.found(kept.doubts(), &key("k"), Revision(3), &record(false), true), None);
        kept.completed(0);
        assert_eq!(kept.revoked(), [(key("k"), Token(3))]);
    }

    #[test]
    fn what_was_announced_of_a_lease_that_is_over_goes_with_the_search() {
        let mut kept = adopted(&[("k", Token(3))]);
        kept.completed(0);
        assert_eq!(kept.revoked(), []);
    }

    #[test]
    fn what_a_search_read_before_changes_were_missed_is_not_believed() {
        let mut kept = adopted(&[]);
        let before = kept.doubts();
        // The end of the lease is among what was missed.
        assert!(!kept.doubted());
        assert_eq!(kept.found(before, &key("k"), Revision(3), &record(false), true), None);
        kept.completed(before);
        kept.completed(kept.doubts());
        assert_eq!((kept.survey(), kept.holdings().count), (Survey::Done, 0));
    }

    #[test]
    fn what_ended_during_a_search_is_not_brought_back_by_it() {
        let mut kept = adopted(&[]);
        kept.ended(&key("k"), Token(3));
        kept.found(kept.doubts(), &key("k"), Revision(3), &record(true), false);
        assert_eq!((kept.holdings().count, kept.revoked()), (0, vec![]));
        // It was granted anew: that is heard of in order.
        assert_eq!(kept.granted(&key("k"), Token(9)), None);
        kept.completed(0);
        assert_eq!((kept.survey(), kept.holdings().count), (Survey::Done, 1));
    }

    #[test]
    fn what_is_late_of_an_earlier_tenure_leaves_the_order_against_the_next_one() {
        // The feed stands still: the key's end and its next grant under the session are not heard of yet.
        let mut kept = Kept::new(true, BTreeMap::new());
        kept.granted(&key("k"), Token(9));
        kept.announce_revoked(&key("k"), Token(11));
        kept.ended(&key("k"), Token(9));
        assert!(kept.is_revoked(&key("k"), Token(11)), "its heartbeats would keep it");
        kept.granted(&key("k"), Token(11));
        assert_eq!(kept.revoked(), [(key("k"), Token(11))]);
        kept.ended(&key("k"), Token(11));
        assert_eq!((kept.revoked(), kept.holdings().count), (vec![], 0));

        // A search reads the next tenure before the feed brings the end of the one before.
        let mut kept = adopted(&[]);
        let next = record(true);
        let tenure = next.tenure.clone().map(|tenure| Tenure { token: Token(11), ..tenure });
        kept.found(kept.doubts(), &key("k"), Revision(11), &Record { tenure, ..next }, true);
        kept.ended(&key("k"), Token(9));
        assert_eq!(kept.revoked(), [(key("k"), Token(11))]);
        assert_eq!(kept.holdings().count, 1);
        kept.granted(&key("k"), Token(9));
        kept.ended(&key("k"), Token(9));
        assert_eq!((kept.revoked().len(), kept.holdings().count), (1, 1));
    }

    #[test]
    fn a_search_that_began_before_changes_were_missed_proves_nothing() {
        let mut kept = Kept::new(true, BTreeMap::new());
        kept.granted(&key("k"), Token(3));
        assert!(kept.doubted(), "a search is to begin");
        assert!(!kept.doubted(), "one that is due is not to begin twice");
        kept.completed(1);
        assert_eq!(kept.survey(), Survey::Due);
        kept.completed(2);
        assert_eq!(
            (kept.survey(), kept.holdings()),
            (Survey::Done, Holdings { count: 0, digest: 0 })
        );
    }

    #[test]
    fn an_order_whose_author_is_gone_is_given_anew_and_a_request_runs_on() {
        let mut kept = adopted(&[]);
        let found = kept.found(kept.doubts(), &key("k"), Revision(3), &record(true), false);
        assert_eq!(found, Some(KeptEffect::Reissue));
        assert!(kept.is_revoked(&key("k"), Token(3)));
        let anew = record(true).order_anew(Revision(3), SESSION).expect("an order");
        assert_eq!((anew.token, anew.immediately), (Some(Token(3)), false));
        assert_eq!(record(true).order_anew(Revision(3), Nonce(8)), None);
        assert_eq!(record(false).order_anew(Revision(3), SESSION), None);

        let ask = Handover { reason: "r".into(), actor: "a".into(), span_ms: 10 };
        let asked = Record { handover: Some(Box::new(ask.clone())), ..record(false) };
        let found = kept.found(kept.doubts(), &key("l"), Revision(3), &asked, false);
        assert_eq!(found, Some(KeptEffect::HandOver(Token(3), ask)));
    }

    #[test]
    fn a_grant_that_follows_the_end_is_told_of_it() {
        let mut kept = Kept::new(true, BTreeMap::new());
        kept.granted(&key("k"), Token(3));
        let over = SessionOver::new(SESSION, ChangeKind::Expired, None, None);
        kept.ends(over.clone());
        assert_eq!(kept.granted(&key("l"), Token(4)), Some(over));
    }

    #[test]
    fn the_digest_does_not_depend_on_the_order_of_what_happened() {
        let (mut one, mut other) = (adopted(&[]), adopted(&[]));
        one.granted(&key("k"), Token(3));
        one.granted(&key("l"), Token(4));
        other.granted(&key("l"), Token(2));
        other.granted(&key("k"), Token(3));
        assert_ne!(one.holdings(), other.holdings());
        other.granted(&key("l"), Token(4));
        assert_eq!(one.holdings(), other.holdings());
        other.ended(&key("k"), Token(3));
        other.ended(&key("l"), Token(4));
        assert_eq!(other.holdings(), Holdings { count: 0, digest: 0 });
    }
}
