//! Calls about a lease that another node answers for.

mod home;
mod queue;
mod relay;

pub use home::act_at_home;
pub use queue::{Queued, Waiting, asks_for_place, moved, wait_at_home};
pub use relay::{
    HOME, asked_to_confirm, asks_for_part, forward, forward_part, forward_to_confirm, relay,
    relay_waiting, unless_denied,
};
