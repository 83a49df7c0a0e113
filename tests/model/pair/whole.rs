//! A session, a fence before the next grant, and two nodes on one store with stale reads and crashes, in one world.
//!
//! The first client holds the key under a session that lives at the first node; the second waits for the key at the
//! second node, where the session ends, is adopted, is swept and fenced when the first node is gone.

use tenure::lease::Mutant;

use super::{Event, TwoNodes, bounds::*, broken_by, client::Kind, sound, visit};
use crate::explore::Explored;
use crate::size::{Size, size};
use stateright::{Checker, Model};

/// A node that sleeps, and one that takes over what it kept.
const ASLEEP: Bounds = Bounds {
    incarnations: 2,
    session: true,
    kept: true,
    fence: true,
    calls: &[],
    session_writes: 2,
    ..NEIGHBOURS
};

/// A session that was adopted ends, or goes on.
const ADOPTED: Bounds = Bounds { session_writes: 3, ..ASLEEP };

/// A node that is killed.
const KILLED: Bounds = Bounds { crashes: 1, incarnations: 3, sleeps: [false, false], ..ASLEEP };

/// A node that leaves; the session and its key are given back.
const GIVEN_BACK: Bounds =
    Bounds { drains: 1, calls: &[Kind::Release], ends_session: true, ..ASLEEP };

/// A grant that is made under the session while it ends.
const GRANTING: Bounds = Bounds { kept: false, ..ASLEEP };

/// Reads of all records that take their time, a node that sleeps, and one that is killed.
const STALE: Bounds =
    Bounds { crashes: 1, slow_reads: true, slow_scans: [false, true], scan_ticks: 1, ..ASLEEP };

/// Writes whose outcome is unknown.
const UNKNOWN: Bounds = Bounds { unknowns: 1, slow_reads: true, ..ASLEEP };

/// How many steps a debug build takes into the worlds that it has no time to visit as a whole.
const STEPS: usize = 8;

/// How many steps a build for CI takes in such a world.
const CI_STEPS: usize = 2_000_000;

/// The bounds of a build for CI and of a long run, and what must happen within them.
#[track_caller]
fn explore(ci: Bounds, full: Bounds, events: &[Event]) {
    match size() {
        Size::Small => look_around(ci, STEPS),
        Size::Ci => explore_some(ci, CI_STEPS, events),
        Size::Full => visit(full, events),
    }
}

/// The states that are nearest to the beginning; each that is yet to be looked at is kept.
#[track_caller]
fn explore_some(bounds: Bounds, steps: usize, events: &[Event]) {
    let builder = Explored(TwoNodes::new(bounds, None)).checker().threads(2);
    sound(&builder.target_state_count(steps).spawn_bfs().join(), steps, events);
}

/// Every state that is at most so many steps away.
#[track_caller]
fn look_around(bounds: Bounds, steps: usize) {
    let model = Explored(TwoNodes::new(bounds, None));
    let checker = model.checker().threads(2).target_max_depth(steps).spawn_bfs().join();
    println!("{} unique states in {steps} steps", checker.unique_state_count());
    checker.assert_properties();
    assert_eq!(checker.max_depth(), steps);
}

/// In a debug build as well: all of it.
#[test]
fn a_session_whose_node_sleeps() {
    let full = Bounds { incarnations: 3, session_writes: 3, writes: 4, ..ASLEEP };
    let events = [Event::SessionAdopted, Event::SweptElsewhere, Event::Fenced];
    visit(if size() == Size::Full { full } else { ASLEEP }, &events);
}

#[test]
fn a_session_whose_node_is_killed() {
    let ci = Bounds { writes: 2, incarnations: 2, ..KILLED };
    explore(ci, KILLED, &[Event::SessionAdopted, Event::SweptElsewhere]);
}

#[test]
fn a_session_that_is_given_back() {
    let events = [Event::SessionAdopted, Event::ReleasedByConsent];
    explore(Bounds { writes: 2, ..GIVEN_BACK }, GIVEN_BACK, &events);
}

#[test]
fn a_grant_under_a_session_that_ends() {
    let events = [Event::LandedAfterTombstone, Event::ToldUnderSession];
    explore(GRANTING, GRANTING, &events);
}

#[test]
fn a_session_a_fence_two_nodes_stale_reads_and_a_crash() {
    let events = [Event::SessionAdopted, Event::SweptElsewhere, Event::StaleRead];
    explore(Bounds { writes: 2, ..STALE }, STALE, &events);
}

#[test]
fn a_session_a_fence_and_a_write_in_doubt() {
    let events = [Event::SweptElsewhere, Event::StaleRead, Event::Settled];
    explore(Bounds { writes: 2, ..UNKNOWN }, UNKNOWN, &events);
}

#[test]
fn broken_rules_of_sessions_and_fences_on_two_nodes_are_found() {
    let unseen = ShellFaults { grant_unseen: true, ..INNOCENT };
    let observed = ShellFaults { observed_expiry: true, ..INNOCENT };
    let rules = [
        (ADOPTED, Some(Mutant::SessionGrantedAgain), INNOCENT, "R6"),
        (ASLEEP, Some(Mutant::PromiseAfterUntil), INNOCENT, "I"),
        (ASLEEP, Some(Mutant::HeartbeatAnsweredElsewhere), INNOCENT, "I"),
        (ASLEEP, Some(Mutant::ReplyBeforeDurable), INNOCENT, "I3"),
        (ASLEEP, Some(Mutant::TokenReused), INNOCENT, "I2"),
        (ASLEEP, Some(Mutant::TakeOverWithoutTombstone), INNOCENT, "I"),
        (ASLEEP, Some(Mutant::FenceLost), INNOCENT, "I5"),
        (ASLEEP, Some(Mutant::GrantWhileFencing), INNOCENT, "I5"),
        (ASLEEP, None, observed, "I6"),
        (GRANTING, None, unseen, "I"),
    ];
    let mut silent = Vec::new();
    for (bounds, mutant, faults, broken) in rules {
        let found = broken_by(bounds, mutant, faults);
        if !found.iter().any(|name| name.starts_with(broken)) {
            silent.push(format!("{mutant:?} {faults:?}: {found:?}"));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}
