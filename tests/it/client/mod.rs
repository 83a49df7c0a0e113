//! The client library against real coordinators: leases, sessions and workers, and what they are told when
//! servers die, answers are lost, processes sleep.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

mod blocking;
mod failover;
mod harness;
mod leases;
mod light;
mod lost_replies;
mod pool;
mod pool_ends;
mod sessions;
mod stopped;
mod stream;
