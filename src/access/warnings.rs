//! Warnings: parts of a file that are valid, and may not be as their author meant them.

use super::{
    certificates::CertPattern, principal::Principal, principals::Access, right::Scope, verb::Verb,
};
use crate::lease::check_seen;

/// How long before a principal ends it is warned of, in days.
const SOON_DAYS: u64 = 14;

/// The principals that have ended, and those that soon do.
pub(super) fn of_time(access: &Access, now_ms: u64) -> Vec<String> {
    let of = |principal: &Principal| {
        let day = principal.expires()?;
        let name = &principal.name;
        match day.days_left(now_ms) {
            _ if day.is_over(now_ms) => {
                Some(format!("principal {name:?} expired: {day} was its last day"))
            }
            0 => Some(format!("principal {name:?} expires at the end of this day, {day} UTC")),
            days if days <= SOON_DAYS => {
                Some(format!("principal {name:?} expires in {days} d, after {day}"))
            }
            _ => None,
        }
    };
    access.principals().iter().filter_map(|principal| of(principal)).collect()
}

/// The patterns and prefixes that end within a word. They also match longer words, which their author may not have meant:
/// `deploy` matches `deployment/1`.
pub(super) fn loose(access: &Access) -> Vec<String> {
    access.principals().iter().flat_map(|principal| loose_of(principal)).collect()
}

fn loose_of(principal: &Principal) -> Vec<String> {
    let name = &principal.name;
    let ends_within = |text: &str| text.ends_with(char::is_alphanumeric);
    let mut found = Vec::new();
    let mut warn = |field: &str, text: &str| {
        found.push(format!(
            "principal {name:?}: {field} {:?} ends within a word, so it is also for {:?}: end it with a separator, such as \
             {:?}",
            format!("{text}*"),
            format!("{text}x"),
            format!("{text}/*"),
        ));
    };
    for owner in principal.owners().iter().map(|owner| &owner.pattern) {
        if owner.open && ends_within(&owner.text) {
            warn("owner", &owner.text);
        }
    }
    for pattern in principal.certificates() {
        if let CertPattern::Uri(uri) = pattern
            && uri.open
            && ends_within(&uri.text)
        {
            warn("cert", &uri.text);
        }
    }
    for sub in principal.subjects().iter().map(|subject| &subject.sub) {
        if sub.open && ends_within(&sub.text) {
            warn("jwt.sub", &sub.text);
        }
    }
    for right in principal.rights() {
        if let Some(Scope::Prefix(prefix)) = &right.scope
            && ends_within(prefix)
        {
            let (more, ended) = (format!("{prefix}x"), format!("{prefix}/"));
            found.push(format!(
                "principal {name:?}: prefix {prefix:?} (line {}) ends within a word, so it is also for the key {more:?}: end \
                 it with a separator, such as {ended:?}, or write key = {prefix:?} for that key alone",
                right.line
            ));
        }
    }
    found
}

impl Access {
    /// All warnings: [`Self::warnings`], rights that another right contains, names with characters that are not seen, and
    /// principals that could take each other's leases.
    #[must_use]
    pub fn review(&self) -> Vec<String> {
        let mut found = self.warnings.clone();
        found.extend(self.principals().iter().flat_map(|principal| redundant(principal)));
        found.extend(self.principals().iter().flat_map(|principal| unseen(principal)));
        found.extend(self.overlapping());
        found
    }

    /// Principals that may hold common keys under common owners' names.
    fn overlapping(&self) -> Vec<String> {
        let all = self.principals();
        let pairs = all
            .iter()
            .enumerate()
            .flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (&**one, &**other)));
        pairs.filter_map(|(one, other)| overlap(one, other)).collect()
    }
}

fn overlap(one: &Principal, other: &Principal) -> Option<String> {
    if !one.keys(Verb::Hold).meets(other.keys(Verb::Hold)) {
        return None;
    }
    let patterns = one.owners().iter().find_map(|own| {
        let theirs = other.owners().iter().find(|theirs| own.overlaps(theirs))?;
        Some((own, theirs))
    });
    let (own, theirs) = patterns?;
    Some(format!(
        "principals {:?} and {:?} may hold common keys under common owners ({own} and {theirs})",
        one.name, other.name
    ))
}

/// The names of a principal with characters that are not seen. No new key or owner may have them.
fn unseen(principal: &Principal) -> Vec<String> {
    let name = &*principal.name;
    let owners = principal.owners().iter().map(|owner| ("owner", &*owner.pattern.text));
    let scopes = principal.rights().iter().filter_map(|right| match right.scope.as_ref()? {
        Scope::Prefix(prefix) => Some(("prefix", &**prefix)),
        Scope::Key(key) => Some(("key", &**key)),
    });
    let all = [("name", name)].into_iter().chain(owners).chain(scopes);
    let unseen = all.filter_map(|(field, text)| Some((field, text, check_seen(text).err()?)));
    unseen.map(|(field, text, why)| format!("principal {name:?}: {field} {text:?} {why}")).collect()
}

/// The rights that another right of the same principal contains.
fn redundant(principal: &Principal) -> Vec<String> {
    let rights = principal.rights();
    let mut found = Vec::new();
    for (at, right) in rights.iter().enumerate() {
        for verb in &right.verbs {
            let contains = |(other_at, other): &(usize, &super::right::Right)| {
                // Of two that are alike, the later one says nothing new.
                let alike = other.scope == right.scope;
                *other_at != at && other.contains(*verb, right) && (!alike || *other_at < at)
            };
            if let Some((_, other)) = rights.iter().enumerate().find(contains) {
                found.push(format!(
                    "principal {:?}: {verb} in {right} (line {}) is already in {other} (line {})",
                    principal.name, right.line, other.line
                ));
            }
        }
    }
    found
}
