//! tenure gives every shard, job or singleton to exactly one worker, proves it with a fencing token, and ends the
//! tenure of a worker that goes silent.
//!
//! The crate is both the `tenure` binary and a library. Its layers, from top to bottom, are `cli` → `http` → `manager`
//! → `actor` → `store`, `plugin`, `worker` → `client` → `clock`, `settings`, `telemetry`, `tls` → `api` → `lease`. A
//! module may only use layers below its own. `ARCHITECTURE.md` is the map.

#[cfg(feature = "server")]
pub mod actor;
#[cfg(feature = "client")]
pub mod api;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
pub mod clock;
#[cfg(all(feature = "testing", feature = "server"))]
#[path = "../tests/doors/readers/mod.rs"]
pub mod fuzzing;
#[cfg(feature = "server")]
pub mod http;
pub mod lease;
#[cfg(feature = "server")]
pub mod manager;
#[cfg(feature = "server")]
pub mod plugin;
#[cfg(feature = "server")]
pub mod settings;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(feature = "client")]
pub mod tls;
#[cfg(feature = "server")]
pub mod worker;
