//! Records, changes and writes of grants, as tests write them past the coordinator.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tenure::{
    lease::{
        Behavior, Change, ChangeKind, Epoch, Key, KeyState, Moment, Nonce, Owner, Record, Revision,
        SessionSpec, Tenure, Token,
    },
    store::Write,
};

pub fn key(name: &str) -> Key {
    Key::new(name).unwrap_or_else(|why| panic!("{name:?} {why}"))
}

/// A nonce that was not given before in this process.
pub fn nonce() -> Nonce {
    static GIVEN: AtomicU64 = AtomicU64::new(1);
    Nonce(u128::from(GIVEN.fetch_add(1, Relaxed)) << 64 | 0x5eed)
}

/// A fresh grant to `owner`, as the key's change `seq`. Its token is the revision of this very write.
pub fn held(owner: &str, seq: u64) -> Record {
    let grant_nonce = nonce();
    Record {
        nonce: grant_nonce,
        node: Nonce(1),
        epoch: Epoch(0),
        written: Moment::ZERO,
        state: KeyState::Held,
        seq,
        tenure: Some(Tenure {
            grant_nonce,
            owner: Owner::new(owner).expect("a name"),
            token: Token::OF_THIS_WRITE,
            ttl_ms: 10_000,
            acquired_at_ms: 0,
            session_ref: None,
        }),
        previous: None,
        value: None,
        floor_ms: 0,
        pins: Box::default(),
        offer: None,
        revocation: None,
        fences_and_delay: None,
        request_marks: Box::default(),
        ..Record::absent()
    }
}

pub fn change(kind: ChangeKind, owner: &str, seq: u64) -> Change {
    let (owner, token) = (Owner::new(owner).ok(), Token::OF_THIS_WRITE);
    Change { kind, seq, owner, token, previous: None, reason: None, actor: None, session: None }
}

pub fn granted(owner: &str, seq: u64) -> Change {
    change(ChangeKind::Granted, owner, seq)
}

pub fn grant(key: &Key, expected: Revision, owner: &str, seq: u64) -> Write {
    let (record, changes) = (Arc::new(held(owner, seq)), vec![granted(owner, seq)]);
    Write { key: key.clone(), expected, record, changes }
}

/// A session without a pool, a check or a lock-delay of its own.
pub fn plain_session() -> SessionSpec {
    SessionSpec {
        behavior: Behavior::Release,
        lock_delay_ms: None,
        pool: None,
        weight: 1,
        capacity: None,
        checks: Vec::new(),
    }
}
