//! The seeds of the target `record`: one of each kind, with every field in use.

use tenure::lease::{
    Behavior, ChangeKind, Check, CheckKind, Ended, Epoch, Fence, FenceWhen, FencesAndDelay,
    Handover, KeyState, Level, Moment, NodeRecord, NodeState, Nonce, Offer, OnFenceFailure, Owner,
    Record, RequestMark, Revocation, SessionRef, SessionSpec, Tenure, Token,
};

/// Their names and bytes: what the target is to take them for, then the record without its checksum.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut coded = Vec::new();
    full().encode_into(&mut coded);
    let full = seed(0, &coded);
    // The forms before end earlier, with nothing.
    let mut before_spec = full[..full.len() - spec_bytes()].to_vec();
    before_spec[1] = 4;
    let mut before = before_spec[..before_spec.len() - handover_bytes()].to_vec();
    before[1] = 3;
    let mut coded = Vec::new();
    free().encode_into(&mut coded);
    let free = seed(0, &coded);
    let mut coded = Vec::new();
    node().encode_into(&mut coded);
    let node = seed(1, &coded);
    let with_checksum = [&[0x80], coded.as_slice()].concat();
    vec![
        ("seed-full", full),
        ("seed-form-before", before),
        ("seed-form-before-spec", before_spec),
        ("seed-free", free),
        ("seed-node", node),
        ("seed-with-checksum", with_checksum),
        ("seed-entry", vec![2, 1, 7, 3, 1, 1, 2, 1, 0]),
        ("seed-trail", vec![3, 1, 7, 1, 2, 0]),
    ]
}

fn seed(what: u8, coded: &[u8]) -> Vec<u8> {
    [&[what], &coded[..coded.len() - 4]].concat()
}

fn handover_bytes() -> usize {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    full().encode_into(&mut with);
    Record { handover: None, ..full() }.encode_into(&mut without);
    with.len() - without.len() + 1
}

fn spec_bytes() -> usize {
    spec().stored_bytes() + 1
}

fn spec() -> SessionSpec {
    let kinds = [
        CheckKind::Http("http://127.0.0.1:1/".into()),
        CheckKind::Tcp("127.0.0.1:1".into()),
        CheckKind::Exec(vec!["true".into()]),
        CheckKind::Progress,
    ];
    let check = |kind| Check { kind, interval_ms: 1000, timeout_ms: 500, fail_after: 3 };
    SessionSpec {
        behavior: Behavior::Delete,
        lock_delay_ms: Some(1),
        pool: Some("p".into()),
        weight: 2,
        capacity: Some(3),
        checks: kinds.map(check).into(),
    }
}

fn tenure(nonce: u128, session_ref: Option<SessionRef>) -> Tenure {
    Tenure {
        grant_nonce: Nonce(nonce),
        owner: Owner::new("worker/ü").expect("an owner"),
        token: Token::OF_THIS_WRITE,
        ttl_ms: 5000,
        acquired_at_ms: 1_790_000_000_000,
        session_ref: session_ref.map(Box::new),
    }
}

fn full() -> Record {
    let session_ref =
        SessionRef { session: Nonce(9), lock_delay_ms: Some(1), behavior: Behavior::Delete };
    let fence = Fence {
        token: Token(7),
        owner: Owner::new("w").expect("an owner"),
        reason: ChangeKind::Expired,
        session: Some(Nonce(3)),
        when: FenceWhen::AfterGrant,
        on_failure: OnFenceFailure::GrantWithAlarm,
        timeout_ms: 30_000,
        pending: Box::new(["a".into(), "b".into()]),
        failed: Box::new(["b".into()]),
    };
    let ended = Ended {
        tenure: tenure(2, None),
        reason: ChangeKind::Revoked,
        ended_at_ms: 1_790_000_000_001,
        fenced: true,
    };
    Record {
        nonce: Nonce(u128::MAX),
        node: Nonce(1 << 100),
        epoch: Epoch(3),
        written: Moment(123_456_789),
        state: KeyState::Held,
        seq: 300,
        tenure: Some(tenure(1, Some(session_ref))),
        previous: Some(Box::new(ended)),
        value: Some("a value".into()),
        floor_ms: 5000,
        pins: Box::new(["ops".into()]),
        offer: Some(Box::new(Offer { to: Owner::new("x").expect("an owner"), span_ms: 10 })),
        revocation: Some(Box::new(Revocation { reason: "r".into(), actor: "a".into() })),
        fences_and_delay: Some(Box::new(FencesAndDelay { cooling_ms: 9, fences: vec![fence] })),
        request_marks: Box::new([RequestMark { id: 5, body: 6, grant_nonce: Nonce(7) }]),
        handover: Some(Box::new(Handover { reason: "r".into(), actor: "a".into(), span_ms: 4 })),
        spec: Some(Box::new(spec())),
        ..Record::absent()
    }
}

fn free() -> Record {
    Record {
        state: KeyState::Free,
        tenure: None,
        previous: None,
        value: None,
        pins: Box::default(),
        offer: None,
        revocation: None,
        fences_and_delay: None,
        request_marks: Box::default(),
        handover: None,
        spec: None,
        ..full()
    }
}

fn node() -> NodeRecord {
    NodeRecord {
        nonce: Nonce(1),
        incarnation: Nonce(2),
        state: NodeState::Alive,
        url: "http://10.0.0.7:7373".into(),
        version: "0.1.0".into(),
        load: 17,
        epoch: Epoch(1),
        ttl_ms: 3000,
        written: Moment(5),
        until: Moment(6),
        unseen: false,
        place: 1 << 40,
        common: tenure::lease::Common { policies: u32::MAX, access: u32::MAX },
        level: Level(2),
    }
}
