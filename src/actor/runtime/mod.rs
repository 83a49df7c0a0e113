//! What actors and tasks run on: threads, mailboxes, the bus, and tasks that must not end.

pub(in crate::actor) mod arbiters;
pub(in crate::actor) mod bus;
pub(in crate::actor) mod exit_notice;
pub(in crate::actor) mod registry;
pub(in crate::actor) mod tasks;
pub mod watch;
