//! Unknown outcomes are settled (§1): whatever a store's answers suffered on their way, what was reported
//! committed is there, nothing is written twice, and revisions and `seq` rise.
//!
//! Several writers work on few keys through a faulty handle. `SEED` replays one run, `BUDGET`
//! multiplies how many are made.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc, time::Duration};

use tenure::{
    clock::Chance,
    lease::{ChangeKind, Key, Revision},
    store::{LeaseStore, Position, Write, WriteOutcome},
};

use crate::stores::{
    embedded,
    faulty::{Faults, Faulty},
    lab::{Listener, assert_whole, from_environment, grant, history, key, nonce, sound},
};

const SEEDS: u64 = 200;
const WRITERS: usize = 5;
const KEYS: usize = 3;
const WRITES: usize = 8;

/// How a writer settles its unknown outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// §1.
    Sound,
    /// An ambiguous write counts as not written.
    Gives,
    /// An ambiguous write counts as written.
    Believes,
    /// A read that shows the old revision ends the doubt.
    ReadsOnce,
    /// A conflict is somebody else's doing.
    ForgetsItsNonce,
}

/// What became of a write, as its writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Written(Revision),
    Not,
    /// Somebody wrote on top of what was judged; whether on top of this write, only the history knows.
    Overtaken,
}

async fn settle(store: &dyn LeaseStore, write: &Write, manner: Manner) -> Verdict {
    let mut unknown = false;
    loop {
        let conflict = match store.compare_and_set(write.clone()).await {
            WriteOutcome::Committed(revision) => return Verdict::Written(revision),
            WriteOutcome::Conflict(there) => Some(there),
            WriteOutcome::Refused(_) if !unknown => return Verdict::Not,
            WriteOutcome::Refused(_) => None,
            WriteOutcome::Unknown(_) if manner == Manner::Gives => return Verdict::Not,
            WriteOutcome::Unknown(_) if manner == Manner::Believes => {
                return Verdict::Written(Revision(write.expected.0 + 1));
            }
            WriteOutcome::Unknown(_) => {
                unknown = true;
                None
            }
        };
        let there = match conflict {
            Some(there) => there,
            None => loop {
                let Ok(there) = store.read(&write.key).await else { continue };
                let revision = there.as_ref().map_or(Revision::ABSENT, |found| found.revision);
                // One below what was judged is stale, and says nothing.
                if revision >= write.expected {
                    break there;
                }
            },
        };
        let (revision, own) = there.map_or((Revision::ABSENT, false), |found| {
            let record = found.record.expect("sound");
            (found.revision, record.nonce == write.record.nonce)
        });
        if own && manner != Manner::ForgetsItsNonce {
            return Verdict::Written(revision);
        }
        if revision != write.expected {
            return if unknown && manner != Manner::ForgetsItsNonce {
                Verdict::Overtaken
            } else {
                Verdict::Not
            };
        }
        if manner == Manner::ReadsOnce {
            return Verdict::Not;
        }
        // Still what was judged: sent once more under the same expected revision it is one write,
        // whichever of the two lands.
    }
}

type Log = Rc<RefCell<Vec<(usize, String, Verdict)>>>;

async fn writer(
    n: usize,
    store: Arc<Faulty<dyn LeaseStore>>,
    manner: Manner,
    mut chance: Chance,
    log: Log,
) {
    for step in 0..WRITES {
        let key = key(&format!("k{}", chance.next_u64() % KEYS as u64));
        // What a writer judges may be stale: then its write cannot be committed.
        let Ok(there) = store.read(&key).await else { continue };
        let (expected, seq) =
            there.map_or((Revision::ABSENT, 0), |f| (f.revision, f.record.expect("sound").seq));
        let mut write = grant(&key, expected, seq + 1);
        let name = format!("{n}-{step}");
        write.changes[0].reason = Some(name.clone().into());
        let mut record = (*write.record).clone();
        record.nonce = nonce();
        write.record = Arc::new(record);
        let verdict = settle(&*store, &write, manner).await;
        log.borrow_mut().push((n, name, verdict));
    }
}

/// One run. Panics where something was lost or done twice; returns what the writers believe.
async fn run(seed: u64, manner: Manner, faults: Faults) -> Vec<(usize, String, Verdict)> {
    // Memory, where there is a directory of it: these runs are not about disks.
    let memory = std::path::Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.expect("a directory");
    let inner: Arc<dyn LeaseStore> = embedded::open(dir.path());
    let faulty = Arc::new(Faulty::in_lockstep(inner.clone(), faults, seed));
    let heard: Arc<dyn LeaseStore> = faulty.clone();
    let mut listener = Listener::new(&heard);
    let log = Log::default();
    let writers = (0..WRITERS).map(|n| {
        let chance = Chance::of(seed, &format!("writer {n}"));
        writer(n, faulty.clone(), manner, chance, log.clone())
    });
    let work = futures_util::future::join_all(writers);
    tokio::time::timeout(Duration::from_secs(600), work).await.expect("every doubt is settled");
    faulty.quiet().await;
    let log = log.take();

    let all = history(&inner, Position::default(), 50).await;
    assert_whole(&all);
    let mut written: HashMap<&str, Vec<Revision>> = HashMap::new();
    let mut last: HashMap<&Key, (Revision, u64)> = HashMap::new();
    for change in &all {
        assert_eq!(change.change.kind, ChangeKind::Granted);
        let name = change.change.reason.as_deref().expect("named");
        written.entry(name).or_default().push(change.position.revision);
        last.insert(&change.key, (change.position.revision, change.change.seq));
    }
    for (_, name, verdict) in &log {
        let there = written.remove(name.as_str()).unwrap_or_default();
        match verdict {
            Verdict::Written(revision) => assert_eq!(there, [*revision], "{name} is written once"),
            Verdict::Not => assert!(there.is_empty(), "{name} is there as {there:?}"),
            Verdict::Overtaken => assert!(there.len() <= 1, "{name} is there as {there:?}"),
        }
    }
    assert!(written.is_empty(), "nobody wrote {written:?}");
    for (key, (revision, seq)) in last {
        let (there, record) = sound(&inner, key).await;
        assert_eq!((there, record.seq), (revision, seq));
    }
    listener.until(&heard, all.len()).await;
    assert_whole(&listener.heard);
    assert_eq!(listener.heard.len(), all.len());
    log
}

fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true);
    runtime.build().expect("a runtime").block_on(future)
}

#[test]
fn what_was_reported_committed_is_there_once() {
    let (from, seeds) = match from_environment("SEED") {
        Some(seed) => (seed, 1),
        None => (0, SEEDS * from_environment("BUDGET").unwrap_or(1)),
    };
    let (mut written, mut not, mut overtaken) = (0, 0, 0);
    for seed in from..from + seeds {
        println!("SEED={seed}");
        for (_, _, verdict) in in_virtual_time(run(seed, Manner::Sound, Faults::everything())) {
            match verdict {
                Verdict::Written(_) => written += 1,
                Verdict::Not => not += 1,
                Verdict::Overtaken => overtaken += 1,
            }
        }
    }
    println!("{seeds} seeds: {written} written, {not} not, {overtaken} overtaken");
    assert!(seeds == 1 || written > 10 * seeds, "something was written");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 2, 3] {
        let first = in_virtual_time(run(seed, Manner::Sound, Faults::everything()));
        let again = in_virtual_time(run(seed, Manner::Sound, Faults::everything()));
        assert_eq!(first, again, "SEED={seed}");
    }
}

/// The run bites: each wrong way to settle a doubt is found out, soon.
#[test]
fn wrong_ways_to_settle_a_doubt_are_found() {
    for manner in [Manner::Gives, Manner::Believes, Manner::ReadsOnce, Manner::ForgetsItsNonce] {
        let found = (0..50).find(|seed| {
            let run = || in_virtual_time(run(*seed, manner, Faults::everything()));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
        });
        let seed = found.unwrap_or_else(|| panic!("{manner:?} was not found out"));
        println!("{manner:?}: found by seed {seed}");
    }
}
