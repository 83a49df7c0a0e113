//! Whoever is answered is told of every lease that the call was granted: one that nobody was told of, and nobody may
//! ask for again, ends at once. Otherwise its key is shut for a ttl, or for as long as a session lives.

use std::collections::{HashMap, HashSet};

use super::{
    Complaints, Event, Op,
    book::{Book, Commits},
    story::Story,
};

/// For so long after its caller heard no more of it, a call may be granted, in nanoseconds.
const MAY_LAND: u64 = 60_000_000_000;

/// Faults after which the node that granted a lease may not be there, or its store may not take the write that gives it
/// back; and for how long they last, in nanoseconds.
const TAKES_AWAY: [&str; 13] = [
    "alone",
    "crash",
    "crash-and-boot",
    "disk-full",
    "failed-sync",
    "late-writes",
    "leave",
    "panic",
    "pause",
    "store-cut",
    "store-stop",
    "suspend-unseen",
    "throttle",
];
const LASTS: u64 = 15_000_000_000;

/// A refusal that begins so says no more than that the caller is to come again.
pub const IN_DOUBT: &str = "in doubt: ";

/// When a worker asked for leases.
#[derive(Default)]
struct Calls {
    /// And learnt what came of it: when it asked, and when this call and those before it were all answered.
    answered: Vec<(u64, u64)>,
    /// And did not: since when, and until when a grant may be of it, or of one that was asked before.
    in_doubt: Vec<(u64, u64)>,
}

/// The calls of each worker, and when faults took a node away.
pub(super) struct Asked<'a> {
    calls: HashMap<&'a str, Calls>,
    away: Vec<u64>,
}

impl<'a> Asked<'a> {
    pub fn of(book: &Book<'a>) -> Self {
        let mut asked: HashMap<&str, Calls> = HashMap::new();
        for (call, &at) in &book.asked {
            if let Some(worker) = asks_for_leases(book.event(at)) {
                let (calls, t) = (asked.entry(worker).or_default(), book.t(at));
                match book.answered.get(call) {
                    Some(answer) => calls.answered.push((t, book.t(*answer))),
                    None => calls.in_doubt.push((t, u64::MAX)),
                }
            }
        }
        // A call for several leases may have several answers.
        for line in &book.lines {
            let call = match &line.event {
                Event::Lost { call } => call,
                Event::Refused { call, why } if why.starts_with(IN_DOUBT) => call,
                _ => continue,
            };
            let Some(&at) = book.asked.get(call) else { continue };
            if let Some(worker) = asks_for_leases(book.event(at)) {
                let calls = asked.entry(worker).or_default();
                calls.in_doubt.push((book.t(at), line.t + MAY_LAND));
            }
        }
        for calls in asked.values_mut() {
            sort_by_begin_with_latest_end(&mut calls.answered);
            sort_by_begin_with_latest_end(&mut calls.in_doubt);
        }
        let takes_away = |at: &&usize| match book.event(**at) {
            Event::Fault { fault, .. } => TAKES_AWAY.contains(&&**fault),
            _ => false,
        };
        let away = book.faults.iter().filter(takes_away).map(|at| book.t(*at)).collect();
        Self { calls: asked, away }
    }

    /// Whether a grant of this moment, which ended at `end`, must be one whose answer its worker heard. One that ended
    /// while its call still had no answer held up nobody else afterwards.
    fn heard(&self, worker: &str, t: u64, end: u64) -> bool {
        let Some(calls) = self.calls.get(worker) else { return false };
        let excused = latest_end(&calls.in_doubt, t).is_some_and(|until| until >= t);
        latest_end(&calls.answered, t).is_some_and(|answered| answered < end) && !excused
    }

    /// Whether whoever granted a lease, and did not tell of it, could give it back between these moments.
    fn could_end(&self, from: u64, until: u64) -> bool {
        !self.away.iter().any(|away| *away <= until && from <= *away + LASTS)
    }
}

/// Sorts spans by their begin. The end of each becomes the latest end of all up to it.
fn sort_by_begin_with_latest_end(spans: &mut [(u64, u64)]) {
    spans.sort_unstable();
    let mut latest = 0;
    for (_, end) in spans {
        latest = latest.max(*end);
        *end = latest;
    }
}

/// The latest end of the spans that began by `t`, of spans that were sorted so.
fn latest_end(spans: &[(u64, u64)], t: u64) -> Option<u64> {
    let begun = spans.partition_point(|(begin, _)| *begin <= t);
    begun.checked_sub(1).map(|last| spans[last].1)
}

/// Who asks, where it is for leases.
fn asks_for_leases(event: &Event) -> Option<&str> {
    match event {
        Event::Asked { worker, op: Op::Acquire | Op::AcquireAny, .. } => Some(worker),
        _ => None,
    }
}

pub(super) fn check<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    asked: &Asked<'a>,
    found: &mut Complaints<'a>,
) {
    if book.commits != Commits::OnTime || !story.is_told(book) || !book.regresses.is_empty() {
        return;
    }
    let told: HashSet<u64> = story
        .lines
        .iter()
        .filter_map(|at| match book.event(*at) {
            Event::Told { token, .. } => Some(*token),
            _ => None,
        })
        .collect();
    for (place, grant) in story.commits.iter().enumerate().filter(|(_, commit)| commit.grants()) {
        let end = story.commits[place + 1..].iter().find(|commit| commit.ends());
        let late = end.map_or(book.over(), |end| book.t(end.at));
        if told.contains(&grant.token) || !asked.heard(grant.owner, book.t(grant.at), late) {
            continue;
        }
        let lasts = match end {
            Some(end) => end.kind == "expired",
            // It may have been granted a moment before the end.
            None => late > book.t(grant.at) + MAY_LAND,
        };
        if lasts && asked.could_end(book.t(grant.at), late) {
            let lines: Vec<usize> = [grant.at].into_iter().chain(end.map(|end| end.at)).collect();
            let headline = format!(
                "token {} is granted to {}, who was answered and never told of it",
                grant.token, grant.owner
            );
            found.say("told", Some(story.key), &lines, headline);
        }
    }
}
