//! A holder that is asked to hand its lease over, and what it does then.

use tenure::lease::{
    Answer, Behavior, ChangeKind, CodecError, FenceResult, Key, Lost, Nonce, Record, SessionSpec,
    Token,
};

use crate::core::harness::*;

#[test]
fn a_request_is_durable_and_ends_nothing() {
    let (mut bench, holder) = held_by("a");
    assert!(matches!(bench.done(ask_handover()).answer(), Answer::Done(_)));
    assert_eq!(bench.events(), ["granted", "handover-requested"]);
    let change = &bench.cell.history[1];
    assert_eq!(change.owner.as_ref().map(ToString::to_string).as_deref(), Some("a"));
    assert_eq!((change.token.0, change.seq), (holder.token(), 2));
    assert_eq!(
        (change.reason.as_deref(), change.actor.as_deref()),
        (Some("balance"), Some("balancer"))
    );
    assert_eq!(bench.lease.handover().unwrap().span_ms, HANDOVER_MS);
    for _ in 0..10 {
        bench.pass(TTL_MS / 2);
        let beat = bench.ask(heartbeat(holder.proof()));
        assert!(matches!(beat.answer(), Answer::Alive { .. }), "its heartbeats keep it");
    }
    assert_eq!(bench.owner().as_deref(), Some("a"));
}

#[test]
fn asking_twice_is_the_same_as_once_and_writes_once() {
    let (mut bench, _) = held_by("a");
    bench.done(ask_handover());
    let again = bench.ask(ask_handover());
    assert!(bench.flight.is_none());
    assert!(matches!(again.answer(), Answer::Done(_)));
    assert_eq!(bench.record().seq, 2);
}

#[test]
fn a_request_survives_restarts_and_goes_with_its_tenure() {
    for rebuilt in [false, true] {
        let (mut bench, holder) = held_by("a");
        bench.done(ask_handover());
        if rebuilt {
            bench.rebuild()
        } else {
            bench.restart(true, 0)
        }
        bench.settle();
        assert!(bench.lease.handover().is_some());
        bench.done(release(holder.proof()));
        assert_eq!(bench.record().handover, None);
        bench.done(acquire("b"));
        assert!(bench.lease.handover().is_none(), "the next owner was asked for nothing");
    }
}

#[test]
fn a_request_in_doubt_is_settled_like_any_write() {
    for written in [false, true] {
        let (mut bench, holder) = held_by("a");
        let asked = bench.ask(ask_handover());
        bench.lose_reply(written);
        assert!(matches!(asked.answer(), Answer::Store(_)));
        bench.run(1_000);
        bench.done(ask_handover());
        assert_eq!(bench.events(), ["granted", "handover-requested"]);
        bench.done(heartbeat(holder.proof()));
    }
}

#[test]
fn nobody_is_asked_where_nobody_holds() {
    let mut bench = Bench::new();
    assert!(matches!(bench.done(ask_handover()).answer(), Answer::NotHeld(_)));
    let (mut bench, holder) = held_by("a");
    bench.done(revoke());
    assert!(matches!(bench.done(ask_handover()).answer(), Answer::Done(_)));
    assert_eq!(bench.record().handover, None, "it is ordered to end already");
    bench.done(release(holder.proof()));
    assert!(matches!(bench.done(ask_handover()).answer(), Answer::NotHeld(_)));
}

#[test]
fn whoever_waits_is_granted_by_the_write_that_hands_over() {
    let (mut bench, a) = held_by("a");
    let b = bench.ask(acquire("b").waiting_until(START + ms(600_000)));
    let c = bench.ask(acquire("c").waiting_until(START + ms(600_000)));
    let handed = bench.ask(hand_over(a.proof(), Some("page 8")));
    bench.commit();
    assert!(bench.flight.is_none(), "one write");
    assert!(matches!(handed.answer(), Answer::Done(_)));
    assert_eq!(b.grant().view.value.as_deref(), Some("page 8"));
    assert!(b.token() > a.token() && c.waits());
    assert_eq!(bench.events(), ["granted", "transferred", "granted"]);
    let beat = bench.ask(heartbeat(a.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::Transferred))));
}

#[test]
fn without_anybody_who_waits_the_key_is_free_and_keeps_the_value() {
    let (mut bench, a) = held_by("a");
    bench.done(hand_over(a.proof(), Some("page 8")));
    assert_eq!(bench.state(), "free");
    let b = bench.done(acquire("b"));
    assert_eq!(b.grant().view.value.as_deref(), Some("page 8"));
}

#[test]
fn the_fences_of_a_policy_come_between_where_it_says_so() {
    for on_release in [false, true] {
        let mut plan = before_grant(&["power"]);
        plan.on_release = on_release;
        let mut bench = Bench::ruled(9_000, Some(plan));
        let a = bench.done(acquire("a"));
        let b = bench.ask(acquire("b").waiting_until(START + ms(600_000)));
        bench.done(hand_over(a.proof(), Some("page 8")));
        assert_eq!(b.waits(), on_release, "a hand-over is fenced like a release, and never cools");
        if on_release {
            bench.report(FenceResult::Confirmed);
            bench.settle();
        }
        assert_eq!(b.grant().view.value.as_deref(), Some("page 8"));
    }
}

#[test]
fn who_is_ordered_to_end_may_still_give_the_key_up_but_not_choose() {
    let (mut bench, a) = held_by("a");
    bench.done(revoke());
    let chosen = bench.done(transfer(a.proof(), "b"));
    assert!(matches!(chosen.answer(), Answer::Lost(Lost::Ended(ChangeKind::Revoked))));

    let (mut bench, a) = held_by("a");
    bench.done(revoke());
    let handed = bench.done(hand_over(a.proof(), Some("page 8")));
    assert!(matches!(handed.answer(), Answer::Done(_)));
    assert_eq!(bench.state(), "free");
    let end = bench.cell.history.last().unwrap();
    assert_eq!((end.kind, end.actor.as_deref()), (ChangeKind::Transferred, Some("root")));
}

#[test]
fn an_order_waits_for_the_last_promise_and_ends_no_later_tenure() {
    let (mut bench, a) = held_by("a");
    bench.done(ask_handover());
    bench.pass(TTL_MS / 2);
    bench.done(heartbeat(a.proof()));
    bench.done(revoke_of(Token(a.token())));
    assert!(bench.lease.handover().is_none(), "nobody waits for an answer any more");
    bench.run(TTL_MS - 1);
    assert_eq!(bench.owner().as_deref(), Some("a"));
    bench.run(1);
    assert_eq!(bench.events(), ["granted", "handover-requested", "revoked"]);

    bench.done(acquire("b"));
    let late = bench.done(revoke_of(Token(a.token())));
    assert!(matches!(late.answer(), Answer::NotHeld(_)));
    assert_eq!(bench.owner().as_deref(), Some("b"));
}

#[test]
fn the_tombstone_of_a_session_says_who_ordered_it() {
    let mut bench = Bench::of(Key::of_session(Nonce(0x5e55)), None);
    bench.done(acquire("a"));
    bench.done(ask_handover());
    bench.done(revoke());
    bench.run(TTL_MS);
    let order = bench.record().revocation.clone().expect("who it was");
    assert_eq!((&*order.reason, &*order.actor), ("maintenance", "root"));
    assert_eq!(bench.record().handover, None);
}

/// A session that was made before records had a place for its specification goes on.
#[test]
fn the_specification_of_an_earlier_session_is_read_from_its_value() {
    let mut bench = Bench::of(Key::of_session(Nonce(0x5e55)), None);
    let text = r#"{"behavior":"Delete","lock_delay_ms":5,"pool":"p","weight":2,"checks":[]}"#;
    bench.done(acquire("a").value(text));
    let mut bytes = Vec::new();
    bench.record().encode_into(&mut bytes);
    bytes.truncate(bytes.len() - 5);
    bytes[0] = 4;
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    let spec = Record::decode(&bytes).expect("a record").spec.expect("what it said");
    let expected = SessionSpec {
        behavior: Behavior::Delete,
        lock_delay_ms: Some(5),
        pool: Some("p".into()),
        weight: 2,
        capacity: None,
        checks: Vec::new(),
    };
    assert_eq!(*spec, expected);
}

#[test]
fn records_of_the_form_before_are_read() {
    let (mut bench, _) = held_by("a");
    bench.done(pin("x"));
    let record = bench.record();
    let mut now = Vec::new();
    record.encode_into(&mut now);
    assert_eq!(Record::decode(&now).as_ref(), Ok(&*record));
    // The forms before ended before the request, and before the specification; none is one zero byte each.
    let content = &now[..now.len() - 4];
    assert_eq!((content[0], &content[content.len() - 2..]), (5, &[0, 0][..]));
    let of = |version: u8, missing: usize| {
        let mut bytes = content[..content.len() - missing].to_vec();
        bytes[0] = version;
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Record::decode(&bytes)
    };
    assert_eq!(of(4, 1).as_ref(), Ok(&*record));
    assert_eq!(of(3, 2).as_ref(), Ok(&*record));
    assert_eq!(of(2, 2), Err(CodecError::Version(2)));
}
