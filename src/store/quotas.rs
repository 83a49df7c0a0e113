//! How many keys each policy has, and how many it may have.
//!
//! Guarantees:
//! - A key beyond the limit of its policy is refused as soon as this process knows of the other keys, whether
//!   they are written or being written.
//! - A key that exists never counts as one too many.
//!
//! Does not guarantee: that nodes which add keys at the same moment stay within the limit. A key that another
//! node added counts once its write is known here.

use std::sync::Arc;

use crate::{
    clock::HashMap,
    lease::{Key, Policies, StoreError},
};

/// The keys of the policies that limit their number.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    policies: Arc<Policies>,
    /// How many keys each policy with a limit has, in the order of the policies. Both existing keys and keys that
    /// are being written count. Empty if no policy limits its keys.
    counts: Vec<u64>,
    /// New keys that are being written, each with the number of its writes. They have no record yet, as far as is
    /// known.
    coming: HashMap<Key, u32>,
}

impl Quotas {
    /// Uses these policies from now on. `visit` must call its argument for each existing key that starts with a
    /// prefix. It is not called if the same prefixes had a limit before.
    pub fn set(&mut self, policies: &Arc<Policies>, visit: impl Fn(&str, &mut dyn FnMut(&Key))) {
        let before = std::mem::replace(&mut self.policies, Arc::clone(policies));
        let prefixes = |all: &Policies| -> Vec<(Box<str>, bool)> {
            all.iter().map(|policy| (policy.prefix.clone(), policy.keys.is_some())).collect()
        };
        if prefixes(&before) != prefixes(policies) {
            self.recount(visit);
        }
    }

    /// Takes over another one's policies and its keys that are being written. The records may be others now.
    #[cfg(any(test, feature = "nats", feature = "dynamodb"))]
    pub fn take_over(&mut self, other: Self, visit: impl Fn(&str, &mut dyn FnMut(&Key))) {
        *self = other;
        self.recount(visit);
    }

    fn recount(&mut self, visit: impl Fn(&str, &mut dyn FnMut(&Key))) {
        self.counts.clear();
        if self.policies.iter().all(|policy| policy.keys.is_none()) {
            self.coming.clear();
            return;
        }
        let policies = Arc::clone(&self.policies);
        self.counts.resize(policies.iter().count(), 0);
        for (place, policy) in policies.iter().enumerate() {
            if policy.keys.is_none() {
                continue;
            }
            visit(&policy.prefix, &mut |key| {
                if !key.is_internal() && policies.place_of(key.as_str()) == place {
                    self.coming.remove(key);
                    self.counts[place] += 1;
                }
            });
        }
        for key in self.coming.keys() {
            self.counts[policies.place_of(key.as_str())] += 1;
        }
    }

    /// The index of the policy that limits the number of keys like this one.
    fn place(&self, key: &Key) -> Option<usize> {
        if self.counts.is_empty() || key.is_internal() {
            return None;
        }
        let place = self.policies.place_of(key.as_str());
        self.policies.at(place).keys.map(|_| place)
    }

    /// Whether the number of keys like this one is limited.
    pub fn bounds(&self, key: &Key) -> bool {
        self.place(key).is_some()
    }

    /// Admits a write that creates a record for this key, which has none as far as is known. After `Ok`, the
    /// caller must call [`Self::settle`] once it knows the outcome of the write.
    pub fn admit(&mut self, key: &Key) -> Result<(), StoreError> {
        let Some(place) = self.place(key) else { return Ok(()) };
        if let Some(writes) = self.coming.get_mut(key) {
            *writes += 1;
            return Ok(());
        }
        let policy = self.policies.at(place);
        let keys = policy.keys.unwrap_or(u64::MAX);
        if self.counts[place] >= keys {
            return Err(StoreError::PolicyFull { prefix: policy.prefix.clone(), keys });
        }
        self.counts[place] += 1;
        self.coming.insert(key.clone(), 1);
        Ok(())
    }

    /// The outcome of an admitted write is known. If the key has a record now, the record counts.
    pub fn settle(&mut self, key: &Key) {
        let Some(writes) = self.coming.get_mut(key) else { return };
        *writes -= 1;
        if *writes == 0 {
            self.coming.remove(key);
            self.removed(key);
        }
    }

    /// A key without a record got one.
    pub fn added(&mut self, key: &Key) {
        let came = !self.coming.is_empty() && self.coming.remove(key).is_some();
        if let Some(place) = self.place(key)
            && !came
        {
            self.counts[place] += 1;
        }
    }

    /// A key has no record any more.
    pub fn removed(&mut self, key: &Key) {
        if let Some(place) = self.place(key) {
            self.counts[place] = self.counts[place].saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Policy;

    fn policies(all: &[(&str, Option<u64>)]) -> Arc<Policies> {
        let policy = |(prefix, keys): &(&str, Option<u64>)| Policy {
            prefix: (*prefix).into(),
            keys: *keys,
            ..Policy::default()
        };
        Arc::new(Policies::new(all.iter().map(policy).collect(), Policy::default()))
    }

    fn key(name: &str) -> Key {
        Key::new(name).expect("a key")
    }

    /// The records that a store has.
    fn there(names: &[&str]) -> impl Fn(&str, &mut dyn FnMut(&Key)) {
        let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
        move |prefix, each| keys.iter().filter(|k| k.as_str().starts_with(prefix)).for_each(each)
    }

    #[test]
    fn what_is_written_and_what_is_on_its_way_counts_once() {
        let mut quotas = Quotas::default();
        quotas.set(&policies(&[("a/", Some(2)), ("a/b/", None)]), there(&["a/1", "a/b/1", "c"]));
        quotas.admit(&key("a/2")).expect("room");
        // A second write of the same key takes no more room.
        quotas.admit(&key("a/2")).expect("room");
        assert!(quotas.admit(&key("a/3")).is_err());
        quotas.admit(&key("a/b/2")).expect("no limit");
        quotas.added(&key("a/2"));
        quotas.settle(&key("a/2"));
        quotas.settle(&key("a/2"));
        assert!(quotas.admit(&key("a/3")).is_err(), "it has a record now");
        quotas.removed(&key("a/1"));
        quotas.admit(&key("a/3")).expect("room");
        quotas.settle(&key("a/3"));
        quotas.admit(&key("a/4")).expect("the write of a/3 failed");
    }

    #[test]
    fn other_policies_and_other_records_are_counted_anew() {
        let mut quotas = Quotas::default();
        quotas.set(&policies(&[("a/", Some(3))]), there(&["a/1"]));
        quotas.admit(&key("a/2")).expect("room");
        quotas.set(&policies(&[("a/", Some(2))]), |_, _| panic!("the same prefixes have limits"));
        assert!(quotas.admit(&key("a/3")).is_err());
        // One of the keys being written has a record now, and another record is gone.
        let mut fresh = Quotas::default();
        fresh.take_over(std::mem::take(&mut quotas), there(&["a/2"]));
        fresh.admit(&key("a/4")).expect("room");
        assert!(fresh.admit(&key("a/5")).is_err());
        fresh.set(&policies(&[]), |_, _| panic!("nothing has a limit"));
        fresh.admit(&key("a/5")).expect("no limit");
        fresh.set(&policies(&[("", Some(2))]), there(&["a/2"]));
        fresh.admit(&key("a/6")).expect("room");
        let full = fresh.admit(&key("b")).expect_err("full").to_string();
        assert!(full.contains("keys = 2") && full.contains("\"\""), "{full}");
    }
}
