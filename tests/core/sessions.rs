//! R6: a session is a lease on a key of its own; leases that it keeps end after its tombstone.

use tenure::lease::{
    Answer, Behavior, Bond, ChangeKind, FenceResult, Input, Key, Loaded, Lost, Moment, Mutant,
    Nonce, Policies, Policy, Record, Refusal, Request, Revoke, SessionOver, Standing, State,
};

use crate::harness::*;

const DIGEST: Nonce = Nonce(0x5e55);

fn bond() -> Bond {
    Bond { session: DIGEST, lock_delay_ms: None, behavior: Behavior::Release }
}

/// A session's key and one that it keeps, each with its own lease, and the shell between them.
struct Duo {
    session: Bench,
    key: Bench,
    holder: Who,
}

impl Duo {
    fn new() -> Self {
        Self::breaking(None)
    }

    fn breaking(mutant: Option<Mutant>) -> Self {
        let mut session = Bench::of(Key::of_session(DIGEST), mutant);
        let holder = session.done(acquire("a"));
        Self { session, key: Bench::breaking(mutant), holder }
    }

    /// The session keeps the key.
    fn kept(bond: Bond) -> (Self, Who) {
        let mut duo = Self::new();
        let kept = duo.grant(acquire("a").value("page 7").kept_by(bond));
        (duo, kept)
    }

    fn pass(&mut self, span_ms: u64) {
        self.session.pass(span_ms);
        self.key.pass(span_ms);
    }

    fn run(&mut self, span_ms: u64) {
        self.session.run(span_ms);
        self.key.run(span_ms);
    }

    fn alive(&mut self) -> Option<u64> {
        match self.session.ask(heartbeat(self.holder.proof())).answer() {
            Answer::Alive { valid_for_ms, .. } => Some(valid_for_ms),
            _ => None,
        }
    }

    /// What the shell does: it sees the session alive before the grant and after it.
    fn grant(&mut self, ask: Ask) -> Who {
        self.alive().expect("the session lives");
        let who = self.key.done(ask);
        self.alive().expect("the session lives");
        who
    }

    /// The shell looks at the session's record, and tells the lease if it is a tombstone.
    fn look(&mut self) -> Standing {
        let standing = Standing::of(&self.session.cell.load());
        if standing == Standing::Dead {
            self.tell();
        }
        standing
    }

    fn tell(&mut self) {
        let over = SessionOver { session: DIGEST, cause: "its ttl ran out".into() };
        self.key.input(Input::SessionOver(over));
    }

    /// The session ends by expiry, and the lease is told.
    fn end(&mut self) {
        self.run(TTL_MS);
        assert_eq!(self.look(), Standing::Dead);
    }
}

#[track_caller]
fn refused(who: &Who) -> Refusal {
    match who.answer() {
        Answer::Refused(why, _) => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_session_keeps_a_lease_without_promises_of_its_own() {
    let (mut duo, kept) = Duo::kept(bond());
    assert_eq!(kept.grant().valid_for_ms, 0, "the session's heartbeat says how long");
    assert_eq!(duo.key.lease.next_wake(), Moment::NEVER);
    assert_eq!(duo.key.cell.history[0].session, Some(DIGEST));
    for _ in 0..10 {
        duo.run(TTL_MS - 1);
        assert!(duo.alive().is_some());
        assert_eq!(duo.look(), Standing::Alive);
    }
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    assert_eq!(duo.key.lease.view(duo.key.now).session, Some(DIGEST));
    let beat = duo.key.done(heartbeat(kept.proof()));
    assert!(matches!(beat.answer(), Answer::KeptBySession(DIGEST)));
}

#[test]
fn what_a_session_kept_ends_when_its_tombstone_is_durable() {
    let (mut duo, kept) = Duo::kept(bond());
    let b = duo.key.ask(acquire("b").waiting_until(START + ms(600_000)));
    duo.pass(TTL_MS);
    duo.session.wake();
    assert_eq!(duo.look(), Standing::Alive, "its end is in flight");
    assert!(b.waits() && duo.key.flight.is_none());
    duo.session.commit();
    assert_eq!(duo.look(), Standing::Dead);
    duo.key.commit();
    assert!(b.token() > kept.token());
    assert_eq!(duo.key.events(), ["granted", "session-ended", "granted"]);
    let ended = &duo.key.cell.history[1];
    assert_eq!(ended.session, Some(DIGEST));
    assert_eq!(ended.reason.as_deref(), Some("its ttl ran out"));
    let beat = duo.key.done(heartbeat(kept.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::SessionEnded))));
}

#[test]
fn the_value_goes_with_the_session_where_that_was_said_and_the_token_stays() {
    for behavior in [Behavior::Release, Behavior::Delete] {
        let (mut duo, kept) = Duo::kept(Bond { behavior, ..bond() });
        duo.end();
        duo.key.settle();
        let stays = behavior == Behavior::Release;
        assert_eq!(duo.key.record().value.as_deref(), stays.then_some("page 7"));
        assert_eq!(duo.key.lease.view(duo.key.now).token.0, kept.token());
        assert!(duo.key.done(acquire("b")).token() > kept.token());
    }
    let (mut duo, kept) = Duo::kept(Bond { behavior: Behavior::Delete, ..bond() });
    duo.key.done(release(kept.proof()));
    assert_eq!(duo.key.record().value.as_deref(), Some("page 7"), "only its end deletes");
}

#[test]
fn the_sessions_lock_delay_wins_over_the_policys() {
    for (own, policy, expected) in
        [(Some(3_000), 9_000, 3_000), (None, 9_000, 9_000), (Some(0), 9_000, 0)]
    {
        let (mut duo, kept) = Duo::kept(Bond { lock_delay_ms: own, ..bond() });
        duo.key.terms.policies = ruled(policy, None);
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
    let (mut duo, kept) = Duo::kept(bond());
    duo.key.terms.policies = ruled(0, Some(before_grant(&["power"])));
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
    let (mut duo, kept) = Duo::kept(bond());
    let released = duo.key.done(release(kept.proof()));
    assert!(matches!(released.answer(), Answer::Released(true)));
    duo.end();
    assert!(duo.key.flight.is_none(), "it is not the session's any more");

    let (mut duo, kept) = Duo::kept(bond());
    let handed = duo.key.done(transfer(kept.proof(), "b"));
    assert!(matches!(handed.answer(), Answer::Done(_)));
    let b = duo.key.done(acquire("b"));
    duo.end();
    assert!(duo.key.flight.is_none());
    assert!(matches!(duo.key.done(heartbeat(b.proof())).answer(), Answer::Alive { .. }));
}

#[test]
fn a_kept_lease_is_reclaimed_with_a_session_or_without() {
    let (mut duo, kept) = Duo::kept(bond());
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
    let first = duo.grant(acquire("a").kept_by(bond()).id(7, 0));
    let again = duo.grant(acquire("a").kept_by(bond()).id(7, 0));
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
    let (mut duo, kept) = Duo::kept(bond());
    let unsaid = duo.key.done(revoke());
    assert!(matches!(unsaid.answer(), Answer::KeptBySession(DIGEST)));
    duo.pass(2_000);
    duo.alive();
    let floor = duo.session.lease.next_wake();
    let revoked = duo.key.done(revoke_until(floor));
    assert!(matches!(revoked.answer(), Answer::Revoked(TTL_MS)));
    let handed = duo.key.done(transfer(kept.proof(), "b"));
    assert!(matches!(handed.answer(), Answer::Lost(Lost::Ended(ChangeKind::Revoked))));
    duo.key.run(TTL_MS - 1);
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    duo.key.run(1);
    assert_eq!(duo.key.events(), ["granted", "revoked"]);
}

#[test]
fn a_graceful_revoke_survives_a_restart_and_ends_with_the_session_if_that_is_sooner() {
    let (mut duo, _) = Duo::kept(bond());
    let floor = duo.key.now + ms(TTL_MS);
    duo.key.done(revoke_until(floor));
    duo.key.restart(true, 0);
    duo.key.run(TTL_MS);
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    duo.key.run(TTL_MS / 10);
    assert_eq!(duo.key.owner(), None);

    let (mut duo, _) = Duo::kept(bond());
    let floor = duo.key.now + ms(TTL_MS);
    duo.key.done(revoke_until(floor));
    duo.tell();
    duo.key.settle();
    assert_eq!(duo.key.events(), ["granted", "session-ended"]);
}

#[test]
fn an_immediate_revoke_asks_no_session() {
    let (mut duo, _) = Duo::kept(bond());
    let revoked = duo.key.done(revoke_immediately());
    assert!(matches!(revoked.answer(), Answer::Revoked(0)));
}

#[test]
fn a_pinned_lease_outlives_its_session_until_it_is_unpinned() {
    let (mut duo, _) = Duo::kept(bond());
    duo.key.done(pin("ops"));
    duo.end();
    duo.run(100_000);
    assert_eq!(duo.key.owner().as_deref(), Some("a"));
    duo.key.done(unpin("ops"));
    duo.run(0);
    assert_eq!(duo.key.events(), ["granted", "pinned", "unpinned", "session-ended"]);
}

#[test]
fn a_spent_session_is_never_granted_or_revived() {
    let mut duo = Duo::new();
    assert_eq!(refused(&duo.session.done(acquire("a"))), Refusal::RequestSpent(None));
    assert_eq!(refused(&duo.session.done(acquire("a").reclaiming())), Refusal::RequestSpent(None));
    duo.run(TTL_MS);
    assert_eq!(duo.look(), Standing::Dead);
    let beat = duo.session.done(heartbeat(duo.holder.proof()));
    assert!(matches!(beat.answer(), Answer::Lost(Lost::Ended(ChangeKind::Expired))));
    assert_eq!(refused(&duo.session.done(acquire("a"))), Refusal::RequestSpent(None));
    duo.session.restart(true, 0);
    assert_eq!(refused(&duo.session.done(acquire("a"))), Refusal::RequestSpent(None));
    assert_eq!(duo.look(), Standing::Dead);
}

#[test]
fn policies_do_not_hold_for_sessions() {
    let mut duo = Duo::new();
    let plan = Some(std::sync::Arc::new(before_grant(&["power"])));
    let policy = Policy { lock_delay_ms: 9_000, fence: plan, ..Policy::default() };
    duo.session.terms.policies = Policies::new(Vec::new(), policy).into();
    duo.session.run(TTL_MS);
    assert_eq!(duo.session.record().state, State::Free);
    assert!(duo.session.fences.is_empty());
    duo.session.terms.policies = ruled(0, None);
}

#[test]
fn who_waits_for_the_key_of_a_session_is_not_granted_a_tombstone() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    let late = session.ask(acquire("a").waiting_until(START + ms(60_000)));
    // Another node buries the session at the same time.
    let mut other = Bench::of(Key::of_session(DIGEST), None);
    other.done(Request::Bury);
    session.cell = other.cell.clone();
    session.oracle = other.oracle.clone();
    session.settle();
    assert_eq!(refused(&late), Refusal::RequestSpent(None));
    assert_eq!(Standing::of(&session.cell.load()), Standing::Dead);
}

#[test]
fn who_waits_for_a_session_that_the_store_refused_is_not_granted_its_tombstone() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    let late = session.ask(acquire("a").waiting_until(START + ms(60_000)));
    session.refuse();
    session.done(Request::Bury);
    session.run(60_000);
    assert!(matches!(late.answer(), Answer::Refused(..)), "{late:?}");
    assert_eq!(Standing::of(&session.cell.load()), Standing::Dead);
}

#[test]
fn a_session_without_a_record_is_made_a_tombstone() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    assert_eq!(Standing::of(&session.cell.load()), Standing::Absent);
    let buried = session.done(Request::Bury);
    assert!(matches!(buried.answer(), Answer::Viewed(view) if view.known));
    assert_eq!(Standing::of(&session.cell.load()), Standing::Dead);
    assert_eq!(refused(&session.done(acquire("a"))), Refusal::RequestSpent(None));
    assert!(session.events().is_empty());

    let mut duo = Duo::new();
    let lives = duo.session.done(Request::Bury);
    assert!(matches!(lives.answer(), Answer::Viewed(view) if view.state == State::Held));
    assert!(duo.alive().is_some());
}

#[test]
fn a_session_and_its_burial_race_and_one_of_them_wins() {
    let mut session = Bench::of(Key::of_session(DIGEST), None);
    let made = session.ask(acquire("a"));
    let buried = session.ask(Request::Bury);
    session.settle();
    made.grant();
    assert!(matches!(buried.answer(), Answer::Viewed(view) if view.state == State::Held));

    let mut session = Bench::of(Key::of_session(DIGEST), None);
    session.ask(Request::Bury);
    let made = session.ask(acquire("a"));
    session.settle();
    assert_eq!(refused(&made), Refusal::RequestSpent(None));
}

#[test]
fn standing_is_what_the_store_proves() {
    let mut bench = Bench::new();
    assert_eq!(Standing::of(&bench.cell.load()), Standing::Absent);
    bench.done(acquire("a"));
    assert_eq!(Standing::of(&bench.cell.load()), Standing::Alive);
    bench.cell.spoilt = true;
    assert_eq!(Standing::of(&bench.cell.load()), Standing::Alive, "held by somebody unknown");
    for state in [State::Free, State::Offered, State::Fencing, State::Cooling] {
        let record = Record { state, ..Record::absent() };
        let there = Loaded::Record(tenure::lease::Revision(1), record.into());
        assert_eq!(Standing::of(&there), Standing::Dead);
    }
}

#[test]
fn a_grant_that_lands_after_the_tombstone_ends_when_the_lease_is_told() {
    let mut duo = Duo::new();
    duo.alive().expect("the session lives");
    let kept = duo.key.ask(acquire("a").kept_by(bond()));
    duo.end();
    assert!(duo.alive().is_none(), "the shell tells nobody of the grant");
    duo.key.commit();
    kept.grant();
    duo.run(0);
    assert_eq!(duo.key.events(), ["granted", "session-ended"]);

    // Told before it was sent, it learns by asking again.
    let mut duo = Duo::new();
    duo.end();
    duo.key.done(acquire("a").kept_by(bond()));
    assert_eq!(duo.key.state(), "held");
    duo.tell();
    duo.key.settle();
    assert_eq!(duo.key.state(), "free");
}

#[test]
fn the_end_of_another_session_ends_nothing() {
    let (mut duo, _) = Duo::kept(bond());
    let over = SessionOver { session: Nonce(1), cause: "expired".into() };
    duo.key.input(Input::SessionOver(over));
    assert!(duo.key.flight.is_none());
    duo.key.done(revoke_immediately());
    let other = Bond { session: Nonce(2), ..bond() };
    duo.key.done(acquire("a").kept_by(other));
    duo.end();
    assert!(duo.key.flight.is_none());
    assert_eq!(duo.key.state(), "held");
}

#[test]
fn the_end_of_a_session_waits_for_the_write_in_flight_and_for_the_store() {
    let (mut duo, _) = Duo::kept(bond());
    duo.key.ask(pin("ops"));
    duo.end();
    duo.key.settle();
    duo.key.done(unpin("ops"));
    duo.key.run(0);
    assert_eq!(duo.key.state(), "free");

    let (mut duo, _) = Duo::kept(bond());
    duo.end();
    duo.key.refuse();
    assert_eq!(duo.key.state(), "held");
    duo.key.run(1_000);
    assert_eq!(duo.key.state(), "free");

    for written in [false, true] {
        let (mut duo, _) = Duo::kept(bond());
        duo.end();
        duo.key.lose_reply(written);
        duo.key.run(1_000);
        assert_eq!(duo.key.events(), ["granted", "session-ended"]);
    }
}

#[test]
fn a_recovered_lease_asks_after_its_session() {
    for rebuilt in [false, true] {
        let (mut duo, _) = Duo::kept(bond());
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
    let (mut duo, _) = Duo::kept(bond());
    duo.key.done(acquire("b"));
    assert_eq!(duo.key.inquired, [DIGEST], "so does one that refuses a caller");
}

#[test]
fn after_a_restart_the_session_has_one_full_ttl() {
    let (mut duo, _) = Duo::kept(bond());
    duo.pass(TTL_MS - 1);
    duo.session.restart(true, 5_000);
    duo.key.restart(true, 5_000);
    duo.run(TTL_MS);
    assert_eq!(duo.look(), Standing::Alive);
    assert!(duo.alive().is_some());
    duo.run(TTL_MS);
    assert_eq!(duo.look(), Standing::Dead);
    duo.key.settle();
    assert_eq!(duo.key.events(), ["granted", "session-ended"]);
}

#[test]
fn a_released_session_ends_what_it_kept() {
    let (mut duo, _) = Duo::kept(bond());
    duo.session.done(release(duo.holder.proof()));
    assert_eq!(duo.look(), Standing::Dead);
    duo.key.settle();
    assert_eq!(duo.key.state(), "free");
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
