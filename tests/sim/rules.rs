//! What a simulated run must hold besides I1 to I8, because it knows its own policies.

use std::collections::BTreeMap;

use super::history::{Event, Line};

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
pub fn check(lines: &[Line]) -> Vec<Breach> {
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
        if key.starts_with("f/") && UNWILLING.contains(&kind.as_str()) && fences.is_empty() {
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

/// What of a history can be judged. Nothing is promised after a store lost what it had acknowledged, until its
/// epoch is raised and what was believed before is over.
pub fn judged(lines: Vec<Line>) -> Vec<Line> {
    let fault = |line: &Line, name: &str| matches!(&line.event, Event::Fault { fault, .. } if fault == name);
    let Some(lost) = lines.iter().rposition(|line| fault(line, "regress")) else { return lines };
    let embedded = lines
        .iter()
        .any(|line| matches!(&line.event, Event::Run { store, .. } if store == "embedded"));
    // The embedded store is stamped anew as it is restored.
    let raised =
        if embedded { Some(lost) } else { lines.iter().rposition(|l| fault(l, "epoch-raised")) };
    let Some(raised) = raised.map(|at| lines[at].t) else { return Vec::new() };
    let believed =
        lines.iter().filter(|line| line.t <= raised).filter_map(|line| match &line.event {
            Event::Told { until, .. } => Some(*until),
            _ => None,
        });
    let from = believed.fold(raised, u64::max);
    let stays = |line: &Line| {
        let lasts = matches!(
            line.event,
            Event::Run { .. } | Event::Tombstone { .. } | Event::Fenced { .. }
        );
        lasts || line.t > from
    };
    let mut lines = lines;
    lines.retain(stays);
    lines
}
