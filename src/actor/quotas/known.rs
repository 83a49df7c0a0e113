//! The accounts of all principals that have a limit.
//!
//! Guarantees: of the principals without a limit, nothing is kept. A change costs them one look at a map.
//!
//! Does not guarantee: that two nodes together give a principal no more than its limit. What another node granted counts
//! once the feed tells of it. While all records are read, after a start or when a limit is new, less may count than is
//! held.

use std::{
    hash::BuildHasher as _,
    sync::atomic::{AtomicU16, Ordering},
};

use arc_swap::ArcSwap;

use super::account::{Account, Mark};
use crate::{
    actor::runtime::watch,
    clock::{DashMap, HashMap, dash_map},
    lease::{
        Change, ChangeKind, Epoch, Key, KeyState, Owner, PrincipalDigest, Record, Revision, Rules,
        Token,
    },
    telemetry::LimitKind,
};

/// How many leases and sessions a principal may have; `None`: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub held: Option<u32>,
    pub sessions: Option<u32>,
}

/// A principal has as many as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverQuota {
    pub limit: LimitKind,
    pub most: u32,
}

/// A tenure that counts, as it was when somebody set out to end it.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    account: AccountId,
    mark: Mark,
    token: Token,
}

/// Which account: a principal's leases, or its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccountId {
    principal: PrincipalDigest,
    sessions: bool,
}

impl AccountId {
    /// The account in which this key counts.
    pub fn of(principal: PrincipalDigest, key: &str) -> Self {
        Self { principal, sessions: key.starts_with(Key::session_prefix()) }
    }

    /// The account of the principal's leases.
    pub fn of_leases(principal: PrincipalDigest) -> Self {
        Self { principal, sessions: false }
    }

    /// The limit of the account.
    pub fn limit(self) -> LimitKind {
        if self.sessions { LimitKind::Sessions } else { LimitKind::Held }
    }
}

/// What principals have, and may have.
pub struct Quotas {
    most: ArcSwap<HashMap<AccountId, u32>>,
    accounts: DashMap<AccountId, Account>,
    /// In which account each key counts, as the feed and the readings have it. The end of a key's tenure counts in that
    /// account, too, if it names another owner: a write from before the store went backwards may end the tenure of
    /// another principal.
    holders: DashMap<Mark, AccountId>,
    /// How often the accounts became incomplete. `read` has the value of this counter up to which all records were
    /// read.
    missed: watch::Sender<u32>,
    read: watch::Sender<u32>,
    /// The epoch of the store when changes were missed for the last time.
    epoch: AtomicU16,
    rules: Rules,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            most: ArcSwap::default(),
            accounts: dash_map(),
            holders: dash_map(),
            missed: watch::Sender::new(0),
            read: watch::Sender::new(0),
            epoch: AtomicU16::new(0),
            rules: Rules::default(),
        }
    }
}

impl Quotas {
    /// Nothing is known yet.
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Puts other limits into force. If some are new, what their principals have is read from the store.
    pub fn set(&self, quotas: impl IntoIterator<Item = (PrincipalDigest, Quota)>) {
        let most = quotas.into_iter().flat_map(|(principal, Quota { held, sessions })| {
            let of = |sessions| AccountId { principal, sessions };
            [held.map(|most| (of(false), most)), sessions.map(|most| (of(true), most))]
        });
        let most: HashMap<AccountId, u32> = most.flatten().collect();
        let before = self.most.swap(most.into());
        let now = self.most.load();
        self.accounts.retain(|account, _| now.contains_key(account));
        self.holders.retain(|_, account| now.contains_key(account));
        if now.keys().any(|account| !before.contains_key(account)) {
            self.miss();
        }
    }

    /// Some changes were missed. `epoch` is that of the store now.
    pub fn missed_changes(&self, epoch: Epoch) {
        self.epoch.store(epoch.0, Ordering::Release);
        if !self.most.load().is_empty() {
            self.miss();
        }
    }

    fn miss(&self) {
        self.missed.send_modify(|times| *times += 1);
    }

    /// Handles a change from the feed.
    pub fn heard(&self, key: &Key, change: &Change) {
        if self.most.load().is_empty() {
            return;
        }
        let account = |owner: &Owner| {
            owner.principal_digest().map(|principal| AccountId::of(principal, key.as_str()))
        };
        let mark = self.mark(key.as_str());
        if change.kind.ends_tenure() {
            let Some((owner, token)) = &change.previous else { return };
            let (named, holder) = (account(owner), self.holders.remove(&mark).map(|(_, id)| id));
            let other = holder.filter(|holder| Some(*holder) != named);
            for id in named.into_iter().chain(other) {
                self.with(id, |account, _, _| account.told_of_end(mark, *token));
            }
        } else if change.kind == ChangeKind::Granted {
            let (token, to) = (change.token, change.owner.as_ref().and_then(account));
            let before = change.previous.as_ref().and_then(|(owner, _)| account(owner));
            // Another principal has it now. If the one before offered it, the offer is over.
            if let Some(before) = before.filter(|before| Some(*before) != to) {
                self.with(before, |account, _, _| account.told_of_end(mark, token));
            }
            if let Some(to) = to {
                self.with(to, |account, _, reading| account.granted(mark, token, reading));
            }
            self.counts_for(mark, token, to);
        }
    }

    /// From now on the key counts in this account, or in none, and no longer in another one.
    fn counts_for(&self, mark: Mark, token: Token, to: Option<AccountId>) {
        let to = to.filter(|to| self.most.load().contains_key(to));
        let before = match to {
            Some(to) => self.holders.insert(mark, to),
            None => self.holders.remove(&mark).map(|(_, id)| id),
        };
        if let Some(before) = before.filter(|before| Some(*before) != to) {
            self.with(before, |account, _, _| account.told_of_end(mark, token));
        }
    }

    /// The tenure of the key that counts for the principal, before it is released.
    pub fn standing(&self, principal: Option<PrincipalDigest>, key: &str) -> Option<Standing> {
        if self.most.load().is_empty() {
            return None;
        }
        let (account, mark) = (AccountId::of(principal?, key), self.mark(key));
        let token = self.with(account, |account, _, _| account.held(mark))??;
        Some(Standing { account, mark, token })
    }

    /// The tenure was released at this node. The feed tells so a moment later.
    pub fn released(&self, standing: Option<Standing>) {
        if let Some(Standing { account, mark, token }) = standing {
            self.with(account, |account, _, _| account.ended(mark, token));
        }
    }

    /// The grant of a call that ends, if it counts. One of an epoch that is over does not: the store may have forgotten it.
    pub(super) fn counts(&self, granted: Option<Token>) -> Option<Token> {
        let epoch = Epoch(self.epoch.load(Ordering::Acquire));
        granted.filter(|token| !self.rules.a_tenure_outlived_its_epoch(*token, epoch))
    }

    /// What stands for a key. The hash has a secret key, so nobody can choose two keys that are taken for one.
    pub(super) fn mark(&self, key: &str) -> Mark {
        self.accounts.hasher().hash_one(key)
    }

    /// Looks at an account and its limit, in the present reading; `None` if it has no limit.
    pub(super) fn with<T>(
        &self,
        id: AccountId,
        look: impl FnOnce(&mut Account, u32, u32) -> T,
    ) -> Option<T> {
        let most = *self.most.load().get(&id)?;
        let reading = self.missed.get();
        Some(look(self.accounts.entry(id).or_default().value_mut(), most, reading))
    }

    /// For tests: how many leases, or sessions, a principal with a limit is known to hold.
    #[cfg(any(test, feature = "testing"))]
    pub fn held(&self, principal: PrincipalDigest, sessions: bool) -> usize {
        let id = AccountId { principal, sessions };
        self.with(id, |account, _, _| account.all_held()).unwrap_or_default()
    }

    /// Resolves when all records must be read.
    pub(super) async fn incomplete(&self) {
        let read = self.read.get();
        let _ = self.missed.subscribe().wait_for(|missed| *missed != read).await;
    }

    /// All records are read from now on. Returns the number of the reading.
    pub(super) fn begin(&self) -> u32 {
        let reading = self.missed.get();
        for id in self.most.load().keys() {
            self.with(*id, |account, _, _| account.reading());
        }
        reading
    }

    /// A record that was read. If changes were missed since this reading began, the store may have it no more, and it is read
    /// again.
    pub(super) fn found(&self, key: &Key, record: &Record, revision: Revision, reading: u32) {
        let Some(tenure) = record.tenure.as_ref().filter(|_| record.state == KeyState::Held) else {
            return;
        };
        let Some(principal) = tenure.owner.principal_digest() else { return };
        let (mark, token) = (self.mark(key.as_str()), record.token(revision));
        let id = AccountId::of(principal, key.as_str());
        let replaces = self.rules.a_reading_replaces_what_counted();
        let counts = self.with(id, |account, _, now| {
            if reading == now {
                account.found(mark, token, reading, replaces);
            }
            account.held(mark).is_some()
        });
        if counts == Some(true) {
            self.holders.insert(mark, id);
        }
    }

    /// All records were read.
    pub(super) fn complete(&self, reading: u32) {
        for id in self.most.load().keys() {
            self.with(*id, |account, _, _| account.read(reading));
        }
        let counts = |id, mark| self.with(id, |account, _, _| account.held(mark).is_some());
        self.holders.retain(|mark, id| counts(*id, *mark) == Some(true));
        self.read.send_replace(reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Nonce, Principal, Tenure};

    fn owner(principal: &str) -> Owner {
        Owner::new("w").expect("an owner").of(Some(Principal::new(principal)))
    }

    fn change(kind: ChangeKind, owner: &Owner, token: u64) -> Change {
        let is_grant = kind == ChangeKind::Granted;
        Change {
            kind,
            seq: 1,
            owner: is_grant.then(|| owner.clone()),
            token: Token(token),
            previous: (!is_grant).then(|| (owner.clone(), Token(token))),
            reason: None,
            actor: None,
            session: None,
        }
    }

    fn used(quotas: &Quotas, owner: &Owner, key: &str) -> Option<usize> {
        let account = AccountId::of(owner.principal_digest().expect("a principal"), key);
        quotas.with(account, |account, _, _| account.used())
    }

    #[test]
    fn what_the_feed_tells_counts_for_principals_with_a_limit_alone() {
        let quotas = Quotas::default();
        let (limited, free) = (owner("limited"), owner("free"));
        let quota = Quota { held: Some(2), sessions: Some(1) };
        let digest = |owner: &Owner| owner.principal_digest().expect("a principal");
        quotas.set([(digest(&limited), quota), (digest(&free), Quota::default())]);
        let key = |name: &str| Key::new(name).expect("a key");
        let session = Key::of_session(Nonce(7));
        let others = Key::of_session(Nonce(8));
        for (owner, [a, b, session]) in
            [(&limited, [&key("a"), &key("b"), &session]), (&free, [&key("c"), &key("d"), &others])]
        {
            quotas.heard(a, &change(ChangeKind::Granted, owner, 5));
            quotas.heard(b, &change(ChangeKind::Granted, owner, 6));
            quotas.heard(b, &change(ChangeKind::Pinned, owner, 6));
            quotas.heard(session, &change(ChangeKind::Granted, owner, 7));
        }
        assert_eq!(used(&quotas, &limited, "a"), Some(2));
        assert_eq!(used(&quotas, &limited, session.as_str()), Some(1));
        assert_eq!((used(&quotas, &free, "a"), quotas.accounts.len()), (None, 2));
        quotas.heard(&key("a"), &change(ChangeKind::Expired, &limited, 5));
        assert_eq!(used(&quotas, &limited, "a"), Some(1));
        let standing = quotas.standing(limited.principal_digest(), "b");
        quotas.released(standing);
        assert_eq!(used(&quotas, &limited, "a"), Some(0));
        assert!(quotas.standing(limited.principal_digest(), "b").is_none());
        quotas.set([]);
        assert_eq!((used(&quotas, &limited, "a"), quotas.accounts.len()), (None, 0));
    }

    #[test]
    fn a_release_that_is_told_late_ends_no_later_tenure() {
        let quotas = Quotas::default();
        let owner = owner("p");
        let digest = owner.principal_digest().expect("a principal");
        quotas.set([(digest, Quota { held: Some(2), sessions: None })]);
        let key = Key::new("k").expect("a key");
        quotas.heard(&key, &change(ChangeKind::Granted, &owner, 5));
        let standing = quotas.standing(Some(digest), "k");
        quotas.heard(&key, &change(ChangeKind::Released, &owner, 5));
        quotas.heard(&key, &change(ChangeKind::Granted, &owner, 9));
        quotas.released(standing);
        assert_eq!(used(&quotas, &owner, "k"), Some(1));
    }

    /// A write from before the store went backwards ended a tenure. The write names another owner, another tenure of the
    /// same owner, or an earlier token.
    #[test]
    fn an_end_ends_the_tenure_that_counts_whichever_it_names() {
        let (holder, other, next) = (owner("holder"), owner("other"), owner("next"));
        let key = Key::new("k").expect("a key");
        for limited in [&[&holder, &other][..], &[&holder]] {
            let quotas = Quotas::default();
            let digests = limited.iter().filter_map(|owner| owner.principal_digest());
            quotas.set(digests.map(|it| (it, Quota { held: Some(2), sessions: None })));
            for (kind, named, token) in [
                (ChangeKind::Released, &other, 7),
                (ChangeKind::Expired, &other, 3),
                (ChangeKind::Expired, &holder, 3),
                (ChangeKind::Granted, &next, 9),
                (ChangeKind::Granted, &next, 3),
            ] {
                quotas.heard(&key, &change(ChangeKind::Granted, &holder, 7));
                assert_eq!(used(&quotas, &holder, "k"), Some(1));
                let end = change(kind, named, token);
                quotas.heard(&key, &end);
                assert_eq!(used(&quotas, &holder, "k"), Some(0), "{end:?}");
            }
        }
    }

    /// What a call or a reading brings is from before the store went backwards, and it comes afterwards.
    #[test]
    fn what_was_read_or_granted_before_a_store_went_backwards_does_not_count() {
        let quotas = Quotas::default();
        let owner = owner("p");
        let digest = owner.principal_digest().expect("a principal");
        quotas.set([(digest, Quota { held: Some(2), sessions: None })]);
        let old = Token::of(Epoch(1), Revision(9));
        assert_eq!(quotas.counts(Some(old)), Some(old));
        let reading = quotas.begin();
        quotas.missed_changes(Epoch(2));
        assert_eq!(quotas.counts(Some(old)), None);
        let tenure = Tenure {
            grant_nonce: Nonce(1),
            owner: owner.clone(),
            token: old,
            ttl_ms: 10_000,
            acquired_at_ms: 0,
            session_ref: None,
        };
        let record = Record { state: KeyState::Held, tenure: Some(tenure), ..Record::absent() };
        let key = Key::new("k").expect("a key");
        quotas.found(&key, &record, Revision(9), reading);
        assert_eq!((used(&quotas, &owner, "k"), quotas.holders.len()), (Some(0), 0));
        quotas.found(&key, &record, Revision(9), quotas.begin());
        assert_eq!((used(&quotas, &owner, "k"), quotas.holders.len()), (Some(1), 1));
        quotas.missed_changes(Epoch(3));
        quotas.complete(quotas.begin());
        assert_eq!((used(&quotas, &owner, "k"), quotas.holders.len()), (Some(0), 0));
    }

    #[tokio::test]
    async fn a_new_limit_and_missed_changes_have_all_records_read() {
        let quotas = Quotas::default();
        let is_due = async || {
            let wait = std::time::Duration::from_millis(10);
            tokio::time::timeout(wait, quotas.incomplete()).await.is_ok()
        };
        quotas.missed_changes(Epoch(1));
        assert!(!is_due().await, "nobody has a limit");
        let digest = Principal::new("p").digest();
        let quota = |held| Quota { held: Some(held), sessions: None };
        quotas.set([(digest, quota(1))]);
        assert!(is_due().await);
        quotas.complete(quotas.begin());
        assert!(!is_due().await);
        quotas.set([(digest, quota(2))]);
        assert!(!is_due().await, "only the number is new");
        quotas.missed_changes(Epoch(1));
        assert!(is_due().await);
    }
}
