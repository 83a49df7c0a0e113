//! `[[policy]]`: the rules for the keys under a prefix.

mod check;
mod lease;
mod policy;
mod read;

pub(super) use check::{faults, placed_faults};
pub(super) use lease::to_lease;
pub use policy::Policy;
pub(super) use read::read;
