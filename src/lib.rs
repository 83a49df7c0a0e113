//! tenure gives every shard, job or singleton to exactly one worker, proves it with a fencing token,
//! and ends the tenure of the one that went silent.
//!
//! The crate is both the `tenure` binary and a library. Floors, top to bottom, and an arrow may only
//! point down: [`cli`] → [`http`] → [`manager`] → [`actor`] → [`store`] → [`lease`] → [`clock`],
//! [`settings`], [`telemetry`]. `ARCHITECTURE.md` is the map.

pub mod clock;
pub mod lease;
pub mod settings;
pub mod store;
