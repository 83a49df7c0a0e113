//! A front that speaks TLS before real coordinators: commands, the library, checks of sessions and other nodes reach
//! them, and who cannot prove who it is gets nothing.

mod checks;
mod client;
mod command_line;
pub mod expiry;
mod followed;
mod nodes;
mod port;
