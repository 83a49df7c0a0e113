//! One lease, from its grant to its release, and what others see of it.

use serde_json::{Value, json};

use super::{
    call::Call,
    values::{NODE, POOL, SESSION_ID, STORE_TAG, TIME, free, granted, held, kept},
};
use crate::api::{
    Checked, EventsPage, GatedLease, HeartbeatAnswer, Lease, LeaseAnswer, LeaseHistory, LeaseList,
    PastTenure, Released,
};

const KEY: &str = "shards/17";
const OWNER: &str = "worker-1";
const TOKEN: u64 = 412;
const LEASE_ID: &str = "5562e53dd02881231f4f9403e9704d06";
/// The heartbeat with a value sets it.
const LONGER_TTL_MS: u64 = 60_000;

/// The examples.
pub fn calls() -> Vec<Call> {
    [acquires(), heartbeats(), looks(), ends()].into_iter().flatten().collect()
}

fn acquires() -> Vec<Call> {
    let value = "attempt 1";
    let waited = Lease { value: Some(value.into()), ..held("jobs/nightly", "worker-2", 430) };
    let under = Lease { value: Some("offset 4712".into()), ..kept(KEY, 417) };
    vec![
        Call::with(
            ["acquire", "take"],
            "Take a key that is free",
            json!({ "key": KEY, "owner": OWNER, "ttl_ms": 30_000 }),
            granted(held(KEY, OWNER, TOKEN), LEASE_ID),
        ),
        Call::with(
            ["acquire", "wait"],
            "Wait in the queue for at most 10 s; the call may be repeated under its request id",
            json!({
                "key": "jobs/nightly",
                "owner": "worker-2",
                "ttl_ms": 30_000,
                "wait_ms": 10_000,
                "value": value,
                "request_id": "nightly-2026-03-14",
            }),
            granted(waited, "4e7faf66ed9dea3f4d19f026670d5746"),
        ),
        Call::with(
            ["acquire", "under-a-session"],
            "Take a key whose lease a session keeps",
            json!({ "key": KEY, "owner": OWNER, "session": SESSION_ID }),
            granted(under, "388954c36d4877f65d84a55b7d293c00"),
        ),
    ]
}

fn heartbeats() -> Vec<Call> {
    let alive = |valid_for_ms| HeartbeatAnswer {
        key: KEY,
        token: TOKEN,
        valid_for_ms,
        revived: false,
        notices: [],
    };
    vec![
        Call::with(
            ["heartbeat", "keep"],
            "Keep the lease",
            json!({ "key": KEY, "lease_id": LEASE_ID }),
            alive(30_000),
        ),
        Call::with(
            ["heartbeat", "with-a-value"],
            "Keep the lease for longer, and leave a value for the next owner",
            json!({
                "key": KEY,
                "lease_id": LEASE_ID,
                "value": "offset 4711",
                "ttl_ms": LONGER_TTL_MS,
            }),
            alive(LONGER_TTL_MS),
        ),
    ]
}

fn looks() -> Vec<Call> {
    let lease = || Lease {
        ttl_ms: Some(LONGER_TTL_MS),
        expires_in_ms: Some(59_800),
        value: Some("offset 4711".into()),
        ..held(KEY, OWNER, TOKEN)
    };
    let gate = json!({
        "kind": "check",
        "path": "/v1/check",
        "body": { "key": KEY, "token": TOKEN },
    });
    let under = Lease { value: Some("offset 4712".into()), ..kept(KEY, 417) };
    vec![
        Call::with(
            ["check", "current"],
            "The token is the holder's",
            json!({ "key": KEY, "token": TOKEN }),
            Checked { current: true, lease: lease() },
        ),
        Call::plain(
            ["get_lease", "gate"],
            "A lease on the embedded store, with the condition of gate=1",
            GatedLease { lease: lease(), gate: Some(gate), permits: None },
        ),
        Call::plain(
            ["list_leases", "of-a-session"],
            "A lease that a session keeps",
            LeaseList { leases: vec![under], next: None, previous: None },
        ),
    ]
}

fn ends() -> Vec<Call> {
    let granted = event("granted", 1, TOKEN, Some(OWNER), None);
    let previous = json!({ "owner": OWNER, "token": TOKEN });
    let released = event("released", 2, 414, None, Some(previous));
    let id = cursor(TOKEN);
    let stream = format!("retry: 1000\n\nid: {id}\nevent: granted\ndata: {granted}\n\n");
    let tenure = PastTenure {
        owner: OWNER.into(),
        token: TOKEN,
        began: Some(TIME.into()),
        ended: Some(TIME.into()),
        held_ms: Some(1_500),
        end: Some("released".into()),
        ..PastTenure::default()
    };
    let history = LeaseHistory {
        lease: Lease { value: Some("offset 4712".into()), ..free(KEY, TOKEN) },
        tenures: vec![tenure],
        events: vec![released.clone(), granted.clone()],
        complete: true,
    };
    let next = cursor(414);
    let page = EventsPage { events: vec![granted, released], next, reset: false, more: false };
    let offered = Lease {
        state: "offered",
        expires_in_ms: Some(60_000),
        value: Some("page 3 of 9".into()),
        offered_to: Some("worker-2".into()),
        ..free("jobs/3", 426)
    };
    vec![
        Call::with(
            ["release", "with-a-value"],
            "Give the lease back, and leave a last value",
            json!({ "key": KEY, "lease_id": LEASE_ID, "value": "offset 4712" }),
            Released::from(true),
        ),
        Call::with(
            ["transfer", "to-a-successor"],
            "Reserve the key for a successor, for 60 s",
            json!({
                "key": "jobs/3",
                "lease_id": "5cd80ac1e1e898b9e46ff4334af50303",
                "to": "worker-2",
                "offer_ms": 60_000,
                "value": "page 3 of 9",
            }),
            LeaseAnswer { lease: offered },
        ),
        Call::plain(["lease_history", "released"], "A lease that had one holder", history),
        Call::plain(["events", "page"], "Two events of a lease, by long poll", page),
        Call::text(["events", "stream"], "The first event", "text/event-stream", &stream),
    ]
}

/// A change of the key.
fn event(
    kind: &str,
    seq: u64,
    revision: u64,
    owner: Option<&str>,
    previous: Option<Value>,
) -> Value {
    json!({
        "specversion": "1.0",
        "id": cursor(revision),
        "source": NODE,
        "type": format!("io.tenure.lease.{kind}"),
        "subject": KEY,
        "time": TIME,
        "datacontenttype": "application/json",
        "data": {
            "key": KEY,
            "seq": seq,
            "owner": owner,
            "token": TOKEN,
            "previous": previous,
            "reason": null,
            "actor": null,
            "session": null,
            "pool": POOL,
            "node": NODE,
        },
    })
}

fn cursor(revision: u64) -> String {
    format!("{STORE_TAG}-{revision}-0")
}
