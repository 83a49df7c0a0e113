//! The checkers bite: histories that break a promise are refused, each for its reason.

use tenure::lease::Moment;

use crate::cluster::{
    ledger::{Lease, Ledger},
    subscriber::{Heard, check_all},
};

fn lease(owner: &str, token: u64) -> Lease {
    Lease { key: "k".into(), token, owner: owner.into() }
}

fn at(ms: u64) -> Moment {
    Moment(ms * 1_000_000)
}

#[test]
fn a_book_that_fits_passes() {
    let ledger = Ledger::default();
    let (first, second, third) = (lease("a", 3), lease("b", 5), lease("a", 9));
    ledger.granted(&first, at(0), at(100));
    ledger.kept(&first, at(50), at(150));
    ledger.granted(&second, at(150), at(250));
    ledger.gives_back(&second, at(200));
    ledger.granted(&third, at(201), at(300));
    // Its guarantee had ended, nobody took the key, and it goes on.
    ledger.kept(&third, at(400), at(500));
    // An answer that came too late was believed by nobody.
    ledger.granted(&lease("c", 4), at(450), at(140));
    ledger.check();
    assert_eq!(ledger.held_at(at(120)), std::slice::from_ref(&first));
    let fortunes = ledger.fortunes(&[first, second, third], at(450));
    assert_eq!((fortunes.kept, fortunes.given_back, fortunes.lost.len()), (1, 1, 1));
    // By token: a, c (whose answer came too late), b, a.
    assert_eq!(ledger.taken_over(), 3);
}

#[test]
#[should_panic(expected = "two held it")]
fn windows_that_overlap() {
    let ledger = Ledger::default();
    ledger.granted(&lease("a", 3), at(0), at(100));
    ledger.granted(&lease("b", 5), at(99), at(200));
    ledger.check();
}

#[test]
#[should_panic(expected = "two held it")]
fn a_window_within_one_that_began_long_before() {
    let ledger = Ledger::default();
    ledger.granted(&lease("a", 3), at(0), at(100));
    ledger.kept(&lease("a", 3), at(50), at(900));
    ledger.granted(&lease("b", 5), at(901), at(910));
    ledger.granted(&lease("a", 3), at(902), at(903));
    ledger.check();
}

#[test]
#[should_panic(expected = "tokens do not rise")]
fn a_token_that_is_lower() {
    let ledger = Ledger::default();
    ledger.granted(&lease("a", 5), at(0), at(100));
    ledger.granted(&lease("b", 3), at(101), at(200));
    ledger.check();
}

#[test]
#[should_panic(expected = "tokens do not rise")]
fn one_token_for_two() {
    let ledger = Ledger::default();
    ledger.granted(&lease("a", 5), at(0), at(100));
    ledger.granted(&lease("b", 5), at(101), at(200));
    ledger.check();
}

/// What a subscriber hears of a row of (type, seq, owner, token).
fn heard(events: &[(&str, u64, &str, u64)]) -> Heard {
    let mut heard = Heard::default();
    for (n, (kind, seq, owner, token)) in events.iter().enumerate() {
        let owner = if *kind == "granted" { format!("\"{owner}\"") } else { "null".into() };
        heard.take(&format!(
            "id: s-{n}-0\nevent: {kind}\ndata: {{\"data\":{{\"key\":\"k\",\"seq\":{seq},\
             \"owner\":{owner},\"token\":{token},\"previous\":null,\"reason\":null}}}}\n\n"
        ));
    }
    heard
}

const WHOLE: [(&str, u64, &str, u64); 3] =
    [("granted", 1, "a", 3), ("released", 2, "", 3), ("granted", 3, "b", 5)];

#[test]
fn one_history_passes() {
    let again = [WHOLE[0], WHOLE[1], WHOLE[1], WHOLE[0], WHOLE[2]];
    let all = [("one", heard(&WHOLE)), ("two", heard(&again))];
    assert_eq!(check_all(&all, &[lease("a", 3), lease("b", 5)]), 3);
}

#[test]
#[should_panic(expected = "no reset was said")]
fn a_change_that_is_missing() {
    check_all(&[("one", heard(&[WHOLE[0], WHOLE[2]]))], &[]);
}

#[test]
#[should_panic(expected = "no reset was said")]
fn changes_in_another_order() {
    check_all(&[("one", heard(&[WHOLE[0], WHOLE[2], WHOLE[1]]))], &[]);
}

#[test]
#[should_panic(expected = "two: k 3")]
fn subscribers_that_are_told_different_things() {
    let other = [WHOLE[0], WHOLE[1], ("granted", 3, "c", 5)];
    check_all(&[("one", heard(&WHOLE)), ("two", heard(&other))], &[]);
}

#[test]
#[should_panic(expected = "was told to nobody")]
fn a_grant_that_was_not_told() {
    check_all(&[("one", heard(&WHOLE))], &[lease("c", 7)]);
}

#[test]
#[should_panic(expected = "after the token 3")]
fn a_token_that_is_given_twice() {
    check_all(&[("one", heard(&[WHOLE[0], WHOLE[1], ("granted", 3, "b", 3)]))], &[]);
}
