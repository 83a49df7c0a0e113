//! One process on the simulated disk, from its start to its end.

use std::{
    future::Future,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use rand::{RngExt, rngs::StdRng};

use super::{
    Seen,
    disk::SimDisk,
    model::{Model, Tried},
};
use crate::{
    lease::{Key, KeyState, Nonce, Revision},
    store::{
        Health, LeaseStore, StoreError, StoreFuture, Write, WriteOutcome,
        embedded::{
            EmbeddedOpenError, EmbeddedStore, Fresh,
            tests::{SEGMENT, failed_fence, key, options, record, write},
            writer::Writer,
        },
    },
};

const KEYS: u64 = 12;
const ALL_KEYS: u64 = 60;
const SESSIONS: u64 = 8;
/// The bytes of all values in one turn. They do not fill more than one segment.
const MOST_BYTES: u64 = SEGMENT / 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Stopped,
    Failed,
    Closed,
}

/// The future that a caller waits for.
enum Waiting {
    Write(StoreFuture<WriteOutcome>),
    Forget(StoreFuture<Result<bool, StoreError>>),
}

pub(super) struct Life {
    pub store: EmbeddedStore,
    pub end: End,
    writer: Writer,
    _lock: std::fs::File,
}

/// The result of a future that is ready.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the caller got no answer"),
    }
}

impl Life {
    pub fn open(
        dir: &Path,
        disk: &Arc<SimDisk>,
        identity: u128,
    ) -> Result<Self, EmbeddedOpenError> {
        let mut options = options(dir);
        options.fresh = Fresh {
            identity: Nonce(identity),
            secret: identity.to_le_bytes().repeat(2).try_into().unwrap(),
            created_ms: 1,
        };
        let disk = Arc::clone(disk);
        let (store, writer, lock) = EmbeddedStore::assemble(&options, Arc::new(|| 1), disk)?;
        Ok(Self { store, end: End::Stopped, writer, _lock: lock })
    }

    /// Runs until the disk stops or fails, or the store is closed.
    pub fn run(&mut self, model: &mut Model, disk: &SimDisk, rng: &mut StdRng) -> Seen {
        let mut seen = Seen::default();
        let closes_after = rng.random_bool(0.1).then(|| rng.random_range(0..20));
        if rng.random_bool(0.1) {
            disk.state().room = Some(rng.random_range(0..3));
        }
        for turn in 0.. {
            if closes_after.is_some_and(|after| turn >= after) {
                self.close(disk);
                break;
            }
            self.store.shared.spares.run_dry();
            self.turn(model, rng, &mut seen);
            if disk.state().stopped || self.writer.failed.is_some() {
                break;
            }
            if disk.state().room == Some(0) && rng.random_bool(0.1) {
                disk.state().room = None;
            }
        }
        if self.end != End::Closed {
            let stopped = disk.state().stopped;
            self.end = if stopped { End::Stopped } else { End::Failed };
            seen.failed_syncs += u64::from(!stopped);
        }
        seen.carried = self.store.stats().carried;
        seen
    }

    fn close(&mut self, disk: &SimDisk) {
        self.writer.finish();
        let stopped = disk.state().stopped || self.writer.failed.is_some();
        self.end = if stopped { End::Stopped } else { End::Closed };
    }

    /// Makes some writes that wait for one another, in one or two groups.
    fn turn(&mut self, model: &mut Model, rng: &mut StdRng, seen: &mut Seen) {
        let mut waiting = Vec::new();
        let mut bytes = 0;
        for _ in 0..rng.random_range(1..=8) {
            let (tried, future) = self.ask(model, rng, &mut bytes);
            waiting.push((tried, future));
            if bytes > MOST_BYTES {
                break;
            }
        }
        let mut jobs = self.store.shared.queue.drain();
        self.writer.work_off(&mut jobs);
        for (tried, future) in waiting {
            match future {
                Waiting::Write(future) => match now(future) {
                    WriteOutcome::Committed(revision) => {
                        seen.acknowledged += 1;
                        model.acknowledged(tried, revision);
                    }
                    WriteOutcome::Unknown(_) => model.unknown(tried),
                    WriteOutcome::Conflict(_) => {}
                    WriteOutcome::Refused(why) => {
                        seen.full += u64::from(matches!(why, StoreError::Full(_)));
                    }
                },
                Waiting::Forget(future) => match now(future) {
                    Ok(true) => model.acknowledged(tried, Revision::ABSENT),
                    Ok(false) => {}
                    // It is not known here whether it was written.
                    Err(_) => model.unknown(tried),
                },
            }
        }
        let degraded = matches!(self.store.health(), Health::Degraded(_));
        assert_eq!(
            degraded,
            self.writer.failed.is_some() || self.store.shared.spares.fault().is_some()
        );
    }

    fn ask(&self, model: &mut Model, rng: &mut StdRng, bytes: &mut u64) -> (Tried, Waiting) {
        let session = rng.random_bool(0.2);
        let among = if rng.random_bool(0.9) { KEYS } else { ALL_KEYS };
        let key = if session {
            Key::of_session(Nonce(u128::from(rng.random_range(0..SESSIONS))))
        } else {
            // Most keys are written rarely, so that compaction has frames to carry.
            key(rng.random_range(0..among))
        };
        let (expected, seq) = model.now(&key);
        // A caller with an old revision is refused.
        let stale = rng.random_bool(0.1) && expected != Revision::ABSENT;
        let expected = if stale { Revision(expected.0 - 1) } else { expected };
        let longest = if rng.random_bool(0.02) { 3_000 } else { 90 };
        let nonce = model.nonce(rng.random_range(0..longest));
        let forget = session && expected != Revision::ABSENT && rng.random_bool(0.4);
        let seq = if session { 1 } else { seq + 1 };
        let tried = Tried { key: key.clone(), seq, nonce, forget };
        if forget {
            return (tried, Waiting::Forget(self.store.forget(&key, expected)));
        }
        let mut write: Write = write(&key, expected, seq, nonce);
        write.record = Arc::new(Model::record(&tried));
        if session {
            write.changes.clear();
        }
        *bytes += nonce as u64 % 4_096 + 200;
        (tried, Waiting::Write(self.store.compare_and_set(write)))
    }
}

impl Model {
    /// The record that the write makes.
    pub fn record(tried: &Tried) -> crate::lease::Record {
        let mut record = record(tried.seq, tried.nonce);
        record.value = Some("v".repeat((tried.nonce % 4_096) as usize).into());
        if tried.nonce.is_multiple_of(3) {
            record.state = KeyState::Fencing;
            record.fences_and_delay = Some(Box::new(failed_fence()));
        }
        record
    }
}
