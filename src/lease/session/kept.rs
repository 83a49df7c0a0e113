//! R6: what one session keeps, as its home node knows it: the leases that its heartbeats keep, what they announce, and
//! which leases are told that the session is over.
//!
//! This module only decides. The shell brings what its feed and its searches find, and performs what is decided.
//!
//! Guarantees: while a lease of the session may be unknown, the index says so. An end that the feed reports during a
//! search is not undone by what the search read before. What is heard late about one tenure changes nothing about a
//! later tenure of the same key. A grant that follows the session's end is told of it.
//!
//! Assumes: changes arrive in the order of the feed.

use std::collections::BTreeMap;

use super::holdings::{Holdings, share};
use crate::lease::{
    message::SessionOver,
    primitives::{Key, Revision, Token},
    records::{Handover, Record},
    rules::Rules,
};

/// The leases that a session keeps.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    leases: BTreeMap<Key, Token>,
    /// XOR of the leases' shares of the digest.
    sum: u64,
    /// The leases that an administrator revoked, with the token of the revoked tenure.
    revoked: BTreeMap<Key, Token>,
    /// The leases that must be handed over, with the token of that tenure.
    asked: BTreeMap<Key, Token>,
    /// Who asked the session to hand over all leases.
    draining: Option<Box<str>>,
    /// Tenures that ended while the store was being searched. What the search finds of them is outdated.
    gone: BTreeMap<Key, Token>,
    /// How many calls that will name leases of the session are being served.
    calls: usize,
    /// Revocations that were carried out while such calls were served.
    carried_out: BTreeMap<Key, Token>,
    over: Option<SessionOver>,
    /// How many times changes were missed.
    misses: u64,
    indexing: Indexing,
}

/// The state of the index: whether all leases of a session are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// They must be searched for. Until they are known, no heartbeat may be answered.
    #[default]
    Due,
    /// They are known, and heartbeats may be answered.
    Done,
    /// This node is no longer the session's home node and does not search for them.
    Left,
}

/// What to do about a lease that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptEffect {
    /// This tenure must be handed over, and its deadline is running.
    HandOver(Token, Handover),
    /// The node that ordered its revocation is gone: the session's home node reissues it.
    Reissue,
}

impl Kept {
    /// What is known of a session whose home node is now this node. It was either just `made` or adopted. `announced`
    /// are the revocations that it had announced when it left.
    #[must_use]
    pub fn new(made: bool, announced: BTreeMap<Key, Token>) -> Self {
        let indexing = if made { Indexing::Done } else { Indexing::Due };
        Self { revoked: announced, indexing, ..Self::default() }
    }

    /// The number of leases, and their digest.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        Holdings { count: self.leases.len(), digest: self.sum }
    }

    /// The revoked leases, with their tenures. The session's heartbeats do not keep them.
    #[must_use]
    pub fn revoked(&self) -> Vec<(Key, Token)> {
        self.revoked.iter().map(|(key, token)| (key.clone(), *token)).collect()
    }

    /// Whether this tenure of a key was revoked. Promises that the session made since do not cover it.
    fn is_revoked(&self, key: &Key, token: Token) -> bool {
        self.revoked.get(key) == Some(&token)
    }

    /// A call begins that will name leases of the session. Revocations are remembered until all such calls are served.
    pub fn call_begins(&mut self) {
        self.calls += 1;
    }

    /// A call that [began](Self::call_begins) is served.
    pub fn call_ends(&mut self) {
        self.calls -= 1;
        if self.calls == 0 {
            self.carried_out.clear();
        }
    }

    /// Whether a call must not name this tenure, which was granted to it: the tenure was revoked since the call began.
    /// No promise of the session covers it.
    #[must_use]
    pub fn is_lost(&self, rules: Rules, key: &Key, token: Token) -> bool {
        let carried_out = self.carried_out.get(key).is_some_and(|revoked| token <= *revoked);
        self.is_revoked(key, token)
            || carried_out && rules.a_call_does_not_name_what_was_revoked_meanwhile()
    }

    /// Revocations are over.
    fn note_carried_out(&mut self, over: impl IntoIterator<Item = (Key, Token)>) {
        let over = over.into_iter();
        if self.calls > 0 {
            self.carried_out.extend(over);
        } else {
            over.for_each(drop);
        }
    }

    /// The leases that must be handed over, with their tenures. Revoked leases are not among them.
    #[must_use]
    pub fn asked(&self) -> Vec<(Key, Token)> {
        let stands =
            |key: &Key, token| !self.is_revoked(key, token) && self.leases.contains_key(key);
        let asked = self.asked.iter().filter(|(key, token)| stands(key, **token));
        asked.map(|(key, token)| (key.clone(), *token)).collect()
    }

    /// Who asked the session to hand everything over. It must be granted nothing more.
    #[must_use]
    pub fn drained_by(&self) -> Option<&str> {
        self.draining.as_deref()
    }

    /// Whether all its leases are known.
    #[must_use]
    pub fn indexing(&self) -> Indexing {
        self.indexing
    }

    /// How many times changes have been missed so far.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Whether its end is durable.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// From now on, every answer to a heartbeat names this tenure as revoked.
    pub fn announce_revoked(&mut self, key: &Key, token: Token) {
        let before = self.revoked.insert(key.clone(), token).filter(|before| *before < token);
        self.note_carried_out(before.map(|before| (key.clone(), before)));
    }

    /// From now on, every answer to a heartbeat asks for a hand-over: of this lease or, when the key is the session's
    /// own, of all leases.
    pub fn asked_to_hand_over(&mut self, key: &Key, token: Token, ask: &Handover) {
        if key.is_session() {
            self.draining.get_or_insert_with(|| ask.actor.clone());
        } else {
            self.asked.insert(key.clone(), token);
        }
    }

    /// A grant under the session is durable. Returns what the lease must be told if the session has already ended.
    pub fn granted(&mut self, key: &Key, token: Token) -> Option<SessionOver> {
        let before = self.revoked.get(key).copied().filter(|ordered| *ordered < token);
        if let Some(before) = before {
            // Its end was missed.
            self.revoked.remove(key);
            self.note_carried_out([(key.clone(), before)]);
        }
        if self.leases.get(key).is_none_or(|known| *known < token) {
            self.insert(key, token);
        }
        self.over.clone()
    }

    /// A tenure that the session kept ended. `revoked`: by an administrator, perhaps without having been announced.
    pub fn ended(&mut self, key: &Key, token: Token, revoked: bool) {
        let over = |known: &mut BTreeMap<Key, Token>| match known.get(key) {
            Some(known_token) if *known_token <= token => known.remove(key),
            _ => None,
        };
        if let Some(token) = over(&mut self.leases) {
            self.sum ^= share(key, token);
        }
        over(&mut self.asked);
        let carried_out = over(&mut self.revoked).or(revoked.then_some(token));
        self.note_carried_out(carried_out.map(|token| (key.clone(), token)));
        if self.indexing != Indexing::Done {
            let gone = self.gone.entry(key.clone()).or_default();
            *gone = token.max(*gone);
        }
    }

    /// The session's tombstone is durable.
    pub fn ends(&mut self, over: SessionOver) {
        self.over = Some(over);
    }

    /// A search found one of the session's leases. `misses` is how many times changes had been missed when the search
    /// began, and `present` says whether the node that wrote the lease's record is present. If changes were missed
    /// since, what the search read may be outdated and is ignored.
    pub fn found(
        &mut self,
        misses: u64,
        key: &Key,
        revision: Revision,
        record: &Record,
        present: bool,
    ) -> Option<KeptEffect> {
        if misses != self.misses {
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

    /// A search that began when changes had been missed `misses` times has found all leases.
    pub fn completed(&mut self, misses: u64) {
        if self.misses == misses && self.indexing == Indexing::Due {
            self.gone.clear();
            // Announced revocations of all other leases are over.
            let leases = &self.leases;
            let over = self.revoked.extract_if(.., |key, _| !leases.contains_key(key));
            let over: Vec<(Key, Token)> = over.collect();
            self.note_carried_out(over);
            self.indexing = Indexing::Done;
        }
    }

    /// Changes were missed. Returns whether a search must begin because of that.
    pub fn missed_changes(&mut self) -> bool {
        self.leases.clear();
        self.sum = 0;
        self.gone.clear();
        self.misses += 1;
        let done = self.indexing == Indexing::Done;
        if done {
            self.indexing = Indexing::Due;
        }
        done
    }

    /// This node is no longer the session's home node. Returns the announced revocations, which continue if the session
    /// comes back.
    pub fn left(&mut self) -> BTreeMap<Key, Token> {
        self.indexing = Indexing::Left;
        // A call that is still being served must not name them either.
        self.revoked.clone()
    }

    fn insert(&mut self, key: &Key, token: Token) {
        self.sum ^= share(key, token);
        if let Some(before) = self.leases.insert(key.clone(), token) {
            self.sum ^= share(key, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{
        primitives::{Nonce, Owner},
        records::{Behavior, ChangeKind, KeyState, Revocation, SessionRef, Tenure},
    };

    const SESSION: Nonce = Nonce(7);

    fn key(name: &str) -> Key {
        Key::new(name).expect("a key")
    }

    /// A lease of the session, granted by the write of this revision.
    fn record(ordered: bool) -> Record {
        let session_ref =
            SessionRef { session: SESSION, lock_delay_ms: None, behavior: Behavior::Release };
        let tenure = Tenure {
            grant_nonce: Nonce(1),
            owner: Owner::new("w").expect("an owner"),
            token: Token(3),
            ttl_ms: 10_000,
            acquired_at_ms: 0,
            session_ref: Some(Box::new(session_ref)),
        };
        let order = || Box::new(Revocation { reason: "r".into(), actor: "a".into() });
        Record {
            state: KeyState::Held,
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
        // The search finds the lease as it was before the revocation was durable.
        assert_eq!(kept.found(kept.misses(), &key("k"), Revision(3), &record(false), true), None);
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
        let before = kept.misses();
        // The end of the lease is among the missed changes.
        assert!(!kept.missed_changes());
        assert_eq!(kept.found(before, &key("k"), Revision(3), &record(false), true), None);
        kept.completed(before);
        kept.completed(kept.misses());
        assert_eq!((kept.indexing(), kept.holdings().count), (Indexing::Done, 0));
    }

    #[test]
    fn what_ended_during_a_search_is_not_brought_back_by_it() {
        let mut kept = adopted(&[]);
        kept.ended(&key("k"), Token(3), false);
        kept.found(kept.misses(), &key("k"), Revision(3), &record(true), false);
        assert_eq!((kept.holdings().count, kept.revoked()), (0, vec![]));
        // It was granted again: the feed reports that in order.
        assert_eq!(kept.granted(&key("k"), Token(9)), None);
        kept.completed(0);
        assert_eq!((kept.indexing(), kept.holdings().count), (Indexing::Done, 1));
    }

    /// A call is being served, and a lease of the session is being revoked.
    fn revoked_beside_a_call() -> Kept {
        let mut kept = Kept::new(true, BTreeMap::new());
        kept.call_begins();
        kept.granted(&key("k"), Token(3));
        assert!(!is_lost(&kept, 3));
        kept.announce_revoked(&key("k"), Token(3));
        assert!(is_lost(&kept, 3));
        kept
    }

    fn is_lost(kept: &Kept, token: u64) -> bool {
        kept.is_lost(Rules::default(), &key("k"), Token(token))
    }

    #[test]
    fn a_call_does_not_name_what_was_revoked_while_it_was_served() {
        let mut kept = revoked_beside_a_call();
        kept.call_begins();
        kept.ended(&key("k"), Token(3), false);
        kept.call_ends();
        assert!(is_lost(&kept, 3) && !is_lost(&kept, 4), "of this tenure alone");
        kept.call_ends();
        kept.call_begins();
        assert!(!is_lost(&kept, 3), "nothing is remembered after the calls");
    }

    #[test]
    fn a_call_does_not_name_what_was_revoked_in_a_gap_or_elsewhere() {
        let mut gap = revoked_beside_a_call();
        assert!(gap.missed_changes());
        gap.completed(gap.misses());
        assert!(gap.revoked().is_empty() && is_lost(&gap, 3));

        let mut granted_again = revoked_beside_a_call();
        assert!(granted_again.missed_changes());
        granted_again.granted(&key("k"), Token(9));
        granted_again.completed(granted_again.misses());
        assert!(is_lost(&granted_again, 3) && !is_lost(&granted_again, 9));

        let mut at_once = Kept::new(true, BTreeMap::new());
        at_once.call_begins();
        at_once.granted(&key("k"), Token(3));
        at_once.ended(&key("k"), Token(3), true);
        assert!(is_lost(&at_once, 3), "it was not announced");

        let mut elsewhere = revoked_beside_a_call();
        assert_eq!(elsewhere.left().len(), 1);
        assert!(is_lost(&elsewhere, 3));
    }

    #[test]
    fn what_is_remembered_for_calls_does_not_grow_with_the_leases() {
        let mut kept = revoked_beside_a_call();
        for job in 0..1000 {
            let key = key(&format!("jobs/{job}"));
            kept.granted(&key, Token(job + 4));
            kept.ended(&key, Token(job + 4), false);
        }
        assert!(kept.carried_out.is_empty());
    }

    #[test]
    fn what_is_late_of_an_earlier_tenure_leaves_the_order_against_the_next_one() {
        // The feed is behind: it has not reported the key's end and its next grant under the session.
        let mut kept = Kept::new(true, BTreeMap::new());
        kept.granted(&key("k"), Token(9));
        kept.announce_revoked(&key("k"), Token(11));
        kept.ended(&key("k"), Token(9), false);
        assert!(kept.is_revoked(&key("k"), Token(11)), "the heartbeats would keep it");
        kept.granted(&key("k"), Token(11));
        assert_eq!(kept.revoked(), [(key("k"), Token(11))]);
        kept.ended(&key("k"), Token(11), false);
        assert_eq!((kept.revoked(), kept.holdings().count), (vec![], 0));

        // A search reads the next tenure before the feed reports the end of the earlier one.
        let mut kept = adopted(&[]);
        let next = record(true);
        let tenure = next.tenure.clone().map(|tenure| Tenure { token: Token(11), ..tenure });
        kept.found(kept.misses(), &key("k"), Revision(11), &Record { tenure, ..next }, true);
        kept.ended(&key("k"), Token(9), false);
        assert_eq!(kept.revoked(), [(key("k"), Token(11))]);
        assert_eq!(kept.holdings().count, 1);
        kept.granted(&key("k"), Token(9));
        kept.ended(&key("k"), Token(9), false);
        assert_eq!((kept.revoked().len(), kept.holdings().count), (1, 1));
    }

    #[test]
    fn a_search_that_began_before_changes_were_missed_proves_nothing() {
        let mut kept = Kept::new(true, BTreeMap::new());
        kept.granted(&key("k"), Token(3));
        assert!(kept.missed_changes(), "a search must begin");
        assert!(!kept.missed_changes(), "a search that is due must not begin twice");
        kept.completed(1);
        assert_eq!(kept.indexing(), Indexing::Due);
        kept.completed(2);
        assert_eq!(
            (kept.indexing(), kept.holdings()),
            (Indexing::Done, Holdings { count: 0, digest: 0 })
        );
    }

    #[test]
    fn an_order_whose_author_is_gone_is_given_anew_and_a_request_runs_on() {
        let mut kept = adopted(&[]);
        let found = kept.found(kept.misses(), &key("k"), Revision(3), &record(true), false);
        assert_eq!(found, Some(KeptEffect::Reissue));
        assert!(kept.is_revoked(&key("k"), Token(3)));
        let anew = record(true).order_anew(Revision(3), SESSION).expect("an order");
        assert_eq!((anew.token, anew.immediately), (Some(Token(3)), false));
        assert_eq!(record(true).order_anew(Revision(3), Nonce(8)), None);
        assert_eq!(record(false).order_anew(Revision(3), SESSION), None);

        let ask = Handover { reason: "r".into(), actor: "a".into(), span_ms: 10 };
        let asked = Record { handover: Some(Box::new(ask.clone())), ..record(false) };
        let found = kept.found(kept.misses(), &key("l"), Revision(3), &asked, false);
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
        other.ended(&key("k"), Token(3), false);
        other.ended(&key("l"), Token(4), false);
        assert_eq!(other.holdings(), Holdings { count: 0, digest: 0 });
    }
}
