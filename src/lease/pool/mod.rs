//! Pools: the share of each member, and the order in which a worker tries the keys.

mod any_of;
pub mod balance;

pub use any_of::{CandidateOrder, arrange};
