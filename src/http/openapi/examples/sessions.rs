//! A session of a pool, from its opening to its end.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    call::Call,
    values::{NODE, POOL, SESSION, SESSION_ID, SESSION_TTL_MS, STORE_TAG, TIME},
};
use crate::api::{
    Assignment, BehaviorName, ClosedSession, DrainingSession, HealthCheck, Holdings, Notice,
    OpenedSession, OrderedBy, Pool, PoolMember, PoolPlan, Pools, Route, RouteState, Session,
    SessionBeat, Sessions, UnplacedKeys,
};

/// The digest of a session that keeps no lease, and that of shards/17, shards/18 and shards/19 under their tokens.
const NO_LEASES: &str = "0000000000000000";
const THREE_LEASES: &str = "0e0fe71c8afad51e";
/// The session of worker-2.
const OTHER: &str = "8c1f2e3d4a5b69788796a5b4c3d2e1f0";
const OTHER_ID: &str = "8c1f2e3d4a5b69788796a5b4c3d2e1f0f1e2d3c4b5a697887960514233241506";

/// Where worker-1 serves its keys.
const ADDRESS: &str = "10.0.0.7:8080";

/// The examples.
pub fn calls() -> Vec<Call> {
    [opens(), beats(), looks(), ends()].into_iter().flatten().collect()
}

fn no_leases() -> Holdings {
    Holdings { count: 0, digest: NO_LEASES.into() }
}

fn three_leases() -> Holdings {
    Holdings { count: 3, digest: THREE_LEASES.into() }
}

/// A session with what is set by default.
fn plain(digest: &str, owner: &str) -> Session {
    Session {
        digest: digest.into(),
        owner: owner.into(),
        ttl_ms: SESSION_TTL_MS,
        expires_in_ms: Some(SESSION_TTL_MS),
        behavior: BehaviorName::Release,
        lock_delay_ms: None,
        pool: None,
        rejoin_window_ms: None,
        weight: 1,
        capacity: None,
        version: None,
        address: None,
        labels: BTreeMap::new(),
        ready: true,
        checks: Vec::new(),
        leases: Some(no_leases()),
        node: Some(NODE.into()),
        created_at: Some(TIME.into()),
    }
}

/// The member of a pool, with these leases.
fn member(leases: Holdings) -> Session {
    Session {
        lock_delay_ms: Some(2000),
        pool: Some(POOL.into()),
        capacity: Some(100),
        address: Some(ADDRESS.into()),
        labels: labels(),
        checks: vec![HealthCheck::Progress { interval_ms: 60_000, fail_after: 3 }],
        leases: Some(leases),
        ..plain(SESSION, "worker-1")
    }
}

/// The labels of worker-1.
fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("zone".into(), "a".into())])
}

fn opened(id: &str, session: Session) -> OpenedSession {
    OpenedSession { id: id.into(), valid_for_ms: SESSION_TTL_MS, session }
}

fn opens() -> Vec<Call> {
    vec![
        Call::with(
            ["open_session", "plain"],
            "A session with what is set by default",
            json!({ "owner": "worker-2", "ttl_ms": SESSION_TTL_MS }),
            opened(OTHER_ID, plain(OTHER, "worker-2")),
        ),
        Call::with(
            ["open_session", "member"],
            "A member of a pool, whose work must go on for it to live",
            json!({
                "owner": "worker-1",
                "ttl_ms": SESSION_TTL_MS,
                "behavior": "release",
                "lock_delay_ms": 2000,
                "pool": POOL,
                "weight": 1,
                "capacity": 100,
                "address": ADDRESS,
                "labels": labels(),
                "checks": [{ "type": "progress", "interval_ms": 60_000, "fail_after": 3 }],
            }),
            opened(SESSION_ID, member(no_leases())),
        ),
    ]
}

fn beats() -> Vec<Call> {
    let beat =
        |notices| SessionBeat { valid_for_ms: SESSION_TTL_MS, leases: three_leases(), notices };
    let revoked = Notice::Revoked { key: "shards/19".into(), token: 419 };
    vec![
        Call::with(
            ["heartbeat_session", "keep"],
            "Keep the session and all its leases",
            json!({ "progress": "offset 4711" }),
            beat(Vec::new()),
        ),
        Call::with(
            ["heartbeat_session", "loads"],
            "Report the loads of leases of a pool that is balanced by load",
            json!({ "loads": { "shards/17": 3.5, "shards/18": 0.25 }, "load_limit": 400 }),
            beat(Vec::new()),
        ),
        Call::with(
            ["heartbeat_session", "labels"],
            "Replace the labels of a member",
            json!({ "labels": labels() }),
            beat(Vec::new()),
        ),
        Call::with(
            ["heartbeat_session", "revoked"],
            "An administrator revoked one of the leases: this heartbeat does not keep it",
            json!({ "progress": "offset 4712" }),
            beat(vec![revoked]),
        ),
    ]
}

fn looks() -> Vec<Call> {
    let member_of_pool = PoolMember {
        session: SESSION.into(),
        owner: "worker-1".into(),
        weight: 1,
        capacity: Some(100),
        address: Some(ADDRESS.into()),
        labels: labels(),
        held: 3,
        share: 3,
        node: Some(NODE.into()),
        ..PoolMember::default()
    };
    let pool = Pool {
        pool: POOL.into(),
        balance: false,
        keys: Some(3),
        free: Some(0),
        kept: Some(0),
        unplaced: Some(UnplacedKeys::default()),
        members: vec![member_of_pool],
        ..Pool::default()
    };
    let pools = Pools { pools: vec![pool.clone()] };
    let reason = "the network is being repaired";
    let order = |action| json!({ "pool": POOL, "action": action, "reason": reason });
    let said =
        OrderedBy { by: "127.0.0.1".into(), reason: reason.into(), at: TIME.into(), until: None };
    let sessions = Sessions { sessions: vec![member(three_leases())], next: None };
    vec![
        Call::plain(["get_session", "member"], "A member of a pool", member(three_leases())),
        Call::plain(["list_sessions", "one"], "The sessions of an owner", sessions),
        Call::plain(["list_pools", "one"], "The pool that every coordinator has", pools),
        Call::plain(["get_pool", "one-member"], "A pool with one member", pool.clone()),
        Call::with(
            ["order_pool", "freeze"],
            "Let no key change its member",
            order("freeze"),
            Pool { frozen: Some(said), ..pool.clone() },
        ),
        Call::with(
            ["order_pool", "thaw"],
            "Let keys change their members again",
            order("thaw"),
            pool.clone(),
        ),
        Call::plain(
            ["get_assignment", "one-key"],
            "The keys of a pool, with their owners",
            Assignment {
                pool: POOL.into(),
                cursor: format!("{STORE_TAG}-419-0"),
                keys: vec![
                    route("shards/17", 417, 3),
                    route("shards/18", 418, 1),
                    route("shards/19", 419, 1),
                ],
                next: None,
            },
        ),
        Call::text(
            ["follow_assignment", "stream"],
            "A member, and a key that it was granted",
            "text/event-stream",
            &routes(),
        ),
        Call::plain(
            ["plan_pool", "nothing"],
            "Nothing would move",
            PoolPlan { pool, imbalance: Some(0), ..PoolPlan::default() },
        ),
    ]
}

fn ends() -> Vec<Call> {
    vec![
        Call::with(
            ["drain_session", "leave"],
            "The holder leaves, and hands its leases over first",
            json!({}),
            DrainingSession { draining: true, deadline_ms: 30_000, warm_ms: 0 },
        ),
        Call::plain(
            ["close_session", "closed"],
            "This call ended the session",
            ClosedSession { destroyed: true },
        ),
    ]
}

/// The beginning of a stream of routes.
fn routes() -> String {
    let member = json!({
        "session": SESSION, "owner": "worker-1", "address": ADDRESS, "gone": false,
    });
    let route = json!(route("shards/17", 417, 3));
    format!(
        "event: member\ndata: {member}\n\nid: {STORE_TAG}-417-0\nevent: route\ndata: {route}\n\n"
    )
}

/// Who has a key of the session.
fn route(key: &str, token: u64, seq: u64) -> Route {
    Route {
        key: key.into(),
        state: RouteState::Held,
        owner: Some("worker-1".into()),
        token,
        seq,
        session: Some(SESSION.into()),
        address: Some(ADDRESS.into()),
    }
}
