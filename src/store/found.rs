//! What is read from a store.

use std::sync::Arc;

use crate::lease::{CodecError, NodeRecord, Nonce, Record, Revision};

/// A record that was read, with the revision of its write.
#[derive(Clone, Debug)]
pub struct Found {
    pub revision: Revision,
    /// The record, or why it cannot be judged. An unreadable record means that an unknown owner holds the key.
    pub record: Result<Arc<Record>, CodecError>,
}

/// A node's record as it was read.
#[derive(Clone, Debug)]
pub struct FoundNode {
    pub incarnation: Nonce,
    pub revision: Revision,
    /// The record, or why it cannot be judged. A node whose record cannot be judged counts as alive.
    pub record: Result<NodeRecord, CodecError>,
}

/// Which keys a scan returns: those that start with `prefix` and sort after `after`, at most `limit` of them.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Only keys that start with this.
    pub prefix: String,
    /// Only keys that sort after this.
    pub after: Option<String>,
    /// The highest number of keys to return.
    pub limit: usize,
}
