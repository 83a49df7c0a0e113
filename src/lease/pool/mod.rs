//! Pools: the share of each member, and the order in which a worker tries the keys.

mod announced;
mod any_of;
pub mod balance;
mod controls;
pub mod load;
mod place_table;
pub mod reports;
pub mod sites;
mod unplaced;
mod warming;

pub use announced::{Announced, MAX_ADDRESS_BYTES, MAX_VERSION_BYTES, compare_versions};
pub use any_of::{CandidateOrder, arrange};
pub use controls::{Guard, PoolControls, PoolOrder, Said, UnreadableOrders};
pub use place_table::PlaceTable;
pub use unplaced::Unplaced;
pub use warming::{MAX_WARMING_BYTES, Warm, WarmStep, Warming};
