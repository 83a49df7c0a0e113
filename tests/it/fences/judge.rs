//! What the plugins wrote down and what the store tells, as one history, and what of it only the plan knows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::history::{self, Event, Log, check, committed};

use crate::fences::{
    journal::Line,
    plan::{Does, Planned, Rule, TRIES},
};

/// Events say milliseconds, and the plugins microseconds: how much later an event may be than it says.
const ROUNDING: u64 = 999_999;
/// Nothing but this is to happen to a key.
const KINDS: [&str; 9] = [
    "granted",
    "expired",
    "released",
    "revoked",
    "session-ended",
    "fencing",
    "fenced",
    "fence-failed",
    "fence-skipped",
];

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub grants: usize,
    pub ends: usize,
    pub confirmed: usize,
    /// Tries after the confirmation was durable: by programs that a dead node left running, and no others.
    pub late: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Rules for which a confirmation that came too late would be noticed.
    pub noticed: usize,
}

/// A change, with the moment that its event tells, in nanoseconds, rounded down.
struct Told<'a> {
    at: u64,
    kind: String,
    token: u64,
    node: &'a Value,
}

/// All of a key: its policy, its changes, and what the plugins did.
struct Story<'a> {
    planned: &'a Planned,
    told: Vec<Told<'a>>,
    tries: Vec<&'a Line>,
    /// The last line of its changes, since none is before the one before it.
    last: u64,
}

fn nanos(event: &Value) -> u64 {
    let time = event["time"].as_str().expect("a time");
    let time = humantime::parse_rfc3339(time).unwrap_or_else(|why| panic!("{why}: {time}"));
    let since = time.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_nanos()).expect("a time")
}

/// Judges all keys; an event or a line of any other key is a fault.
pub fn judge(plan: &[Planned], events: &[Value], lines: &[Line]) -> Seen {
    let story = |planned| Story { planned, told: Vec::new(), tries: Vec::new(), last: 0 };
    let mut stories: BTreeMap<&str, Story<'_>> =
        plan.iter().map(|planned| (planned.key.as_str(), story(planned))).collect();
    let log = Log::default();
    for event in events {
        let mut change = committed(event);
        let Event::Committed { key, kind, token, session, fences, .. } = &mut change else {
            unreachable!("it is one")
        };
        let story = stories.get_mut(key.as_str());
        let story = story.unwrap_or_else(|| panic!("nobody asked for {key}"));
        assert!(KINDS.contains(&kind.as_str()), "unexpected: {event}");
        // What became of sessions these events do not tell.
        *session = None;
        if story.planned.is_before() {
            *fences = story.planned.plugins.iter().map(|(name, _)| (*name).to_owned()).collect();
        }
        let at = nanos(event);
        // Ends are as early as they may be, and so are grants, but for those that are to wait for a fence.
        let waits = kind == "granted" && story.planned.is_before();
        let t = story.last.max(if waits { at + ROUNDING } else { at });
        story.last = t;
        let node = &event["data"]["node"];
        story.told.push(Told { at, kind: kind.clone(), token: *token, node });
        log.push(t, change);
    }
    for line in lines {
        let story = stories.get_mut(line.key.as_str());
        story.unwrap_or_else(|| panic!("nobody asked for {line:?}")).tries.push(line);
        let (plugin, key, token) = (line.plugin.clone(), line.key.clone(), line.token);
        let done = line.outcome == "confirmed";
        let event = if done {
            Event::Fenced { plugin, key, token }
        } else {
            Event::Tried { plugin, key, token }
        };
        log.push(line.at * 1_000, event);
    }
    for planned in plan.iter().filter(|p| matches!(p.rule, Rule::Before | Rule::After)) {
        log.push(0, Event::Blocks { key: planned.key.clone() });
    }
    let lines = log.lines();
    let report = check(&lines);
    assert!(report.violations.is_empty(), "{report}");
    let mut noticed = 0;
    for rule in [Rule::Before, Rule::BeforeOrAlarm] {
        let keys = plan.iter().filter(|planned| planned.rule == rule && planned.wanted);
        let late = with_a_late_confirmation(&lines, keys.map(|planned| &*planned.key).collect());
        if let Some(late) = late {
            assert!(check(&late).broken().contains("I5"), "{rule:?}: too late, and unnoticed");
            noticed += 1;
        }
    }
    stories.values().fold(Seen { noticed, ..Seen::default() }, |seen, story| story.as_planned(seen))
}

/// The history, but the only confirmation of one plugin for a tenure of one of these keys comes after the next grant.
fn with_a_late_confirmation(
    lines: &[history::Line],
    keys: BTreeSet<&str>,
) -> Option<Vec<history::Line>> {
    let mut confirmed: BTreeMap<(&str, u64, &str), Vec<usize>> = BTreeMap::new();
    let mut last_grants = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        match &line.event {
            Event::Fenced { plugin, key, token } if keys.contains(&**key) => {
                confirmed.entry((key, *token, plugin)).or_default().push(at);
            }
            Event::Committed { key, kind, token, .. } if kind == "granted" => {
                last_grants.insert(&**key, (*token, line.t));
            }
            _ => {}
        }
    }
    let moved = confirmed.iter().find_map(|((key, token, _), all)| {
        let (next, t) = *last_grants.get(key)?;
        (all.len() == 1 && next != *token).then(|| (all[0], t + 1))
    });
    let (moved, t) = moved?;
    let mut lines = lines.to_vec();
    lines[moved].t = t;
    Some(lines)
}

impl Story<'_> {
    fn count(&self, kinds: &[&str]) -> usize {
        self.told.iter().filter(|told| kinds.contains(&&*told.kind)).count()
    }

    /// When it is told of this tenure, in nanoseconds.
    fn told(&self, kind: &str, token: u64) -> Option<u64> {
        let of_token = |told: &&Told<'_>| told.kind == kind && told.token == token;
        self.told.iter().rfind(of_token).map(|told| told.at)
    }

    fn as_planned(&self, mut seen: Seen) -> Seen {
        let key = &self.planned.key;
        let mut failed = BTreeMap::new();
        for told in self.told.iter().filter(|told| told.kind == "fence-failed") {
            let before = failed.insert(told.token, told.node);
            // A successor may run again what failed; nobody else may.
            assert_ne!(before, Some(told.node), "{key}: {} had failed already", told.token);
        }
        let late = |line: &&&Line| {
            let fenced = self.told("fenced", line.token);
            fenced.is_some_and(|at| line.at * 1_000 > at + ROUNDING)
        };
        let confirmed = self.tries.iter().filter(|line| line.outcome == "confirmed");
        let confirmed: BTreeSet<_> = confirmed.map(|line| (line.token, &*line.plugin)).collect();
        seen.grants += self.count(&["granted"]);
        seen.ends += self.count(&["expired", "released", "revoked", "session-ended"]);
        seen.failed += self.count(&["fence-failed"]);
        seen.skipped += self.count(&["fence-skipped"]);
        seen.confirmed += confirmed.len();
        seen.late += self.tries.iter().filter(late).count();
        let grants: Vec<&Told<'_>> = self.told.iter().filter(|t| t.kind == "granted").collect();
        if let (Some(first), true) = (grants.first(), self.planned.is_due()) {
            let plugins = &self.planned.plugins;
            let all = plugins.iter().all(|(name, _)| confirmed.contains(&(first.token, *name)));
            let outcome = (
                self.told("fenced", first.token).is_some(),
                self.told("fence-failed", first.token).is_some(),
            );
            let confirms = self.planned.confirms();
            assert_eq!((outcome.0, all), (confirms, confirms), "{key}: {outcome:?} {confirmed:?}");
            assert!(confirms || outcome.1, "{key}: nobody was told that the fence failed");
            self.was_tried(first.token, grants.get(1).map(|next| next.at + ROUNDING));
        }
        seen
    }

    /// A fence that failed for good, and lets the next one in, was tried as often as its plugin is to try.
    fn was_tried(&self, token: u64, next: Option<u64>) {
        let Some(next) = next.filter(|_| self.planned.rule == Rule::BeforeOrAlarm) else { return };
        let before = |line: &&&Line| line.token == token && line.at * 1_000 <= next;
        let tries = self.tries.iter().filter(before).count();
        for (_, does) in &self.planned.plugins {
            let least = match does {
                Does::Fails => TRIES,
                // It may be ended before it has written its line.
                Does::Hangs => 1,
                _ => 0,
            };
            assert!(tries >= least, "{}: {tries} tries of {least}", self.planned.key);
        }
    }
}
