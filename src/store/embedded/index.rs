//! Where each key's current frame is, in key order.
//!
//! A sorted list in chunks. It takes about 36 bytes per key in addition to the key's own text. A B-tree whose
//! keys are inserted in order takes 60 to 75 bytes.

use std::collections::HashMap;

use super::frame;
use crate::lease::{Key, Revision};

/// The highest number of entries per chunk. A split or an insertion moves at most 8 KiB.
const CHUNK: usize = 256;
/// How many entries a chunk grows by. A small step leaves little room unused.
const GROW: usize = 32;
/// Entries per chunk of an index that was built at once. Some entries can be added before a chunk splits.
const LOADED: usize = 192;
/// Bits of a location that hold the segment's id, modulo 2^21.
const SEGMENT_BITS: u32 = 21;

/// Where a frame is. Packed into 16 bytes: there is one per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    revision_and_segment: u64,
    offset: u32,
    len: u32,
}

impl Location {
    pub fn new(revision: Revision, segment: u64, offset: u32, len: u32) -> Self {
        let segment = segment & ((1 << SEGMENT_BITS) - 1);
        Self { revision_and_segment: revision.0 << SEGMENT_BITS | segment, offset, len }
    }

    pub fn revision(self) -> Revision {
        Revision(self.revision_and_segment >> SEGMENT_BITS)
    }

    pub fn offset(self) -> u32 {
        self.offset
    }

    pub fn len(self) -> u32 {
        self.len
    }

    /// How many segments this frame's segment comes after `oldest`. Fewer than 2^21 segments are kept.
    pub fn segments_after(self, oldest: u64) -> usize {
        let distance = self.revision_and_segment.wrapping_sub(oldest) & ((1 << SEGMENT_BITS) - 1);
        distance as usize
    }

    /// The number of bytes that the frame takes up in the log.
    pub fn footprint(self) -> u64 {
        u64::from(frame::padded(self.len))
    }
}

#[derive(Clone, Debug)]
struct Entry {
    key: Key,
    location: Location,
}

/// Keys in byte order with their locations.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// No chunk is empty. The last key of each chunk sorts before the first key of the next.
    chunks: Vec<Vec<Entry>>,
    len: usize,
}

impl Index {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, key: &str) -> Option<Location> {
        let chunk = &self.chunks[self.chunk_of(key)?];
        let at = chunk.binary_search_by(|e| e.key.as_str().cmp(key)).ok()?;
        Some(chunk[at].location)
    }

    /// Builds the index of a whole map. Sorting once is several times faster than a million insertions in random
    /// order, each of which misses the cache at every comparison.
    pub fn from_map(map: HashMap<Key, Location>) -> Self {
        let len = map.len();
        let common = common_prefix(map.keys());
        let mut entries: Vec<(u64, Entry)> = Vec::with_capacity(len);
        for (key, location) in map {
            entries.push((lead(&key.as_str().as_bytes()[common..]), Entry { key, location }));
        }
        entries.sort_unstable_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.key.cmp(&y.key)));
        let mut entries = entries.into_iter().map(|(_, entry)| entry);
        let mut chunks = Vec::with_capacity(len.div_ceil(LOADED));
        while entries.len() > 0 {
            let mut chunk = Vec::with_capacity(LOADED.min(entries.len()));
            chunk.extend(entries.by_ref().take(LOADED));
            chunks.push(chunk);
        }
        Self { chunks, len }
    }

    /// Sets the location of a key. Returns the previous one.
    pub fn insert(&mut self, key: &Key, location: Location) -> Option<Location> {
        let at = self.chunk_of(key.as_str()).unwrap_or(0);
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        let chunk = &mut self.chunks[at];
        match chunk.binary_search_by(|e| e.key.cmp(key)) {
            Ok(found) => Some(std::mem::replace(&mut chunk[found].location, location)),
            Err(place) => {
                self.len += 1;
                self.add(at, place, Entry { key: key.clone(), location });
                None
            }
        }
    }

    /// Removes a key. Returns its location.
    pub fn remove(&mut self, key: &str) -> Option<Location> {
        let at = self.chunk_of(key)?;
        let place = self.chunks[at].binary_search_by(|e| e.key.as_str().cmp(key)).ok()?;
        let entry = self.chunks[at].remove(place);
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
        }
        self.len -= 1;
        Some(entry.location)
    }

    fn add(&mut self, mut at: usize, mut place: usize, entry: Entry) {
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
        chunk.insert(place, entry);
    }

    /// Calls `each` for the keys at or after `from` (after it, if `exclusive`), in order, until it returns
    /// `false`.
    pub fn visit_from(
        &self,
        from: &str,
        exclusive: bool,
        mut each: impl FnMut(&Key, Location) -> bool,
    ) {
        let Some(first) = self.chunk_of(from) else { return };
        let skip = self.chunks[first].partition_point(|e| match e.key.as_str().cmp(from) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => exclusive,
            std::cmp::Ordering::Greater => false,
        });
        let entries = self.chunks[first][skip..].iter();
        for entry in entries.chain(self.chunks[first + 1..].iter().flatten()) {
            if !each(&entry.key, entry.location) {
                return;
            }
        }
    }

    /// The chunk that holds `key`, or that would hold it.
    fn chunk_of(&self, key: &str) -> Option<usize> {
        let after = self.chunks.partition_point(|c| c[0].key.as_str() <= key);
        (!self.chunks.is_empty()).then(|| after.saturating_sub(1))
    }
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

    #[test]
    fn it_is_a_sorted_map() {
        let seed = 7;
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut index, mut model) = (Index::default(), BTreeMap::new());
        for n in 0..20_000_u32 {
            let name = if n < 3_000 { n + 100_000 } else { rng.random_range(0..12_000) };
            let key = Key::new(&format!("k{name:06}")).unwrap();
            let location = Location::new(Revision(u64::from(n) + 1), 3, n, 50);
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
    }

    #[test]
    fn a_location_survives_packing() {
        let last = Location::new(Revision((1 << 43) - 1), (1 << 21) + 5, u32::MAX, 7);
        assert_eq!(last.revision(), Revision((1 << 43) - 1));
        assert_eq!(last.segments_after((1 << 21) + 2), 3);
        assert_eq!((last.offset(), last.len(), last.footprint()), (u32::MAX, 7, 8));
    }
}
