//! How many leases and sessions each principal has, and how many it may have.
//!
//! An [`Account`](account::Account) has what one principal holds: what the feed told, which all nodes wrote, and what
//! calls in progress at this node may add. It also has the keys that the principal offers at this node. [`Quotas`] has
//! the accounts of all principals that have a limit, and nothing of the others. [`start`] fills the accounts when a limit
//! is new, and after missed changes.

mod account;
mod claim;
mod known;
mod reading;

pub(crate) use self::reading::start;
pub use self::{
    claim::{Claim, Places, check_room},
    known::{OverQuota, Quota, Quotas, Standing},
};
