//! Power failures at random moments. Everything acknowledged must be there, and everything there must have
//! been written.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{disk::Leaves, *};
use crate::store::{History, Position};

const KEYS: u64 = 40;
const CLIENTS: u64 = 10;
const ROUNDS: usize = 80;

/// Every write that was ever tried: its nonce, with the key and the `seq`.
type Tried = Mutex<HashMap<u128, (Key, u64)>>;
/// The last acknowledged write of each key.
type Acknowledged = HashMap<Key, Revision>;

#[test]
fn nothing_acknowledged_is_lost_in_any_crash() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_260);
    println!("seed {seed} (set SEED to replay another)");
    let mut rng = StdRng::seed_from_u64(seed);
    let tried = Tried::default();
    let mut acknowledged = Acknowledged::default();
    let mut dir = tempfile::tempdir().unwrap();
    let mut carried = 0;
    for round in 0..ROUNDS {
        let disk = FaultyDisk::of(dir.path());
        disk.faults().sync_takes = Duration::from_micros(100);
        let store = open(dir.path(), &disk).unwrap_or_else(|e| panic!("round {round}: {e}"));
        check(&store, &tried.lock().unwrap(), &acknowledged, round);
        let next = tempfile::tempdir().unwrap();
        let leaves = match round % 6 {
            0 => Leaves::Everything,
            1 => Leaves::Nothing,
            _ => Leaves::SomeSectors,
        };
        let span = Duration::from_micros(rng.random_range(200..40_000));
        let told = Mutex::new(acknowledged);
        let stop = AtomicBool::new(false);
        acknowledged = std::thread::scope(|scope| {
            let stop_at_the_end = SetOnDrop(&stop);
            for client in 0..CLIENTS {
                let (store, tried, told, stop) = (&store, &tried, &told, &stop);
                let seed = rng.random();
                scope.spawn(move || work(store, tried, told, stop, (round as u64, client, seed)));
            }
            nap(span);
            // The acknowledged writes are copied before the crash. Those acknowledged in between need not survive
            // it.
            let told = told.lock().unwrap().clone();
            disk.crash(dir.path(), next.path(), leaves, &mut rng);
            drop(stop_at_the_end);
            told
        });
        carried += store.stats().carried;
        drop(store);
        dir = next;
    }
    assert!(carried > 0, "compaction was part of it");
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn work(
    store: &EmbeddedStore,
    tried: &Tried,
    told: &Mutex<Acknowledged>,
    stop: &AtomicBool,
    (round, client, seed): (u64, u64, u64),
) {
    let mut rng = StdRng::seed_from_u64(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for n in 0_u64.. {
        if stop.load(Relaxed) {
            return;
        }
        let key = key(rng.random_range(0..KEYS));
        let found = runtime.block_on(store.read(&key)).unwrap();
        let (expected, seq) =
            found.map_or((Revision::ABSENT, 0), |f| (f.revision, f.record.as_ref().unwrap().seq));
        let nonce = u128::from(round) << 64 | u128::from(client) << 48 | u128::from(n);
        tried.lock().unwrap().insert(nonce, (key.clone(), seq + 1));
        let write = write(&key, expected, seq + 1, nonce);
        match runtime.block_on(store.compare_and_set(write)) {
            WriteOutcome::Committed(revision) => {
                let mut told = told.lock().unwrap();
                let last = told.entry(key).or_default();
                *last = revision.max(*last);
            }
            WriteOutcome::Conflict(Some(found)) => assert_ne!(found.revision, expected),
            other => panic!("{other:?}"),
        }
    }
}

fn check(
    store: &EmbeddedStore,
    tried: &HashMap<u128, (Key, u64)>,
    acknowledged: &Acknowledged,
    round: usize,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut seqs = BTreeMap::new();
    for key in (0..KEYS).map(key) {
        let found = runtime.block_on(store.read(&key)).unwrap();
        let there = found.as_ref().map_or(Revision::ABSENT, |f| f.revision);
        let told = acknowledged.get(&key).copied().unwrap_or_default();
        assert!(there >= told, "round {round}: {key} has {there:?}, and {told:?} was acknowledged");
        if let Some(found) = found {
            let found = found.record.unwrap();
            let (of, seq) = &tried[&found.nonce.0];
            assert_eq!(*found, record(*seq, found.nonce.0), "round {round}");
            assert_eq!(*of, key, "round {round}");
            seqs.insert(key, *seq);
        }
    }
    let mut after = store.shared.table().forgotten();
    let mut last: HashMap<Key, u64> = HashMap::new();
    loop {
        let History::Changes(changes) = runtime.block_on(store.history(after, 100)).unwrap() else {
            panic!("round {round}: a gap after {after:?}");
        };
        let Some(end) = changes.last() else { break };
        after = end.position;
        for change in &changes {
            let before = last.insert(change.key.clone(), change.change.seq);
            let expected = before.map_or(change.change.seq, |b| b + 1);
            assert_eq!(change.change.seq, expected, "round {round}: {}", change.key);
        }
    }
    assert_eq!(after, store.latest());
    assert!(after == Position::default() || !last.is_empty() || round > 0);
    for (key, seq) in last {
        assert_eq!(seqs.get(&key), Some(&seq), "round {round}: history and record of {key}");
    }
}
