//! What a plugin is given, and what it must do.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use super::failure::FenceError;
use crate::lease::{ChangeKind, Key, Nonce, Owner, Token};

/// The order to shut out one ended tenure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceOrder {
    /// The key.
    pub key: Key,
    /// The token of the tenure that ended. A resource that keeps the highest shut-out token refuses this token and all
    /// lower ones.
    pub token: Token,
    /// The owner of the tenure.
    pub owner: Owner,
    /// How it ended.
    pub reason: ChangeKind,
    /// The digest of the session that kept the lease.
    pub session: Option<Nonce>,
    /// The pool of the key.
    pub pool: Arc<str>,
    /// 1 for the first try.
    pub attempt: u32,
}

/// The future of a fence.
pub type Fencing = Pin<Box<dyn Future<Output = Result<(), FenceError>> + Send>>;

/// Fences one kind of resource.
pub trait FencePlugin: Send + Sync + 'static {
    /// Shuts out the tenure that the order names, and resolves once that is certain.
    ///
    /// The future is dropped when its time is over. Whatever it started must end with it. A panic counts as a failed
    /// try.
    fn fence(&self, order: FenceOrder) -> Fencing;
}

impl fmt::Debug for dyn FencePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FencePlugin")
    }
}
