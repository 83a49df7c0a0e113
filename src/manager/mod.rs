//! The library's interface: what a program that embeds tenure calls, and what the HTTP handlers call.
//!
//! Guarantees: a grant, release, transfer or administrator's order that returned `Ok` is durable. When a key's actor
//! dies before it answers, the call is sent to its successor, and an acquire is never granted twice because of that. A
//! future that was dropped is never granted anything afterwards.
//!
//! Does not guarantee: that a call that returned [`CallError::Store`] had no effect.
//!
//! Assumes: its calls are made inside a tokio runtime.

mod acquire;
mod admin;
mod all;
mod any;
mod ask;
mod assignment;
mod availability;
mod checks;
mod cloud_event;
mod count;
pub(crate) mod engine;
mod error;
mod events;
mod fences;
mod follow;
mod holder;
mod inspect;
mod kept_places;
mod list_back;
mod loads;
mod looks;
mod new_keys;
mod nodes;
mod notify;
mod open;
mod orders;
mod outages;
mod past;
mod pools;
mod quotas;
mod recent;
mod revocation_list;
mod revocations;
mod search_turns;
mod sessions;
mod turnstile;
mod under_session;
mod unheard;
mod waiting;

use std::{sync::Arc, time::Duration};

pub use crate::actor::watch;
pub use crate::actor::{
    Arbiters, Asked, BusEvent, Decided, DryRun, FailingCheck, Limits, MemberView, NodeView, Order,
    Preparation, Published, Roster, Routed, Share, Subscriber, Target, TooManySubscribers,
    UnplacedKeys, claim_this_thread, seal_versions,
};
pub use acquire::AcquireOne;
pub use admin::{DrainedOwner, ForgottenKeys};
pub use all::{AcquireAll, MAX_TAKEN, NotAll, Take, Wanted};
pub use any::{AcquireAny, Candidates, Count, MAX_CANDIDATES, Taken};
pub use assignment::{Route, RouteState};
pub use availability::Availability;
pub use checks::MAX_VALUE_BYTES;
pub(crate) use checks::check_text;
#[cfg(feature = "testing")]
pub(crate) use checks::check_value;
pub(crate) use cloud_event::{CloudEvent, Setting, cloud_event, store_tag};
#[cfg(not(feature = "testing"))]
pub(crate) use cloud_event::{read_cursor, write_cursor};
#[cfg(feature = "testing")]
pub use cloud_event::{read_cursor, write_cursor};
pub(crate) use count::CountedKeys;
pub use engine::{StartError, Tenure};
pub use error::{AcquireError, AdminError, CallError, HolderError, Home, Invalid, SessionError};
pub use fences::RetriedFences;
pub use follow::{Follower, Notice};
pub use holder::Alive;
pub use inspect::{Filter, Listing};
pub use looks::{Looks, UNCOUNTED};
pub use open::{OpenError, Parts};
pub(crate) use past::{Past, Tenure as PastTenure};
pub use pools::PoolShown;
pub(crate) use recent::{
    ChurningPool, FailedFence, FailedFences, GuardedPool, OFTEN, StuckKey, StuckKeys, UnevenPool,
    UnplacedPool,
};
pub(crate) use revocation_list::ListTrouble;
#[cfg(feature = "testing")]
pub(crate) use sessions::check_progress;
pub use sessions::{Asks, MAX_PROGRESS_BYTES, Opened, SessionAlive, SessionView};

use crate::{
    actor::{Coordinator, Node},
    clock::DashMap,
    lease::Moment,
};

/// Limits on what callers may ask for.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// The longest time for which a caller may wait in a queue.
    pub wait_max: Duration,
    /// How many places waiting callers may occupy in the queues of all keys together.
    pub waiting_places: usize,
    /// Only keys that match the prefix of a policy are granted.
    pub strict_prefixes: bool,
    /// The largest weight that a member of a pool may have.
    pub weight: u32,
}

/// The calls of one coordinator: what a program that embeds it, and the HTTP API, can ask of it.
pub struct Manager {
    coordinator: Arc<Coordinator>,
    limits: CallLimits,
    draining: watch::Sender<bool>,
    /// Request ids of acquire-any calls that are being served.
    serving: Arc<DashMap<u128, ()>>,
    /// The places in queues that waiting callers take.
    waiting: Arc<waiting::WaitingPlaces>,
    /// The places of callers that went away.
    kept_places: kept_places::KeptPlaces,
    /// The new keys of principals that have a limit for them.
    new_keys: new_keys::NewKeys,
    supervisor: crate::actor::SupervisorAddr,
    /// This node among the others, if the store is shared.
    node: Option<Arc<Node>>,
    /// Who may ask for the permits of a key.
    turnstiles: turnstile::Turnstiles,
    /// Who may no longer call.
    revocations: revocation_list::Revocations,
    /// The turns of searches.
    search_turns: search_turns::SearchTurns,
    /// How many keys are in each state.
    counter: Arc<count::KeyCounter>,
}

impl Manager {
    /// The clock on which the moments of calls are read.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.coordinator.clock.now()
    }

    /// The state that the actors share, for tests.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn coordinator(&self) -> &Arc<Coordinator> {
        &self.coordinator
    }

    /// The limits on what callers may ask for.
    #[must_use]
    pub fn limits(&self) -> CallLimits {
        self.limits
    }

    /// The limits of the actors.
    #[must_use]
    pub fn actor_limits(&self) -> &Limits {
        &self.coordinator.limits
    }

    /// Accepts no more work. Waiting callers get an error that says so.
    pub fn drain(&self) {
        self.draining.send_replace(true);
        self.coordinator.stop();
    }

    /// Whether this coordinator accepts no more work.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Resolves when this coordinator accepts no more work.
    pub async fn drained(&self) {
        let _ = self.draining.subscribe().wait_for(|draining| *draining).await;
    }
}
