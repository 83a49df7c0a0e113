//! One principal: who it is, and what it may do.

use std::{fmt, sync::Arc};

use super::{
    broken::Broken,
    certificates::CertPattern,
    date::Date,
    limit::Limit,
    pattern::OwnerPattern,
    quoted::quoted,
    right::{Right, Scope},
    subject::Subject,
    token::TokenDigest,
    verb::Verb,
};
use crate::lease::{self, KeySet};

/// The longest name, in bytes of UTF-8. With something after it, it is still an owner's name.
pub const MAX_NAME_BYTES: usize = 128;

/// Somebody who calls: a program, a person, a group of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Its name. It is not a secret.
    pub name: Arc<str>,
    id: lease::Principal,
    may: [KeySet; Verb::ALL.len()],
    parts: Parts,
}

/// What the file says of a principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) tokens: Vec<TokenDigest>,
    pub(super) certificates: Vec<CertPattern>,
    pub(super) uids: Vec<u32>,
    pub(super) subjects: Vec<Subject>,
    pub(super) owners: Vec<OwnerPattern>,
    pub(super) rights: Vec<Right>,
    pub(super) limit: Limit,
    pub(super) expires: Option<Date>,
}

impl Principal {
    pub(super) fn new(name: &str, parts: Parts) -> Self {
        let may = Verb::ALL.map(|verb| {
            let scopes = || {
                let rights = parts.rights.iter().filter(move |right| right.verbs.contains(&verb));
                rights.map(|right| right.scope.as_ref())
            };
            let prefixes = scopes().filter_map(|scope| match scope {
                Some(Scope::Prefix(prefix)) => Some(&**prefix),
                Some(Scope::Key(key)) => Broken::KeyAsPrefix.is_active().then_some(&**key),
                None => Some(""),
            });
            let singles = scopes().filter_map(|scope| match scope {
                Some(Scope::Key(key)) => Some(&**key),
                _ => None,
            });
            KeySet::new(prefixes, singles)
        });
        Self { id: lease::Principal::new(name), name: name.into(), may, parts }
    }

    /// The principal, as leases know it.
    #[must_use]
    pub fn id(&self) -> &lease::Principal {
        &self.id
    }

    /// Whether it may do this to the key.
    #[must_use]
    pub fn may(&self, verb: Verb, key: &str) -> bool {
        let keys = self.keys(verb);
        keys.allows(key)
            || Broken::PrefixAnywhere.is_active() && keys.prefixes().any(|it| key.contains(it))
    }

    /// Whether it may do this to every key with the prefix.
    #[must_use]
    pub fn may_all_of(&self, verb: Verb, prefix: &str) -> bool {
        self.keys(verb).covers(prefix)
    }

    /// Whether it has any right with this verb.
    #[must_use]
    pub fn has(&self, verb: Verb) -> bool {
        !self.keys(verb).is_empty()
    }

    /// The keys to which it may do this. For a verb without keys: everything or nothing.
    #[must_use]
    pub fn keys(&self, verb: Verb) -> &KeySet {
        &self.may[verb as usize]
    }

    /// Whether it may call under this owner's name.
    #[must_use]
    pub fn acts_as(&self, owner: &str) -> bool {
        Broken::OwnerUnchecked.is_active()
            || self.owners().iter().any(|pattern| pattern.matches(owner))
    }

    /// The patterns of the owners under whose names it may call.
    #[must_use]
    pub fn owners(&self) -> &[OwnerPattern] {
        &self.parts.owners
    }

    /// How much it may use.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.parts.limit
    }

    /// Whether its last day is over, at a time in milliseconds since 1970.
    #[must_use]
    pub fn expired(&self, now_ms: u64) -> bool {
        self.parts.expires.is_some_and(|day| day.is_over(now_ms))
    }

    /// Its last day, UTC, if it has one.
    #[must_use]
    pub fn expires(&self) -> Option<Date> {
        self.parts.expires
    }

    /// The entries of `may`, in the order of the file.
    #[must_use]
    pub fn rights(&self) -> &[Right] {
        &self.parts.rights
    }

    /// The digests of its tokens.
    #[must_use]
    pub fn tokens(&self) -> &[TokenDigest] {
        &self.parts.tokens
    }

    /// The names in its certificates.
    #[must_use]
    pub fn certificates(&self) -> &[CertPattern] {
        &self.parts.certificates
    }

    /// The users whose processes it is, on the Unix socket.
    #[must_use]
    pub fn uids(&self) -> &[u32] {
        &self.parts.uids
    }

    /// The subjects of its JWTs.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.parts.subjects
    }
}

/// Its table, as a file has it.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |texts: Vec<String>| format!("[{}]", texts.join(", "));
        let Parts { tokens, certificates, uids, subjects, owners, rights, limit, expires } =
            &self.parts;
        writeln!(f, "[[principal]]\nname = {}", quoted(&self.name))?;
        if !tokens.is_empty() {
            let tokens = tokens.iter().map(|digest| quoted(&digest.to_string()));
            writeln!(f, "token = {}", list(tokens.collect()))?;
        }
        if !certificates.is_empty() {
            let names = certificates.iter().map(|pattern| quoted(&pattern.to_string()));
            writeln!(f, "cert = {}", list(names.collect()))?;
        }
        if !uids.is_empty() {
            writeln!(f, "uid = {uids:?}")?;
        }
        if !subjects.is_empty() {
            let subjects = subjects.iter().map(ToString::to_string);
            writeln!(f, "jwt = {}", list(subjects.collect()))?;
        }
        let owners = owners.iter().map(|owner| quoted(&owner.written));
        writeln!(f, "owner = {}", list(owners.collect()))?;
        writeln!(f, "may = [")?;
        rights.iter().try_for_each(|right| writeln!(f, "  {right},"))?;
        writeln!(f, "]")?;
        let set = limit
            .fields()
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| format!("{name} = {value}")));
        let set: Vec<String> = set.collect();
        if !set.is_empty() {
            writeln!(f, "limit = {{ {} }}", set.join(", "))?;
        }
        expires.iter().try_for_each(|day| writeln!(f, "expires = {day}"))
    }
}
