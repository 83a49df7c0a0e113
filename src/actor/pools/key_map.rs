//! A map by keys of which a copy costs next to nothing, however many keys it has.
//!
//! Guarantees: a copy shares what neither of the two changed since. A change of a shared map copies one part of it, which
//! has one key in [`PARTS`].

use std::{
    hash::BuildHasher as _,
    ops::Index,
    sync::{Arc, LazyLock},
};

use crate::{clock::HashMap, lease::Key};

/// A change after a copy was made copies about 400 keys of a map of 100 000.
const PARTS: usize = 256;

/// Spreads keys over the parts, in the same way in all maps.
static SPREAD: LazyLock<HashMap<(), ()>> = LazyLock::new(HashMap::default);

type Part<V> = Arc<HashMap<Key, V>>;

#[derive(Clone, Debug)]
pub struct KeyMap<V> {
    /// None before the first key.
    parts: Box<[Part<V>]>,
    len: usize,
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self { parts: Box::default(), len: 0 }
    }
}

fn part_of(key: &str) -> usize {
    let hash = SPREAD.hasher().hash_one(key);
    usize::try_from(hash % PARTS as u64).unwrap_or(0)
}

impl<V> KeyMap<V> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get_key_value(&self, key: &str) -> Option<(&Key, &V)> {
        self.parts.get(part_of(key))?.get_key_value(key)
    }

    pub fn get(&self, key: &Key) -> Option<&V> {
        self.get_key_value(key.as_str()).map(|(_, value)| value)
    }

    pub fn contains_key(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.iter().map(|(key, _)| key)
    }
}

impl<V: Clone> KeyMap<V> {
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        // A part that does not have the key is not copied.
        let part =
            self.parts.get_mut(part_of(key.as_str())).filter(|part| part.contains_key(key))?;
        Arc::make_mut(part).get_mut(key)
    }

    pub fn insert(&mut self, key: Key, value: V) -> Option<V> {
        if self.parts.is_empty() {
            self.parts = (0..PARTS).map(|_| Part::default()).collect();
        }
        let part = &mut self.parts[part_of(key.as_str())];
        let before = Arc::make_mut(part).insert(key, value);
        self.len += usize::from(before.is_none());
        before
    }

    pub fn remove(&mut self, key: &Key) -> Option<V> {
        let part =
            self.parts.get_mut(part_of(key.as_str())).filter(|part| part.contains_key(key))?;
        let before = Arc::make_mut(part).remove(key);
        self.len -= usize::from(before.is_some());
        before
    }
}

impl<'a, V> IntoIterator for &'a KeyMap<V> {
    type Item = (&'a Key, &'a V);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl<V> Index<&Key> for KeyMap<V> {
    type Output = V;

    fn index(&self, key: &Key) -> &V {
        self.get(key).expect("the map has the key")
    }
}

impl<V: PartialEq> PartialEq for KeyMap<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<V: Clone> FromIterator<(Key, V)> for KeyMap<V> {
    fn from_iter<I: IntoIterator<Item = (Key, V)>>(all: I) -> Self {
        let mut map = Self::default();
        all.into_iter().for_each(|(key, value)| drop(map.insert(key, value)));
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(at: usize) -> Key {
        Key::new(&format!("k/{at}")).expect("a key")
    }

    #[test]
    fn a_copy_stays_as_it_is_and_shares_what_did_not_change() {
        let mut map: KeyMap<usize> = (0..10_000).map(|at| (key(at), at)).collect();
        let copy = map.clone();
        let shared = |map: &KeyMap<usize>| {
            let same = |(one, other): &(&Part<usize>, &Part<usize>)| Arc::ptr_eq(one, other);
            map.parts.iter().zip(&copy.parts).filter(same).count()
        };
        assert_eq!((shared(&map), map.get(&key(3))), (PARTS, Some(&3)));
        assert!(map.remove(&key(20_000)).is_none() && map.get_mut(&key(20_000)).is_none());
        assert_eq!(shared(&map), PARTS, "nothing changed");
        *map.get_mut(&key(3)).expect("it is there") = 7;
        assert_eq!(
            (shared(&map), map.get(&key(3)), copy.get(&key(3))),
            (PARTS - 1, Some(&7), Some(&3))
        );
        assert_ne!(map, copy);
        assert_eq!(map.insert(key(3), 3), Some(7));
        assert_eq!(map, copy);
        assert_eq!((map.remove(&key(3)), map.len(), copy.len()), (Some(3), 9_999, 10_000));
        assert!(
            map.iter().count() == 9_999 && copy.contains_key(&key(3)) && !map.contains_key(&key(3))
        );
    }
}
