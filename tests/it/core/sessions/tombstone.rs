//! The key of a session: one tenure, and its tombstone.

use tenure::lease::{ChangeKind, KeyState, Loaded, Lost, Policies, Policy, Record};

use super::*;

#[test]
fn a_spent_session_is_never_granted_or_revived() {
    let mut duo = Duo::new();
    assert_eq!(refused(&duo.session.done(acquire("a"))), Refusal::RequestSpent(None));
    assert_eq!(refused(&duo.session.done(acquire("a").reclaiming())), Refusal::RequestSpent(None));
    duo.run(TTL_MS);
    assert!(duo.look());
    let beat = duo.session.done(heartbeat(duo.holder.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::Expired))));
    assert_eq!(refused(&duo.session.done(acquire("a"))), Refusal::RequestSpent(None));
    duo.session.restart(true, 0);
    assert_eq!(refused(&duo.session.done(acquire("a"))), Refusal::RequestSpent(None));
    assert!(duo.look());
}

#[test]
fn policies_do_not_hold_for_sessions() {
    let mut duo = Duo::new();
    let plan = Some(std::sync::Arc::new(before_grant(&["power"])));
    let policy = Policy { lock_delay_ms: 9_000, fence: plan, ..Policy::default() };
    duo.session.context.policies = Policies::new(Vec::new(), policy).into();
    duo.session.run(TTL_MS);
    assert_eq!(duo.session.record().state, KeyState::Free);
    assert!(duo.session.fences.is_empty());
    duo.session.context.policies = ruled(0, None);
}

#[test]
fn who_waits_for_the_key_of_a_session_is_not_granted_a_tombstone() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    let late = session.ask(acquire("a").waiting_until(START + ms(60_000)));
    // Another node writes the tombstone at the same time.
    let mut other = Bench::of(Key::of_session(DIGEST), None);
    other.done(Request::WriteTombstone);
    session.cell = other.cell.clone();
    session.oracle = other.oracle.clone();
    session.settle();
    assert_eq!(refused(&late), Refusal::RequestSpent(None));
    assert!(Inquiry::of(DIGEST, &session.cell.load()).is_over());
}

#[test]
fn who_waits_for_a_session_that_the_store_refused_is_not_granted_its_tombstone() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    let late = session.ask(acquire("a").waiting_until(START + ms(60_000)));
    session.refuse();
    session.done(Request::WriteTombstone);
    session.run(60_000);
    assert!(matches!(late.answer(), Answer::Refused(..)), "{late:?}");
    assert!(Inquiry::of(DIGEST, &session.cell.load()).is_over());
}

#[test]
fn a_session_without_a_record_is_made_a_tombstone() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    assert_eq!(Inquiry::of(DIGEST, &session.cell.load()), Inquiry::WriteTombstone);
    let ended = session.done(Request::WriteTombstone);
    assert!(matches!(ended.answer(), Answer::Viewed(view) if view.known));
    assert!(Inquiry::of(DIGEST, &session.cell.load()).is_over());
    assert_eq!(refused(&session.done(acquire("a"))), Refusal::RequestSpent(None));
    assert!(session.events().is_empty());

    let mut duo = Duo::new();
    let lives = duo.session.done(Request::WriteTombstone);
    assert!(matches!(lives.answer(), Answer::Viewed(view) if view.state == KeyState::Held));
    assert!(duo.alive().is_some());
}

#[test]
fn a_session_and_its_tombstone_race_and_one_of_them_wins() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    let made = session.ask(acquire("a"));
    let ended = session.ask(Request::WriteTombstone);
    session.settle();
    made.grant();
    assert!(matches!(ended.answer(), Answer::Viewed(view) if view.state == KeyState::Held));

    let mut session = Bench::of(Key::of_session(DIGEST), None);
    session.ask(Request::WriteTombstone);
    let made = session.ask(acquire("a"));
    session.settle();
    assert_eq!(refused(&made), Refusal::RequestSpent(None));
}

#[test]
fn standing_is_what_the_store_proves() {
    let mut bench = Bench::new();
    assert_eq!(Inquiry::of(DIGEST, &bench.cell.load()), Inquiry::WriteTombstone);
    bench.done(acquire("a"));
    assert_eq!(Inquiry::of(DIGEST, &bench.cell.load()), Inquiry::Lives);
    bench.cell.spoilt = true;
    assert_eq!(Inquiry::of(DIGEST, &bench.cell.load()), Inquiry::Lives, "held by somebody unknown");
    for state in [KeyState::Free, KeyState::Offered, KeyState::Fencing, KeyState::Cooling] {
        let record = Record { state, ..Record::absent() };
        let there = Loaded::Record(tenure::lease::Revision(1), record.into());
        assert!(Inquiry::of(DIGEST, &there).is_over());
    }
}

#[test]
fn who_still_waits_at_the_end_of_a_session_is_refused() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    let first = session.ask(acquire("a").waiting_until(START + ms(600_000)));
    session.refuse();
    let second = session.ask(acquire("a").waiting_until(START + ms(600_000)));
    session.run(1_000);
    first.grant();
    session.run(TTL_MS);
    assert_eq!(refused(&second), Refusal::RequestSpent(None));
    assert_eq!(session.events(), ["granted", "expired"]);
}
