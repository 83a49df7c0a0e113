//! What fuzz targets and their tests need of what is private. Not in a released binary.

#[cfg(feature = "dynamodb")]
pub use crate::store::dynamodb::fuzzing::{
    entry as dynamodb_entry, key as dynamodb_key, partition_key as dynamodb_partition_key,
    trail as dynamodb_trail,
};
#[cfg(feature = "nats")]
pub use crate::store::nats::fuzzing::Bucket;
pub use crate::{
    http::fuzzing::{BODIES, Door, Refused, read_cursor, read_query, write_cursor},
    settings::fuzzing::read as read_settings,
};
