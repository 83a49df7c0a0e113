//! R12: who acts for a tenure.

use tenure::lease::{Answer, ChangeKind, Mutant, Principal, Refusal};

use crate::core::harness::*;

fn of(name: &str, principal: &str) -> Ask {
    let mut ask = acquire(name);
    ask.0.owner = ask.0.owner.of(Some(Principal::new(principal)));
    ask
}

/// A key that the principal `p` holds under the name `w`.
fn held(broken: Option<Mutant>) -> (Bench, Who) {
    let mut bench = Bench::breaking(broken);
    let holder = bench.done(of("w", "p"));
    (bench, holder)
}

fn refusal(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(why, _) => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_lease_id_that_another_principal_shows_proves_nothing() {
    let (mut bench, p) = held(None);
    let digest = Principal::new("q").digest();
    for shown in [p.proof().by(Some(digest)), p.proof().by(None)] {
        assert!(matches!(bench.ask(heartbeat(shown)).answer(), Answer::Lost(_)));
        assert!(matches!(bench.ask(release(shown)).answer(), Answer::NotHolder(_)));
        assert!(matches!(bench.ask(transfer(shown, "b")).answer(), Answer::Lost(_)));
    }
    assert!(matches!(bench.ask(heartbeat(p.proof())).answer(), Answer::Alive { .. }));
    // The judge knows no principals: it takes each of them for the holder.
    assert!(bench.verdict.is_err());
    bench.verdict = Ok(());
}

#[test]
fn the_name_of_an_owner_takes_nothing_from_another_principal() {
    let (mut bench, p) = held(None);
    for other in [of("w", "q"), acquire("w")] {
        assert_eq!(refusal(bench.ask(other.reclaiming()).answer()), Refusal::Held);
    }
    assert_eq!(refusal(bench.ask(of("w", "p")).answer()), Refusal::HeldByYou);
    let again = bench.done(of("w", "p").reclaiming());
    assert!(again.token() > p.token());
}

#[test]
fn an_offer_is_for_the_name_whoever_acts_for_it() {
    let (mut bench, p) = held(None);
    bench.done(transfer(p.proof(), "b"));
    assert_eq!(refusal(bench.ask(of("c", "q")).answer()), Refusal::Held);
    bench.done(of("b", "q")).token();
}

#[test]
fn a_tenure_from_before_there_were_principals_belongs_to_whoever_proves_it() {
    let (mut bench, a) = held_by("a");
    let digest = Principal::new("q").digest();
    let shown = a.proof().by(Some(digest));
    assert!(matches!(bench.ask(heartbeat(shown)).answer(), Answer::Alive { .. }));
    bench.done(of("a", "q").reclaiming());
}

#[test]
fn the_history_names_the_principal_that_caused_a_change() {
    let (mut bench, p) = held(None);
    bench.done(release(p.proof()));
    let actors: Vec<_> =
        bench.cell.history.iter().map(|change| (change.kind, change.actor.clone())).collect();
    let by_p = |kind| (kind, Some("p".into()));
    assert_eq!(actors, [by_p(ChangeKind::Granted), by_p(ChangeKind::Released)]);
}

#[test]
fn a_principal_that_acts_for_anothers_tenure_is_noticed() {
    let (mut bench, p) = held(Some(Mutant::AnyPrincipalActs));
    let digest = Principal::new("q").digest();
    let beat = bench.ask(heartbeat(p.proof().by(Some(digest)))).answer();
    assert!(matches!(beat, Answer::Alive { .. }), "the lease id alone is enough");
    assert!(bench.done(of("w", "q").reclaiming()).token() > p.token(), "and so is the name");
}
