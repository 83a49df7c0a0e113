//! The parts of a call: what it takes of each key, in the order in which all calls take theirs.

use std::collections::BTreeMap;

use super::request::{AcquireAll, MAX_TAKEN, NotAll, Take};
use crate::manager::checks::check_new;
use crate::{
    lease::{InvalidName, Key, Named, permit_of},
    manager::{Manager, error::Invalid},
};

/// What a call takes of one key.
#[derive(Debug)]
pub(super) struct Part {
    pub key: Key,
    /// The keys of its permits, from the first one; none if the key itself is the lease.
    pub permits: Vec<Key>,
    /// How many of the permits.
    pub count: usize,
}

impl Part {
    /// How many leases it takes.
    pub fn leases(&self) -> usize {
        self.count
    }

    /// The keys of the leases among which it takes.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        let own = self.permits.is_empty().then_some(&self.key);
        own.into_iter().chain(&self.permits)
    }
}

/// The parts of a call, in the order in which they are taken.
pub(super) fn resolve(manager: &Manager, all: &AcquireAll) -> Result<Vec<Part>, NotAll> {
    let invalid = |detail: String| Invalid { field: "keys", detail };
    let mut parts = BTreeMap::new();
    for wanted in &all.keys {
        let part = part(manager, &wanted.key, wanted.take);
        let part = part.map_err(|error| NotAll::at(&wanted.key, error))?;
        // The permits of a key are taken in the order of their numbers, and not of their names.
        let place = match permit_of(wanted.key.as_str()).filter(|_| part.permits.is_empty()) {
            Some((name, number)) => (name.to_owned(), number),
            None => (wanted.key.as_str().to_owned(), 0),
        };
        if parts.insert(place, part).is_some() {
            return Err(invalid(format!("names {:?} twice", wanted.key)).into());
        }
    }
    let both = |((name, number), _): &(&(String, u32), &Part)| {
        *number > 0 && parts.get(&(name.clone(), 0)).is_some_and(|whole| !whole.permits.is_empty())
    };
    if let Some((_, part)) = parts.iter().find(both) {
        let detail = format!("names {:?} and the key that it is a permit of", part.key);
        return Err(invalid(detail).into());
    }
    let leases: usize = parts.values().map(Part::leases).sum();
    if !(1..=MAX_TAKEN).contains(&leases) {
        let detail = format!("stands for {leases} leases; 1 to {MAX_TAKEN} are allowed");
        return Err(invalid(detail).into());
    }
    Ok(parts.into_values().collect())
}

fn part(manager: &Manager, key: &Key, take: Take) -> Result<Part, Invalid> {
    check_new("key", key.as_str())?;
    let permits = permits(manager, key)?;
    let most = permits.len().max(1);
    let count = match take {
        Take::All => most,
        Take::Permits(count) => count as usize,
    };
    if permits.is_empty() && count != 1 {
        let detail = format!("is {count}; {key:?} has no permits, as its policy sets none");
        return Err(Invalid { field: "permits", detail });
    }
    if !(1..=most).contains(&count) {
        let detail = format!("is {count}; it must be from 1 to {most}, the permits of {key:?}");
        return Err(Invalid { field: "permits", detail });
    }
    let part = Part { key: key.clone(), permits, count };
    part.keys().try_for_each(|key| manager.check_named("key", key))?;
    Ok(part)
}

/// The permits of a key, in the order of their numbers. None if the key is a lease.
pub(super) fn permits(manager: &Manager, key: &Key) -> Result<Vec<Key>, Invalid> {
    let Named::Permits(count) = manager.named(key.as_str()) else { return Ok(Vec::new()) };
    let permits: Result<Vec<Key>, InvalidName> = (1..=count).map(|at| key.permit(at)).collect();
    permits.map_err(|error| Invalid { field: "key", detail: format!("has a permit that {error}") })
}
