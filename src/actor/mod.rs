//! Everything with a mailbox: the lease actors, their supervisor, the registry that finds them, the bus that publishes
//! ownership changes and fence orders, and the actors of the plugins; and the tasks of a node beside them.
//!
//! The table lists the folders from top to bottom. The [`Coordinator`] is a file among them. A row uses the rows below
//! it, never those above.
//!
//! | folder | holds |
//! | --- | --- |
//! | `supervision` | replaces dead actors; announces what the store committed |
//! | `lease`, `cluster`, `balancer` | the actor of a key; this node among the others; moves leases between the members of pools |
//! | [`Coordinator`] | what all of them share |
//! | `sessions`, `leftovers` | what a node knows of sessions and does for them; what it removes in the background |
//! | `pools`, `plugins`, `quotas` | what a node knows of pools; the actors of fence plugins; what principals have, and may have |
//! | `runtime` | threads, the registry, the promise cells, the way to ask an actor, the bus, the followers of tenures, tasks that must not end |
//! | `environment`, `mail` | store, clock, policies, limits; what lease actors are sent, and where their answers go |
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
mod coordinator;
mod environment;
mod lease;
mod leftovers;
mod mail;
mod plugins;
mod pools;
mod quotas;
mod runtime;
mod sessions;
mod supervision;

pub(crate) use balancer::start as start_balancer;
pub(crate) use balancer::{assign as assign_pool, dry_run, view as pool_view};
pub use cluster::{Node, NodeView, seal_versions};
pub use coordinator::Coordinator;
pub use environment::{
    Decided, Environment, Limits, PolicyTable,
    reach::{Reach, Target},
};
#[cfg(any(test, feature = "testing"))]
pub use environment::{Observed, Promise};
pub(crate) use lease::lease_actors;
pub use mail::{AnyReceiver, AnyWait, Mail, Place, Reply, TracedCall, Vacated};
pub use plugins::{NamedPlugin, PluginLimits, Plugins, Subscription};
pub use pools::{
    DryRun, Joined, KeptOut, MemberView, Order, PoolView, Pools, Preparation, Reservation, Roster,
    Routed, Share, UnplacedKeys, WarmSteps, WarmView,
};
pub use quotas::{Claim, OverQuota, Places, Quota, Quotas, Standing, check_room};
pub use runtime::{
    arbiters::{Arbiters, claim_this_thread},
    ask::{Asked, Unanswered},
    bus::{Bus, BusEvent, Published, Subscriber, TooManySubscribers},
    fence::{Fence, FenceOutcome, Report},
    followers::{Ear, Followers, MAX_FOLLOWED, News},
    registry::{Registry, Unreachable},
    stuck::Stuck,
    tasks::supervise,
    topics::Topics,
    watch,
};
pub use sessions::{FailingCheck, FailingChecks, Handovers, Session, SessionService, Sessions};
pub(crate) use sessions::{
    ask_handover, ask_to_drain, read_session_leases, revoke, start as start_sessions,
    write_announced,
};
pub use supervision::{Stop, Supervisor, SupervisorAddr};
pub(crate) use supervision::{awaken, inherit};
