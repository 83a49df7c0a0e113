//! Calls about a lease that another node answers for.

mod home;
mod queue;
mod relay;

pub use home::act_at_home;
pub use queue::{Queued, Waiting, asks_for_place, moved, wait_at_home};
pub use relay::{HOME, asks_for_part, forward, forward_part, relay, relay_waiting, unless_denied};
