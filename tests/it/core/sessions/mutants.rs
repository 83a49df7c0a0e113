//! Broken variants of the rules of sessions, each in a story that the unbroken rules get through.

use super::*;

#[track_caller]
fn noticed(
    story: impl Fn(Option<Mutant>, SessionFaults) -> Verdict,
    broken: Broken,
    invariant: &str,
) {
    assert_eq!(story(None, SessionFaults::default()), Ok(()));
    let (mutant, faults) = match broken {
        Broken::Core(mutant) => (Some(mutant), SessionFaults::default()),
        Broken::Shell(faults) => (None, faults),
    };
    let objection = story(mutant, faults).expect_err("the judge noticed nothing");
    assert!(objection.starts_with(invariant), "noticed for another reason: {objection}");
}

enum Broken {
    Core(Mutant),
    Shell(SessionFaults),
}

/// The session ends, its key goes to somebody else, and its holder is heard once more.
fn a_late_sign_of_life(mutant: Option<Mutant>, faults: SessionFaults) -> Verdict {
    let mut duo = Duo::breaking(mutant, faults);
    duo.grant(acquire("a").kept_by(session_ref()));
    duo.end();
    duo.key.done(acquire("b")).grant();
    duo.run(1_000);
    let beat = duo.session.done(heartbeat(duo.holder.proof()));
    if let Answer::Alive { valid_for_ms, .. } = beat.answer() {
        duo.believe(valid_for_ms);
    }
    duo.word()
}

#[test]
fn a_session_that_rises_is_noticed() {
    noticed(a_late_sign_of_life, Broken::Core(Mutant::SessionGrantedAgain), "I6");
    for (mutant, rises) in [(None, false), (Some(Mutant::SessionGrantedAgain), true)] {
        let mut duo = Duo::breaking(mutant, SessionFaults::default());
        duo.end();
        let again = duo.session.done(acquire("a"));
        assert_eq!(matches!(again.answer(), Answer::Granted(_)), rises);
    }
}

/// What it kept may be forgotten, and somebody else's.
#[test]
fn a_session_that_outlives_its_epoch_is_noticed() {
    for (mutant, outlives) in [(None, false), (Some(Mutant::TenureOutlivesEpoch), true)] {
        let mut duo = Duo::breaking(mutant, SessionFaults::default());
        assert!(duo.alive().is_some());
        duo.session.context.epoch = Epoch(EPOCH.0 + 1);
        let beat = duo.session.done(heartbeat(duo.holder.proof()));
        assert_eq!(matches!(beat.answer(), Answer::Alive { .. }), outlives);
        // The judge of a single key knows of no epoch.
        duo.session.verdict = Ok(());
    }
}

/// The session's timer is late, its heartbeat is not.
fn a_late_timer(mutant: Option<Mutant>, faults: SessionFaults) -> Verdict {
    let mut duo = Duo::breaking(mutant, faults);
    duo.grant(acquire("a").kept_by(session_ref()));
    duo.key.ask(acquire("b").waiting_until(START + ms(60_000)));
    duo.pass(TTL_MS);
    duo.look();
    duo.key.settle();
    assert!(duo.alive().is_some());
    duo.judge();
    duo.word()
}

#[test]
fn a_lease_that_is_freed_on_observed_expiry_is_noticed() {
    let faults = SessionFaults { observed_expiry: true, ..SessionFaults::default() };
    noticed(a_late_timer, Broken::Shell(faults), "I6");
}

/// A key is granted under a session while the end of that is in flight.
fn a_grant_beside_the_end(mutant: Option<Mutant>, faults: SessionFaults) -> Verdict {
    let mut duo = Duo::breaking(mutant, faults);
    assert!(duo.alive().is_some());
    duo.pass(TTL_MS);
    duo.session.wake();
    let kept = duo.key.done(acquire("a").kept_by(session_ref()));
    duo.told(&kept);
    duo.session.commit();
    duo.session.settle();
    assert!(duo.look());
    duo.key.settle();
    duo.key.done(acquire("b")).grant();
    duo.judge();
    // The judge of the session's own key sees the heartbeat too.
    duo.session.verdict = Ok(());
    duo.word()
}

#[test]
fn a_grant_under_a_session_whose_end_is_in_flight_is_noticed() {
    let absorbed = Broken::Core(Mutant::HeartbeatAbsorbedWhileEnding);
    noticed(a_grant_beside_the_end, absorbed, "I1");
    let faults = SessionFaults { grant_unseen: true, ..SessionFaults::default() };
    noticed(a_grant_beside_the_end, Broken::Shell(faults), "I1");
}
