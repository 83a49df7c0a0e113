//! Every state that one key, two clients and a server that crashes can reach, within bounds.
//!
//! The clock always says [`NOW`]: when time passes, everything else grows older instead, so that
//! states that differ only in the hour are one state. Requests and replies are delayed and lost,
//! calls are given up and asked again under their request id, timers are late, a crash leaves the
//! write in flight durable or lost.

pub mod caller;
mod client;
mod ended;
mod world;

use stateright::Property;
use tenure::lease::{Moment, Mutant, NodeContext};

use self::world::{Action, Broken, Event, World};
use crate::{
    explore::{Explored, Small, failures, hold},
    harness::{before_grant, context, ruled},
    size::{Size, size},
};

/// What the server's clock always says.
const NOW: Moment = Moment(3_600_000_000_000);
/// One step of time; a ttl is two.
const TICK_MS: u64 = 1_000;
/// The minimum hold of each grant, where there is one: a tick longer than the ttl.
const MIN_HOLD_MS: u64 = 3 * TICK_MS;
/// How long ago no longer matters.
const OLDEST: Moment = Moment(NOW.0 - 2 * TICK_MS * 1_000_000);

/// A broken variant of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// R1: it counts its window from the reply.
    ClientCountsFromReply,
    /// R1: it goes on believing after it sent a release.
    WindowOpenAfterRelease,
}

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    writes: u64,
    /// Request ids of a client.
    rounds: u8,
    /// Calls of each client under one request id.
    attempts: [u8; 2],
    /// Heartbeats and releases of a client that it does not wait for.
    given_up: u8,
    crashes: u8,
}

/// What an ended tenure leaves to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// A fence before the next grant.
    Fence,
    /// A lock-delay of one tick.
    LockDelay,
    /// The rest of a minimum hold: one tick longer than the ttl.
    MinimumHold,
}

struct OneKey {
    after: After,
    context: NodeContext,
    flaw: Option<Flaw>,
    bounds: Bounds,
}

impl OneKey {
    fn new(mutant: Option<Mutant>, flaw: Option<Flaw>) -> Self {
        let bounds = Bounds { writes: 4, rounds: 1, attempts: [2, 1], given_up: 0, crashes: 1 };
        Self { after: After::Nothing, context: context(mutant), flaw, bounds }
    }

    fn with(after: After, mutant: Option<Mutant>) -> Self {
        let mut model = Self::new(mutant, None);
        model.after = after;
        model.bounds = Bounds { writes: 5, attempts: [1, 1], ..model.bounds };
        model.context.policies = match after {
            After::Nothing | After::MinimumHold => ruled(0, None),
            After::Fence => ruled(0, Some(before_grant(&["x"]))),
            After::LockDelay => ruled(TICK_MS as u32, None),
        };
        model
    }
}

impl Small for OneKey {
    type World = World;
    type Action = Action;

    fn start(&self) -> World {
        World::new(self)
    }

    fn actions(&self, world: &World, out: &mut Vec<Action>) {
        world.actions(&self.bounds, out);
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
            Property::always("I4 the history has no hole", |_, w: &World| {
                w.broken != Some(Broken::History)
            }),
            Property::always("one answer", |_, w: &World| w.broken != Some(Broken::AnsweredTwice)),
            Property::always("R9 no grant to a caller that left", |_, w: &World| {
                w.broken != Some(Broken::GrantedToNobody)
            }),
            Property::always("I5 nobody is granted before the fence", |_, w: &World| {
                w.broken != Some(Broken::Unfenced)
            }),
            Property::always("lock-delay or minimum hold before the next grant", |_, w: &World| {
                w.broken != Some(Broken::TooEarly)
            }),
            Property::sometimes("a hand-off by release", |_, w: &World| {
                w.event == Some(Event::HandedOver)
            }),
            Property::sometimes("a restart under a live holder", |_, w: &World| {
                w.event == Some(Event::RestartedUnderHolder)
            }),
        ];
        if self.after == After::Nothing {
            all.push(Property::sometimes("a takeover after expiry", |_, w: &World| {
                w.event == Some(Event::TakenOver)
            }));
            all.push(Property::sometimes("a repeated request gets its grant", |_, w: &World| {
                w.event == Some(Event::Repeated)
            }));
        } else {
            all.push(Property::sometimes("a grant after the fences_and_delay", |_, w: &World| {
                w.event == Some(Event::Followed)
            }));
        }
        if self.after != After::Fence {
            all.push(Property::sometimes("a revival", |_, w: &World| {
                w.event == Some(Event::Revived)
            }));
        }
        all
    }
}

/// In full a world of 7.5 million states.
#[test]
fn every_reachable_state_keeps_the_promises() {
    let mut model = OneKey::new(None, None);
    if size() == Size::Full {
        model.bounds = Bounds { writes: 5, rounds: 1, attempts: [2, 2], given_up: 1, crashes: 1 };
    }
    hold(model);
}

#[test]
fn every_reachable_state_keeps_the_promises_with_a_fence() {
    hold(OneKey::with(After::Fence, None));
}

#[test]
fn every_reachable_state_keeps_the_promises_with_a_lock_delay() {
    hold(OneKey::with(After::LockDelay, None));
}

#[test]
fn every_reachable_state_keeps_the_promises_with_a_minimum_hold() {
    hold(OneKey::with(After::MinimumHold, None));
}

#[test]
fn broken_rules_of_the_core_are_found() {
    let rules = [
        (Mutant::RestartWithEmptyPromises, "I1"),
        (Mutant::GrantToACallerThatLeft, "R9"),
        (Mutant::ReplyBeforeDurable, "I3"),
        (Mutant::HeartbeatAbsorbedWhileEnding, "I1"),
        (Mutant::ExpiryIgnoresOwnPromises, "I1"),
        (Mutant::CellOpenInAStep, "I1"),
        (Mutant::CellOpenWhileEnding, "I1"),
        (Mutant::TokenReused, "I2"),
    ];
    for (mutant, broken) in rules {
        let found = failures(OneKey::new(Some(mutant), None));
        assert!(found.iter().any(|name| name.starts_with(broken)), "{mutant:?}: {found:?}");
    }
}

#[test]
fn a_client_that_counts_from_the_reply_is_found() {
    let found = failures(OneKey::new(None, Some(Flaw::ClientCountsFromReply)));
    assert!(found.iter().any(|name| name.starts_with("I1")), "{found:?}");
}

#[test]
fn a_client_whose_window_stays_open_after_its_release_is_found() {
    let found = failures(OneKey::new(None, Some(Flaw::WindowOpenAfterRelease)));
    assert!(found.iter().any(|name| name.starts_with("I1")), "{found:?}");
}

#[test]
fn broken_rules_of_fences_and_lock_delays_are_found() {
    let rules = [
        (After::Fence, Mutant::FenceLost, "I5"),
        (After::Fence, Mutant::GrantWhileFencing, "I5"),
        (After::Fence, Mutant::RevivalAfterFence, "I5"),
        (After::LockDelay, Mutant::LockDelaySkipped, "lock-delay"),
        (After::MinimumHold, Mutant::MinimumHoldCut, "lock-delay"),
    ];
    for (after, mutant, broken) in rules {
        let found = failures(OneKey::with(after, Some(mutant)));
        assert!(found.iter().any(|name| name.starts_with(broken)), "{mutant:?}: {found:?}");
    }
}
