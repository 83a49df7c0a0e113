//! Every state that one key, two clients and two nodes on one store can reach, within bounds.
//!
//! All clocks show [`NOW`], always: when time passes, everything else grows older instead (see
//! [`crate::model`]). That the clocks differ by years and in rate is what `crate::nodes` is about; here
//! the bounds for it are kept, and every order of events is tried. A node that does nothing sleeps, for
//! as long as it likes. A write may be committed, lose its reply, land late or get lost; a read may show
//! what was there when it was asked for, or when it was answered.

mod actions;
mod bounds;
mod client;
mod node;
mod roster;
mod session;
mod store;
mod whole;
mod world;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use stateright::{
    Checker, Model, Property,
    report::{ReportData, ReportDiscovery, Reporter},
};
use tenure::lease::{Moment, Mutant, NodeContext, Nonce};

use self::{
    bounds::*,
    world::{Action, Broken, Event, World},
};
use crate::{
    explore::{Explored, Small, failures},
    harness::{before_grant, context, ruled},
    size::{Size, size},
};

/// The two leases of each node, and their records in the store.
const KEY: usize = 0;
const SESSION: usize = 1;
/// The session's name.
const DIGEST: Nonce = Nonce(0x5e55);

/// What every clock always shows.
const NOW: Moment = Moment(3_600_000_000_000);
/// One step of time, and a ttl.
const TICK_MS: u64 = 1_000;
/// A node's record lives for a tick, and a moment into the next.
const NODE_TTL_MS: u64 = 1_010;
/// Whatever is older by its writer's clock has run out.
const OLDEST: Moment = Moment(NOW.0 - 3 * TICK_MS * 1_000_000);
/// Older than a record's time to live, and than a ttl.
const RECENT: Moment = Moment(NOW.0 - 2 * TICK_MS * 1_000_000);

struct TwoNodes {
    context: NodeContext,
    bounds: Bounds,
    faults: ShellFaults,
    /// What happened anywhere, a bit for each event: a property of the exploration, not of a state.
    seen: AtomicU32,
}

impl TwoNodes {
    fn new(bounds: Bounds, mutant: Option<Mutant>) -> Self {
        let mut context = context(mutant);
        if bounds.fence {
            context.policies = ruled(0, Some(before_grant(&["x"])));
        }
        Self { context, bounds, faults: INNOCENT, seen: AtomicU32::new(0) }
    }
}

impl TwoNodes {
    /// What happened before is long ago: the beginning of the longest reading and a time to live before
    /// it are told apart.
    fn recent(&self) -> Moment {
        RECENT - crate::harness::ms(TICK_MS) * u32::from(self.bounds.scan_ticks)
    }

    fn saw(&self, event: Event) {
        self.seen.fetch_or(1 << event as u32, Ordering::Relaxed);
    }
}

impl Small for TwoNodes {
    type World = World;
    type Action = Action;

    fn start(&self) -> World {
        World::new(self)
    }

    fn actions(&self, world: &World, out: &mut Vec<Action>) {
        world.actions(self, out);
    }

    fn act(&self, world: &mut World, action: &Action) {
        world.act(self, action);
    }

    fn within(&self, world: &World) -> bool {
        world.within(&self.bounds)
    }

    fn properties(&self) -> Vec<Property<Explored<Self>>> {
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
            Property::always("I5 nobody is granted before the fence", |_, w: &World| {
                w.broken != Some(Broken::Unfenced)
            }),
            Property::always("I6 no end before the tombstone", |_, w: &World| {
                w.broken != Some(Broken::BeforeTombstone)
            }),
            Property::always("R6 a tombstone is final", |_, w: &World| {
                w.broken != Some(Broken::Risen)
            }),
            Property::always("one answer", |_, w: &World| w.broken != Some(Broken::AnsweredTwice)),
            Property::always("no home without a record", |_, w: &World| {
                w.broken != Some(Broken::Homeless)
            }),
        ]
    }
}

/// Every state within the bounds; the events happen in some of them, or the properties say little. In full with
/// one more write and incarnation.
#[track_caller]
fn explore(bounds: Bounds, events: &[Event]) {
    let full = Bounds { writes: 4, incarnations: 3, ..bounds };
    visit(if size() == Size::Full { full } else { bounds }, events);
}

/// Tells now and then how far a long exploration has come.
struct Progress;

impl Reporter<Explored<TwoNodes>> for Progress {
    fn report_checking(&mut self, so_far: ReportData) {
        let ReportData { unique_states, max_depth, duration, .. } = so_far;
        println!("{duration:.0?}: {unique_states} so far, depth {max_depth}");
    }

    fn report_discoveries(
        &mut self,
        _: &Explored<TwoNodes>,
        _: BTreeMap<&'static str, ReportDiscovery<Explored<TwoNodes>>>,
    ) {
    }

    fn delay(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// How many steps a long run takes in one world at most.
const FULL_STEPS: usize = 40_000_000;

/// Depth first: of the states that are to be visited only a few are kept, and of the others a number each.
#[track_caller]
fn visit(bounds: Bounds, events: &[Event]) {
    let builder = Explored(TwoNodes::new(bounds, None)).checker().threads(2);
    let checker = match size() {
        Size::Full => {
            let most = builder.target_state_count(FULL_STEPS).spawn_dfs();
            most.join_and_report(&mut Progress)
        }
        _ => builder.spawn_dfs().join(),
    };
    sound(&checker, FULL_STEPS, events);
}

/// Nothing is broken; and where all was visited in fewer steps, the events happened.
#[track_caller]
fn sound(checker: &impl Checker<Explored<TwoNodes>>, steps: usize, events: &[Event]) {
    println!("{} unique states, depth {}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
    if checker.state_count() < steps {
        demand(&checker.model().0, events);
    }
}

/// What must have happened somewhere.
#[track_caller]
fn demand(model: &TwoNodes, events: &[Event]) {
    let seen = model.seen.load(Ordering::Relaxed);
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
    explore(UNKNOWN, &[Event::TakenOver, Event::Adopted, Event::Settled]);
}

#[test]
fn a_grant_that_was_not_heard() {
    explore(UNHEARD, &[Event::TakenOver, Event::Adopted]);
}

#[test]
fn a_holder_that_gives_the_key_back() {
    explore(CONSENT, &[Event::ReleasedByConsent, Event::Adopted]);
}

#[test]
fn slow_readings_of_the_nodes() {
    let events = [Event::StaleScan, Event::TooLateToMarkDead, Event::TakenOver, Event::Adopted];
    explore(SLOW_SCANS, &events);
}

#[test]
fn slow_reads_of_the_key() {
    explore(SLOW_READS, &[Event::StaleRead, Event::TakenOver, Event::Adopted]);
}

#[test]
fn slow_readings_and_a_process_that_is_killed() {
    explore(SLOW_CRASH, &[Event::StaleScan, Event::TakenOver, Event::Adopted]);
}

#[test]
fn slow_readings_and_a_node_that_leaves() {
    explore(SLOW_LEAVING, &[Event::StaleScan, Event::TakenOver, Event::Adopted]);
}

#[test]
fn slow_reads_of_the_key_and_a_write_in_doubt() {
    let events = [Event::StaleRead, Event::Settled, Event::TakenOver, Event::Adopted];
    explore(SLOW_UNKNOWN, &events);
}

/// A node that goes on answering after it said that it leaves, as long as its last record lasts, is
/// covered by the floor of whoever adopts.
#[test]
fn a_node_that_left_and_goes_on_answering_does_no_harm() {
    assert_eq!(broken_by(LEAVING, None, DRAINED_ANSWERS), [""; 0]);
}

/// The properties that a broken variant breaks, at least one.
fn broken_by(bounds: Bounds, mutant: Option<Mutant>, faults: ShellFaults) -> Vec<&'static str> {
    let model = TwoNodes { faults, ..TwoNodes::new(bounds, mutant) };
    println!("{mutant:?} {faults:?}");
    failures(model)
}

/// What harms nobody while every reading is instant, or would be seen only in another world.
#[test]
fn broken_readings_of_the_nodes_are_found() {
    let faults = [
        (SLOW_TWICE, ShellFaults { counts_from_before: true, ..INNOCENT }),
        (SLOW_SCANS, ShellFaults { blind_tombstone: true, ..INNOCENT }),
        (SLOW_SUCCESSOR, ShellFaults { own_instants: true, ..INNOCENT }),
    ];
    for (bounds, faults) in faults {
        let found = broken_by(bounds, None, faults);
        assert!(found.iter().any(|name| name.starts_with("I")), "{faults:?}: {found:?}");
    }
}

/// It takes a reading that comes three ticks late: all nodes are awake, or there is too much else to try.
#[test]
fn the_end_of_a_dead_node_from_an_older_copy_is_found() {
    let awake = Bounds { incarnations: 3, ..SLOW_CRASH };
    let found = broken_by(awake, None, ShellFaults { older_copy: true, ..INNOCENT });
    assert!(found.iter().any(|name| name.starts_with("I")), "{found:?}");
}

#[test]
fn broken_rules_of_several_nodes_are_found() {
    let rules = [
        (SUCCESSOR, Mutant::AdoptionWithoutFloor, INNOCENT, "I1"),
        (LEAVING, Mutant::AdoptionWithoutFloor, DRAINED_ANSWERS, "I1"),
        (NEIGHBOURS, Mutant::PromiseAfterUntil, INNOCENT, "I"),
        (NEIGHBOURS, Mutant::HeartbeatAnsweredElsewhere, INNOCENT, "I1"),
        (UNHEARD, Mutant::RepeatAnsweredElsewhere, INNOCENT, "I1"),
        (NEIGHBOURS, Mutant::ReplyBeforeDurable, INNOCENT, "I3"),
        (NEIGHBOURS, Mutant::TokenReused, INNOCENT, "I2"),
        (UNHEARD, Mutant::ExpiryIgnoresOwnPromises, INNOCENT, "I1"),
    ];
    for (bounds, mutant, faults, broken) in rules {
        let found = broken_by(bounds, Some(mutant), faults);
        assert!(found.iter().any(|name| name.starts_with(broken)), "{mutant:?}: {found:?}");
    }
}
