//! Plugins that fence resources: what keeps the owner before from touching what its key stands for.
//!
//! Guarantees asked of a plugin: when [`FencePlugin::fence`] returned `Ok`, the tenure that the order
//! names can do no more harm to the resource. It may be called again with the same order, after a
//! time-out, a crash or at another node, also after it confirmed; orders are told apart by key, token
//! and plugin.
//!
//! Does not guarantee: that an order is given once, or by one node only.
//!
//! Assumes: a plugin gives up when its future is dropped, which happens when its time is over.

mod process;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

pub use process::run_group;

use crate::lease::{ChangeKind, Key, Nonce, Owner, Token};

/// What a plugin is asked to do: to shut out one ended tenure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceOrder {
    /// The key.
    pub key: Key,
    /// The token of the tenure that ended. A resource that keeps the highest token that it saw refuses
    /// this one and all below.
    pub token: Token,
    /// Who held it.
    pub owner: Owner,
    /// How it ended.
    pub reason: ChangeKind,
    /// The digest of the session that it was held under.
    pub session: Option<Nonce>,
    /// The pool of the key.
    pub pool: Arc<str>,
    /// 1 for the first try.
    pub attempt: u32,
}

/// Why a fence was not confirmed, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FenceError(pub String);

/// The future of a fence.
pub type Fencing = Pin<Box<dyn Future<Output = Result<(), FenceError>> + Send>>;

/// Fences one kind of resource.
pub trait FencePlugin: Send + Sync + 'static {
    /// Shuts out the tenure that the order names, and resolves once that is certain.
    ///
    /// Dropped when its time is over: whatever it started is to end with it. A panic counts as a failed
    /// try.
    fn fence(&self, order: FenceOrder) -> Fencing;
}

impl fmt::Debug for dyn FencePlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FencePlugin")
    }
}
