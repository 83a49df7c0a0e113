//! Pools: the share of each member, and the order in which a worker tries the keys.

mod announced;
mod any_of;
pub mod balance;
mod controls;
mod labels;
pub mod load;
pub mod reports;

pub use announced::{Announced, MAX_ADDRESS_BYTES, MAX_VERSION_BYTES, compare_versions};
pub use any_of::{CandidateOrder, arrange};
pub use controls::{Guard, PoolControls, PoolOrder, Said, UnreadableOrders};
pub use labels::{
    Labels, MAX_LABEL_NAME_BYTES, MAX_LABEL_VALUE_BYTES, MAX_LABELS, MAX_LABELS_BYTES, ZONE,
    check_label_name, check_label_value, labels_of,
};
