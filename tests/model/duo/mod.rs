//! Every state that a session, a key that it keeps, its holder and a rival can reach, within bounds: one
//! process that crashes, a store whose replies get lost, a shell whose messages take their time.
//!
//! As in `model` the clock always says [`NOW`]: everything else grows older instead.

mod holder;
mod process;
mod world;

use stateright::Property;
use tenure::lease::{Moment, Mutant, NodeContext};

use self::world::{Action, Broken, Event, World};
use crate::{
    explore::{Explored, Small, failures, hold},
    harness::context,
};

/// What the clock always says.
const NOW: Moment = Moment(3_600_000_000_000);
/// One step of time; that of the session is two, that of the rival one.
const TICK_MS: u64 = 1_000;
/// How long ago no longer matters.
const OLDEST: Moment = Moment(NOW.0 - 2 * TICK_MS * 1_000_000);

/// A broken variant of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The key is told that the session is over when its time is seen to be over.
    ObservedExpiry,
    /// A grant is told without seeing the session alive after it.
    GrantUnseen,
}

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Writes of the key.
    writes: u64,
    /// Acquires of the holder, and of the rival.
    attempts: [u8; 2],
    crashes: u8,
    /// Writes whose reply is lost.
    unknowns: u8,
}

const CRASH: Bounds = Bounds { writes: 4, attempts: [2, 1], crashes: 1, unknowns: 0 };
const UNKNOWN: Bounds = Bounds { writes: 4, attempts: [1, 1], crashes: 0, unknowns: 1 };

struct Duo {
    context: NodeContext,
    flaw: Option<Flaw>,
    bounds: Bounds,
}

impl Duo {
    fn new(bounds: Bounds, mutant: Option<Mutant>, flaw: Option<Flaw>) -> Self {
        Self { context: context(mutant), flaw, bounds }
    }
}

impl Small for Duo {
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
        let mut all = vec![
            Property::always("I1 windows never overlap", |_, w: &World| !w.windows_overlap()),
            Property::always("I2 tokens grow", |_, w: &World| w.broken != Some(Broken::Tokens)),
            Property::always("I3 nothing is told before it is durable", |_, w: &World| {
                w.broken != Some(Broken::NotDurable)
            }),
            Property::always("I6 no end before the tombstone", |_, w: &World| {
                w.broken != Some(Broken::BeforeTombstone)
            }),
            Property::always("R6 a tombstone is final", |_, w: &World| {
                w.broken != Some(Broken::Risen)
            }),
            Property::sometimes("the rival follows the session", |_, w: &World| {
                w.event == Some(Event::Followed)
            }),
            Property::sometimes("a grant lands after the tombstone", |_, w: &World| {
                w.event == Some(Event::LandedLate)
            }),
            Property::sometimes("the holder is granted the key after the rival", |_, w: &World| {
                w.event == Some(Event::Back)
            }),
        ];
        if self.bounds.crashes > 0 {
            all.push(Property::sometimes("a restart under a holder", |_, w: &World| {
                w.event == Some(Event::RestartedUnderHolder)
            }));
        }
        if self.bounds.unknowns > 0 {
            all.push(Property::sometimes("a write in doubt is settled", |_, w: &World| {
                w.event == Some(Event::Settled)
            }));
        }
        all
    }
}

#[test]
fn every_reachable_state_with_a_crash_keeps_the_promises() {
    hold(Duo::new(CRASH, None, None));
}

#[test]
fn every_reachable_state_with_a_write_in_doubt_keeps_the_promises() {
    hold(Duo::new(UNKNOWN, None, None));
}

#[test]
fn broken_rules_of_sessions_are_found() {
    let core = |mutant| (Some(mutant), None);
    let rules = [
        (core(Mutant::SessionGrantedAgain), "R6"),
        (core(Mutant::HeartbeatAbsorbedWhileEnding), "I1"),
        (core(Mutant::RestartWithEmptyPromises), "I1"),
        (core(Mutant::TokenReused), "I2"),
        ((None, Some(Flaw::ObservedExpiry)), "I6"),
        ((None, Some(Flaw::GrantUnseen)), "I3"),
    ];
    for ((mutant, flaw), broken) in rules {
        let found = failures(Duo::new(CRASH, mutant, flaw));
        assert!(
            found.iter().any(|name| name.starts_with(broken)),
            "{mutant:?} {flaw:?}: {found:?}"
        );
    }
}
