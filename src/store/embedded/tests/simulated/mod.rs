//! Tens of thousands of crashes. A process or the power ends at any step of any disk operation, also in a
//! recovery, in a compaction, and while a store is created. Afterwards, everything acknowledged must be
//! there, in the history too, and nothing that was refused.
//!
//! The store's threads do not run. The test does their work in turn, so that a seed replays everything.
//! `CRASHES` (default 3000) and `SEED` come from the environment. A failure prints the seed that replays it
//! with `CRASHES=1`.

mod disk;
mod life;
mod model;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use self::{
    disk::{Leaves, SimDisk},
    life::{End, Life},
    model::Model,
};
use super::*;

/// How many crashes one directory goes through.
const CRASHES_OF_ONE: u64 = 25;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// A directory, on a file system in memory if there is one.
pub(super) fn place() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { shm } else { std::env::temp_dir() }
}

/// Counters that show that the test covered the interesting cases.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    crashes: u64,
    in_recovery: u64,
    power: u64,
    failed_syncs: u64,
    full: u64,
    acknowledged: u64,
    /// Writes that were not acknowledged, but are there.
    landed: u64,
    lost: u64,
    carried: u64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.in_recovery += other.in_recovery;
        self.power += other.power;
        self.failed_syncs += other.failed_syncs;
        self.full += other.full;
        self.acknowledged += other.acknowledged;
        self.landed += other.landed;
        self.lost += other.lost;
        self.carried += other.carried;
    }
}

/// Takes one directory through some crashes.
fn lineage(seed: u64, lies: bool) -> Seen {
    let mut rng = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir_in(place()).unwrap();
    let disk = Arc::new(SimDisk::new(dir.path(), rng.random()));
    disk.state().lies = lies;
    let mut model = Model::default();
    let mut seen = Seen::default();
    while seen.crashes < CRASHES_OF_ONE {
        let steps = if rng.random_bool(0.3) { 25 } else { 300 };
        disk.state().start(rng.random_range(0..steps));
        if rng.random_bool(0.2) {
            let most = if rng.random_bool(0.3) { 3 } else { 60 };
            disk.state().good_syncs = Some(rng.random_range(0..most));
        }
        match Life::open(dir.path(), &disk, rng.random()) {
            Err(error) => {
                let state = disk.state();
                assert!(state.stopped || state.failed, "it does not open: {error}");
                seen.in_recovery += 1;
            }
            Ok(mut life) => {
                model.check(&life.store, &mut seen);
                seen.add(life.run(&mut model, &disk, &mut rng));
                if life.end == End::Closed {
                    model.nothing_is_unknown();
                }
            }
        }
        seen.crashes += 1;
        if rng.random_bool(0.6) {
            let leaves = [Leaves::Everything, Leaves::Nothing, Leaves::Sectors, Leaves::Beginning];
            disk.state().lose_power(leaves[rng.random_range(0..4)]);
            seen.power += 1;
        }
    }
    disk.state().start(u64::MAX);
    let life = Life::open(dir.path(), &disk, 1).unwrap_or_else(|e| panic!("it does not open: {e}"));
    model.check(&life.store, &mut seen);
    seen
}

#[test]
fn whatever_step_a_crash_comes_at_nothing_acknowledged_is_lost() {
    let crashes = from_environment("CRASHES").unwrap_or(1_500);
    let seed = from_environment("SEED").unwrap_or(20_260);
    println!("SEED={seed} CRASHES={crashes}");
    let lineages = crashes.div_ceil(CRASHES_OF_ONE);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = Mutex::new(Seen::default());
    let work = || {
        while let n = next.fetch_add(1, Relaxed)
            && n < lineages
        {
            let seed = seed + n;
            match catch_unwind(AssertUnwindSafe(|| lineage(seed, false))) {
                Ok(seen) => total.lock().unwrap().add(seen),
                Err(_) => {
                    failed.fetch_add(1, Relaxed);
                    eprintln!("the seed above was: SEED={seed} CRASHES=1");
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (seen, failed) = (total.into_inner().unwrap(), failed.into_inner());
    println!("{seen:?}");
    println!("simulated crashes: {} passed, {failed} failed", seen.crashes);
    assert_eq!(failed, 0);
    let load = seen.acknowledged > 0 && seen.landed > 0 && seen.lost > 0 && seen.carried > 0;
    let faults = seen.in_recovery > 0 && seen.power > 0 && seen.failed_syncs > 0;
    assert!(crashes < 1_000 || (load && faults), "too little happened: {seen:?}");
    // The disk is full in few lives, and rarely when a new segment is due.
    assert!(crashes < 50_000 || seen.full > 0, "no write was refused: {seen:?}");
}

/// The test finds the faults of a disk that lies.
#[test]
fn a_disk_that_lies_is_found_out() {
    let caught = (1..=20).filter(|seed| catch_unwind(|| lineage(*seed, true)).is_err()).count();
    println!("{caught} of 20 lineages of {CRASHES_OF_ONE} crashes each");
    assert!(caught >= 18, "{caught}");
}
