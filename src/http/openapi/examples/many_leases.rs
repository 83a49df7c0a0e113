//! Several leases with one call.

use serde_json::json;

use super::{
    call::Call,
    values::{SESSION_ID, granted, held, kept},
};
use crate::api::{AnyGrant, Grants, Item, Verdict, Verdicts};

const OWNER: &str = "worker-1";
/// Three jobs: key, token, lease id.
const JOBS: [(&str, u64, &str); 3] = [
    ("jobs/1", 424, "1db7f05b6eb4525334bda840bedd7eca"),
    ("jobs/2", 425, "382eefe08e032957202840096b235901"),
    ("jobs/3", 426, "5cd80ac1e1e898b9e46ff4334af50303"),
];
/// Two shards that the session takes: key, token, lease id.
const SHARDS: [(&str, u64, &str); 2] = [
    ("shards/18", 418, "b303e7075f8222ade171294c89a9e168"),
    ("shards/19", 419, "0e4f9b7ac1d2358697a0b1c2d3e4f506"),
];

/// A whole list: key, token, lease id.
const WHOLE: [(&str, u64, &str); 2] = [
    ("tables/orders", 470, "7f00c2d4e6a8b0c1d2e3f4051627384a"),
    ("tables/stock", 471, "90a1b2c3d4e5f60718293a4b5c6d7e8f"),
];

/// The examples.
pub fn calls() -> Vec<Call> {
    [takes(), batches()].into_iter().flatten().collect()
}

fn takes() -> Vec<Call> {
    let jobs = JOBS.map(|(key, token, id)| AnyGrant::Own(granted(held(key, OWNER, token), id)));
    let whole = WHOLE.map(|(key, token, id)| AnyGrant::Own(granted(held(key, OWNER, token), id)));
    let shards = SHARDS.map(|(key, token, id)| AnyGrant::Own(granted(kept(key, token), id)));
    vec![
        Call::with(
            ["acquire_any", "several"],
            "Take three of the listed keys, the first ones first",
            json!({
                "keys": ["jobs/1", "jobs/2", "jobs/3", "jobs/4"],
                "owner": OWNER,
                "ttl_ms": 30_000,
                "count": 3,
                "order": "listed",
            }),
            Grants { grants: jobs.into() },
        ),
        Call::with(
            ["acquire_all", "both"],
            "Take both keys or none, and wait up to 5 s for them",
            json!({
                "keys": [{ "key": "tables/stock" }, { "key": "tables/orders", "mode": "exclusive" }],
                "owner": OWNER,
                "ttl_ms": 30_000,
                "wait_ms": 5_000,
            }),
            Grants { grants: whole.into() },
        ),
        Call::with(
            ["acquire_any", "fair-share"],
            "Take what the session lacks of its share of the pool",
            json!({
                "keys": ["shards/17", "shards/18", "shards/19"],
                "owner": OWNER,
                "session": SESSION_ID,
                "count": "fair",
                "order": "listed",
            }),
            Grants { grants: shards.into() },
        ),
    ]
}

fn batches() -> Vec<Call> {
    let [one, two, _] = JOBS;
    let proof = |(key, _, id): (&str, u64, &str)| json!({ "key": key, "lease_id": id });
    let both = || json!({ "leases": [proof(one), proof(two)] });
    let alive = |(key, token, _): (&'static str, u64, &str)| {
        let (token, valid_for_ms) = (Some(token), Some(30_000));
        Item::Own(Verdict { key, status: 200, token, valid_for_ms, ..Verdict::default() })
    };
    let ended = |(key, ..): (&'static str, u64, &str)| {
        Item::Own(Verdict { key, status: 200, released: Some(true), ..Verdict::default() })
    };
    vec![
        Call::with(
            ["heartbeats", "two-leases"],
            "Keep two leases",
            both(),
            Verdicts { results: vec![alive(one), alive(two)] },
        ),
        Call::with(
            ["releases", "two-leases"],
            "Give two leases back",
            both(),
            Verdicts { results: vec![ended(one), ended(two)] },
        ),
    ]
}
