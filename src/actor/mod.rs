//! Everything with a mailbox: the lease actors, their supervisor, the registry that finds them, the bus that publishes
//! ownership changes, and the actors of the fence plugins.
//!
//! Guarantees: at any time one actor answers for a key. A caller's message is handled, or its reply channel closes;
//! then the caller may ask again, because a nonce identifies an acquire. The successor of a dead actor starts from the
//! store alone, and keeps every promise that the dead one may have made.
//!
//! Does not guarantee: order between callers of different connections. A subscriber of the bus may see a change before
//! the caller that made it gets its answer.
//!
//! Assumes: panics unwind. Arbiters live as long as the process.

mod balancer;
mod cluster;
mod environment;
mod lease;
mod leftovers;
mod mail;
mod plugins;
mod pools;
mod runtime;
mod session;
mod supervision;
mod world;

pub(crate) use balancer::balance::start as balance;
pub use cluster::{node::Node, roster::NodeView};
pub use environment::{
    policy_table::PolicyTable,
    reach::{Reach, Target},
};
pub(crate) use leftovers::{forgotten, unheard};
pub use mail::{AnyHeard, AnyWait, Mail, Place, Reply, Vacated};
pub use plugins::{FenceOutcome, NamedPlugin, PluginLimits, Plugins, Report};
pub(crate) use pools::settle;
pub use pools::{Joined, MemberView, PoolView, Pools, Reservation, Share};
pub use runtime::{
    arbiters::{Arbiters, claim_this_thread},
    bus::{Bus, Heard, Published, Subscriber, TooManySubscribers},
    registry::{Registry, Unreachable},
    watch,
};
pub(crate) use session::{bonds, cleanup as session_cleanup, revoke as orders};
pub use session::{
    handovers::Handovers,
    revoke::{Asked, Unanswered},
    sessions::{Session, Sessions},
};
pub use supervision::supervisor::{Stop, Supervisor, SupervisorAddr};
pub(crate) use supervision::supervisor::{awaken, inherit};
pub use world::{Limits, World};
#[cfg(any(test, feature = "testing"))]
pub use world::{Promise, Witnessed};
