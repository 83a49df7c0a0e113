//! Every state that one key, two clients and two nodes on one store can reach, within bounds.
//!
//! All clocks show [`NOW`], always: when time passes, everything else grows older instead (see
//! [`crate::model`]). That the clocks differ by years and in rate is what `crate::nodes` is about; here
//! the bounds for it are kept, and every order of events is tried. A node that does nothing sleeps, for
//! as long as it likes. A write may be committed, lose its reply, land late or get lost; a read may show
//! what was there when it was asked for, or when it was answered.

mod client;
mod node;
mod store;
mod world;

use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Checker, HasDiscoveries, Model, Property};
use tenure::lease::{Moment, Mutant, Terms};

use self::client::Kind;
use self::world::{Action, Broken, Event, World};
use crate::harness::terms;

/// What every clock always shows.
const NOW: Moment = Moment(3_600_000_000_000);
/// One step of time, and a ttl.
const TICK_MS: u64 = 1_000;
/// A node's record lives for a tick, and a moment into the next.
const NODE_TTL_MS: u64 = 1_010;
/// Whatever is older by its writer's clock has run out.
const OLDEST: Moment = Moment(NOW.0 - 3 * TICK_MS * 1_000_000);
/// Older than a record's time to live, and than a ttl.
const JUST_NOW: Moment = Moment(NOW.0 - TICK_MS * 1_000_000);
const RECENT: Moment = Moment(NOW.0 - 2 * TICK_MS * 1_000_000);

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    writes: u64,
    /// What a holder does with its lease.
    calls: &'static [Kind],
    /// Whether the first client heard of its grant; else it may ask again.
    heard: bool,
    /// Calls of each client under its one request id.
    attempts: [u8; 2],
    /// Processes and incarnations, the first two included.
    incarnations: u8,
    crashes: u8,
    /// Nodes that leave.
    drains: u8,
    /// Writes whose outcome is unknown.
    doubts: u8,
    /// Whether reads take their time.
    slow_reads: bool,
    /// Whether the rival sends heartbeats and releases as well, and asks at either node.
    rival_calls: bool,
    /// Which node may forget to keep its record.
    sleeps: [bool; 2],
    /// The second node is the first one's successor, at its address; the first does not know.
    successor: bool,
}

/// Two nodes, the first of which may sleep, be found dead and go on as another incarnation.
const NEIGHBOURS: Bounds = Bounds {
    writes: 3,
    calls: &[Kind::Heartbeat],
    heard: true,
    attempts: [1, 1],
    incarnations: 3,
    crashes: 0,
    drains: 0,
    doubts: 0,
    slow_reads: false,
    rival_calls: false,
    sleeps: [true, false],
    successor: false,
};

/// A process that sleeps and wakes, and the one that took its place.
const SUCCESSOR: Bounds = Bounds { incarnations: 2, successor: true, ..NEIGHBOURS };

/// A node that leaves, and may be slow to stop.
const LEAVING: Bounds = Bounds { incarnations: 2, drains: 1, ..NEIGHBOURS };

/// A process that is killed, and started again.
const CRASH: Bounds = Bounds { crashes: 1, sleeps: [false, false], ..NEIGHBOURS };

/// A write whose outcome is unknown.
const DOUBT: Bounds = Bounds { incarnations: 2, doubts: 1, ..NEIGHBOURS };

/// A grant that its client did not hear of.
const UNHEARD: Bounds = Bounds { incarnations: 2, heard: false, attempts: [2, 1], ..NEIGHBOURS };

/// A holder that gives the key back, at whichever node.
const CONSENT: Bounds =
    Bounds { incarnations: 2, calls: &[Kind::Heartbeat, Kind::Release], ..NEIGHBOURS };

struct TwoNodes {
    terms: Terms,
    bounds: Bounds,
    /// A node goes on answering after it said that it leaves.
    drained_answers: bool,
    /// What happened anywhere, a bit for each event: a property of the exploration, not of a state.
    seen: AtomicU32,
}

impl TwoNodes {
    fn new(bounds: Bounds, mutant: Option<Mutant>) -> Self {
        Self { terms: terms(mutant), bounds, drained_answers: false, seen: AtomicU32::new(0) }
    }
}

impl TwoNodes {
    fn saw(&self, event: Event) {
        self.seen.fetch_or(1 << event as u32, Ordering::Relaxed);
    }
}

impl Model for TwoNodes {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, out: &mut Vec<Action>) {
        world.actions(&self.bounds, out);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.act(self, &action);
        Some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.within(&self.bounds)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I1 windows never overlap", |_, w: &World| !w.windows_overlap()),
            Property::always("I2 tokens grow", |_, w: &World| w.broken != Some(Broken::Tokens)),
            Property::always("I3 nothing is told before it is durable", |_, w: &World| {
                w.broken != Some(Broken::NotDurable)
            }),
            Property::always("I4 the history has no hole", |_, w: &World| {
                w.broken != Some(Broken::History)
            }),
            Property::always("I7 no promise at or after D", |_, w: &World| {
                w.broken != Some(Broken::PromisedTooLate)
            }),
            Property::always("one answer", |_, w: &World| w.broken != Some(Broken::AnsweredTwice)),
            Property::always("no home without a record", |_, w: &World| {
                w.broken != Some(Broken::Homeless)
            }),
        ]
    }
}

/// Every state within the bounds; the events happen in some of them, or the properties say little. With
/// `MODEL=wide` one more write and incarnation: several times as many, for a release build.
#[track_caller]
fn explore(bounds: Bounds, events: &[Event]) {
    let wide = std::env::var("MODEL").is_ok_and(|size| size == "wide");
    let bounds = if wide { Bounds { writes: 4, incarnations: 3, ..bounds } } else { bounds };
    let checker = TwoNodes::new(bounds, None).checker().threads(2).spawn_bfs().join();
    println!("{} unique states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
    let seen = checker.model().seen.load(Ordering::Relaxed);
    for event in events {
        assert!(seen & 1 << *event as u32 != 0, "{event:?} never happened");
    }
}

#[test]
fn a_node_that_sleeps_and_wakes() {
    explore(NEIGHBOURS, &[Event::TakenOver, Event::Adopted, Event::Reborn]);
}

#[test]
fn a_successor_of_a_process_that_sleeps() {
    explore(SUCCESSOR, &[Event::TakenOver, Event::Adopted, Event::FloorMattered]);
}

#[test]
fn a_node_that_leaves() {
    explore(LEAVING, &[Event::TakenOver, Event::Adopted, Event::FloorMattered]);
}

#[test]
fn a_process_that_is_killed() {
    explore(CRASH, &[Event::TakenOver, Event::Adopted]);
}

#[test]
fn a_write_in_doubt() {
    explore(DOUBT, &[Event::TakenOver, Event::Adopted, Event::Settled]);
}

#[test]
fn a_grant_that_was_not_heard() {
    explore(UNHEARD, &[Event::TakenOver, Event::Adopted]);
}

#[test]
fn a_holder_that_gives_the_key_back() {
    explore(CONSENT, &[Event::ReleasedByConsent, Event::Adopted]);
}

/// A node that goes on answering after it said that it leaves, as long as its last record lasts, is
/// covered by the floor of whoever adopts.
#[test]
fn a_node_that_left_and_goes_on_answering_does_no_harm() {
    assert_eq!(broken_by(LEAVING, None, true), [""; 0]);
}

/// The properties that a broken variant breaks, at least one.
fn broken_by(bounds: Bounds, mutant: Option<Mutant>, drained_answers: bool) -> Vec<&'static str> {
    let model = TwoNodes { drained_answers, ..TwoNodes::new(bounds, mutant) };
    let any = HasDiscoveries::AnyFailures;
    let checker = model.checker().threads(2).finish_when(any).spawn_bfs().join();
    let found: Vec<_> = checker.discoveries().into_keys().collect();
    println!("{mutant:?}: {found:?}, {} states", checker.unique_state_count());
    found
}

#[test]
fn broken_rules_of_several_nodes_are_found() {
    let rules = [
        (SUCCESSOR, Mutant::AdoptionWithoutFloor, false, "I1"),
        (LEAVING, Mutant::AdoptionWithoutFloor, true, "I1"),
        (NEIGHBOURS, Mutant::PromiseAfterUntil, false, "I"),
        (NEIGHBOURS, Mutant::HeartbeatAnsweredElsewhere, false, "I1"),
        (UNHEARD, Mutant::RepeatAnsweredElsewhere, false, "I1"),
        (NEIGHBOURS, Mutant::ReplyBeforeDurable, false, "I3"),
        (NEIGHBOURS, Mutant::TokenReused, false, "I2"),
        (NEIGHBOURS, Mutant::ExpiryIgnoresOwnPromises, false, "I1"),
    ];
    for (bounds, mutant, drained_answers, broken) in rules {
        let found = broken_by(bounds, Some(mutant), drained_answers);
        assert!(found.iter().any(|name| name.starts_with(broken)), "{mutant:?}: {found:?}");
    }
}
