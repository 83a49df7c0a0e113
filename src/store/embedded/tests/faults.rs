//! A full disk, a broken disk, and a record of a newer program.

use std::time::Duration;

use super::*;
use crate::{
    clock::{Clock, SystemClock},
    lease::CodecError,
    store::{
        Health, History, Position, StoreError,
        embedded::{
            frame::{self, FrameKind, Stamp},
            segment::{HEADER, HEADER_CRC_AT, Header, Segment},
        },
    },
};

#[test]
fn a_full_disk_refuses_loses_nothing_and_goes_on_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    disk.faults().room = Some(3);
    let store = open(dir.path(), &disk).unwrap();
    let mut committed = Vec::new();
    let refused = loop {
        let n = committed.len() as u64;
        match put(&store, &key(n), 1, u128::from(n)) {
            WriteOutcome::Committed(revision) => committed.push(revision),
            other => break other,
        }
    };
    assert!(matches!(refused, WriteOutcome::Refused(StoreError::Full(_))), "{refused:?}");
    assert!(matches!(store.health(), Health::Degraded(why) if why.contains("no room")));
    assert!(committed.len() > 100);
    for (n, revision) in committed.iter().enumerate() {
        assert_eq!(revision_of(&store, &key(n as u64)), Some(*revision));
    }
    disk.faults().room = None;
    let recovered = (0..100).any(|_| {
        nap(Duration::from_millis(50));
        store.health() == Health::Ready
    });
    assert!(recovered);
    let next = put_ok(&store, &key(9_000), 1, 9);
    assert!(next > *committed.last().unwrap());
}

/// A clock that the test sets.
#[derive(Default)]
struct Watch(std::sync::atomic::AtomicU64);

impl Watch {
    fn pass(&self, secs: u64) {
        self.0.fetch_add(secs * 1_000_000_000, std::sync::atomic::Ordering::Relaxed);
    }
}

impl crate::store::embedded::Observer for Watch {
    fn nanos(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn synced(&self, _: usize, _: Duration) {}
}

fn open_watched(dir: &Path, disk: &Arc<FaultyDisk>) -> (EmbeddedStore, Arc<Watch>) {
    let watch = Arc::new(Watch::default());
    watch.pass(1);
    let options = Options { observer: Some(watch.clone()), ..options(dir) };
    let store = EmbeddedStore::open_on(options, Arc::new(|| 1_234), Arc::clone(disk) as _);
    (store.unwrap(), watch)
}

/// Waits until the writer has begun a write to the disk.
fn until_writing(store: &EmbeddedStore) {
    let writing = (0..500).any(|_| {
        nap(Duration::from_millis(10));
        store.shared.is_writing()
    });
    assert!(writing);
}

#[test]
fn a_disk_that_hangs_is_told_and_nothing_more_is_accepted_until_it_answers() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    let (store, watch) = open_watched(dir.path(), &disk);
    put_ok(&store, &key(1), 1, 1);
    disk.faults().sync_takes = Duration::from_secs(2);
    let hangs = store.compare_and_set(write(&key(2), Revision::ABSENT, 1, 2));
    until_writing(&store);
    let waits = store.compare_and_set(write(&key(3), Revision::ABSENT, 1, 3));
    watch.pass(4);
    assert_eq!(store.health(), Health::Ready, "it is slow");
    watch.pass(2);
    assert!(matches!(store.health(), Health::Degraded(why) if why.contains("for 6 s")));
    assert!(matches!(wait(waits), WriteOutcome::Refused(StoreError::Unavailable(_))));
    let more = put(&store, &key(4), 1, 4);
    assert!(matches!(more, WriteOutcome::Refused(StoreError::Unavailable(_))), "{more:?}");
    disk.faults().sync_takes = Duration::ZERO;
    assert!(matches!(wait(hangs), WriteOutcome::Committed(_)), "it answered after all");
    assert_eq!(store.health(), Health::Ready);
    put_ok(&store, &key(4), 1, 4);
    assert_eq!(revision_of(&store, &key(3)), None, "what was refused was not written");
}

#[test]
fn a_write_in_place_for_which_there_is_no_room_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    let (store, watch) = open_watched(dir.path(), &disk);
    put_ok(&store, &key(1), 1, 1);
    disk.faults().no_room_in_place = true;
    let waits = store.compare_and_set(write(&key(2), Revision::ABSENT, 1, 2));
    until_writing(&store);
    watch.pass(6);
    assert!(matches!(store.health(), Health::Degraded(_)));
    disk.faults().no_room_in_place = false;
    assert!(matches!(wait(waits), WriteOutcome::Committed(_)));
    assert_eq!(store.health(), Health::Ready);
    let next = put_ok(&store, &key(3), 1, 3);
    // Closing the store must not wait for room.
    disk.faults().no_room_in_place = true;
    let lost = store.compare_and_set(write(&key(4), Revision::ABSENT, 1, 4));
    until_writing(&store);
    store.close();
    assert!(matches!(wait(lost), WriteOutcome::Unknown(_)));
    disk.faults().no_room_in_place = false;
    drop(store);
    let again = open(dir.path(), &disk).unwrap();
    assert_eq!(revision_of(&again, &key(3)), Some(next));
}

#[test]
fn a_failed_sync_stops_the_store_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    let store = open(dir.path(), &disk).unwrap();
    let before = put_ok(&store, &key(1), 1, 1);
    disk.faults().fail_syncs = true;
    let unknown = put(&store, &key(1), 2, 2);
    assert!(matches!(unknown, WriteOutcome::Unknown(StoreError::Unavailable(_))), "{unknown:?}");
    disk.faults().fail_syncs = false;
    let refused = put(&store, &key(2), 1, 3);
    assert!(matches!(refused, WriteOutcome::Refused(StoreError::Unavailable(_))), "{refused:?}");
    assert!(matches!(store.health(), Health::Degraded(why) if why.contains("restart")));
    assert_eq!(revision_of(&store, &key(1)), Some(before), "what may not be there is not shown");
    drop(store);
    let store = open(dir.path(), &disk).unwrap();
    assert!(revision_of(&store, &key(1)) >= Some(before));
    put_ok(&store, &key(2), 1, 3);
}

#[test]
fn a_failed_write_stops_the_store_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    let store = open(dir.path(), &disk).unwrap();
    put_ok(&store, &key(1), 1, 1);
    disk.faults().fail_writes = true;
    assert!(matches!(put(&store, &key(1), 2, 2), WriteOutcome::Unknown(_)));
    assert!(matches!(put(&store, &key(1), 2, 2), WriteOutcome::Refused(_)));
}

#[test]
fn a_record_beyond_a_segment_is_refused_and_the_store_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::of(dir.path());
    let store = open(dir.path(), &disk).unwrap();
    let mut long = write(&key(1), Revision::ABSENT, 1, 1);
    Arc::make_mut(&mut long.record).value = Some("v".repeat(SEGMENT as usize).into());
    let refused = wait(store.compare_and_set(long));
    assert!(matches!(refused, WriteOutcome::Refused(StoreError::Unavailable(_))), "{refused:?}");
    put_ok(&store, &key(1), 1, 1);
}

/// Makes a log by hand: one segment with only carried frames.
fn carried_only(dir: &Path, id: u64, next: Revision, record: &[u8]) {
    let log_id = options(dir).fresh.identity.0;
    let before = Position { revision: Revision(40), index: 1 };
    let (next_revision, bytes) = (next, SEGMENT as u32);
    let header = Header { id, log_id, next_revision, before, oldest: id, previous_end: 0, bytes };
    let mut bytes = header.encode();
    let path = Segment::path(dir, id);
    std::fs::write(&path, &bytes).unwrap();
    let segment = Segment::new(id, log_id, std::fs::File::open(&path).unwrap(), SEGMENT as u32);
    let mut draft = Vec::new();
    frame::draft_raw(&mut draft, "key-0001", record, None).unwrap();
    let stamp = Stamp {
        revision: Revision(7),
        at_ms: 1,
        epoch: crate::lease::Epoch(0),
        kind: FrameKind::Carried,
        group_start: HEADER,
    };
    frame::seal(&mut draft, segment.seed, stamp);
    bytes.extend_from_slice(&draft);
    bytes.resize(SEGMENT as usize, 0);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn revisions_go_on_where_only_carried_records_are_left() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), &FaultyDisk::of(dir.path())).unwrap());
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some() {
            std::fs::remove_file(path).unwrap();
        }
    }
    let mut bytes = Vec::new();
    record(1, 1).encode_into(&mut bytes);
    carried_only(dir.path(), 9, Revision(60), &bytes);
    let store = open(dir.path(), &FaultyDisk::of(dir.path())).unwrap();
    assert_eq!(revision_of(&store, &key(1)), Some(Revision(7)));
    let latest = Position { revision: Revision(40), index: 1 };
    assert_eq!(store.latest(), latest);
    let earlier = Position { revision: Revision(40), index: 0 };
    let gap = wait(store.history(earlier, 10)).unwrap();
    assert!(matches!(gap, History::Gap { resume } if resume == latest));
    let none = wait(store.history(latest, 10)).unwrap();
    assert!(matches!(none, History::Changes(changes) if changes.is_empty()));
    assert_eq!(put_ok(&store, &key(2), 1, 2), Revision(60));
}

#[test]
fn a_record_of_a_newer_program_is_quarantined() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), &FaultyDisk::of(dir.path())).unwrap());
    for id in 1..9 {
        let _ = std::fs::remove_file(Segment::path(dir.path(), id));
    }
    let mut bytes = Vec::new();
    record(1, 1).encode_into(&mut bytes);
    let body = bytes.len() - 4;
    bytes[0] = 9;
    let crc = crc32fast::hash(&bytes[..body]);
    bytes[body..].copy_from_slice(&crc.to_le_bytes());
    carried_only(dir.path(), 1, Revision(60), &bytes);
    let store = open(dir.path(), &FaultyDisk::of(dir.path())).unwrap();
    let found = wait(store.read(&key(1))).unwrap().unwrap();
    assert_eq!(found.record, Err(CodecError::Version(9)));
    assert_eq!(found.revision, Revision(7));
}

/// What a newer program wrote is intact, and is not damage.
#[test]
fn a_log_of_a_newer_program_is_told_from_a_damaged_one() {
    let store_with = |change: &dyn Fn(&mut Vec<u8>, u32)| {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path(), &FaultyDisk::of(dir.path())).unwrap());
        for id in 1..9 {
            let _ = std::fs::remove_file(Segment::path(dir.path(), id));
        }
        let mut bytes = Vec::new();
        record(1, 1).encode_into(&mut bytes);
        carried_only(dir.path(), 1, Revision(60), &bytes);
        let path = Segment::path(dir.path(), 1);
        let file = std::fs::File::open(&path).unwrap();
        let seed = Segment::new(1, options(dir.path()).fresh.identity.0, file, 0).seed;
        let mut segment = std::fs::read(&path).unwrap();
        change(&mut segment, seed);
        std::fs::write(&path, segment).unwrap();
        open(dir.path(), &FaultyDisk::of(dir.path()))
    };
    let header = |segment: &mut Vec<u8>, _: u32| {
        segment[8] = 2;
        let crc = crc32fast::hash(&segment[..HEADER_CRC_AT]);
        segment[HEADER_CRC_AT..HEADER_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    };
    let kind = |segment: &mut Vec<u8>, seed: u32| {
        let frame = &mut segment[HEADER as usize..];
        let len = frame::claimed_len(frame).unwrap() as usize;
        frame[36] = 77;
        let mut hasher = crc32fast::Hasher::new_with_initial(seed);
        hasher.update(&frame[4..len]);
        frame[..4].copy_from_slice(&hasher.finalize().to_le_bytes());
    };
    store_with(&|_, _| {}).unwrap();
    for change in [&header as &dyn Fn(&mut Vec<u8>, u32), &kind] {
        let opened = store_with(change);
        assert!(
            matches!(opened, Err(EmbeddedOpenError::NewerVersion { found: 2, known: 1, .. })),
            "{opened:?}"
        );
    }
}

/// A value that claims to be a long frame at each place costs no more time than another value.
#[test]
fn what_a_caller_wrote_does_not_slow_the_search_for_frames() {
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    let mut rng = StdRng::seed_from_u64(3);
    let mut bytes = vec![0; 1 << 20];
    let long = bytes.len() / 4;
    for (at, place) in bytes.chunks_exact_mut(8).enumerate() {
        // A checksum, which is the key length of the frame four places before. Then a length, or that of a
        // record.
        place[..4].copy_from_slice(&rng.random::<u32>().to_le_bytes());
        let claims: u32 = if at % 2 == 0 { long.try_into().unwrap() } else { 100 };
        place[4..].copy_from_slice(&claims.to_le_bytes());
    }
    let seed = 77;
    let began = SystemClock::new().now();
    assert!(!frame::Search::new(&bytes, seed).any(|_| true));
    let took = SystemClock::new().now().since(began);
    assert!(took < Duration::from_secs(20), "{took:?}");

    // A frame that is there is found, wherever it begins.
    let mut draft = Vec::new();
    frame::draft_raw(&mut draft, "key", &[7; 100], None).unwrap();
    for at in [0, 8, 4096 - 8, 70_000, 1 << 19] {
        let stamp = Stamp {
            revision: Revision(9),
            at_ms: 1,
            epoch: Epoch(0),
            kind: FrameKind::Write,
            group_start: 5,
        };
        frame::seal(&mut draft, seed, stamp);
        let mut with = bytes.clone();
        with[at..at + draft.len()].copy_from_slice(&draft);
        assert!(frame::Search::new(&with, seed).any(|frame| frame.group_start == 5), "at {at}");
        assert!(!frame::Search::new(&with, seed ^ 1).any(|_| true), "of another segment");
    }
}
