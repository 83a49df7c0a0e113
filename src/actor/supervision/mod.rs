//! Supervision: starts the actors of leases that an earlier process left held, replaces dead actors, and announces what
//! the store committed.

mod announce;
mod feed;
mod inheritance;
mod supervisor;

pub(crate) use self::inheritance::{awaken, inherit};
pub use self::supervisor::{Stop, Supervisor, SupervisorAddr};
