//! What a simulated run must hold besides I1 to I8, because it knows its own policies.

use std::collections::{BTreeMap, BTreeSet};

use tenure::lease::{PoolControls, Warmups};

use super::{
    history::{self, Event, Limits, Line, Report},
    plain::{HELD_LONG, MIN_HOLD},
    plan::Plan,
    pools,
    run::{fence_blocks, run},
    time::SECOND,
    worker::SETTLED,
};

/// What a run is judged by, besides its history.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Fences that fail keep their keys shut.
    pub blocks: bool,
    /// The keys of a member that is gone wait for it.
    pub rejoins: bool,
    /// Members prepare for their keys.
    pub warmups: Option<Warmups>,
    /// When nodes may not know what others stored; `None` if that may be so at any time.
    pub troubles: Option<Vec<(u64, u64)>>,
}

impl World {
    pub fn of(plan: &Plan) -> Self {
        Self {
            blocks: fence_blocks(plan),
            rejoins: plan.policies.rejoin_window_ms("pool") > 0,
            warmups: plan.policies.warmups("pool"),
            troubles: plan.troubles(UNHEARD),
        }
    }

    /// Whether every node knew at any time from `from` to `to` what had been stored for [`UNHEARD`].
    pub fn is_quiet(&self, from: u64, to: u64) -> bool {
        let apart = |(begin, end): &(u64, u64)| to < *begin || *end < from;
        self.troubles.as_ref().is_some_and(|troubles| troubles.iter().all(apart))
    }
}

/// A rule that was not kept.
#[derive(Clone, Debug)]
pub struct Breach {
    pub rule: &'static str,
    pub text: String,
}

/// A change may be on its way to a subscriber for so long.
pub const UNHEARD: u64 = 6 * SECOND;
/// The least that a minimum hold lasts after its grant was first sent to the store: clocks run at different rates.
const SHORTEST_HOLD: u64 = MIN_HOLD / 100 * 98;
/// Ends that the owner did not ask for: a key that is fenced before a grant names its fences with each of them.
const UNWILLING: [&str; 4] = ["expired", "session-ended", "revoked", "reclaimed"];

/// Every key under `f/` is fenced before a grant, whoever ended its tenure but its owner.
///
/// Every key under `d/` has a lock-delay, and those of the pool may wait for their members (`rejoins`): between a tenure that ran out, or whose session ended, and the next
/// one the store has its end, or an administrator's order; but its last owner may take it back.
fn check(lines: &[Line], rejoins: bool) -> Vec<Breach> {
    let members: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::Joined { session, .. } => Some(&**session),
            _ => None,
        })
        .collect();
    let mut shut: BTreeMap<&str, (u64, u64, &str)> = BTreeMap::new();
    let mut breaches = Vec::new();
    for line in lines {
        if matches!(&line.event, Event::Fault { fault, .. } if fault.starts_with("regress")) {
            // What it forgot is not held against it.
            return breaches;
        }
        let Event::Committed { key, kind, token, owner, session, fences, .. } = &line.event else {
            continue;
        };
        // An offer that is withdrawn ends nobody's tenure.
        let held = !owner.is_empty();
        if held && key.starts_with("f/") && UNWILLING.contains(&kind.as_str()) && fences.is_empty()
        {
            let text = format!("{key}: token {token} ended ({kind}) at {} ns unfenced", line.t);
            breaches.push(Breach { rule: "fence", text });
        }
        let of_member = || session.as_deref().is_some_and(|session| members.contains(session));
        match kind.as_str() {
            "expired" | "session-ended" if key.starts_with("d/") => {
                shut.insert(key, (*token, line.t, owner));
            }
            "session-ended" if rejoins && key.starts_with("p/") && of_member() => {
                shut.insert(key, (*token, line.t, owner));
            }
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

/// Every grant of a key under `h/` has a minimum hold: before it is over, nobody else is granted the key, unless an
/// administrator revoked the tenure, its holder handed it over, or no worker was told of it.
fn check_held(lines: &[Line]) -> Vec<Breach> {
    let told: BTreeSet<(&str, u64)> = lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::Told { key, token, .. } => Some((&**key, *token)),
            _ => None,
        })
        .collect();
    let mut held: BTreeMap<&str, (u64, u64, &str)> = BTreeMap::new();
    // The tenure of each key that ended last: a grant under the same token revives it, and its hold began earlier.
    let mut ended: BTreeMap<&str, u64> = BTreeMap::new();
    let mut breaches = Vec::new();
    for line in lines {
        if matches!(&line.event, Event::Fault { fault, .. } if fault.starts_with("regress")) {
            return breaches;
        }
        let Event::Committed { key, kind, token, owner, sent, .. } = &line.event else { continue };
        if !key.starts_with(HELD_LONG) {
            continue;
        }
        if UNWILLING.contains(&kind.as_str()) {
            ended.insert(key, *token);
        }
        match kind.as_str() {
            "granted"
                if ended.get(key.as_str()) == Some(token) && !held.contains_key(key.as_str()) => {}
            "granted" => match held.insert(key, (*token, sent.unwrap_or(line.t), owner)) {
                // A tenure that was revived began when it was granted.
                Some(same) if same.0 == *token => drop(held.insert(key, same)),
                Some((last, at, by)) if by != owner && line.t < at + SHORTEST_HOLD => {
                    let text = format!(
                        "{key}: token {last} was sent at {at} ns, and token {token} to another \
                         owner at {} ns",
                        line.t
                    );
                    breaches.push(Breach { rule: "minimum-hold", text });
                }
                _ => {}
            },
            "revoked" | "transferred" => drop(held.remove(key.as_str())),
            // A grant that no answer named begins no minimum hold.
            "released" | "expired" | "session-ended" if !told.contains(&(&**key, *token)) => {
                held.remove(key.as_str());
            }
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

/// Under a policy that blocks, a key whose fence failed stays shut until that was confirmed or skipped after all.
fn check_blocked(lines: &[Line]) -> Vec<Breach> {
    let mut blocked: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut breaches = Vec::new();
    for line in lines {
        let Event::Committed { key, kind, token, .. } = &line.event else { continue };
        if !key.starts_with("f/") {
            continue;
        }
        match kind.as_str() {
            "fence-failed" => drop(blocked.insert(key, (*token, line.t))),
            "fenced" | "fence-skipped" => drop(blocked.remove(key.as_str())),
            "granted" => {
                if let Some((failed, at)) = blocked.remove(key.as_str()) {
                    let text = format!(
                        "{key}: the fence of token {failed} failed at {at} ns, and token {token} \
                         began at {} ns",
                        line.t
                    );
                    breaches.push(Breach { rule: "fence-failed", text });
                }
            }
            _ => {}
        }
    }
    breaches
}

/// An order for the pool that was acknowledged was stored meanwhile, or stood already.
fn check_orders(lines: &[Line]) -> Vec<Breach> {
    // What was stored, and when.
    let mut stored = vec![(0, PoolControls::default())];
    let mut breaches = Vec::new();
    for line in lines {
        match &line.event {
            Event::Orders { value } => {
                let controls = PoolControls::of_value(value.as_deref());
                stored.push((line.t, controls.expect("it can be read")));
            }
            Event::Ordered { order, since } => {
                let before = stored.iter().rposition(|(at, _)| at <= since).unwrap_or(0);
                if !stored[before..].iter().any(|(_, controls)| stands(controls, order)) {
                    let text =
                        format!("{order:?}, sent at {since} ns, was not stored at {} ns", line.t);
                    breaches.push(Breach { rule: "order", text });
                }
            }
            _ => {}
        }
    }
    breaches
}

/// A fair call grants no key to a session that does not meet what its policy requires.
fn check_places(lines: &[Line]) -> Vec<Breach> {
    let misplaced = lines.iter().filter_map(|line| match &line.event {
        Event::Misplaced { key, session } => {
            let text =
                format!("{key} was granted to {session}, which may not have it, at {} ns", line.t);
            Some(Breach { rule: "require", text })
        }
        _ => None,
    });
    misplaced.collect()
}

/// Whether an order stands, as far as the others show it.
fn stands(controls: &PoolControls, order: &str) -> bool {
    match order.split_once(' ').unwrap_or((order, "")) {
        ("freeze", _) => controls.frozen.is_some(),
        ("thaw", _) => controls.frozen.is_none(),
        ("cordon", owner) => controls.cordoned.contains_key(owner),
        ("uncordon", owner) => !controls.cordoned.contains_key(owner),
        ("pause", key) => controls.paused.contains_key(key),
        ("move", order) => {
            let (key, owner) = order.split_once(" to ").unwrap_or((order, ""));
            controls.paused.get(key).is_some_and(|said| said.to.as_deref() == Some(owner))
        }
        ("resume", key) => !controls.paused.contains_key(key),
        ("rebalance", _) => controls.rebalances > 0,
        ("end-guard", _) => controls.guard.is_none(),
        other => unreachable!("{other:?}"),
    }
}

/// I4: what was committed since a subscriber began, or was told of a gap, is heard by it in the end.
fn check_heard(lines: &[Line]) -> Vec<Breach> {
    let over = lines.last().map_or(0, |line| line.t);
    // The last one of each node, and since when it listens.
    let mut listeners: BTreeMap<&str, (u64, &str, u64)> = BTreeMap::new();
    for line in lines {
        let Event::Reset { subscriber } = &line.event else { continue };
        let (node, start) = subscriber.split_once('.').expect("s<node>.<start>");
        let start = start.parse().expect("a number");
        let last = listeners.entry(node).or_insert((start, subscriber, line.t));
        if start >= last.0 {
            *last = (start, subscriber, line.t);
        }
    }
    let heard: BTreeSet<(&str, &str, u64)> = lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::Heard { subscriber, key, seq, .. } => Some((&**subscriber, &**key, *seq)),
            _ => None,
        })
        .collect();
    let mut breaches = Vec::new();
    for (_, subscriber, since) in listeners.into_values() {
        let missed = lines.iter().find_map(|line| match &line.event {
            Event::Committed { key, seq, .. }
                if (since + UNHEARD..over.saturating_sub(UNHEARD)).contains(&line.t)
                    && !heard.contains(&(subscriber, key, *seq)) =>
            {
                Some((key, seq, line.t))
            }
            _ => None,
        });
        if let Some((key, seq, at)) = missed {
            let text = format!("{subscriber} never heard of {key}'s change {seq}, made at {at} ns");
            breaches.push(Breach { rule: "I4", text });
        }
    }
    breaches
}

/// What the checker and the rules of the simulator find in a history, as far as it can be judged.
pub fn judge(lines: Vec<Line>, world: &World) -> (Report, Vec<Breach>) {
    let (lines, whole) = judged(lines);
    let limits = Limits { calls_after_calm: SETTLED, ..Limits::default() };
    let mut report = history::check_within(&lines, &limits);
    let mut breaches = check(&lines, world.rejoins);
    breaches.extend(check_held(&lines));
    if whole {
        breaches.extend(check_heard(&lines));
        breaches.extend(check_orders(&lines));
        breaches.extend(check_places(&lines));
        breaches.extend(pools::check(&lines, world));
        breaches.extend(world.blocks.then(|| check_blocked(&lines)).into_iter().flatten());
    }
    if !whole {
        // What the store has from before is not in it.
        report.violations.retain(|violation| matches!(violation.invariant, "I1" | "I2" | "I8"));
    }
    (report, breaches)
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
        Event::Fenced { .. } | Event::Cut { .. } | Event::InForce { .. } => true,
        Event::Told { call, .. } if old(line, *call) => false,
        _ => line.t > from,
    };
    let mut lines = lines;
    lines.retain(stays);
    (lines, false)
}

/// Whoever is not told, or not answered, is missed.
#[test]
fn a_history_without_its_answers_is_refused() {
    let outcome = run(1, None, "holes");
    let lines = outcome.log.lines();
    let (report, breaches) = judge(lines.clone(), &outcome.world);
    assert!(report.violations.is_empty() && breaches.is_empty(), "{report} {breaches:?}");

    let deaf = |line: &Line| !matches!(line.event, Event::Heard { .. }) || line.t < 5 * SECOND;
    let (_, breaches) = judge(lines.iter().filter(|l| deaf(l)).cloned().collect(), &outcome.world);
    assert!(breaches.iter().any(|breach| breach.rule == "I4"), "{breaches:?}");

    let is_calm = |line: &Line| matches!(line.event, Event::Calm);
    let calm = lines.iter().find(|line| is_calm(line)).expect("it comes to rest").t;
    let late = |line: &Line| matches!(line.event, Event::Refused { .. }) && line.t > calm;
    let (report, _) = judge(lines.into_iter().filter(|l| !late(l)).collect(), &outcome.world);
    assert!(report.broken().contains("I8"), "{report}");
}
