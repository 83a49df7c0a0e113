//! Fence plugins: against real programs, a real HTTP receiver, a real nats-server and a real PostgreSQL;
//! and their actors, with plugins that fail, hang, block and panic.

mod actor;
mod bus;
mod exec;
mod kit;
mod once;
mod postgres;
mod tls;
mod webhook;
