//! What coordinators write is what clients read, and no body takes a field that it does not know.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Attention, BeatBody, CheckBody, Checked, FenceSkipBody, ForgetBody, Grant, HeartbeatAnswer,
    HeartbeatBody, Holdings, Lease, LeaseHistory, LeaseList, Notice, OpenedSession, PastTenure,
    ReleaseBody, RevokeBody, Session, SessionBeat, SessionBody, Sessions, Status, TransferBody,
    reading,
};

fn lease() -> Lease {
    Lease {
        key: "k".into(),
        state: "held",
        owner: Some("w".into()),
        token: 7,
        ttl_ms: Some(1),
        expires_in_ms: Some(2),
        acquired_at: Some("t".into()),
        session: Some("s".into()),
        value: Some("v".into()),
        pool: "p".into(),
        node: Some("http://n".into()),
        waiters: 3,
        pinned: true,
        offered_to: Some("x".into()),
        fences: vec!["f".into()],
        former_owner: Some("o".into()),
        fence_failed: true,
    }
}

#[test]
fn the_present_tenure_is_told_from_the_record_where_no_event_tells_of_it() {
    let lease = lease();
    let latest = |token| PastTenure { token, ..PastTenure::default() };
    for known in [None, Some(latest(6))] {
        let told = lease.untold(known.as_ref()).expect("it goes on");
        assert_eq!((told.owner.as_str(), told.token, told.end), ("w", 7, None));
    }
    assert_eq!(lease.untold(Some(&latest(7))), None);
    assert_eq!(Lease { state: "free", owner: None, ..lease }.untold(None), None);
}

fn session() -> Session {
    let leases = Holdings { count: 2, digest: "00".into() };
    Session {
        digest: "d".into(),
        owner: "w".into(),
        ttl_ms: 1,
        expires_in_ms: Some(2),
        behavior: Default::default(),
        lock_delay_ms: None,
        pool: None,
        rejoin_window_ms: None,
        weight: 1,
        capacity: None,
        version: None,
        address: None,
        labels: std::collections::BTreeMap::new(),
        ready: true,
        checks: Vec::new(),
        leases: Some(leases),
        node: Some("http://n".into()),
        created_at: None,
    }
}

/// What a client reads of an answer.
fn read<T: DeserializeOwned>(written: &impl Serialize) -> T {
    serde_json::from_value(json!(written)).expect("the client reads it")
}

/// Checks that a client that reads an answer and writes it again leaves nothing out.
fn passes_on<T: DeserializeOwned + Serialize>(written: &impl Serialize) {
    assert_eq!(json!(read::<T>(written)), json!(written));
}

#[test]
fn a_client_passes_on_what_it_read() {
    passes_on::<reading::LeaseView>(&lease());
    passes_on::<reading::Leases>(&LeaseList {
        leases: vec![lease()],
        next: Some("n".into()),
        previous: Some("p".into()),
    });
    passes_on::<reading::Check>(&Checked { current: true, lease: lease() });
    passes_on::<reading::Grant>(&Grant { lease: lease(), lease_id: "id".into(), valid_for_ms: 9 });
    passes_on::<reading::SessionView>(&session());
    let tenures = vec![PastTenure { owner: "w".into(), token: 7, ..PastTenure::default() }];
    let history = LeaseHistory {
        lease: lease(),
        tenures,
        events: vec![json!({ "id": "1" })],
        complete: true,
    };
    passes_on::<reading::History>(&history);
    let attention = vec![Attention { kind: "open-door".into(), ..Attention::default() }];
    passes_on::<Status>(&Status { attention, ..Status::default() });
    passes_on::<reading::Sessions>(&Sessions { sessions: vec![session()], next: None });
}

#[test]
fn a_client_finds_what_it_works_with() {
    let view: reading::LeaseView = read(&lease());
    assert_eq!((view.token, view.waiters, view.value.as_deref()), (Some(7), Some(3), Some("v")));
    let opened = OpenedSession { id: "id".into(), valid_for_ms: 9, session: session() };
    let opened: reading::Opened = read(&opened);
    assert_eq!((&*opened.id, &*opened.session.digest, opened.valid_for_ms), ("id", "d", 9));
    let alive =
        HeartbeatAnswer { key: "k", token: 7, valid_for_ms: 9, revived: false, notices: [] };
    let alive: reading::Alive = read(&alive);
    assert_eq!((alive.token, alive.valid_for_ms), (7, 9));
}

#[test]
fn a_client_reads_each_notice() {
    let key = || "k".to_owned();
    let notices = vec![
        Notice::Revoked { key: key(), token: 7 },
        Notice::HandoverRequested { key: key(), token: 7, deadline_ms: 5 },
        Notice::Draining { deadline_ms: 5 },
        Notice::Replaced,
    ];
    let beat = SessionBeat { valid_for_ms: 9, leases: Holdings::default(), notices };
    let alive: reading::SessionAlive = read(&beat);
    let told = alive.notices.iter().map(|one| (&*one.kind, one.token, one.deadline_ms));
    let expected = [
        ("revoked", Some(7), None),
        ("handover-requested", Some(7), Some(5)),
        ("draining", None, Some(5)),
        ("replaced", None, None),
    ];
    assert!(told.eq(expected), "{:?}", alive.notices);
}

/// Checks that a body is read as it was written, and is refused with one more field.
fn is_strict<T: DeserializeOwned + Serialize>(mut body: Value) {
    let read: T = serde_json::from_value(body.clone()).expect("it is a body");
    assert_eq!(json!(read), body);
    body["later"] = json!(1);
    let refused = serde_json::from_value::<T>(body).map(drop).expect_err("it is unknown");
    assert!(refused.to_string().starts_with("unknown field `later`"), "{refused}");
}

#[test]
fn a_body_refuses_a_field_that_it_does_not_know() {
    let held = json!({ "key": "k", "lease_id": "id" });
    is_strict::<HeartbeatBody>(held.clone());
    is_strict::<ReleaseBody>(held.clone());
    is_strict::<TransferBody>(held);
    is_strict::<CheckBody>(json!({ "key": "k", "token": 7 }));
    is_strict::<RevokeBody>(json!({ "key": "k", "reason": "r", "immediately": true }));
    is_strict::<FenceSkipBody>(json!({ "key": "k", "reason": "r" }));
    is_strict::<ForgetBody>(json!({ "prefix": "k", "reason": "r", "after": "k1" }));
    is_strict::<BeatBody>(json!({ "progress": "half" }));
    is_strict::<SessionBody>(json!({ "owner": "w", "ttl_ms": 1, "behavior": "delete" }));
}
