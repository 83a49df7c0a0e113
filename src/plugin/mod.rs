//! Plugins that fence resources: they keep the previous owner from using what a key stands for.
//!
//! Guarantees required of a plugin: when [`FencePlugin::fence`] has returned `Ok`, the tenure that the order names can
//! do no more harm to the resource. The function may be called again with the same order, after a time-out, after a
//! crash or on another node, even if it already confirmed. An order is identified by key, token and plugin.
//!
//! Does not guarantee: that an order is given once, or by one node only.
//!
//! Assumes: a plugin gives up when its future is dropped, which happens when its time is over.
//!
//! A plugin of your own:
//!
//! ```
//! use std::sync::Arc;
//! use tenure::plugin::{FenceError, FenceOrder, FencePlugin, Fencing};
//!
//! /// Shuts a port of a switch against a tenure.
//! struct Switch {
//!     port: u16,
//! }
//!
//! impl FencePlugin for Switch {
//!     fn fence(&self, order: FenceOrder) -> Fencing {
//!         let port = self.port;
//!         Box::pin(async move {
//!             if order.owner.as_str().is_empty() {
//!                 return Err(FenceError::permanent("the order has no owner"));
//!             }
//!             shut(port, order.token.0).await.map_err(FenceError::new)
//!         })
//!     }
//! }
//!
//! async fn shut(_port: u16, _token: u64) -> Result<(), std::io::Error> {
//!     Ok(())
//! }
//!
//! let plugin: Arc<dyn FencePlugin> = Arc::new(Switch { port: 7 });
//! # use tenure::lease::{ChangeKind, Key, Owner, Token};
//! # let order = FenceOrder {
//! #     key: Key::new("port/7").unwrap(),
//! #     token: Token(5),
//! #     owner: Owner::new("w").unwrap(),
//! #     reason: ChangeKind::Expired,
//! #     session: None,
//! #     pool: "default".into(),
//! #     attempt: 1,
//! # };
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # assert_eq!(runtime.block_on(plugin.fence(order)), Ok(()));
//! ```

#[cfg(not(all(feature = "nats", feature = "postgres")))]
mod absent;
mod build;
mod event;
mod exec;
mod failure;
mod log;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
mod process;
mod webhook;

use std::{fmt, future::Future, pin::Pin, sync::Arc};

#[cfg(not(feature = "nats"))]
use absent as nats;
#[cfg(not(feature = "postgres"))]
use absent as postgres;
pub use build::{BuildError, build};
pub use failure::{FailureKind, chain, excerpt};
pub use process::run_group;

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

/// Why a fence was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct FenceError {
    /// The public part: events and listings show it.
    pub kind: FailureKind,
    /// Details for people. They may quote the program or server, and go only to the log.
    pub detail: String,
    /// Another try would end the same way.
    pub permanent: bool,
}

impl FenceError {
    /// A failure after which another try may succeed.
    pub fn new(detail: impl fmt::Display) -> Self {
        Self::of(FailureKind::Failed, detail)
    }

    /// A failure that no other try can change: the order fails at once.
    pub fn permanent(detail: impl fmt::Display) -> Self {
        Self { permanent: true, ..Self::new(detail) }
    }

    /// A failure of a known kind, after which another try may succeed.
    pub fn of(kind: FailureKind, detail: impl fmt::Display) -> Self {
        Self { kind, detail: detail.to_string(), permanent: false }
    }
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
