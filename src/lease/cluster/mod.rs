//! The nodes of a shared store: this node's own record, and what it knows of the others.

mod address;
#[cfg(any(test, feature = "testing"))]
mod age;
mod membership;
mod peer;
mod peers;

pub use address::is_loopback;
pub use membership::{Findings, Membership, Renewal};
pub use peer::Peer;
pub use peers::Peers;
