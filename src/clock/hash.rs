//! Hash maps with keys drawn from the system, so that an attacker cannot choose keys that collide. In tests the hash
//! keys are fixed, so that iteration over a map has the same order when a seed is replayed.

use std::collections;

#[cfg(not(any(test, feature = "testing")))]
type Hashing = std::hash::RandomState;
#[cfg(any(test, feature = "testing"))]
type Hashing = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// A hash map that is iterated in a random order, and in a repeatable one in tests.
pub type HashMap<K, V> = collections::HashMap<K, V, Hashing>;
/// A hash set that is iterated in a random order, and in a repeatable one in tests.
pub type HashSet<T> = collections::HashSet<T, Hashing>;
/// A hash map that threads share.
#[cfg(feature = "server")]
pub type DashMap<K, V> = dashmap::DashMap<K, V, Hashing>;

/// An empty map that threads share. The machine decides the number of its locks; in tests the number is fixed.
#[cfg(feature = "server")]
#[must_use]
pub fn dash_map<K: Eq + std::hash::Hash, V>() -> DashMap<K, V> {
    #[cfg(not(any(test, feature = "testing")))]
    let map = DashMap::with_hasher(Hashing::default());
    #[cfg(any(test, feature = "testing"))]
    let map = DashMap::with_hasher_and_shard_amount(Hashing::default(), 8);
    map
}
