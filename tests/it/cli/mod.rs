//! The command line as a person and a script use it, against a real coordinator. What runs under a lease is in `work`.

mod admin;
mod complete;
mod contexts;
mod lists;
mod runbook;
mod scripts;
mod status;
pub mod user;
mod watch;
