//! Leases that a session keeps.

use tenure::lease::{ChangeKind, FenceResult, Lost, Revoke};

use super::*;

#[test]
fn a_session_keeps_a_lease_without_promises_of_its_own() {
    let (mut duo, kept) = Duo::kept(session_ref());
    assert_eq!(kept.grant().valid_for_ms, 0, "the session's heartbeat says how long");
    assert_eq!(duo.key.lease.next_wake(), Moment::NEVER);
    assert_eq!(duo.key.cell.history[0].session, Some(DIGEST));
    for _ in 0..10 {
        duo.run(TTL_MS - 1);
        assert!(duo.alive().is_some());
        assert!(!duo.look());
    }
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    assert_eq!(duo.key.lease.view(duo.key.now).session, Some(DIGEST));
    let beat = duo.key.done(heartbeat(kept.proof()));
    assert!(matches!(beat.answer(), Answer::KeptBySession(DIGEST, _)));
}

#[test]
fn what_a_session_kept_ends_when_its_tombstone_is_durable() {
    let (mut duo, kept) = Duo::kept(session_ref());
    let b = duo.key.ask(acquire("b").waiting_until(START + ms(600_000)));
    duo.pass(TTL_MS);
    duo.session.wake();
    assert!(!duo.look(), "its end is in flight");
    assert!(b.waits() && duo.key.flight.is_none());
    duo.session.commit();
    assert!(duo.look());
    duo.key.commit();
    assert!(b.token() > kept.token());
    assert_eq!(duo.key.events(), ["granted", "session-ended", "granted"]);
    let ended = &duo.key.cell.history[1];
    assert_eq!(ended.session, Some(DIGEST));
    assert_eq!(ended.reason.as_deref(), Some("its ttl ran out"));
    let beat = duo.key.done(heartbeat(kept.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::SessionEnded))));
}

/// Neither where the node had lapsed before nor where it does so for the first time: the timer would go off
/// again and again at once, for as long as the store is away.
#[test]
fn what_a_session_kept_lets_a_node_sleep_that_may_not_promise() {
    for graced in [false, true] {
        let (mut duo, _) = Duo::kept(session_ref());
        if graced {
            duo.key.lease.extend_by_one_ttl(duo.key.now);
        }
        duo.key.context.until = Moment::ZERO;
        duo.end();
        assert!(
            duo.key.flight.is_none(),
            "it writes no end that would name a home without a record"
        );
        for _ in 0..5 {
            duo.pass(1_000);
            duo.key.wake();
            assert!(duo.key.lease.next_wake() > duo.key.now, "graced: {graced}");
        }
        duo.key.context.until = Moment::NEVER;
        duo.run(TTL_MS);
        assert_eq!(duo.key.state(), "free", "it ends as soon as the node may promise again");
    }
}

#[test]
fn the_value_goes_with_the_session_where_that_was_said_and_the_token_stays() {
    for behavior in [Behavior::Release, Behavior::Delete] {
        let (mut duo, kept) = Duo::kept(SessionRef { behavior, ..session_ref() });
        duo.end();
        duo.key.settle();
        let stays = behavior == Behavior::Release;
        assert_eq!(duo.key.record().value.as_deref(), stays.then_some("page 7"));
        assert_eq!(duo.key.lease.view(duo.key.now).token.0, kept.token());
        assert!(duo.key.done(acquire("b")).token() > kept.token());
    }
    let (mut duo, kept) = Duo::kept(SessionRef { behavior: Behavior::Delete, ..session_ref() });
    duo.key.done(release(kept.proof()));
    assert_eq!(duo.key.record().value.as_deref(), Some("page 7"), "only its end deletes");
}

#[test]
fn the_sessions_lock_delay_wins_over_the_policys() {
    for (own, policy, expected) in
        [(Some(3_000), 9_000, 3_000), (None, 9_000, 9_000), (Some(0), 9_000, 0)]
    {
        let (mut duo, kept) = Duo::kept(SessionRef { lock_delay_ms: own, ..session_ref() });
        duo.key.context.policies = ruled(policy, None);
        duo.end();
        duo.key.settle();
        assert_eq!(duo.key.record().span_ms(), expected);
        let beat = duo.key.done(heartbeat(kept.proof()));
        assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::SessionEnded))));
        duo.run(expected);
        assert_eq!(duo.key.state(), "free");
    }
}

#[test]
fn an_end_by_its_session_is_fenced() {
    let (mut duo, kept) = Duo::kept(session_ref());
    duo.key.context.policies = ruled(0, Some(before_grant(&["power"])));
    duo.end();
    duo.key.settle();
    assert_eq!(duo.key.running(), [("power", kept.token())]);
    let run = duo.key.report(FenceResult::Confirmed);
    assert_eq!((run.session, run.reason), (Some(DIGEST), ChangeKind::SessionEnded));
    duo.key.settle();
    assert_eq!(duo.key.state(), "free");
    assert_eq!(duo.key.cell.history.last().unwrap().session, Some(DIGEST));
}

#[test]
fn a_kept_lease_is_given_back_and_handed_over_like_any_other() {
    let (mut duo, kept) = Duo::kept(session_ref());
    let released = duo.key.done(release(kept.proof()));
    assert!(matches!(released.answer(), Answer::Released(true)));
    duo.end();
    assert!(duo.key.flight.is_none(), "it is not the session's any more");

    let (mut duo, kept) = Duo::kept(session_ref());
    let handed = duo.key.done(transfer(kept.proof(), "b"));
    assert!(matches!(handed.answer(), Answer::Done(_)));
    let b = duo.key.done(acquire("b"));
    duo.end();
    assert!(duo.key.flight.is_none());
    assert!(matches!(duo.key.done(heartbeat(b.proof())).answer(), Answer::Alive { .. }));
}

#[test]
fn a_kept_lease_is_reclaimed_with_a_session_or_without() {
    let (mut duo, kept) = Duo::kept(session_ref());
    assert_eq!(refused(&duo.key.done(acquire("a"))), Refusal::HeldByYou);
    let anew = duo.key.done(acquire("a").reclaiming());
    assert!(anew.token() > kept.token());
    duo.end();
    assert_eq!(duo.key.owner(), None, "its own ttl ran out meanwhile");
    assert_eq!(duo.key.events(), ["granted", "reclaimed", "granted", "expired"]);
}

#[test]
fn a_repeated_request_finds_the_grant_of_its_session() {
    let mut duo = Duo::new();
    let first = duo.grant(acquire("a").kept_by(session_ref()).id(7, 0));
    let again = duo.grant(acquire("a").kept_by(session_ref()).id(7, 0));
    assert_eq!((again.token(), again.proof()), (first.token(), first.proof()));
    assert_eq!(again.grant().valid_for_ms, 0);
    assert_eq!(duo.key.lease.next_wake(), Moment::NEVER);
}

fn revoke_until(floor: Moment) -> Request {
    let Request::Revoke(order) = revoke() else { unreachable!() };
    Request::Revoke(Box::new(Revoke { floor: Some(floor), ..*order }))
}

#[test]
fn a_graceful_revoke_waits_for_what_the_session_was_promised() {
    let (mut duo, kept) = Duo::kept(session_ref());
    let unsaid = duo.key.done(revoke());
    assert!(matches!(unsaid.answer(), Answer::KeptBySession(DIGEST, _)));
    duo.pass(2_000);
    duo.alive();
    let floor = duo.session.lease.next_wake();
    let revoked = duo.key.done(revoke_until(floor));
    assert!(matches!(revoked.answer(), Answer::Revoked(TTL_MS)));
    assert_eq!(duo.key.told_revoked, [], "its session tells");
    let handed = duo.key.done(transfer(kept.proof(), "b"));
    assert!(matches!(handed.answer(), Answer::Lost(Lost::Ended(ChangeKind::Revoked))));
    duo.key.run(TTL_MS - 1);
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    duo.key.run(1);
    assert_eq!(duo.key.events(), ["granted", "revoked"]);
}

#[test]
fn a_graceful_revoke_survives_a_restart_and_ends_with_the_session_if_that_is_sooner() {
    let (mut duo, _) = Duo::kept(session_ref());
    let floor = duo.key.now + ms(TTL_MS);
    duo.key.done(revoke_until(floor));
    duo.key.restart(true, 0);
    duo.key.run(TTL_MS);
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    duo.key.run(TTL_MS / 10);
    assert_eq!(duo.key.owner(), None);

    let (mut duo, _) = Duo::kept(session_ref());
    let floor = duo.key.now + ms(TTL_MS);
    duo.key.done(revoke_until(floor));
    duo.tell();
    duo.key.settle();
    assert_eq!(duo.key.events(), ["granted", "session-ended"]);
}

#[test]
fn an_immediate_revoke_asks_no_session() {
    let (mut duo, _) = Duo::kept(session_ref());
    let revoked = duo.key.done(revoke_immediately());
    assert!(matches!(revoked.answer(), Answer::Revoked(0)));
}

#[test]
fn a_pinned_lease_outlives_its_session_until_it_is_unpinned() {
    let (mut duo, _) = Duo::kept(session_ref());
    duo.key.done(pin("ops"));
    duo.end();
    duo.run(100_000);
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    duo.key.done(unpin("ops"));
    duo.run(0);
    assert_eq!(duo.key.events(), ["granted", "pinned", "unpinned", "session-ended"]);
}

#[test]
fn a_grant_that_lands_after_the_tombstone_ends_when_the_lease_is_told() {
    let mut duo = Duo::new();
    duo.alive().expect("the session lives");
    let kept = duo.key.ask(acquire("a").kept_by(session_ref()));
    duo.end();
    assert!(duo.alive().is_none(), "the shell tells nobody of the grant");
    duo.key.commit();
    kept.grant();
    duo.run(0);
    assert_eq!(duo.key.events(), ["granted", "session-ended"]);

    // Told before it was sent, it learns by asking again.
    let mut duo = Duo::new();
    duo.end();
    duo.key.done(acquire("a").kept_by(session_ref()));
    assert_eq!(duo.key.state(), "held");
    duo.tell();
    duo.key.settle();
    assert_eq!(duo.key.state(), "free");
}

#[test]
fn the_end_of_another_session_ends_nothing() {
    let (mut duo, _) = Duo::kept(session_ref());
    let over =
        SessionOver { session: Nonce(1), cause: "expired".into(), is_lost: false, actor: None };
    duo.key.input(Input::SessionOver(over));
    assert!(duo.key.flight.is_none());
    duo.key.done(revoke_immediately());
    let other = SessionRef { session: Nonce(2), ..session_ref() };
    duo.key.done(acquire("a").kept_by(other));
    duo.end();
    assert!(duo.key.flight.is_none());
    assert_eq!(duo.key.state(), "held");
}

#[test]
fn a_key_whose_record_vanished_opens_once_its_session_is_over() {
    let (mut duo, kept) = Duo::kept(session_ref());
    duo.key.cell.there = None;
    let released = duo.key.done(release(kept.proof()));
    assert!(matches!(released.answer(), Answer::Quarantined(_)));
    duo.key.run(10 * TTL_MS);
    let early = duo.key.ask(acquire("b"));
    duo.key.run(0);
    assert!(matches!(early.answer(), Answer::Quarantined(_)), "the session may be alive");
    duo.end();
    duo.key.run(10 * TTL_MS);
    let next = duo.key.ask(acquire("b"));
    duo.key.run(0);
    next.grant();
}

#[test]
fn the_end_of_a_session_waits_for_the_write_in_flight_and_for_the_store() {
    let (mut duo, _) = Duo::kept(session_ref());
    duo.key.ask(pin("ops"));
    duo.end();
    duo.key.settle();
    duo.key.done(unpin("ops"));
    duo.key.run(0);
    assert_eq!(duo.key.state(), "free");

    let (mut duo, _) = Duo::kept(session_ref());
    duo.end();
    duo.key.refuse();
    assert_eq!(duo.key.state(), "held");
    duo.key.run(1_000);
    assert_eq!(duo.key.state(), "free");

    for written in [false, true] {
        let (mut duo, _) = Duo::kept(session_ref());
        duo.end();
        duo.key.lose_reply(written);
        duo.key.run(1_000);
        assert_eq!(duo.key.events(), ["granted", "session-ended"]);
    }
}

#[test]
fn a_recovered_lease_asks_after_its_session() {
    for rebuilt in [false, true] {
        let (mut duo, _) = Duo::kept(session_ref());
        if rebuilt {
            duo.key.rebuild()
        } else {
            duo.key.restart(true, 0)
        }
        assert_eq!(duo.key.inquired, [DIGEST]);
        assert_eq!(duo.key.flight.is_some(), rebuilt, "what its predecessor wrote may land yet");
        duo.key.settle();
        assert_eq!(duo.key.lease.next_wake(), Moment::NEVER);
    }
    let (mut duo, _) = Duo::kept(session_ref());
    duo.key.done(acquire("b"));
    assert_eq!(duo.key.inquired, [DIGEST], "so does one that refuses a caller");
}

#[test]
fn after_a_restart_the_session_has_one_full_ttl() {
    let (mut duo, _) = Duo::kept(session_ref());
    duo.pass(TTL_MS - 1);
    duo.session.restart(true, 5_000);
    duo.key.restart(true, 5_000);
    duo.run(TTL_MS);
    assert!(!duo.look());
    assert!(duo.alive().is_some());
    duo.run(TTL_MS);
    assert!(duo.look());
    duo.key.settle();
    assert_eq!(duo.key.events(), ["granted", "session-ended"]);
}

#[test]
fn a_released_session_ends_what_it_kept() {
    let (mut duo, _) = Duo::kept(session_ref());
    duo.session.done(release(duo.holder.proof()));
    assert!(duo.look());
    duo.key.settle();
    assert_eq!(duo.key.state(), "free");
}

/// Its session promises it to its owner for as long as it lives.
#[test]
fn what_a_session_kept_is_not_free_because_its_record_vanished() {
    let (mut duo, _) = Duo::kept(session_ref());
    let there = duo.key.cell.there.take();
    let pinned = duo.key.done(pin("x"));
    assert!(matches!(pinned.answer(), Answer::Quarantined(_)), "{:?}", pinned.answer());
    for _ in 0..3 {
        duo.pass(1_000_000);
        let b = duo.key.ask(acquire("b"));
        duo.key.run(0);
        assert!(matches!(b.answer(), Answer::Quarantined(_)), "{:?}", b.answer());
    }
    // Somebody put it back.
    duo.key.cell.there = there;
    duo.pass(1_000_000);
    let b = duo.key.ask(acquire("b"));
    duo.key.run(0);
    assert!(matches!(b.answer(), Answer::Refused(..)), "{:?}", b.answer());
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
}
