//! States as a server would make them.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent};
use serde_json::{Value, json};

use crate::{
    cli::top::{
        asking::{Answer, Found},
        choice::{By, Choice, SortBy, Window},
        state::State,
        update::{Input, update},
    },
    client::{Event, Status, StreamItem, Top},
};

/// A state before the first answer.
pub(super) fn empty() -> State {
    let choice = Choice {
        by: By::Keys,
        window: Window::Ten,
        cause: None,
        prefix: None,
        sort: SortBy::Changes,
        is_reversed: false,
    };
    State::new("http://10.0.0.1:7373".into(), Duration::from_secs(2), choice)
}

/// A store of 5 000 leases where all is well.
pub(super) fn well() -> State {
    let mut state = empty();
    answered(&mut state, By::Keys, None);
    state
}

/// The same, but the fences of three keys have failed and a pool is out of balance.
pub(super) fn failing() -> State {
    let mut state = empty();
    let mut answer = answer(&state, By::Keys, None);
    answer.status = Ok(status(&["disks/7", "disks/19", "disks/4021"]));
    let _ = update(&mut state, Input::Answer(Box::new(answer)));
    state
}

/// Takes an answer of a store where all is well.
pub(super) fn answered(state: &mut State, by: By, detail: Option<Found>) {
    let mut answer = answer(state, by, detail);
    if let Some(known) = state.status.clone() {
        answer.status = Ok(known);
    }
    let _ = update(state, Input::Answer(Box::new(answer)));
}

/// The answer to what the state asks.
pub(super) fn answer(state: &State, by: By, detail: Option<Found>) -> Answer {
    Answer {
        question: state.question(),
        status: Ok(status(&[])),
        top: Ok(top(by)),
        detail: detail.map(Ok),
    }
}

/// Presses keys that are one character each.
pub(super) fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        let _ = update(state, Input::Press(KeyEvent::from(KeyCode::Char(key))));
    }
}

fn read<T: serde::de::DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).unwrap()
}

/// The status, with these keys among what needs a person.
fn status(failed: &[&str]) -> Status {
    let entry = |key: &&str| {
        json!({ "kind": "fence-failed", "severity": "critical", "scope": "store",
            "says": format!("the fence of \"{key}\" against \"worker-3\" failed (power: after 1 try: exit status 3): nobody is granted \
                             the key until the fence is confirmed, or an administrator skips it; the log of http://10.0.0.1:7373 has more"),
            "help": format!("repair what failed, then: tenure fence-retry --reason WHY {key}"),
            "for_ms": 107_598, "key": key, "pool": "disks", "plugin": "power", "owner": "worker-3",
            "node": "http://10.0.0.1:7373",
            "reason": "power: after 1 try: exit status 3" })
    };
    let mut attention: Vec<Value> = failed.iter().map(entry).collect();
    if !failed.is_empty() {
        attention.push(json!({ "kind": "pool-uneven", "severity": "warning", "scope": "store",
            "says": "the pool \"shards\" with 6 members has been out of balance for more than a minute: 2 leases must move",
            "help": "tenure pools shards", "for_ms": 75_000, "pool": "shards", "count": 2 }));
    }
    let failed = failed.len();
    let none = json!({ "count": 0, "p50_ms": 0, "p99_ms": 0, "longest_ms": 0 });
    read(json!({
        "at": "2026-11-26T07:00:05.000Z",
        "severity": if failed > 0 { "critical" } else { "none" },
        "attention": attention, "more": 0,
        "store": { "kind": "nats", "health": "ready", "nodes": { "alive": 3, "drained": 0, "dead": 0 },
            "keys": { "held": 4997, "free": 12, "offered": 0, "cooling": 1, "fencing": failed,
                "fences_failed": failed, "age_ms": 412, "took_ms": 3 } },
        "this_node": { "url": "http://10.0.0.1:7373", "version": "0.1.0", "ready": true, "reasons": [],
            "leases": 1666, "waiting": 4, "writes_waiting": 0,
            "last_minute": { "adopted": 0, "vacancy": none, "hold": none, "lateness": none } },
        "last_minute": { "expired": 20, "granted": 21, "released": 1 }
    }))
}

fn top(by: By) -> Top {
    let rows = match by {
        By::Keys => json!([
            { "name": "shards/17", "pool": "shards", "at_least": 412, "at_most": 415,
              "changes": { "expired": 206, "granted": 206 } },
            { "name": "reports/team-7/monthly/eu-central-1", "pool": "default", "at_least": 31, "at_most": 31,
              "changes": { "granted": 16, "released": 15 } },
            { "name": "disks/7", "pool": "disks", "at_least": 3, "at_most": 6,
              "changes": { "expired": 1, "fence-failed": 1, "fencing": 1 } },
        ]),
        By::Owners | By::Pools => json!([
            { "name": "worker-3", "at_least": 210, "at_most": 220, "changes": { "expired": 206, "granted": 4 } },
            { "name": "worker-1", "at_least": 208, "at_most": 208, "changes": { "granted": 208 } },
        ]),
    };
    read(
        json!({ "by": by.name(), "window_ms": 600_000, "covers_ms": 618_000, "rows": rows, "others_at_most": 3 }),
    )
}

/// The leases of an owner.
pub(super) fn leases() -> Found {
    let lease = |key: &str, state: &str, token: u64, acquired_at: &str| {
        json!({ "key": key, "state": state, "owner": "worker-3", "token": token,
            "acquired_at": acquired_at, "waiters": 0 })
    };
    Found::Leases(read(json!({
        "leases": [
            lease("shards/16", "held", 281_474_976_710_657, "2026-11-26T06:58:17.402Z"),
            lease("shards/17", "held", 9, "2026-11-26T07:00:04.900Z"),
            lease("shards/18", "offered", 4, "2026-11-26T07:00:04.900Z"),
        ],
        "next": "shards/18"
    })))
}

/// The history of a key whose fence failed.
pub(super) fn history() -> Found {
    let event = |time: &str, kind: &str, data: Value| {
        json!({ "id": "0a-8-0", "type": format!("io.tenure.lease.{kind}"), "subject": "disks/7",
            "time": time, "data": data })
    };
    let previous = json!({ "previous": { "owner": "worker-3", "token": 8 } });
    let failed = json!({ "reason": "power: after 1 try: exit status 3" });
    Found::History(Box::new(read(json!({
        "lease": { "key": "disks/7", "state": "fencing", "token": 8, "waiters": 2, "fences": ["power"],
            "fence_failed": true },
        "tenures": [
            { "owner": "worker-3", "token": 8, "began": "2026-11-26T06:40:00.000Z",
              "ended": "2026-11-26T06:58:12.402Z", "held_ms": 1_092_402, "end": "expired" },
            { "owner": "worker-1", "token": 7, "began": "2026-11-26T06:00:00.000Z",
              "ended": "2026-11-26T06:40:00.000Z", "held_ms": 2_400_000, "end": "revoked",
              "reason": "maintenance", "actor": "ops" },
        ],
        "events": [
            event("2026-11-26T06:58:12.902Z", "fence-failed", failed),
            event("2026-11-26T06:58:12.402Z", "expired", previous),
            event("2026-11-26T06:40:00.000Z", "granted", json!({ "owner": "worker-3", "token": 8 })),
        ],
        "complete": false
    }))))
}

/// What happens meanwhile.
pub(super) fn events(state: &mut State) {
    for n in 1..=7_u64 {
        let (kind, data) = match n % 2 {
            1 => ("granted", json!({ "owner": "worker-1", "token": n })),
            _ => ("expired", json!({ "previous": { "owner": "worker-3", "token": n } })),
        };
        let body = json!({ "type": format!("io.tenure.lease.{kind}"), "subject": "shards/17",
            "time": format!("2026-11-26T07:00:0{n}.123Z"), "data": data });
        let event = Event::of(body);
        let _ = update(state, Input::Stream(StreamItem::Event(event)));
    }
}
