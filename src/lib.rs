//! tenure gives every shard, job or singleton to exactly one worker, proves it with a fencing token, and ends the
//! tenure of a worker that goes silent.
//!
//! The crate is both the `tenure` binary and a library. A worker uses [`client`]. A program that runs its own
//! coordinator starts a [`manager::Tenure`] from [`settings::Settings`], and may bring its own [`plugin::FencePlugin`].
//! The names that all of them share are in [`lease`].
//!
//! The layers, from top to bottom, are `cli` → `http` → `manager` → `actor` → `store`, `plugin`, `worker` → `client` →
//! `access`, `clock`, `files`, `settings`, `telemetry`, `tls` → `api` → `lease`. A module may only use layers below its own.
//! `ARCHITECTURE.md` is the map. The feature `internals` makes every module public, for tests and benches.

// What only tests reach needs no documentation, and is not dead because a build without them has no use for it. The
// lints of the build for tests find what is dead.
#![cfg_attr(feature = "internals", allow(missing_docs))]
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports))]

#[cfg(feature = "client")]
pub mod client;
pub mod clock;
pub mod lease;
#[cfg(feature = "server")]
pub mod manager;
#[cfg(feature = "server")]
pub mod plugin;
#[cfg(feature = "server")]
pub mod settings;

// The command line, for the binary.
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod cli;

// Without the feature `internals`, these are the inside of the product.
#[cfg(all(feature = "server", not(feature = "internals")))]
mod access;
#[cfg(all(feature = "server", feature = "internals"))]
pub mod access;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod actor;
#[cfg(all(feature = "server", feature = "internals"))]
pub mod actor;
#[cfg(all(feature = "client", not(feature = "internals")))]
mod api;
#[cfg(all(feature = "client", feature = "internals"))]
pub mod api;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod files;
#[cfg(all(feature = "server", feature = "internals"))]
pub mod files;
#[cfg(all(feature = "testing", feature = "server"))]
#[path = "../tests/doors/readers/mod.rs"]
pub mod fuzzing;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod http;
#[cfg(all(feature = "server", feature = "internals"))]
pub mod http;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod store;
#[cfg(all(feature = "server", feature = "internals"))]
pub mod store;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod telemetry;
#[cfg(all(feature = "server", feature = "internals"))]
pub mod telemetry;
#[cfg(all(feature = "client", not(feature = "internals")))]
mod tls;
#[cfg(all(feature = "client", feature = "internals"))]
pub mod tls;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod worker;
#[cfg(all(feature = "server", feature = "internals"))]
pub mod worker;
