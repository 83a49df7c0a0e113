//! The checker bites: histories that break a promise are refused, each for its reason.

use std::time::Instant;

use serde_json::{Value, json};

use crate::crash::history::History;

use crate::support::harness::{Grant, ms};

fn grant(owner: &str, token: u64) -> Grant {
    Grant {
        key: "k".into(),
        lease_id: String::new(),
        token,
        valid_for_ms: 500,
        lease: json!({ "owner": owner, "ttl_ms": 500 }),
    }
}

fn event(kind: &str, seq: u64, owner: &str, token: u64) -> Value {
    let owner = if kind == "granted" { json!(owner) } else { Value::Null };
    json!({
        "type": format!("io.tenure.lease.{kind}"),
        "data": { "key": "k", "seq": seq, "owner": owner, "token": token, "reason": null,
            "previous": { "owner": "before", "token": token } },
    })
}

fn lease(state: &str, token: u64) -> Value {
    json!({ "key": "k", "state": state, "token": token, "ttl_ms": 500 })
}

/// A client asked and was granted the key, from now.
fn told(history: &mut History, owner: &str, token: u64) {
    history.asked(owner);
    let now = Instant::now();
    history.granted(&grant(owner, token), now, now + ms(500));
}

#[test]
fn a_history_that_fits_passes() {
    let mut history = History::default();
    told(&mut history, "w1", 3);
    history.gives_back(&grant("w1", 3));
    history.released(&grant("w1", 3));
    told(&mut history, "w2", 5);
    history.check(0);
    let events =
        [event("granted", 1, "w1", 3), event("released", 2, "w1", 3), event("granted", 3, "w2", 5)];
    history.read(&events, false);
    history.restarted(Instant::now(), &[lease("held", 5)]);
    assert!(history.counts.to_string().starts_with("2 grants, 1 releases, 3 events"));
    assert!(history.counts.is_load());
}

#[test]
#[should_panic(expected = "two held it")]
fn windows_that_overlap() {
    let mut history = History::default();
    told(&mut history, "w1", 3);
    told(&mut history, "w2", 5);
    history.check(0);
}

#[test]
#[should_panic(expected = "the grant of 3 is missing")]
fn a_grant_that_was_lost() {
    let mut history = History::default();
    told(&mut history, "w1", 3);
    history.restarted(Instant::now(), &[]);
}

#[test]
#[should_panic(expected = "the release of 3 is missing")]
fn a_release_that_was_lost() {
    let mut history = History::default();
    told(&mut history, "w1", 3);
    history.released(&grant("w1", 3));
    history.read(&[event("granted", 1, "w1", 3)], false);
    history.restarted(Instant::now(), &[lease("held", 3)]);
}

#[test]
#[should_panic(expected = "of its grace left")]
fn a_grant_within_the_grace_of_another() {
    let mut history = History::default();
    told(&mut history, "w1", 3);
    history.read(&[event("granted", 1, "w1", 3)], false);
    history.restarted(Instant::now(), &[lease("held", 3)]);
    told(&mut history, "w2", 5);
}

#[test]
#[should_panic(expected = "is not above")]
fn a_token_that_is_given_twice() {
    let mut history = History::default();
    history.asked("w1");
    history.asked("w2");
    let events =
        [event("granted", 1, "w1", 3), event("released", 2, "w1", 3), event("granted", 3, "w2", 3)];
    history.read(&events, false);
}

#[test]
#[should_panic(expected = "a hole in")]
fn a_change_that_is_missing() {
    let mut history = History::default();
    history.asked("w1");
    history.read(&[event("granted", 2, "w1", 3)], false);
}

#[test]
#[should_panic(expected = "and the store says")]
fn a_grant_to_a_client_that_was_refused() {
    let mut history = History::default();
    history.asked("w1");
    history.refused("w1", false);
    history.read(&[event("granted", 1, "w1", 3)], false);
}

#[test]
#[should_panic(expected = "has no end, and is not held")]
fn a_lease_that_vanished() {
    let mut history = History::default();
    told(&mut history, "w1", 3);
    history.read(&[event("granted", 1, "w1", 3)], false);
    history.restarted(Instant::now(), &[lease("free", 3)]);
}

#[test]
#[should_panic(expected = "was lost in its grace")]
fn a_heartbeat_refused_within_the_grace() {
    let mut history = History::default();
    told(&mut history, "w1", 3);
    history.read(&[event("granted", 1, "w1", 3)], false);
    history.restarted(Instant::now(), &[lease("held", 3)]);
    history.kept_over_a_crash(&grant("w1", 3), false, true);
}
