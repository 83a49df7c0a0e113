//! Torn tails and flipped bits.
//!
//! Whether a change counts as a torn group or as damage depends on how the store was left: see [`Left`].

use std::{collections::HashMap, fs, ops::Range};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{disk::Leaves, *};
use crate::store::embedded::{
    mark::{Durable, MARK},
    segment::{HEADER, Segment},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// By `kill -9`: everything that was written is there.
    Killed,
    /// By a power failure before the system wrote the mark back. The mark says where the newest segment begins.
    Powerless,
    Closed,
}

impl Left {
    pub const ALL: [Self; 3] = [Self::Killed, Self::Powerless, Self::Closed];
}

/// A store's original content, with a check whether a copy still has all of it.
pub(super) struct Original {
    pub dir: tempfile::TempDir,
    writes: HashMap<Revision, (Key, u64, u128)>,
    pub newest: u64,
    /// The place of the last write in the newest segment.
    pub last_group: Range<usize>,
}

/// A store whose keys are written in turn, with one write per group.
pub(super) fn original(writes: u64, left: Left) -> Original {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let disk = FaultyDisk::of(dir.path());
    let mut rng = StdRng::seed_from_u64(1);
    let store = open(dir.path(), &disk).unwrap();
    let mut made = HashMap::new();
    let mut last_group = 0..0;
    for n in 0..writes {
        let (key, seq) = (key(n % 10), n / 10 + 1);
        last_group.start = end_of(&store).1;
        let revision = put_ok(&store, &key, seq, u128::from(n));
        last_group.end = end_of(&store).1;
        made.insert(revision, (key, seq, u128::from(n)));
    }
    let newest = end_of(&store).0;
    assert!(last_group.start < last_group.end, "the last write is not the first of its segment");
    if left == Left::Closed {
        store.close();
    }
    disk.crash(dir.path(), copy.path(), Leaves::Everything, &mut rng);
    if left == Left::Powerless {
        age_mark(copy.path(), newest);
    }
    Original { dir: copy, writes: made, newest, last_group }
}

/// Restores the mark that was synced when the newest segment began.
pub(super) fn age_mark(dir: &Path, newest: u64) {
    let log_id = options(dir).fresh.identity.0;
    let mut bytes = fs::read(dir.join(MARK)).unwrap();
    let begun = Durable { segment: newest, end: HEADER }.encode(log_id);
    bytes[..begun.len()].copy_from_slice(&begun);
    fs::write(dir.join(MARK), bytes).unwrap();
}

fn end_of(store: &EmbeddedStore) -> (u64, usize) {
    let mut table = store.shared.table_mut();
    table.newest().map_or((0, 0), |s| (s.segment.id, s.end as usize))
}

impl Original {
    /// A copy whose segment `id` is changed.
    fn with(&self, id: u64, change: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(self.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            if path == Segment::path(self.dir.path(), id) {
                let mut change = Some(change);
                change.take().unwrap()(&mut bytes);
                fs::write(copy.path().join(path.file_name().unwrap()), bytes).unwrap();
                return self.copy_rest(copy, &path);
            }
        }
        panic!("no segment {id}");
    }

    fn copy_rest(&self, copy: tempfile::TempDir, but: &Path) -> tempfile::TempDir {
        for entry in fs::read_dir(self.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path != but {
                fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        copy
    }

    /// Checks that everything served was written. Returns how many of the last `keys` writes, the current ones,
    /// are there.
    pub fn check(&self, store: &EmbeddedStore, context: &str) -> usize {
        let total = self.writes.len() as u64;
        let current = (total - 10 + 1..=total).map(Revision);
        let mut there = 0;
        for revision in current {
            let (key, ..) = &self.writes[&revision];
            let found = wait(store.read(key)).unwrap().expect(context);
            let (of, seq, nonce) = &self.writes[&found.revision];
            assert_eq!(of, key, "{context}");
            assert_eq!(*found.record.expect(context), record(*seq, *nonce), "{context}");
            there += usize::from(found.revision == revision);
        }
        there
    }
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_the_store_goes_on() {
    let original = original(400, Left::Powerless);
    let last = original.last_group.clone();
    for cut in last.clone() {
        let context = format!("cut at {cut}");
        let dir = original.with(original.newest, |bytes| bytes[cut..last.end].fill(0));
        let disk = FaultyDisk::of(dir.path());
        let store = open(dir.path(), &disk).expect(&context);
        // Zeros follow the frame. A cut in its padding or in its own zeros changes nothing.
        let there = original.check(&store, &context);
        assert!(there >= 9, "{context}");
        let next = put_ok(&store, &key(50), 1, 1);
        assert!(next.0 >= 400 + u64::from(there == 10), "{context}");
        drop(store);
        let store = open(dir.path(), &FaultyDisk::of(dir.path())).expect(&context);
        assert_eq!(revision_of(&store, &key(50)), Some(next), "{context}");
    }
}

#[test]
fn a_hole_in_a_torn_group_is_cut_though_sound_frames_are_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    let store = open(dir.path(), &disk).unwrap();
    let acknowledged = put_ok(&store, &key(0), 1, 1);
    disk.faults().sync_takes = Duration::from_millis(300);
    let send = |n| store.compare_and_set(write(&key(n), Revision::ABSENT, 1, u128::from(n)));
    // The first write is a group of its own. The others wait for it and form the next group.
    let first = send(1);
    nap(Duration::from_millis(100));
    let writes: Vec<_> = (2..40).map(send).collect();
    assert!(matches!(wait(first), WriteOutcome::Committed(_)));
    nap(Duration::from_millis(100));
    let copy = tempfile::tempdir().unwrap();
    let start = end_of(&store).1;
    disk.crash(dir.path(), copy.path(), Leaves::Everything, &mut StdRng::seed_from_u64(1));
    drop(writes);
    age_mark(copy.path(), end_of(&store).0);
    let path = Segment::path(copy.path(), end_of(&store).0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[start + 512..start + 1_024].fill(0);
    fs::write(path, bytes).unwrap();
    let store = open(copy.path(), &FaultyDisk::of(copy.path())).unwrap();
    assert_eq!(revision_of(&store, &key(0)), Some(acknowledged));
    let there = (2..40).filter(|n| revision_of(&store, &key(*n)).is_some()).count();
    assert!((1..10).contains(&there), "{there}");
}

/// The first valid frame after the damage is of the damaged group. Only frames after that one show that there is
/// a later group.
#[test]
fn damage_in_a_group_of_many_is_told_though_its_own_frames_are_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    let store = open(dir.path(), &disk).unwrap();
    disk.faults().sync_takes = Duration::from_millis(300);
    let send = |n| store.compare_and_set(write(&key(n), Revision::ABSENT, 1, u128::from(n)));
    let first = send(1);
    nap(Duration::from_millis(100));
    let many: Vec<_> = (2..40).map(send).collect();
    assert!(matches!(wait(first), WriteOutcome::Committed(_)));
    let start = end_of(&store).1;
    for one in many {
        assert!(matches!(wait(one), WriteOutcome::Committed(_)));
    }
    put_ok(&store, &key(50), 1, 50);
    let copy = tempfile::tempdir().unwrap();
    let (newest, rng) = (end_of(&store).0, &mut StdRng::seed_from_u64(1));
    disk.crash(dir.path(), copy.path(), Leaves::Everything, rng);
    age_mark(copy.path(), newest);
    let path = Segment::path(copy.path(), newest);
    let mut bytes = fs::read(&path).unwrap();
    bytes[start + 1_000] ^= 1;
    fs::write(path, bytes).unwrap();
    let refused = open(copy.path(), &FaultyDisk::of(copy.path()));
    assert!(matches!(refused, Err(EmbeddedOpenError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn what_a_cut_left_behind_never_comes_back() {
    let original = original(400, Left::Powerless);
    let last = original.last_group.clone();
    // The first byte of the last write is damaged.
    let dir = original.with(original.newest, |bytes| bytes[last.start] ^= 1);
    let store = open(dir.path(), &FaultyDisk::of(dir.path())).unwrap();
    assert_eq!(original.check(&store, "cut"), 9);
    store.close();
    let bytes = fs::read(Segment::path(dir.path(), original.newest)).unwrap();
    // Only the frame that a clean close writes is there now.
    assert!(bytes[last.start + 64..].iter().all(|b| *b == 0));
}

#[test]
fn a_flipped_bit_is_never_served_and_refuses_to_open_where_it_matters() {
    for left in Left::ALL {
        let original = original(400, left);
        let seed = 42;
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut refused = 0;
        for _ in 0..600 {
            let id = rng.random_range(1..=original.newest + 1);
            let path = Segment::path(original.dir.path(), id);
            if !path.exists() {
                continue;
            }
            let at = rng.random_range(0..SEGMENT as usize);
            let bit = 1 << rng.random_range(0..8);
            let context = format!("segment {id} byte {at} bit {bit} {left:?}");
            let dir = original.with(id, |bytes| bytes[at] ^= bit);
            match open(dir.path(), &FaultyDisk::of(dir.path())) {
                Err(EmbeddedOpenError::Corrupt { .. }) => refused += 1,
                Err(other) => panic!("{context}: {other}"),
                Ok(store) => {
                    let there = original.check(&store, &context);
                    let tail = id == original.newest && original.last_group.contains(&at);
                    let untold = tail && left == Left::Powerless;
                    assert!(there == 10 || (there == 9 && untold), "{context}: {there}");
                }
            }
        }
        assert!(refused > 100, "{refused}");
    }
}

#[test]
fn every_bit_of_the_last_write_matters_after_a_clean_close() {
    let original = original(400, Left::Closed);
    for at in original.last_group.clone() {
        let dir = original.with(original.newest, |bytes| bytes[at] ^= 0x10);
        match open(dir.path(), &FaultyDisk::of(dir.path())) {
            Err(EmbeddedOpenError::Corrupt { file, offset, .. }) => {
                assert_eq!(file, Segment::path(dir.path(), original.newest));
                assert_eq!(offset as usize, original.last_group.start);
            }
            Err(other) => panic!("byte {at}: {other}"),
            // Up to seven bytes of padding follow a frame.
            Ok(_) => assert!(original.last_group.end - at < 8, "byte {at}"),
        }
    }
}

#[test]
fn a_missing_segment_is_damage() {
    let original = original(400, Left::Killed);
    let names = fs::read_dir(original.dir.path()).unwrap();
    let ids = names.filter_map(|e| Segment::id_of(e.unwrap().file_name().to_str()?));
    let ids: Vec<u64> = ids.filter(|id| *id < original.newest).collect();
    assert!(ids.len() > 1);
    for id in ids {
        let dir = original.with(id, Vec::clear);
        fs::remove_file(Segment::path(dir.path(), id)).unwrap();
        let refused = open(dir.path(), &FaultyDisk::of(dir.path()));
        assert!(matches!(refused, Err(EmbeddedOpenError::Corrupt { .. })), "segment {id}");
    }
}
