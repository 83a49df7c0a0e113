//! The stores, and the contract between a store and the coordinator.
//!
//! Guarantees of every store:
//! - A write that was reported committed survives a crash.
//! - Of two writes that expect the same revision of a key, at most one is committed.
//! - The revisions of a key strictly increase, whatever happens.
//! - Changes are reported after their write is durable, and per key in the order of `seq`. A listener that
//!   missed changes is told so.
//!
//! Does not guarantee:
//! - That every read is fresh: see [`LeaseStore::read`]. A stale read can only make a compare-and-set fail.
//! - That a write whose outcome is [`WriteOutcome::Unknown`] did not happen.
//!
//! Assumes: nobody else writes into the store.

mod backwards;
mod census;
mod contract;
mod counts;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
pub mod embedded;
mod found;
mod gate;
mod health;
mod history;
mod identity;
mod level;
#[cfg(feature = "nats")]
pub mod nats;
mod quotas;
mod retention;
mod scan;
mod tie;
mod verify;
mod write;

pub use self::{
    backwards::end_of_prefix,
    census::{Counted, StateCounts},
    contract::{LeaseStore, SharedStore, StoreFuture},
    counts::Counts,
    found::{Found, FoundNode, Range},
    gate::Gate,
    health::Health,
    history::{Committed, Feed, FeedBatch, History, Position},
    identity::{Fresh, Meta, Raise, SecretBytes, Witness},
    scan::Pages,
    tie::Tie,
    verify::{Finding, Grade},
    write::{NodeOutcome, Write, WriteOutcome},
};
pub use crate::lease::StoreError;

#[cfg(any(feature = "nats", feature = "dynamodb"))]
use self::{
    backwards::last_keys,
    identity::{ANOTHER_STARTED, REGISTERED, RESTORING, ROTATED},
};
pub(crate) use self::{level::own_level, retention::retention};
