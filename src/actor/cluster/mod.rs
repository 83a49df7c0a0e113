//! This node among the others: it renews its own record, finds dead nodes, and starts what their leases need.
//!
//! Guarantees: the leases of a dead node end or are adopted even if no client calls.
//!
//! Does not guarantee: that a node that cannot reach the store keeps its leases.
//!
//! Assumes: its thread is never busy for longer than a quarter of the record's time to live.

mod inquiries;
mod level;
mod node;
mod node_tombstones;
mod renewal;
mod roster;
mod seals;
mod start;
mod sweep;
mod watch;

pub(in crate::actor) use self::sweep::is_pending;
pub use self::{node::Node, roster::NodeView, seals::seal_versions};
