//! The principals and credentials that an administrator revoked, whatever the access file says. All nodes follow it: it is the
//! value of a record of the store.
//!
//! Guarantees: an entry that a later version wrote, and that this one does not know, hides no other entry and is kept. A
//! value that cannot be read is never overwritten. An order that leaves no principal that could undo it is not carried out. A
//! node that reads a list to which its own did not lead goes on with the entries of both: a store that lost its tail ends no
//! revocation, whatever was ordered since.
//!
//! Does not guarantee: that nodes with different files agree on who is left. The home node of the list decides by its own
//! file. A node that missed 64 orders in a row takes the list for one of another past.

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

/// How many orders a list remembers. A node that knows an earlier list reads at least one of so many later ones.
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
    /// It stands already, or ends what does not stand.
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
            if !both.entries.iter().any(|other| other.is_of(entry)) {
                both.entries.push(entry.clone());
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
            (Some(stands), true) if stands.until_ms == entry.until_ms => {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(principals: &[(&str, &str)]) -> Access {
        let table = |(name, more): &(&str, &str)| {
            format!(
                "[[principal]]\nname = \"{name}\"\n{more}\nmay = [{{ verb = [\"access\", \"observe\"] }}]\n"
            )
        };
        let content: Vec<String> = principals.iter().map(table).collect();
        Access::parse(Path::new("f"), &content.concat(), 0).expect("a file")
    }

    const ALL: Doors = Doors { uids: true, certificates: true };

    fn token(token: &str) -> String {
        format!("token = \"{}\"", TokenDigest::of(token))
    }

    fn bearer(token: &str) -> Credential {
        Credential::Bearer(TokenDigest::of(token))
    }

    fn words(at_ms: u64, until_ms: Option<u64>) -> Revocation {
        Revocation {
            by: "admin".into(),
            reason: "leaked".into(),
            at_ms,
            until_ms,
            ..Revocation::default()
        }
    }

    fn order(target: Target, revokes: bool) -> AccessOrder {
        AccessOrder { target, revokes }
    }

    #[test]
    fn who_is_revoked_is_so_until_that_ends_and_others_are_not() {
        let access = file(&[("admin", &token("a")), ("leaver", &token("l"))]);
        let leaver = || Target::Principal("leaver".into());
        let mut list = Revoked::default();
        list.carry_out(&order(leaver(), true), words(100, None), &access, ALL)
            .expect("another is left");
        for shown in [bearer("l"), bearer("any"), Credential::Other] {
            assert!(list.revokes("leaver", &shown, 100), "{shown:?}");
            assert!(!list.revokes("admin", &shown, 100), "{shown:?}");
            assert!(!list.revokes("leaver2", &shown, 100), "{shown:?}");
        }
        let again = list.carry_out(&order(leaver(), true), words(200, None), &access, ALL);
        assert_eq!((again, list.changes), (Err(NotCarriedOut::Known), 1));
        list.carry_out(&order(leaver(), true), words(200, Some(30_000)), &access, ALL)
            .expect("another end");
        assert!(
            list.revokes("leaver", &bearer("l"), 29_999)
                && !list.revokes("leaver", &bearer("l"), 30_000)
        );
        let end = list.carry_out(&order(leaver(), false), words(30_000, None), &access, ALL);
        assert_eq!(end, Err(NotCarriedOut::Known), "it is over");
        list.carry_out(&order(leaver(), true), words(40_000, None), &access, ALL).expect("again");
        assert_eq!(list.entries.len(), 1, "what is over is left out");
        list.carry_out(&order(leaver(), false), words(50_000, None), &access, ALL)
            .expect("it ends");
        assert!(!list.revokes("leaver", &bearer("l"), 50_000) && list.entries.is_empty());
        assert_eq!(list.changes, 4);
    }

    #[test]
    fn a_token_or_a_certificate_alone_is_revoked_too() {
        let access = file(&[("admin", &token("a"))]);
        let mut list = Revoked::default();
        let certificate = |name: &str| Target::certificate(name).expect("a name");
        let digest = TokenDigest::of("der");
        let targets = [
            Target::Token(TokenDigest::of("leaked")),
            certificate("Worker.Example"),
            certificate(&digest.to_string()),
            certificate("spiffe://prod/ns/x"),
        ];
        for target in targets {
            list.carry_out(&order(target, true), words(1, None), &access, ALL)
                .expect("carried out");
        }
        let shown = |names: &[&str], der: &str| {
            let all = names.iter().map(|name| (*name).to_owned());
            let (uris, dns) = all.partition(|name: &String| name.contains(':'));
            let names = CertificateNames { uris, dns };
            Credential::Certificate { names, digest: TokenDigest::of(der) }
        };
        assert!(list.revokes("p", &bearer("leaked"), 2) && !list.revokes("p", &bearer("other"), 2));
        assert!(list.revokes("p", &shown(&["a", "worker.example"], "x"), 2));
        assert!(list.revokes("p", &shown(&["spiffe://prod/ns/x"], "x"), 2));
        assert!(list.revokes("p", &shown(&[], "der"), 2));
        assert!(!list.revokes("p", &shown(&["spiffe://prod/ns/xy", "b"], "x"), 2));
        assert!(!list.revokes("p", &Credential::Other, 2));
        for odd in [
            "",
            "*.example",
            "sha256:12",
            "a\nb",
            "a\u{200b}b",
            "CN=client",
            " worker.example",
            "worker.example.",
            "192.168.0.1",
        ] {
            assert!(Target::certificate(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_principal_is_left_that_can_undo_it() {
        let access = file(&[("one", &token("1")), ("two", &token("2"))]);
        let mut list = Revoked::default();
        let named = |name: &str| order(Target::Principal(name.into()), true);
        list.carry_out(&named("one"), words(1, None), &access, ALL).expect("two is left");
        for last in [named("two"), order(Target::Token(TokenDigest::of("2")), true)] {
            let refused = list.carry_out(&last, words(2, Some(9)), &access, ALL);
            assert_eq!((refused, list.changes), (Err(NotCarriedOut::LocksOut), 1));
        }
        let others = file(&[("one", &token("1")), ("two", &token("2")), ("three", "uid = [7]")]);
        list.carry_out(&named("two"), words(2, None), &others, ALL).expect("three is left");
        let last = list.carry_out(&named("three"), words(3, None), &others, ALL);
        assert_eq!(last, Err(NotCarriedOut::LocksOut));
        // A way in that is not open leaves nobody.
        let with = file(&[
            ("one", &token("1")),
            ("two", "uid = [7]"),
            ("three", "cert = \"spiffe://prod/admin\""),
        ]);
        for (uids, certificates) in [(false, false), (true, false), (false, true)] {
            let mut list = Revoked::default();
            let doors = Doors { uids, certificates };
            let first = list.carry_out(&named("one"), words(1, None), &with, doors);
            assert_eq!(first.is_ok(), uids || certificates, "{doors:?}");
        }
    }

    #[test]
    fn a_store_that_lost_its_tail_ends_no_revocation() {
        let access = file(&[("admin", &token("a"))]);
        let mut list = Revoked::default();
        let named = |name: &str, revokes| order(Target::Principal(name.into()), revokes);
        list.carry_out(&named("x", true), words(1, None), &access, ALL).expect("carried out");
        let lost_its_tail = list.clone();
        list.carry_out(&named("y", true), words(2, None), &access, ALL).expect("carried out");
        for store in [lost_its_tail, Revoked::default()] {
            let (mut now, went_back) = store.after(&list);
            assert!(went_back && now.revokes("x", &Credential::Other, 3));
            assert!(now.revokes("y", &Credential::Other, 3));
            // The next order writes all of it.
            now.carry_out(&named("x", false), words(3, None), &access, ALL).expect("carried out");
            assert_eq!(now.clone().after(&list), (now.clone(), false));
            assert!(
                now.revokes("y", &Credential::Other, 4) && !now.revokes("x", &Credential::Other, 4)
            );
        }
    }

    #[test]
    fn as_many_new_orders_as_were_lost_end_no_revocation() {
        let access = file(&[("admin", &token("a"))]);
        let mut known = Revoked::default();
        let named = |name: &str, revokes| order(Target::Principal(name.into()), revokes);
        known.carry_out(&named("x", true), words(1, None), &access, ALL).expect("carried out");
        let lost_its_tail = known.clone();
        known.carry_out(&named("y", true), words(2, None), &access, ALL).expect("carried out");
        for new in [1, 2, 100] {
            let mut store = lost_its_tail.clone();
            for at in 0..new {
                let name = format!("z{at}");
                store.carry_out(&named(&name, true), words(3, None), &access, ALL).expect("new");
            }
            let (both, went_back) = store.clone().after(&known);
            assert!(went_back && both.changes >= known.changes.max(store.changes), "{new}");
            for name in ["x", "y", "z0"] {
                assert!(both.revokes(name, &Credential::Other, 4), "{new}: {name}");
            }
            // A second look at the same list says the same, and the next order stores all of it.
            assert_eq!(store.after(&both), (both.clone(), true), "{new}");
            let mut next = both.clone();
            next.carry_out(&named("y", false), words(5, None), &access, ALL).expect("carried out");
            for before in [&both, &known] {
                assert_eq!(next.clone().after(before), (next.clone(), false), "{new}");
            }
        }
        // A node that follows each order takes the list as it is, however long it follows.
        let mut list = Revoked::default();
        for at in 0..2 * ORDERS as u64 {
            let before = list.clone();
            let next = named("x", at % 2 == 0);
            list.carry_out(&next, words(at, None), &access, ALL).expect("carried out");
            assert_eq!(list.clone().after(&before), (list.clone(), false), "{at}");
        }
        assert_eq!(list.orders.len(), ORDERS);
    }

    #[test]
    fn what_a_later_version_wrote_is_kept_and_hides_nothing() {
        let value = r#"{"changes":3,"entries":[{"subject":"s","by":"b"},{"principal":"x","by":"b","reason":"r","at_ms":1,"more":true}],"later":7}"#;
        let list = Revoked::of_value(Some(value)).expect("a list");
        assert!(list.revokes("x", &Credential::Other, 5));
        let again = list.to_value();
        assert!(again.contains("\"later\":7") && again.contains("\"subject\":\"s\""), "{again}");
        assert!(again.contains("\"more\":true"), "{again}");
        assert_eq!(Revoked::of_value(Some(&again)).expect("a list"), list);
        assert!(Revoked::of_value(Some("[]")).is_err() && Revoked::of_value(None).is_ok());
    }
}
