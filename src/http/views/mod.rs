//! How the documents of the API show the coordinator's own values: leases, sessions, pools, nodes, and refusals.

mod gate;
mod history;
mod kept;
mod lease;
mod node;
mod pool;
mod refusals;
mod session;

pub use gate::gate;
pub use kept::kept;
pub(super) use node::access_digest;
