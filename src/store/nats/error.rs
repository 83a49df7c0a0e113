//! Why a store was not opened, and what to do about it.

use std::path::PathBuf;

use crate::lease::LevelError;

/// The oldest usable server. Earlier ones lose or reorder writes of a replicated stream.
pub(super) const OLDEST_SERVER: (i64, i64, i64) = (2, 10, 23);

/// Why a store was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NatsOpenError {
    /// A setting cannot be used.
    #[error("{setting} {why}")]
    Setting { setting: &'static str, why: String },
    /// A file that a setting names cannot be read, or is not what it should be.
    #[error("{} {why}", .path.display())]
    File { path: PathBuf, why: String },
    /// No server could be reached.
    #[error("no NATS server was reached: {why}; check store.nats.url and that a server runs there")]
    Connect { why: String },
    #[error("the NATS server has version {found}; use 2.10.23 or newer")]
    OldServer { found: String },
    /// The server does not answer JetStream requests.
    #[error("JetStream does not answer: {why}; enable it on the server and for the account")]
    JetStream { why: String },
    /// The bucket does not exist, and the settings do not allow creating it.
    #[error("there is no bucket {bucket:?}; make it, or let store.nats.create_bucket be true")]
    NoBucket { bucket: String },
    /// The bucket cannot be created.
    #[error("the bucket {bucket:?} cannot be made: {why}")]
    Create { bucket: String, why: String },
    /// The stream cannot be used by this program at all.
    #[error(
        "the stream KV_{bucket} is not a bucket that this program can use: {}; name another bucket",
        .faults.join("; ")
    )]
    Foreign { bucket: String, faults: Vec<String> },
    /// The bucket may lose writes that were acknowledged.
    #[error(
        "the bucket {bucket:?} may lose acknowledged writes: {}; change the stream KV_{bucket}, or \
         accept it with store.nats.accept_data_loss = true",
        .faults.join("; ")
    )]
    Unfit {
        bucket: String,
        /// The faults, and what is required instead.
        faults: Vec<String>,
    },
    /// The store's own record cannot be read.
    #[error(
        "the record {subject:?} {why}; restore the bucket from a backup, or name another bucket"
    )]
    Meta {
        subject: String,
        /// What is wrong with the record.
        why: String,
    },
    /// Another version of the program serves the bucket, or served it.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// A restore into the bucket was begun and has not ended.
    #[error(
        "a restore into the bucket {bucket:?} was cut off, or is under way: the bucket is \
         incomplete. Run the same `tenure restore --file FILE --raise-epoch` again, or delete it"
    )]
    Restoring { bucket: String },
    /// The store did not answer while it was opened.
    #[error("the store did not answer while it was opened: {why}; try again")]
    Interrupted { why: String },
}

impl NatsOpenError {
    /// A failure that may not occur the next time.
    pub(super) fn interrupted(why: impl std::fmt::Display) -> Self {
        Self::Interrupted { why: why.to_string() }
    }
}
