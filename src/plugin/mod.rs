//! Plugins that fence resources: they keep the previous owner from using what a key stands for. A plugin may also, or
//! only, be notified of changes of ownership.
//!
//! Guarantees required of a plugin: when [`FencePlugin::fence`] has returned `Ok`, the tenure that the order names can
//! do no more harm to the resource. The function may be called again with the same order, after a time-out, after a
//! crash or on another node, even if it already confirmed. An order is identified by key, token and plugin.
//!
//! When [`FencePlugin::notify`] has returned `Ok`, the plugin is not told of that change again, except after a crash or a
//! move to another node. Until then it is told of no later change of the same key.
//!
//! Does not guarantee: that an order or a notification is given once, or by one node only.
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
//! #     traceparent: None,
//! # };
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # assert_eq!(runtime.block_on(plugin.fence(order)), Ok(()));
//! ```

#[cfg(not(all(feature = "nats", feature = "postgres")))]
mod absent;
mod build;
mod build_error;
mod contract;
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

pub use build::build;
pub use build_error::BuildError;
pub use contract::{FenceOrder, FencePlugin, Fencing, Notification};
pub use failure::{FailureKind, FenceError, chain, excerpt};
pub use process::run_group;
