//! Fence plugins: against real programs, a real HTTP receiver, a real nats-server and a real PostgreSQL;
//! and their actors, with plugins that fail, hang, block and panic.

mod actor;
mod bus;
mod exec;
pub mod kit;
mod once;
mod postgres;
mod tls;
pub mod webhook;
