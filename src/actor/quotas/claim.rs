//! Calls in progress that may be granted something. They count from before anything is written.
//!
//! Guarantees: at one node, a principal's calls are never granted more than its limit allows, together with what is known
//! of other nodes' grants. A grant counts from then on: until the feed tells of it, because this node does.

use std::{cell::Cell, sync::Arc};

use super::{
    account::{Account, Mark},
    known::{AccountId, OverQuota, Quotas},
};
use crate::lease::{Key, Moment, Owner, PrincipalDigest, Token};

/// A call in progress for one key. Its drop ends the call.
pub struct Claim(Option<Begun>);

struct Begun {
    quotas: Arc<Quotas>,
    account: AccountId,
    mark: Mark,
}

/// What a call in progress may take of several keys. Its drop gives back what was not taken.
pub struct Places(Option<Taken>);

struct Taken {
    quotas: Arc<Quotas>,
    account: AccountId,
    left: Cell<usize>,
}

/// A key that a call chose for one of its places. Its drop returns the place.
pub struct Choice<'a>(Option<(&'a Taken, Mark)>);

/// Keys that a call with a place waits for. Its drop ends the wait.
pub struct Waits<'a>(Option<(&'a Taken, Vec<Mark>)>);

fn over(account: AccountId, most: u32) -> OverQuota {
    OverQuota { limit: account.limit(), most }
}

impl Claim {
    /// Begins a call for a key.
    ///
    /// # Errors
    /// The principal has as many as it may, and this key would be one more.
    pub fn begin(
        quotas: &Arc<Quotas>,
        principal: Option<PrincipalDigest>,
        key: &str,
        now: Moment,
    ) -> Result<Self, OverQuota> {
        let begin = |known: &mut Account, mark, most| known.begin(mark, most, now);
        Self::within(quotas, principal, key, begin)
    }

    /// Begins the call of a holder that hands its key over. No limit refuses it.
    pub fn of_holder(quotas: &Arc<Quotas>, principal: Option<PrincipalDigest>, key: &str) -> Self {
        let begin = |known: &mut Account, mark, _: usize| {
            known.enter(mark);
            true
        };
        Self::within(quotas, principal, key, begin).unwrap_or(Self(None))
    }

    fn within(
        quotas: &Arc<Quotas>,
        principal: Option<PrincipalDigest>,
        key: &str,
        begin: impl FnOnce(&mut Account, Mark, usize) -> bool,
    ) -> Result<Self, OverQuota> {
        let Some(principal) = principal else { return Ok(Self(None)) };
        let account = AccountId::of(principal, key);
        let begin = |known: &mut Account, most: u32, _: u32| {
            let mark = quotas.mark(key);
            (begin(known, mark, size(most)), mark, most)
        };
        match quotas.with(account, begin) {
            None => Ok(Self(None)),
            Some((false, _, most)) => Err(over(account, most)),
            Some((true, mark, _)) => {
                Ok(Self(Some(Begun { quotas: quotas.clone(), account, mark })))
            }
        }
    }

    /// The call ends, with this grant if it has one.
    pub fn end(mut self, granted: Option<Token>) {
        if let Some(begun) = self.0.take() {
            begun.end(granted);
        }
    }

    /// The call ended this tenure, and offers the key until the offer is over.
    pub fn end_with_offer(self, token: Token, over: Moment) {
        if let Some(Begun { quotas, account, mark }) = &self.0 {
            quotas.with(*account, |known, _, _| known.offered(*mark, token, over));
        }
    }
}

impl Begun {
    fn end(self, granted: Option<Token>) {
        let Self { quotas, account, mark } = self;
        let granted = quotas.counts(granted);
        quotas.with(account, |known, _, reading| known.finish(mark, granted, reading));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(begun) = self.0.take() {
            begun.end(None);
        }
    }
}

/// Looks whether an owner may have so many keys of each of these groups, and takes nothing.
///
/// # Errors
/// The owner's principal would have more than it may.
pub fn check_room<'a>(
    quotas: &Quotas,
    owner: &Owner,
    groups: impl Iterator<Item = (Vec<&'a Key>, usize)>,
    now: Moment,
) -> Result<(), OverQuota> {
    let Some(principal) = owner.principal_digest() else { return Ok(()) };
    let account = AccountId::of_leases(principal);
    let marked = |(keys, count): (Vec<&Key>, usize)| {
        (keys.into_iter().map(|key| quotas.mark(key.as_str())).collect(), count)
    };
    let has_room = |known: &mut Account, most: u32, _: u32| {
        let groups: Vec<(Vec<Mark>, usize)> = groups.map(marked).collect();
        (known.has_room(&groups, size(most), now), most)
    };
    match quotas.with(account, has_room) {
        Some((false, most)) => Err(over(account, most)),
        _ => Ok(()),
    }
}

impl Places {
    /// Takes up to `wanted` places for leases of an owner.
    ///
    /// # Errors
    /// The owner's principal has as many as it may.
    pub fn take(
        quotas: &Arc<Quotas>,
        owner: &Owner,
        wanted: usize,
        now: Moment,
    ) -> Result<Self, OverQuota> {
        let Some(principal) = owner.principal_digest() else { return Ok(Self(None)) };
        let account = AccountId::of_leases(principal);
        let take =
            |known: &mut Account, most: u32, _: u32| (known.take(wanted, size(most), now), most);
        match quotas.with(account, take) {
            None => Ok(Self(None)),
            Some((0, most)) => Err(over(account, most)),
            Some((left, _)) => {
                let left = Cell::new(left);
                Ok(Self(Some(Taken { quotas: quotas.clone(), account, left })))
            }
        }
    }

    /// How many of `wanted` leases the call may take.
    pub fn of(&self, wanted: usize) -> usize {
        self.0.as_ref().map_or(wanted, |taken| wanted.min(taken.left.get()))
    }

    /// Chooses a key for one of the places.
    pub fn choose(&self, key: &Key) -> Choice<'_> {
        let Some(taken) = &self.0 else { return Choice(None) };
        let mark = taken.quotas.mark(key.as_str());
        taken.left.set(taken.left.get().saturating_sub(1));
        taken.quotas.with(taken.account, |known, _, _| known.choose(mark));
        Choice(Some((taken, mark)))
    }

    /// The call waits for these keys from before it can be granted one of them. It chooses that key before the returned
    /// value is dropped.
    pub fn wait_for(&self, keys: &[Key]) -> Waits<'_> {
        let Some(taken) = &self.0 else { return Waits(None) };
        let marks: Vec<Mark> = keys.iter().map(|key| taken.quotas.mark(key.as_str())).collect();
        let wait =
            |known: &mut Account, _: u32, _: u32| marks.iter().for_each(|mark| known.wait(*mark));
        taken.quotas.with(taken.account, wait);
        Waits(Some((taken, marks)))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some((taken, marks)) = self.0.take() {
            let leave = |known: &mut Account, _: u32, _: u32| {
                marks.iter().for_each(|mark| known.leave(*mark));
            };
            taken.quotas.with(taken.account, leave);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if let Some(Taken { quotas, account, left }) = self.0.take() {
            quotas.with(account, |known, _, _| known.give_back(left.get()));
        }
    }
}

impl Choice<'_> {
    /// The key is granted under this token, or it is not granted and its place is free again.
    pub fn end(mut self, granted: Option<Token>) {
        if granted.is_none() {
            return;
        }
        if let Some((taken, mark)) = self.0.take() {
            let granted = taken.quotas.counts(granted);
            let finish =
                |known: &mut Account, _: u32, reading: u32| known.finish(mark, granted, reading);
            taken.quotas.with(taken.account, finish);
        }
    }
}

impl Drop for Choice<'_> {
    fn drop(&mut self) {
        if let Some((taken, mark)) = self.0.take() {
            taken.left.set(taken.left.get() + 1);
            taken.quotas.with(taken.account, |known, _, _| known.choose_anew(mark));
        }
    }
}

/// A limit as a number of keys.
fn size(most: u32) -> usize {
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        actor::quotas::Quota,
        lease::{Change, ChangeKind, Principal},
        telemetry::LimitKind,
    };

    const NOW: Moment = Moment(50);

    fn quotas(held: u32) -> (Arc<Quotas>, Owner) {
        let (quotas, principal) = (Arc::new(Quotas::default()), Principal::new("p"));
        quotas.set([(principal.digest(), Quota { held: Some(held), sessions: Some(1) })]);
        (quotas, Owner::new("w").expect("an owner").of(Some(principal)))
    }

    fn key(name: &str) -> Key {
        Key::new(name).expect("a key")
    }

    #[test]
    fn a_grant_to_a_waiting_call_does_not_count_if_the_feed_told_of_its_end_before() {
        let (quotas, owner) = quotas(1);
        let change = |kind: ChangeKind| {
            let is_grant = kind == ChangeKind::Granted;
            Change {
                kind,
                seq: 1,
                owner: is_grant.then(|| owner.clone()),
                token: Token(4),
                previous: (!is_grant).then(|| (owner.clone(), Token(4))),
                reason: None,
                actor: None,
                session: None,
            }
        };
        let places = Places::take(&quotas, &owner, 1, NOW).expect("a place");
        let keys = [key("a"), key("b")];
        let waits = places.wait_for(&keys);
        quotas.heard(&keys[0], &change(ChangeKind::Granted));
        quotas.heard(&keys[0], &change(ChangeKind::Revoked));
        places.choose(&keys[0]).end(Some(Token(4)));
        drop(waits);
        drop(places);
        assert!(Places::take(&quotas, &owner, 1, NOW).is_ok());
    }

    #[test]
    fn a_call_counts_until_it_ends_and_its_grant_from_then_on() {
        let (quotas, owner) = quotas(1);
        let principal = owner.principal_digest();
        let begin = |name: &str| Claim::begin(&quotas, principal, name, NOW);
        let over = OverQuota { limit: LimitKind::Held, most: 1 };
        let first = begin("a").expect("the first");
        assert_eq!(begin("b").err(), Some(over));
        drop(first);
        begin("b").expect("the first has ended").end(Some(Token(4)));
        assert_eq!(begin("a").err(), Some(over));
        assert!(begin("b").is_ok(), "it has that one");
        quotas.released(quotas.standing(owner.principal_digest(), "b"));
        assert!(begin("a").is_ok());
        let session = |digest| {
            let key = Key::of_session(crate::lease::Nonce(digest));
            Claim::begin(&quotas, principal, key.as_str(), NOW)
        };
        let session_one = session(1).expect("a session");
        let refused = session(2).err();
        assert_eq!(refused, Some(OverQuota { limit: LimitKind::Sessions, most: 1 }));
        session_one.end(None);
        assert!(Claim::begin(&quotas, None, "z", NOW).is_ok());
    }

    #[test]
    fn an_offer_counts_until_another_principal_is_granted_the_key() {
        let (quotas, owner) = quotas(1);
        let principal = owner.principal_digest();
        let begin = |name: &str| Claim::begin(&quotas, principal, name, NOW);
        let change = |kind, owner: Option<&Owner>, token: u64, before: &Owner| Change {
            kind,
            seq: 1,
            owner: owner.cloned(),
            token: Token(token),
            previous: Some((before.clone(), Token(4))),
            reason: None,
            actor: None,
            session: None,
        };
        begin("a").expect("a place").end(Some(Token(4)));
        // No limit refuses a holder's call, and one that offers nothing leaves nothing.
        drop(Claim::of_holder(&quotas, principal, "b"));
        Claim::of_holder(&quotas, principal, "a").end_with_offer(Token(4), Moment::NEVER);
        quotas.heard(&key("a"), &change(ChangeKind::Transferred, None, 4, &owner));
        assert!(begin("b").is_err() && begin("a").is_ok());
        let other = Owner::new("v").expect("an owner");
        quotas.heard(&key("a"), &change(ChangeKind::Granted, Some(&other), 9, &owner));
        assert!(begin("b").is_ok());
    }

    #[test]
    fn a_call_for_several_keys_takes_what_is_left() {
        let (quotas, owner) = quotas(3);
        let take = |wanted| Places::take(&quotas, &owner, wanted, NOW);
        let first = Claim::begin(&quotas, owner.principal_digest(), "a", NOW);
        first.expect("a place").end(Some(Token(4)));
        let places = take(10).expect("what is left");
        assert_eq!((places.of(10), take(1).is_err()), (2, true));
        places.choose(&key("b")).end(None);
        assert_eq!(places.of(10), 2);
        places.choose(&key("b")).end(Some(Token(5)));
        assert_eq!((places.of(10), take(1).is_err()), (1, true));
        drop(places);
        assert_eq!(take(10).map(|places| places.of(10)).ok(), Some(1));
    }
}
