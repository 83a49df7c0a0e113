//! Why a store was not opened, and what to do about it.

use std::path::PathBuf;

/// The oldest server that is fit: earlier ones lose or reorder writes of a replicated stream.
pub(super) const OLDEST_SERVER: (i64, i64, i64) = (2, 10, 23);

/// Why a store was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A setting cannot be used.
    #[error("{setting} {why}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A file that a setting names cannot be read.
    #[error("{} cannot be read: {why}", .path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// No server could be reached.
    #[error("no NATS server was reached: {why}; check store.nats.url and that a server runs there")]
    Connect {
        /// What went wrong last.
        why: String,
    },
    /// The server is too old.
    #[error("the NATS server has version {found}; use 2.10.23 or newer")]
    OldServer {
        /// Its version.
        found: String,
    },
    /// The server does not answer for JetStream.
    #[error("JetStream does not answer: {why}; enable it on the server and for the account")]
    JetStream {
        /// What went wrong.
        why: String,
    },
    /// There is no bucket, and none may be made.
    #[error("there is no bucket {bucket:?}; make it, or let store.nats.create_bucket be true")]
    NoBucket {
        /// Its name.
        bucket: String,
    },
    /// The bucket cannot be made.
    #[error("the bucket {bucket:?} cannot be made: {why}")]
    Create {
        /// Its name.
        bucket: String,
        /// What the server said.
        why: String,
    },
    /// The stream is not one that this program could use at all.
    #[error(
        "the stream KV_{bucket} is not a bucket that this program can use: {}; name another bucket",
        .faults.join("; ")
    )]
    Foreign {
        /// The bucket.
        bucket: String,
        /// What is wrong.
        faults: Vec<String>,
    },
    /// The bucket may lose writes that were acknowledged.
    #[error(
        "the bucket {bucket:?} may lose acknowledged writes: {}; change the stream KV_{bucket}, or \
         accept it with store.nats.accept_data_loss = true",
        .faults.join("; ")
    )]
    Unfit {
        /// The bucket.
        bucket: String,
        /// What is wrong, and what is to be instead.
        faults: Vec<String>,
    },
    /// The store's own record cannot be read.
    #[error(
        "the record {subject:?} {why}; restore the bucket from a backup, or name another bucket"
    )]
    Meta {
        /// Its subject.
        subject: String,
        /// What is wrong with it.
        why: String,
    },
    /// A restore into it was begun and has not ended.
    #[error(
        "a restore into the bucket {bucket:?} was cut off, or is under way: it does not hold everything. Run the same \
         `tenure restore --file FILE --raise-epoch` again, or delete the bucket"
    )]
    Restoring {
        /// Its name.
        bucket: String,
    },
    /// The store did not answer while it was opened.
    #[error("the store did not answer while it was opened: {why}; try again")]
    Interrupted {
        /// What went wrong.
        why: String,
    },
}

impl OpenError {
    /// Something that may be better the next time.
    pub(super) fn interrupted(why: impl std::fmt::Display) -> Self {
        Self::Interrupted { why: why.to_string() }
    }
}
