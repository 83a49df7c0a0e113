//! The worker's side through real processes: what runs under a lease is dead before its guarantee ends,
//! whoever dies, stops or falls silent.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

mod agent;
mod cron;
mod denied;
mod example;
mod files;
mod guardian;
mod ignored;
mod process;
mod programs;
mod reasons;
mod run;
mod waiting;
mod waits;
