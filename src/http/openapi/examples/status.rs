//! What somebody on call looks at, while a lease is held.

use std::collections::BTreeMap;

use super::{
    call::Call,
    values::{NODE, POOL, TIME},
};
use crate::api::{
    KeyCounts, Measured, NodeCounts, NodeStatus, Series, SeriesPoint, Status, StoreStatus, Top,
    TopRow,
};

/// The examples.
pub fn calls() -> Vec<Call> {
    let changes = BTreeMap::from([("granted".to_owned(), 1)]);
    let keys = KeyCounts { held: 1, ..KeyCounts::default() };
    let status = Status {
        at: TIME.into(),
        severity: "none".into(),
        attention: Vec::new(),
        more: 0,
        store: StoreStatus {
            kind: "embedded".into(),
            health: "ready".into(),
            keys: Some(keys),
            nodes: NodeCounts { alive: 1, ..NodeCounts::default() },
        },
        this_node: NodeStatus {
            url: NODE.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ready: true,
            leases: 1,
            ..NodeStatus::default()
        },
        last_minute: changes.clone(),
    };
    let point =
        SeriesPoint { at: TIME.into(), changes: changes.clone(), this_node: Measured::default() };
    let row = TopRow {
        name: "shards/17".into(),
        pool: Some(POOL.into()),
        at_least: 1,
        at_most: 1,
        changes,
    };
    let top = Top {
        by: "keys".into(),
        cause: Some("granted".into()),
        window_ms: 60_000,
        covers_ms: 4_100,
        rows: vec![row],
        others_at_most: 0,
    };
    vec![
        Call::plain(["status", "calm"], "Nothing needs a person; one key is held", status),
        Call::plain(
            ["status_series", "minutes"],
            "The first minute of a coordinator",
            Series { step_ms: 60_000, points: vec![point] },
        ),
        Call::plain(["top", "grants"], "The keys that were granted most in the last minute", top),
    ]
}
