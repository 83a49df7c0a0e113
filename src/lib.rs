//! tenure gives every shard, job or singleton to exactly one worker, proves it with a fencing token,
//! and ends the tenure of the one that went silent.
//!
//! The crate is both the `tenure` binary and a library. Floors, top to bottom, and an arrow may only
//! point down: `cli` → `http` → `manager` → `actor` → `store`, `plugin`, `client` → `clock`, `settings`,
//! `telemetry` → `lease`. `ARCHITECTURE.md` is the map.

pub mod actor;
pub mod cli;
pub mod client;
pub mod clock;
pub mod http;
pub mod lease;
pub mod manager;
pub mod plugin;
pub mod settings;
pub mod store;
pub mod telemetry;
pub mod worker;
