//! One stream to each server (`GET /v1/stream`), over which the heartbeats of all leases and sessions go.
//!
//! Guarantees: a heartbeat waits for no stream. Until one is open, and from the moment at which one broke, heartbeats go
//! by plain calls. What a stream tells by itself only makes a heartbeat come early, or tells when to hand over: whether
//! something is held, answers to heartbeats alone decide.
//!
//! Does not guarantee: a stream. A server may not offer one, and a proxy may not pass it.

mod beat;
mod link;
mod nudges;
mod open;
mod run;

pub(super) use beat::Beat;
pub(super) use link::{Streams, Way};
pub(super) use nudges::Registered;
