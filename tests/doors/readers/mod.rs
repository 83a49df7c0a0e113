//! What fuzz targets and their tests need of what is private. Not in a released binary.

pub use crate::{
    http::fuzzing::{BODIES, Door, Refused, read_cursor, read_query, write_cursor},
    settings::fuzzing::read as read_settings,
    store::{
        dynamodb::fuzzing::{
            entry as dynamodb_entry, key as dynamodb_key, partition_key as dynamodb_partition_key,
            trail as dynamodb_trail,
        },
        nats::fuzzing::Bucket,
    },
};
