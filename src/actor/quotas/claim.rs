//! Calls in progress that may be granted something. They count from before anything is written.
//!
//! Guarantees: at one node, a principal's calls are never granted more than its limit allows, together with what is known
//! of other nodes' grants. A grant counts from then on: until the feed tells of it, because this node does.

use std::{cell::Cell, sync::Arc};

use super::{
    account::{Account, Mark},
    known::{AccountId, OverQuota, Quotas},
};
use crate::lease::{Key, Owner, Token};

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

fn over(account: AccountId, most: u32) -> OverQuota {
    OverQuota { limit: account.limit(), most }
}

impl Claim {
    /// Begins a call for a key.
    ///
    /// # Errors
    /// The owner's principal has as many as it may, and this key would be one more.
    pub fn begin(quotas: &Arc<Quotas>, owner: &Owner, key: &Key) -> Result<Self, OverQuota> {
        let Some(principal) = owner.principal_digest() else { return Ok(Self(None)) };
        let account = AccountId::of(principal, key.as_str());
        let mark = quotas.mark(key.as_str());
        let begin = |known: &mut Account, most: u32, _: u32| (known.begin(mark, size(most)), most);
        match quotas.with(account, begin) {
            None => Ok(Self(None)),
            Some((false, most)) => Err(over(account, most)),
            Some((true, _)) => Ok(Self(Some(Begun { quotas: quotas.clone(), account, mark }))),
        }
    }

    /// The call ends, with this grant if it has one.
    pub fn end(mut self, granted: Option<Token>) {
        if let Some(begun) = self.0.take() {
            begun.end(granted);
        }
    }
}

impl Begun {
    fn end(self, granted: Option<Token>) {
        let Self { quotas, account, mark } = self;
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

impl Places {
    /// Takes up to `wanted` places for leases of an owner.
    ///
    /// # Errors
    /// The owner's principal has as many as it may.
    pub fn take(quotas: &Arc<Quotas>, owner: &Owner, wanted: usize) -> Result<Self, OverQuota> {
        let Some(principal) = owner.principal_digest() else { return Ok(Self(None)) };
        let account = AccountId::of_leases(principal);
        let take = |known: &mut Account, most: u32, _: u32| (known.take(wanted, size(most)), most);
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
    use crate::{actor::quotas::Quota, lease::Principal, telemetry::LimitKind};

    fn quotas(held: u32) -> (Arc<Quotas>, Owner) {
        let (quotas, principal) = (Arc::new(Quotas::default()), Principal::new("p"));
        quotas.set([(principal.digest(), Quota { held: Some(held), sessions: Some(1) })]);
        (quotas, Owner::new("w").expect("an owner").of(Some(principal)))
    }

    fn key(name: &str) -> Key {
        Key::new(name).expect("a key")
    }

    #[test]
    fn a_call_counts_until_it_ends_and_its_grant_from_then_on() {
        let (quotas, owner) = quotas(1);
        let begin = |name: &str| Claim::begin(&quotas, &owner, &key(name));
        let over = OverQuota { limit: LimitKind::Held, most: 1 };
        let first = begin("a").expect("the first");
        assert_eq!(begin("b").err(), Some(over));
        drop(first);
        begin("b").expect("the first has ended").end(Some(Token(4)));
        assert_eq!(begin("a").err(), Some(over));
        assert!(begin("b").is_ok(), "it has that one");
        quotas.released(quotas.standing(owner.principal_digest(), "b"));
        assert!(begin("a").is_ok());
        let session = |digest| Key::of_session(crate::lease::Nonce(digest));
        let session_one = Claim::begin(&quotas, &owner, &session(1)).expect("a session");
        let refused = Claim::begin(&quotas, &owner, &session(2)).err();
        assert_eq!(refused, Some(OverQuota { limit: LimitKind::Sessions, most: 1 }));
        session_one.end(None);
        let nobody = Owner::new("w").expect("an owner");
        assert!(Claim::begin(&quotas, &nobody, &key("z")).is_ok());
    }

    #[test]
    fn a_call_for_several_keys_takes_what_is_left() {
        let (quotas, owner) = quotas(3);
        let take = |wanted| Places::take(&quotas, &owner, wanted);
        Claim::begin(&quotas, &owner, &key("a")).expect("a place").end(Some(Token(4)));
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
