//! The checker bites: histories that break a promise are refused, each for its reason.

use serde_json::{Value, json};

use crate::fences::{
    checker::{Seen, check},
    journal::{Line, by_key},
    plan::{Does, Planned, Rule},
};

/// An event of the key `k`: type, second, token, token before.
fn events(rows: &[(&str, u64, u64, u64)]) -> Vec<Value> {
    let event = |(n, (kind, second, token, previous)): (usize, &(&str, u64, u64, u64))| {
        json!({
            "type": format!("io.tenure.lease.{kind}"), "subject": "k",
            "time": format!("1970-01-01T00:00:{second:02}.000Z"),
            "data": { "seq": n + 1, "token": token, "previous": { "token": previous }, "node": "n" },
        })
    };
    rows.iter().enumerate().map(event).collect()
}

/// Tries of the plugin `p`: second, token, outcome.
fn tried(rows: &[(u64, u64, &str)]) -> Vec<Line> {
    let line = |(second, token, outcome): &(u64, u64, &str)| {
        Line::parse(&format!("{} k {token} p 1 {outcome}", second * 1_000_000))
    };
    rows.iter().map(line).collect()
}

fn judge(
    rule: Rule,
    does: Does,
    story: &[(&str, u64, u64, u64)],
    tries: &[(u64, u64, &str)],
) -> Seen {
    let plan = Planned { key: "k".into(), rule, plugins: vec![("p", does)], wanted: true };
    check(&[plan], &events(story), &by_key(tried(tries)))
}

const FENCED: [(&str, u64, u64, u64); 5] = [
    ("granted", 1, 3, 0),
    ("expired", 2, 3, 3),
    ("fencing", 2, 3, 3),
    ("fenced", 4, 3, 3),
    ("granted", 4, 7, 3),
];

/// The same without some of it.
fn but(kind: &str) -> Vec<(&'static str, u64, u64, u64)> {
    FENCED.into_iter().filter(|event| event.0 != kind).collect()
}

#[test]
fn what_fits_passes() {
    let tries = [(3, 3, "failed"), (4, 3, "confirmed"), (5, 3, "confirmed")];
    let seen = judge(Rule::Before, Does::Confirms, &FENCED, &tries);
    assert_eq!((seen.grants, seen.confirmed, seen.again, seen.late), (2, 1, 1, 1));
}

#[test]
#[should_panic(expected = "is not fenced")]
fn a_grant_without_a_fence() {
    judge(Rule::Before, Does::Confirms, &but("fenced"), &[(3, 3, "confirmed")]);
}

#[test]
#[should_panic(expected = "before p confirmed")]
fn a_grant_before_the_confirmation() {
    judge(Rule::Before, Does::Confirms, &FENCED, &[(5, 3, "confirmed")]);
}

#[test]
#[should_panic(expected = "before p confirmed")]
fn a_confirmation_of_an_earlier_tenure() {
    let mut story = FENCED.to_vec();
    story.extend([("expired", 6, 7, 7), ("fenced", 7, 7, 7), ("granted", 7, 9, 7)]);
    judge(Rule::Before, Does::Confirms, &story, &[(3, 3, "confirmed"), (7, 3, "confirmed")]);
}

#[test]
#[should_panic(expected = "is before the end of its tenure")]
fn a_fence_of_a_tenure_that_lives() {
    judge(Rule::Before, Does::Confirms, &FENCED, &[(1, 3, "confirmed"), (3, 3, "confirmed")]);
}

#[test]
#[should_panic(expected = "granted over a fence that failed")]
fn a_grant_of_a_key_that_is_shut() {
    let mut story = FENCED;
    story[3].0 = "fence-failed";
    judge(Rule::Before, Does::Fails, &story, &[(3, 3, "failed"), (4, 3, "failed")]);
}

#[test]
#[should_panic(expected = "granted with no alarm")]
fn a_grant_without_the_alarm() {
    judge(Rule::BeforeOrAlarm, Does::Fails, &but("fenced"), &[(3, 3, "failed"), (4, 3, "failed")]);
}

#[test]
#[should_panic(expected = "fenced before the grant")]
fn a_fence_before_the_grant_that_it_is_to_follow() {
    judge(Rule::After, Does::Confirms, &FENCED, &[(3, 3, "confirmed")]);
}

#[test]
#[should_panic(expected = "a hole before")]
fn a_change_that_is_missing() {
    let mut story = events(&FENCED);
    story.remove(1);
    let plan = Planned { key: "k".into(), rule: Rule::Before, plugins: Vec::new(), wanted: true };
    check(&[plan], &story, &by_key(Vec::new()));
}

#[test]
#[should_panic(expected = "is not above 3")]
fn a_token_that_does_not_rise() {
    let mut story = FENCED;
    story[4].2 = 3;
    judge(Rule::Before, Does::Confirms, &story, &[(3, 3, "confirmed")]);
}
