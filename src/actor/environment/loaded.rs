//! What a read of the store means to the core.

use crate::{lease::Loaded, store::Found};

/// The core's form of what the store has of a key.
pub fn loaded(found: Option<Found>) -> Loaded {
    match found {
        None => Loaded::Absent,
        Some(Found { revision, record: Ok(record) }) => Loaded::Record(revision, record),
        Some(Found { revision, record: Err(why) }) => Loaded::Quarantined(revision, why),
    }
}
