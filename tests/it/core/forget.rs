//! Forgetting a free key.

use tenure::lease::{Answer, Request};

use crate::core::harness::*;

fn forget() -> Request {
    Request::Forget("not needed".into(), "root".into())
}

#[test]
fn a_free_key_says_that_it_is_forgotten_and_its_next_token_is_higher() {
    let (mut bench, a) = held_by("a");
    bench.done(release(a.proof()));
    let forgotten = bench.done(forget());
    assert!(matches!(forgotten.answer(), Answer::Forgotten(3)), "{:?}", forgotten.answer());
    assert_eq!(bench.events(), ["granted", "released", "forgotten"]);
    let record = bench.record();
    assert!(record.value.is_none() && record.request_marks.is_empty());
    // Its record was not removed yet, or was.
    for removed in [false, true] {
        if removed {
            bench.cell.there = None;
        }
        let last = bench.cell.history.last().expect("a change").token;
        let next = bench.done(acquire("b"));
        assert!(next.token() > last.0);
        bench.done(release(next.proof()));
        bench.done(forget());
    }
}

#[test]
fn what_somebody_may_need_is_not_forgotten() {
    let (mut bench, a) = held_by("a");
    let left = |bench: &mut Bench, why: &str| {
        let asked = bench.done(forget());
        assert!(matches!(asked.answer(), Answer::NotForgotten(_)), "{why}");
    };
    left(&mut bench, "it is held");
    let pinned = bench.done(pin("x"));
    drop(pinned);
    bench.done(release(a.proof()));
    left(&mut bench, "it is pinned");
    let mut never = Bench::new();
    left(&mut never, "nothing is there");
    assert!(never.events().is_empty());
}
