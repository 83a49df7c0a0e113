//! The revocation list: the principals and credentials that an administrator revoked, whatever the access file says. It is
//! the value of a record of the store, and all nodes follow it.
//!
//! Guarantees: an entry of a later version, which this version does not know, hides no other entry and is kept. A
//! value that cannot be read is never overwritten. An order that leaves no principal that could undo it is not carried out. A
//! node whose own list is not among the ancestors of the list that it reads continues with the entries of both. So a store
//! that lost its tail ends no revocation, whatever was ordered since.
//!
//! Does not guarantee: that nodes with different access files agree on who may still undo an order. The home node of the
//! list decides by its own file. A node that missed 64 orders in a row does not find its list among the ancestors.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    broken::Broken,
    certificates::CertificateNames,
    principals::Access,
    target::{AccessOrder, Credential, Target},
    token::TokenDigest,
};

/// The number of ancestors that a list names. A node that follows the store misses fewer orders in a row.
const ORDERS: usize = 64;

/// The ways in which callers may prove who they are, beside tokens and JWTs.
#[derive(Clone, Copy, Debug)]
pub struct Doors {
    /// Whether there is a Unix socket, which shows the user of a process.
    pub uids: bool,
    /// Whether client certificates are asked for.
    pub certificates: bool,
}

/// An entry of the list: a principal or a credential that is revoked. Of the first three fields, one is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Revocation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Box<str>>,
    /// The author of the order.
    pub by: Box<str>,
    /// The author's reason.
    pub reason: Box<str>,
    /// The time by the wall clock of the node that wrote it, in milliseconds since 1970.
    pub at_ms: u64,
    /// When it ends by itself, by the wall clock of each node, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// What a later version wrote. It is kept.
    #[serde(flatten)]
    pub unknown: BTreeMap<Box<str>, serde_json::Value>,
}

impl Revocation {
    fn new(target: &Target) -> Self {
        let mut made = Self::default();
        match target {
            Target::Principal(name) => made.principal = Some(name.clone()),
            Target::Token(digest) => made.token = Some(digest.to_string().into()),
            Target::Certificate(name) => made.certificate = Some(name.clone()),
        }
        made
    }

    fn is_of(&self, other: &Self) -> bool {
        let of = |one: &Self| [one.principal.clone(), one.token.clone(), one.certificate.clone()];
        of(self) == of(other)
    }

    /// Whether it ends with `other` or later.
    fn lasts_as_long_as(&self, other: &Self) -> bool {
        match (self.until_ms, other.until_ms) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => own >= others,
        }
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until| until <= now_ms)
    }
}

/// The revocation list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Revoked {
    /// How often the list was changed.
    pub changes: u64,
    /// The identities of the last orders, the latest last. Each is made from its order and the identity before it.
    pub orders: Vec<u32>,
    pub entries: Vec<Revocation>,
    /// What a later version wrote. It is kept.
    #[serde(flatten)]
    pub unknown: BTreeMap<Box<str>, serde_json::Value>,
}

/// The value of the record holds no list.
#[derive(Debug, thiserror::Error)]
#[error("the revocation list in the store cannot be read: {0}")]
pub struct UnreadableRevocations(#[from] serde_json::Error);

/// Why an order is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCarriedOut {
    /// What it revokes is revoked for as long or longer already, or what it ends does not stand.
    Known,
    /// No principal would be left that could undo it.
    LocksOut,
}

impl Revoked {
    /// The list that a value says; none without a value.
    ///
    /// # Errors
    /// The value is no list.
    pub fn of_value(value: Option<&str>) -> Result<Self, UnreadableRevocations> {
        Ok(value.map(serde_json::from_str).transpose()?.unwrap_or_default())
    }

    /// The value of the record.
    ///
    /// # Panics
    /// Never: all parts can be JSON.
    #[must_use]
    pub fn to_value(&self) -> String {
        serde_json::to_string(self).expect("it is JSON")
    }

    /// Whether a caller may no longer call: its principal or its credential is revoked.
    #[must_use]
    pub fn revokes(&self, principal: &str, shown: &Credential, now_ms: u64) -> bool {
        if self.entries.is_empty() || Broken::RevokedServed.is_active() {
            return false;
        }
        let bearer = match shown {
            Credential::Bearer(digest) => Some(digest.to_string()),
            _ => None,
        };
        self.entries.iter().filter(|entry| !entry.is_over(now_ms)).any(|entry| {
            entry.principal.as_deref() == Some(principal)
                || entry.token.is_some() && entry.token.as_deref() == bearer.as_deref()
                || entry.certificate.as_deref().is_some_and(|it| shown.is_certificate(it))
        })
    }

    /// This list, which was read from the store, after `known`: if orders did not lead from one to the other, the store
    /// lost some, and what was known still counts. The flag: it did.
    #[must_use]
    pub fn after(self, known: &Self) -> (Self, bool) {
        if known.leads_to(&self) || Broken::BackwardsListBelieved.is_active() {
            return (self, false);
        }
        let mut both = self;
        for entry in &known.entries {
            match both.entries.iter_mut().find(|other| other.is_of(entry)) {
                None => both.entries.push(entry.clone()),
                Some(other) if !other.lasts_as_long_as(entry) => *other = entry.clone(),
                Some(_) => {}
            }
        }
        both.changes = both.changes.max(known.changes);
        both.orders.retain(|order| !known.orders.contains(order));
        both.orders.extend(&known.orders);
        both.forget_early_orders();
        (both, true)
    }

    /// Whether orders, or none, lead from this list to `later`.
    #[must_use]
    pub fn leads_to(&self, later: &Self) -> bool {
        self.orders.last().is_none_or(|last| later.orders.contains(last))
    }

    fn forget_early_orders(&mut self) {
        let surplus = self.orders.len().saturating_sub(ORDERS);
        self.orders.drain(..surplus);
    }

    /// The identity of the next order, which begins or ends this entry.
    fn identity(&self, entry: &Revocation, revokes: bool) -> u32 {
        let before = self.orders.last().copied().unwrap_or_default();
        let entry = serde_json::to_vec(entry).expect("it is JSON");
        let digest =
            Sha256::new().chain_update(before.to_be_bytes()).chain_update([revokes.into()]);
        let digest: [u8; 32] = digest.chain_update(entry).finalize().into();
        digest.iter().take(4).fold(0, |identity, byte| identity << 8 | u32::from(*byte))
    }

    /// Carries out an order with these words, and leaves out the entries that are over. A principal of the file must be
    /// left that can undo the order.
    ///
    /// # Errors
    /// Nothing is changed, for this reason.
    pub fn carry_out(
        &mut self,
        order: &AccessOrder,
        words: Revocation,
        access: &Access,
        doors: Doors,
    ) -> Result<(), NotCarriedOut> {
        let now_ms = words.at_ms;
        let entry = Revocation::new(&order.target);
        let stands =
            self.entries.iter().find(|other| other.is_of(&entry) && !other.is_over(now_ms));
        let entry = Revocation {
            principal: entry.principal,
            token: entry.token,
            certificate: entry.certificate,
            ..words
        };
        match (stands, order.revokes) {
            (None, false) => return Err(NotCarriedOut::Known),
            // An order to revoke shortens nothing.
            (Some(stands), true) if stands.lasts_as_long_as(&entry) => {
                return Err(NotCarriedOut::Known);
            }
            _ => {}
        }
        let mut next = self.clone();
        next.entries.retain(|other| !other.is_of(&entry) && !other.is_over(now_ms));
        next.changes += 1;
        next.orders.push(self.identity(&entry, order.revokes));
        next.forget_early_orders();
        if order.revokes {
            next.entries.push(entry);
            if next.locks_out(access, doors, now_ms) && !Broken::LastOneRevoked.is_active() {
                return Err(NotCarriedOut::LocksOut);
            }
        }
        *self = next;
        Ok(())
    }

    /// Whether no principal of the file is left that may change this list. An entry that ends by itself counts as
    /// well: its time may be long.
    fn locks_out(&self, access: &Access, doors: Doors, now_ms: u64) -> bool {
        let is_left = |shown: &Credential, name: &str| !self.revokes(name, shown, now_ms);
        !access.principals().iter().any(|principal| {
            let name = &*principal.name;
            let by_tokens =
                principal.tokens().iter().any(|it| is_left(&Credential::Bearer(*it), name));
            // Which certificates and JWTs there are is not known. A name without a * is one certificate's.
            let by_names = doors.certificates
                && principal.certificates().iter().any(|pattern| {
                    let names = CertificateNames::of(pattern);
                    let digest = TokenDigest::of("");
                    is_left(&Credential::Certificate { names, digest }, name)
                });
            let has_uid = doors.uids && !principal.uids().is_empty();
            let by_others =
                (has_uid || !principal.subjects().is_empty()) && is_left(&Credential::Other, name);
            principal.has(super::Verb::Access)
                && !principal.expired(now_ms)
                && (by_tokens || by_names || by_others)
        })
    }
}
