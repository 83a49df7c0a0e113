//! The client library against real coordinators: leases, sessions and workers, and what they are told when
//! servers die, answers are lost, processes sleep.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

mod blocking;
#[path = "../cluster/clock.rs"]
mod clock;
mod failover;
mod harness;
mod leases;
mod light;
mod lost_replies;
#[path = "../common/nats_server.rs"]
mod nats_server;
#[path = "../cluster/node.rs"]
#[allow(dead_code, reason = "shared with the cluster tests")]
mod node;
mod pool;
#[path = "../common/ports.rs"]
mod ports;
#[path = "../cluster/process.rs"]
#[allow(dead_code, reason = "shared with the cluster tests")]
mod process;
mod sessions;
mod stopped;
