//! What a store is: its identity, its epoch and its secret, how they change, and what a node remembers of them.

use std::fmt;

use crate::lease::{ClusterSecret, Epoch, Level, Nonce, Revision};

/// What a store knows about itself.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Differs between any two stores, also between a store and a restored backup of it.
    pub identity: Nonce,
    /// The epoch of the tokens; it only rises.
    pub epoch: Epoch,
    /// What every program that opens the store can read; it only rises.
    pub level: Level,
    /// Wall clock at creation, milliseconds since 1970.
    pub created_ms: u64,
    /// The secret that lease ids are derived from.
    pub secret: ClusterSecret,
}

/// The bytes that a store's lease ids are derived from. Only a backup and a rotation need them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretBytes(pub [u8; 32]);

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(…)")
    }
}

/// The values that a new store is created with. They have no effect on an existing store.
#[derive(Clone)]
pub struct Fresh {
    /// The identity of the new store.
    pub identity: Nonce,
    /// 32 random bytes that lease ids are derived from.
    pub secret: [u8; 32],
    /// Wall clock, milliseconds since 1970.
    pub created_ms: u64,
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// What a node remembers of a store from one run to the next. It is how the node notices that the store went
/// backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    pub identity: Nonce,
    /// The highest epoch that the node saw.
    pub epoch: Epoch,
    /// The highest entry of the store's history that the node saw.
    pub highest: Revision,
}

#[derive(Clone, Copy, Debug)]
pub struct Raise {
    pub identity: Nonce,
    /// The new epoch. It must be above the current one.
    pub epoch: Epoch,
    /// [`SharedStore::own_revision`](super::SharedStore::own_revision) must still be this one.
    pub seen: Revision,
    /// A restore fills the store from now on. Until
    /// [`SharedStore::end_restore`](super::SharedStore::end_restore), it can be opened only to restore it, and
    /// coordinators that have it open are frozen.
    pub restoring: bool,
    /// A new secret. Without one, the store keeps the secret that it has. Whoever opened the store under the old secret
    /// is frozen until it opens the store again.
    pub secret: Option<SecretBytes>,
}

/// Why the level is not raised: a node registered after the caller had read the store's own record.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
pub(super) const ANOTHER_STARTED: &str = "a node started meanwhile, which may know less";

/// Why raising the epoch fails: a node registered after the caller had read the store's own record.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
pub(super) const REGISTERED: &str =
    "a node started meanwhile. Stop every coordinator of the store, and run the command again";

/// Why a node freezes when it finds the mark of a [`Raise`] for a restore.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
pub(super) const RESTORING: &str = "a restore into it is under way, or was cut off: the store is incomplete. \
     If no restore is running, run the same `tenure restore` again";

/// Why a node freezes when it finds another secret than the one that it opened the store with.
#[cfg(any(feature = "nats", feature = "dynamodb"))]
pub(super) const ROTATED: &str = "the cluster secret was rotated or restored since this node opened the store: restart this node";
