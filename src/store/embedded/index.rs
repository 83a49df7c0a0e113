//! Where each key's current frame is: by key, and in key order.
//!
//! Each key has a slot for as long as it has a frame. A hash table finds the slot of a key: one look-up costs two or three
//! cache misses, however many keys there are. A sorted list of slots, in chunks, serves reads of many keys, and is
//! changed only when a key is new or goes. Together they take about 55 bytes per key in addition to the key's own text.

use std::{
    cmp::Ordering,
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
};

use hashbrown::HashTable;

use super::frame;
use crate::lease::{Condition, Key, Revision};

/// The highest number of slots per chunk. A split or an insertion moves at most 1 KiB.
const CHUNK: usize = 256;
/// How many slots a chunk grows by. A small step leaves little room unused.
const GROW: usize = 32;
/// Slots per chunk of an index that was built at once. Some slots can be added before a chunk splits.
const LOADED: usize = 192;
/// The entries grow by one part in this many: doubling them would leave half of their memory unused.
const GROWTH: usize = 8;
/// Bits of a location that hold the segment's id, modulo 2^21.
const SEGMENT_BITS: u32 = 21;
/// Bits of a location that hold the frame's length. A segment, and so a frame, has 2^28 bytes at most.
const LEN_BITS: u32 = 28;

/// Where a frame is, and what counts of its record. Packed into 16 bytes: there is one per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    revision_and_segment: u64,
    offset: u32,
    condition_and_len: u32,
}

impl Location {
    pub fn new(
        revision: Revision,
        segment: u64,
        offset: u32,
        len: u32,
        condition: Condition,
    ) -> Self {
        let segment = segment & ((1 << SEGMENT_BITS) - 1);
        let revision_and_segment = revision.0 << SEGMENT_BITS | segment;
        let condition_and_len = u32::from(condition.to_bits()) << LEN_BITS | len;
        Self { revision_and_segment, offset, condition_and_len }
    }

    pub fn revision(self) -> Revision {
        Revision(self.revision_and_segment >> SEGMENT_BITS)
    }

    pub fn offset(self) -> u32 {
        self.offset
    }

    pub fn len(self) -> u32 {
        self.condition_and_len & ((1 << LEN_BITS) - 1)
    }

    pub fn condition(self) -> Condition {
        let bits = (self.condition_and_len >> LEN_BITS) as u8;
        Condition::from_bits(bits).unwrap_or(Condition::UNREADABLE)
    }

    /// How many segments this frame's segment comes after `oldest`. Fewer than 2^21 segments are kept.
    pub fn segments_after(self, oldest: u64) -> usize {
        let distance = self.revision_and_segment.wrapping_sub(oldest) & ((1 << SEGMENT_BITS) - 1);
        distance as usize
    }

    /// The number of bytes that the frame takes up in the log.
    pub fn footprint(self) -> u64 {
        u64::from(frame::padded(self.len()))
    }
}

#[derive(Clone, Debug)]
struct Entry {
    key: Key,
    location: Location,
}

/// The place of a key's entry. It is the key's own until the key is removed; then another key may get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// A slot in the hash table, with the half of its key's hash by which the table can grow without a look at the keys.
#[derive(Clone, Copy, Debug)]
struct Point {
    hash: u32,
    slot: Slot,
}

impl Point {
    /// The table takes its places from the low bits of a hash, and its tags from the high ones.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

/// Keys with their locations.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// By slot. `None` in those that are free.
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
    points: HashTable<Point>,
    hashing: RandomState,
    /// The slots in the byte order of their keys. No chunk is empty.
    chunks: Vec<Vec<Slot>>,
}

impl Index {
    pub fn len(&self) -> usize {
        self.points.len()
    }

    pub fn get(&self, key: &str) -> Option<Location> {
        self.find(key).map(|(_, location)| location)
    }

    /// The slot of a key, and its location.
    pub fn find(&self, key: &str) -> Option<(Slot, Location)> {
        let hash = self.hash(key);
        let is_key = |point: &Point| point.hash == hash && self.key(point.slot) == key;
        let slot = self.points.find(Point::spread(hash), is_key)?.slot;
        Some((slot, self.entry(slot)?.location))
    }

    /// Builds the index of a whole map. Sorting once is several times faster than a million insertions in random
    /// order, each of which misses the cache at every comparison.
    pub fn from_map(map: HashMap<Key, Location>) -> Self {
        let len = map.len();
        let common = common_prefix(map.keys());
        let mut sorted: Vec<(u64, Entry)> = Vec::with_capacity(len);
        for (key, location) in map {
            sorted.push((lead(&key.as_str().as_bytes()[common..]), Entry { key, location }));
        }
        sorted.sort_unstable_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.key.cmp(&y.key)));
        let mut index = Self { points: HashTable::with_capacity(len), ..Self::default() };
        index.entries.reserve_exact(len);
        for (_, entry) in sorted {
            index.place(entry);
        }
        let mut slots = (0..index.entries.len()).map(slot);
        index.chunks.reserve_exact(len.div_ceil(LOADED));
        while slots.len() > 0 {
            index.chunks.push(slots.by_ref().take(LOADED).collect());
        }
        index
    }

    /// Sets the location of a key. Returns the previous one.
    pub fn insert(&mut self, key: &Key, location: Location) -> Option<Location> {
        if let Some((slot, _)) = self.find(key.as_str()) {
            return self.replace(slot, location);
        }
        let (at, place) = self.place_of(key.as_str(), false);
        let slot = self.place(Entry { key: key.clone(), location });
        self.add(at, place, slot);
        None
    }

    /// Sets the location of a key that had this slot, if it still has it. Returns the previous one.
    pub fn insert_at(&mut self, slot: Slot, key: &Key, location: Location) -> Option<Location> {
        match self.entry(slot) {
            Some(entry) if entry.key == *key => self.replace(slot, location),
            _ => self.insert(key, location),
        }
    }

    /// Removes a key. Returns its location.
    pub fn remove(&mut self, key: &str) -> Option<Location> {
        let (slot, location) = self.find(key)?;
        let (at, place) = self.place_of(key, false);
        self.chunks[at].remove(place);
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
        }
        let hash = Point::spread(self.hash(key));
        if let Ok(point) = self.points.find_entry(hash, |point| point.slot == slot) {
            point.remove();
        }
        self.entries[slot.0 as usize] = None;
        self.free.push(slot);
        Some(location)
    }

    /// Calls `each` for the keys at or after `from` (after it, if `exclusive`), in order, until it returns
    /// `false`.
    pub fn visit_from(
        &self,
        from: &str,
        exclusive: bool,
        mut each: impl FnMut(&Key, Location) -> bool,
    ) {
        let (at, place) = self.place_of(from, exclusive);
        let Some(first) = self.chunks.get(at) else { return };
        let slots = first[place..].iter().chain(self.chunks[at + 1..].iter().flatten());
        for entry in slots.filter_map(|slot| self.entry(*slot)) {
            if !each(&entry.key, entry.location) {
                return;
            }
        }
    }

    /// Calls `each` for the keys before `before`, or for all, in descending order, until it returns `false`.
    pub fn visit_before(&self, before: Option<&str>, mut each: impl FnMut(&Key) -> bool) {
        let (at, place) = match before {
            Some(before) => self.place_of(before, false),
            None => (self.chunks.len(), 0),
        };
        let first = self.chunks.get(at).map_or(&[][..], |chunk| &chunk[..place]);
        let rest = self.chunks[..at].iter().rev().flat_map(|chunk| chunk.iter().rev());
        for entry in first.iter().rev().chain(rest).filter_map(|slot| self.entry(*slot)) {
            if !each(&entry.key) {
                return;
            }
        }
    }

    fn hash(&self, key: &str) -> u32 {
        // The low half of a hash is as good as the whole.
        self.hashing.hash_one(key) as u32
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(slot.0 as usize)?.as_ref()
    }

    fn key(&self, slot: Slot) -> &str {
        self.entry(slot).map_or("", |entry| entry.key.as_str())
    }

    fn replace(&mut self, slot: Slot, location: Location) -> Option<Location> {
        let entry = self.entries[slot.0 as usize].as_mut()?;
        Some(std::mem::replace(&mut entry.location, location))
    }

    /// Gives a new key a slot, and adds it to the hash table.
    fn place(&mut self, entry: Entry) -> Slot {
        let hash = self.hash(entry.key.as_str());
        let slot = self.free.pop().unwrap_or_else(|| {
            if self.entries.len() == self.entries.capacity() {
                self.entries.reserve_exact((self.entries.len() / GROWTH).max(CHUNK));
            }
            self.entries.push(None);
            slot(self.entries.len() - 1)
        });
        self.entries[slot.0 as usize] = Some(entry);
        let point = Point { hash, slot };
        self.points.insert_unique(Point::spread(hash), point, |point| Point::spread(point.hash));
        slot
    }

    fn add(&mut self, mut at: usize, mut place: usize, slot: Slot) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        if self.chunks[at].len() == CHUNK {
            // Keys that are inserted in order leave full chunks behind; others leave half full ones.
            let half = if place == CHUNK { CHUNK } else { CHUNK / 2 };
            let upper = self.chunks[at].split_off(half);
            self.chunks[at].shrink_to_fit();
            self.chunks.insert(at + 1, upper);
            if place >= half && (place > half || half == CHUNK) {
                at += 1;
                place -= half;
            }
        }
        let chunk = &mut self.chunks[at];
        if chunk.len() == chunk.capacity() {
            chunk.reserve_exact(GROW);
        }
        chunk.insert(place, slot);
    }

    /// The chunk that holds the first key at or after `from` (after it, if `exclusive`), or that would hold it, and the
    /// place there. If all keys of a chunk are before it, the place is the end of that chunk.
    fn place_of(&self, from: &str, exclusive: bool) -> (usize, usize) {
        let is_before = |slot: &Slot| match self.key(*slot).cmp(from) {
            Ordering::Less => true,
            Ordering::Equal => exclusive,
            Ordering::Greater => false,
        };
        let after = self.chunks.partition_point(|chunk| self.key(chunk[0]) <= from);
        let at = after.saturating_sub(1);
        (at, self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(is_before)))
    }
}

/// The slot with this number. A store has far fewer than 2^32 keys.
fn slot(number: usize) -> Slot {
    Slot(number as u32)
}

/// The length of the prefix that all keys share, in bytes.
fn common_prefix<'a>(mut keys: impl Iterator<Item = &'a Key>) -> usize {
    let Some(first) = keys.next().map(|k| k.as_str().as_bytes()) else { return 0 };
    keys.fold(first.len(), |common, key| {
        let same = first[..common].iter().zip(key.as_str().as_bytes()).take_while(|(a, b)| a == b);
        same.count()
    })
}

/// The first bytes as a number that sorts as they do. If two numbers are equal, the keys decide.
fn lead(bytes: &[u8]) -> u64 {
    let mut lead = [0; 8];
    let take = bytes.len().min(8);
    lead[..take].copy_from_slice(&bytes[..take]);
    u64::from_be_bytes(lead)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::lease::KeyState;

    const HELD: Condition = Condition { state: KeyState::Held, fence_failed: false };

    #[test]
    fn it_is_a_sorted_map() {
        let seed = 7;
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut index, mut model) = (Index::default(), BTreeMap::new());
        for n in 0..20_000_u32 {
            let name = if n < 3_000 { n + 100_000 } else { rng.random_range(0..12_000) };
            let key = Key::new(&format!("k{name:06}")).unwrap();
            let location = Location::new(Revision(u64::from(n) + 1), 3, n, 50, HELD);
            assert_eq!(index.insert(&key, location), model.insert(key.clone(), location));
            assert_eq!(index.get(key.as_str()), Some(location));
        }
        for name in (0..12_000).filter(|name| name % 3 == 0 || (4_000..6_000).contains(name)) {
            let key = Key::new(&format!("k{name:06}")).unwrap();
            assert_eq!(index.remove(key.as_str()), model.remove(&key));
        }
        assert_eq!(index.len(), model.len());
        check(&index, &model);
        let loaded = Index::from_map(model.clone().into_iter().collect());
        check(&loaded, &model);
    }

    fn check(index: &Index, model: &BTreeMap<Key, Location>) {
        for (from, exclusive) in [("", false), ("k000100", true), ("k0001", false), ("z", false)] {
            let mut seen = Vec::new();
            index.visit_from(from, exclusive, |key, location| {
                seen.push((key.clone(), location));
                seen.len() < 700
            });
            let wanted = model
                .iter()
                .filter(|(k, _)| k.as_str() > from || (!exclusive && k.as_str() == from));
            let wanted: Vec<_> = wanted.take(700).map(|(k, l)| (k.clone(), *l)).collect();
            assert_eq!(seen, wanted, "from {from:?}");
        }
        for before in [None, Some(""), Some("k000100"), Some("k0001"), Some("k1"), Some("z")] {
            let mut seen = Vec::new();
            index.visit_before(before, |key| {
                seen.push(key.clone());
                seen.len() < 700
            });
            let keys = model.keys().rev();
            let wanted = keys.filter(|key| before.is_none_or(|before| key.as_str() < before));
            let wanted: Vec<_> = wanted.take(700).cloned().collect();
            assert_eq!(seen, wanted, "before {before:?}");
        }
    }

    #[test]
    fn a_location_survives_packing() {
        let failed = Condition { state: KeyState::Cooling, fence_failed: true };
        let last = Location::new(Revision((1 << 43) - 1), (1 << 21) + 5, u32::MAX, 7, failed);
        assert_eq!(last.revision(), Revision((1 << 43) - 1));
        assert_eq!(last.segments_after((1 << 21) + 2), 3);
        assert_eq!((last.offset(), last.len(), last.footprint()), (u32::MAX, 7, 8));
        assert_eq!(last.condition(), failed);
        let longest = Location::new(Revision(1), 0, 0, (1 << LEN_BITS) - 1, HELD);
        assert_eq!((longest.len(), longest.condition()), ((1 << LEN_BITS) - 1, HELD));
    }
}
