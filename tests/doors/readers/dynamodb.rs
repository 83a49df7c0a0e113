//! The reader of the items of a table, for fuzz targets and tests. Not in a released binary.

use super::{CodecError, Key, LogEntry, Trail, decode, encode, key_of, lease_pk};

/// The partition key of a key.
#[must_use]
pub fn partition_key(key: &Key) -> String {
    lease_pk(key)
}

/// The key of a partition key.
#[must_use]
pub fn key(pk: &str) -> Option<Key> {
    key_of(pk)
}

/// Reads an entry of the log, and writes it anew.
///
/// # Errors
/// [`CodecError`].
pub fn entry(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
    decode::<LogEntry>(bytes).map(|entry| encode(&entry))
}

/// Reads the latest changes of an item, and writes them anew.
///
/// # Errors
/// [`CodecError`].
pub fn trail(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
    decode::<Trail>(bytes).map(|trail| encode(&trail))
}
