//! What a simulated run must hold besides I1 to I8, because it knows its own policies.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{self, Event, Line, Report};

/// A rule that was not kept.
#[derive(Clone, Debug)]
pub struct Breach {
    pub rule: &'static str,
    pub text: String,
}

/// Ends that the owner did not ask for: a key that is fenced before a grant names its fences with each of them.
const UNWILLING: [&str; 4] = ["expired", "session-ended", "revoked", "reclaimed"];

/// Every key under `f/` is fenced before a grant, whoever ended its tenure but its owner.
///
/// Every key under `d/` has a lock-delay: between a tenure that ran out, or whose session ended, and the next
/// one the store has its end, or an administrator's order; but its last owner may take it back.
fn check(lines: &[Line]) -> Vec<Breach> {
    let mut shut: BTreeMap<&str, (u64, u64, &str)> = BTreeMap::new();
    let mut breaches = Vec::new();
    for line in lines {
        if matches!(&line.event, Event::Fault { fault, .. } if fault.starts_with("regress")) {
            // What it forgot is not held against it.
            return breaches;
        }
        let Event::Committed { key, kind, token, owner, fences, .. } = &line.event else {
            continue;
        };
        // An offer that is withdrawn ends nobody's tenure.
        let held = !owner.is_empty();
        if held && key.starts_with("f/") && UNWILLING.contains(&kind.as_str()) && fences.is_empty()
        {
            let text = format!("{key}: token {token} ended ({kind}) at {} ns unfenced", line.t);
            breaches.push(Breach { rule: "fence", text });
        }
        if !key.starts_with("d/") {
            continue;
        }
        match kind.as_str() {
            "expired" | "session-ended" => drop(shut.insert(key, (*token, line.t, owner))),
            "granted" => {
                if let Some((ended, at, before)) = shut.remove(key.as_str())
                    && ended != *token
                    && before != owner
                {
                    let text = format!(
                        "{key}: token {ended} ended at {at} ns, and token {token} began at {} ns \
                         without the end of a lock-delay",
                        line.t
                    );
                    breaches.push(Breach { rule: "lock-delay", text });
                }
            }
            "cooled" | "fence-skipped" => drop(shut.remove(key.as_str())),
            _ => {}
        }
    }
    breaches
}

/// A store went backwards, and nobody who would have had to notice ever did: nothing is promised to the end.
pub fn never_raised(lines: &[Line]) -> bool {
    let is = |line: &Line, name: &str| matches!(&line.event, Event::Fault { fault, .. } if fault == name);
    let embedded =
        |line: &Line| matches!(&line.event, Event::Run { store, .. } if store == "embedded");
    let any = |such: &dyn Fn(&Line) -> bool| lines.iter().any(such);
    any(&|line| is(line, "regress")) && !any(&|line| is(line, "epoch-raised")) && !any(&embedded)
}

/// What the checker and the rules of the simulator find in a history, as far as it can be judged.
pub fn judge(lines: Vec<Line>) -> (Report, Vec<Breach>) {
    let (lines, whole) = judged(lines);
    let mut report = history::check(&lines);
    if !whole {
        // What the store has from before is not in it.
        report.violations.retain(|violation| matches!(violation.invariant, "I1" | "I2" | "I8"));
    }
    (report, check(&lines))
}

/// What of a history can be judged, and whether that is all of it. Nothing is promised after a store lost what it
/// had acknowledged, until its epoch is raised and what was believed before is over.
fn judged(lines: Vec<Line>) -> (Vec<Line>, bool) {
    let fault = |line: &Line, name: &str| matches!(&line.event, Event::Fault { fault, .. } if fault == name);
    let Some(lost) = lines.iter().rposition(|line| fault(line, "regress")) else {
        return (lines, true);
    };
    let embedded = lines
        .iter()
        .any(|line| matches!(&line.event, Event::Run { store, .. } if store == "embedded"));
    // The embedded store is stamped anew as it is restored.
    let raised =
        if embedded { Some(lost) } else { lines.iter().rposition(|l| fault(l, "epoch-raised")) };
    let Some(raised) = raised.map(|at| lines[at].t) else { return (Vec::new(), false) };
    // What was asked before may have been answered by who knew nothing of it, however late that arrives.
    let early = |line: &&Line| line.t <= raised;
    let asked = |line: &Line| match line.event {
        Event::Asked { call, .. } => Some(call),
        _ => None,
    };
    let asked: BTreeSet<u64> = lines.iter().filter(early).filter_map(asked).collect();
    let old = |line: &Line, call: Option<u64>| {
        call.map_or(line.t <= raised, |call| asked.contains(&call))
    };
    let believed = lines.iter().filter_map(|line| match &line.event {
        Event::Told { until, call, .. } if old(line, *call) => Some(*until),
        _ => None,
    });
    let from = believed.fold(raised, u64::max);
    let stays = |line: &Line| match &line.event {
        Event::Run { .. } | Event::Tombstone { .. } => true,
        Event::Fenced { .. } | Event::Cut { .. } => true,
        Event::Told { call, .. } if old(line, *call) => false,
        _ => line.t > from,
    };
    let mut lines = lines;
    lines.retain(stays);
    (lines, false)
}
