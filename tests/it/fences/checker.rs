//! What the plugins wrote down and what the store tells, held against the policies.
//!
//! I5: under `before-grant` every plugin confirmed between the end of a tenure and the next grant. I2:
//! tokens rise. I4: `seq` has no hole. And nobody is fenced whose tenure has not ended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fences::{
    journal::Line,
    plan::{Does, Planned, Rule, TRIES},
};

/// Events say milliseconds, and the plugins microseconds.
const ROUNDING: u64 = 1_000;

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub grants: usize,
    pub ends: usize,
    pub confirmed: usize,
    /// Confirmations of a fence that was confirmed before: at least once, not once.
    pub again: usize,
    /// Tries after the confirmation was durable: by programs that a dead node left running, and no others.
    pub late: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// What is known of a key while its events are read.
#[derive(Default)]
struct Story {
    token: u64,
    /// The tenures that ended, and when.
    ends: BTreeMap<u64, u64>,
    last: Option<u64>,
    fenced: BTreeMap<u64, u64>,
    /// And which node said so.
    failed: BTreeMap<u64, String>,
    skipped: BTreeSet<u64>,
}

fn micros(event: &Value) -> u64 {
    let time = event["time"].as_str().expect("a time");
    let time = humantime::parse_rfc3339(time).unwrap_or_else(|why| panic!("{why}: {time}"));
    let since = time.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_micros()).expect("a time")
}

/// Checks all keys; an event or a line of any other key is a fault.
pub fn check(plan: &[Planned], events: &[Value], lines: &BTreeMap<String, Vec<Line>>) -> Seen {
    let mut stories: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events {
        stories.entry(event["subject"].as_str().expect("a key")).or_default().push(event);
    }
    let known: BTreeSet<&str> = plan.iter().map(|planned| planned.key.as_str()).collect();
    let others = stories.keys().copied().chain(lines.keys().map(String::as_str));
    for key in others {
        assert!(known.contains(key), "nobody asked for {key}");
    }
    let mut seen = Seen::default();
    for planned in plan {
        let none = Vec::new();
        let lines = lines.get(&planned.key).unwrap_or(&none);
        let events = stories.get(planned.key.as_str()).map_or(&[][..], Vec::as_slice);
        of_key(planned, events, lines, &mut seen);
    }
    seen
}

fn of_key(planned: &Planned, events: &[&Value], lines: &[Line], seen: &mut Seen) {
    let mut story = Story::default();
    for (at, event) in events.iter().enumerate() {
        let data = &event["data"];
        assert_eq!(data["seq"], at as u64 + 1, "a hole before {event}");
        let kind = event["type"].as_str().and_then(|kind| kind.rsplit('.').next()).expect("a type");
        let previous = data["previous"]["token"].as_u64();
        match kind {
            "granted" => {
                let token = data["token"].as_u64().expect("a token");
                assert!(token > story.token, "{event} is not above {}", story.token);
                story.token = token;
                seen.grants += 1;
                if let Some(last) = story.last.take() {
                    granted(planned, &story, last, micros(event), lines);
                }
            }
            "fencing" => {}
            "fenced" => drop(story.fenced.insert(previous.expect("whom"), micros(event))),
            "fence-failed" => {
                seen.failed += 1;
                let node = data["node"].to_string();
                let before = story.failed.insert(previous.expect("whom"), node.clone());
                // A successor may run again what failed; nobody else may.
                assert_ne!(before, Some(node), "it had failed already: {event} {lines:?}");
            }
            "fence-skipped" => {
                seen.skipped += 1;
                story.skipped.insert(previous.expect("whom"));
            }
            "expired" | "released" | "revoked" | "session-ended" => {
                let token = previous.expect("whose");
                assert_eq!(token, story.token, "{event}");
                story.ends.insert(token, micros(event));
                story.last = Some(token);
                seen.ends += 1;
            }
            _ => panic!("unexpected: {event}"),
        }
    }
    for token in story.fenced.keys().chain(story.failed.keys()) {
        assert!(story.ends.contains_key(token), "{}: {token} was fenced alive", planned.key);
    }
    let mut confirmations: BTreeMap<(u64, &str), usize> = BTreeMap::new();
    for line in lines {
        let end = story.ends.get(&line.token);
        let end = end.unwrap_or_else(|| panic!("a tenure that did not end was fenced: {line:?}"));
        assert!(line.at + ROUNDING >= *end, "{line:?} is before the end of its tenure at {end}");
        seen.late +=
            usize::from(story.fenced.get(&line.token).is_some_and(|at| line.at > at + ROUNDING));
        if line.outcome == "confirmed" {
            *confirmations.entry((line.token, &line.plugin)).or_default() += 1;
        }
    }
    seen.confirmed += confirmations.len();
    seen.again += confirmations.values().filter(|times| **times > 1).count();
    late(planned, &story, lines);
}

/// What must have been before a grant that follows the tenure `last`.
fn granted(planned: &Planned, story: &Story, last: u64, at: u64, lines: &[Line]) {
    let key = &planned.key;
    let until = at + ROUNDING;
    let of_last: Vec<_> = lines.iter().filter(|line| line.token == last).collect();
    match planned.rule {
        Rule::Before | Rule::BeforeOrAlarm if planned.confirms() => {
            assert!(story.fenced.contains_key(&last), "{key}: granted, and {last} is not fenced");
            for (plugin, _) in &planned.plugins {
                let there = of_last.iter().any(|line| {
                    line.plugin == *plugin && line.outcome == "confirmed" && line.at <= until
                });
                assert!(there, "{key}: granted at {at} before {plugin} confirmed: {of_last:?}");
            }
        }
        Rule::Before => {
            assert!(story.skipped.contains(&last), "{key}: granted over a fence that failed");
        }
        Rule::BeforeOrAlarm => {
            assert!(story.failed.contains_key(&last), "{key}: granted with no alarm");
            let least = |does: &Does| match does {
                Does::Panics => 0,
                // A program that is killed before it got to its first line leaves none.
                Does::Hangs => 1,
                _ => TRIES,
            };
            let least = planned.plugins.iter().map(|(_, does)| least(does)).max().unwrap_or(0);
            let tries = of_last.iter().filter(|line| line.at <= until).count();
            assert!(tries >= least, "{key}: granted after {tries} tries: {of_last:?}");
        }
        Rule::After | Rule::AfterOrAlarm => {
            let early = of_last.iter().find(|line| line.at + ROUNDING < at);
            assert!(early.is_none(), "{key}: fenced before the grant at {at}: {early:?}");
        }
    }
}

/// What is to have been by the end.
fn late(planned: &Planned, story: &Story, lines: &[Line]) {
    let key = &planned.key;
    let Some((first, _)) = story.ends.first_key_value() else { return };
    if !planned.is_due() {
        assert!(lines.is_empty(), "{key}: fenced, and nobody was granted it: {lines:?}");
    } else if planned.confirms() {
        assert!(story.fenced.contains_key(first), "{key}: {first} is not fenced");
        for (plugin, _) in &planned.plugins {
            let confirmed = |line: &Line| line.plugin == *plugin && line.outcome == "confirmed";
            assert!(lines.iter().any(confirmed), "{key}: {plugin} did not confirm");
        }
    } else {
        assert!(story.failed.contains_key(first), "{key}: nobody was told that the fence failed");
        assert!(!story.fenced.contains_key(first), "{key}: it is not fenced: {:?}", story.fenced);
        assert!(lines.iter().all(|line| line.outcome != "confirmed"), "{key}: {lines:?}");
    }
}
