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

mod arbiters;
pub(crate) mod bonds;
mod bus;
mod exit_notice;
pub(crate) mod forgotten;
mod gate;
mod handovers;
mod health_checks;
mod lease;
mod node;
pub(crate) mod orders;
mod outcomes;
mod places;
mod plugins;
mod policy_table;
pub(crate) mod pools;
mod reach;
mod registry;
mod reply;
mod roster;
pub(crate) mod session_cleanup;
mod sessions;
mod supervisor;
mod sweep;
mod tasks;
pub(crate) mod unheard;
pub mod watch;
mod world;

pub use arbiters::{Arbiters, claim_this_thread};
pub use bus::{Bus, Heard, Published, Subscriber, TooManySubscribers};
pub use handovers::Handovers;
use lease::LeaseActor;
pub use lease::Mail;
pub use node::Node;
pub use orders::{Asked, Unanswered};
pub use plugins::{FenceOutcome, NamedPlugin, PluginLimits, Plugins, Report};
pub use policy_table::PolicyTable;
pub use pools::{Joined, MemberView, PoolView, Pools, Reservation, Share};
pub use reach::{Reach, Target};
pub use registry::{Registry, Unreachable};
pub use reply::{AnyHeard, AnyWait, Place, Reply, Vacated};
pub use roster::NodeView;
pub use sessions::{Session, Sessions};
pub use supervisor::{Stop, Supervisor, SupervisorAddr};
pub(crate) use supervisor::{awaken, inherit};
pub use world::{Limits, World};
#[cfg(any(test, feature = "testing"))]
pub use world::{Promise, Witnessed};
