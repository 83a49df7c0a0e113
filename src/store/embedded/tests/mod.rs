//! Tests that need a failing disk, or access to internals. The other tests are in
//! `tests/it/embedded_store.rs`.

mod crash;
mod damage;
mod disk;
mod faults;
mod forget;
mod rot;
mod simulated;

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use self::disk::FaultyDisk;
use super::{EmbeddedOpenError, EmbeddedStore, Fresh, Options};
use crate::{
    lease::{
        Change, ChangeKind, Epoch, Fence, FenceWhen, FencesAndDelay, Key, KeyState, Moment, Nonce,
        OnFenceFailure, Owner, Record, Revision, Tenure, Token,
    },
    store::{LeaseStore, Write, WriteOutcome},
};

const SEGMENT: u64 = 16 << 10;

fn options(dir: &Path) -> Options {
    let fresh = Fresh { identity: Nonce(77), secret: [5; 32], created_ms: 1_000 };
    let mut options = Options::new(dir, fresh);
    options.segment_bytes = SEGMENT;
    options.min_log_bytes = 2 * SEGMENT;
    options
}

fn open(dir: &Path, disk: &Arc<FaultyDisk>) -> Result<EmbeddedStore, EmbeddedOpenError> {
    EmbeddedStore::open_on(options(dir), Arc::new(|| 1_234), Arc::clone(disk) as _)
}

fn key(n: u64) -> Key {
    Key::new(&format!("key-{n:04}")).unwrap()
}

/// The `seq`-th record of a key. The nonce makes its length vary.
fn record(seq: u64, nonce: u128) -> Record {
    let owner = Owner::new("worker").unwrap();
    let token = Token::OF_THIS_WRITE;
    Record {
        nonce: Nonce(nonce),
        node: Nonce(1),
        epoch: Epoch(0),
        written: Moment::ZERO,
        state: KeyState::Held,
        seq,
        tenure: Some(Tenure {
            grant_nonce: Nonce(nonce),
            owner,
            token,
            ttl_ms: 10,
            acquired_at_ms: 0,
            session_ref: None,
        }),
        previous: None,
        value: Some("v".repeat((nonce % 90) as usize).into()),
        floor_ms: 0,
        pins: Box::new([]),
        offer: None,
        revocation: None,
        fences_and_delay: None,
        request_marks: Box::new([]),
        ..Record::absent()
    }
}

/// A fence that failed.
fn failed_fence() -> FencesAndDelay {
    let fence = Fence {
        token: Token(1),
        owner: Owner::new("worker").unwrap(),
        reason: ChangeKind::Expired,
        session: None,
        when: FenceWhen::BeforeGrant,
        on_failure: OnFenceFailure::Block,
        timeout_ms: 1,
        pending: Box::new(["power".into()]),
        failed: Box::new(["power".into()]),
    };
    FencesAndDelay { cooling_ms: 0, fences: vec![fence] }
}

fn write(key: &Key, expected: Revision, seq: u64, nonce: u128) -> Write {
    let change = Change {
        kind: ChangeKind::Granted,
        seq,
        owner: Owner::new("worker").ok(),
        token: Token::OF_THIS_WRITE,
        previous: None,
        reason: None,
        actor: None,
        session: None,
    };
    let record = Arc::new(record(seq, nonce));
    Write { key: key.clone(), expected, record, changes: vec![change] }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(future)
}

fn nap(span: Duration) {
    wait(async { tokio::time::sleep(span).await });
}

fn revision_of(store: &EmbeddedStore, key: &Key) -> Option<Revision> {
    wait(store.read(key)).unwrap().map(|found| found.revision)
}

/// Writes the key's next record.
fn put(store: &EmbeddedStore, key: &Key, seq: u64, nonce: u128) -> WriteOutcome {
    let expected = revision_of(store, key).unwrap_or(Revision::ABSENT);
    wait(store.compare_and_set(write(key, expected, seq, nonce)))
}

fn put_ok(store: &EmbeddedStore, key: &Key, seq: u64, nonce: u128) -> Revision {
    match put(store, key, seq, nonce) {
        WriteOutcome::Committed(revision) => revision,
        other => panic!("not committed: {other:?}"),
    }
}
