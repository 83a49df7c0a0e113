//! The store on NATS, against real servers: what is NATS's own. What every store has to do is tested
//! in `stores`.

mod cluster;
mod feed;
mod frozen;
mod gate;
mod harness;
mod history;
mod open;
mod outage;
pub mod permissions;
mod renewed;
mod tls;
mod write;
