//! The guardian: one helper process of an agent, the parent of all that the agent runs.
//!
//! Guarantees: what runs for a slot is told to end (SIGTERM) and killed (SIGKILL, its whole process group
//! and what left that group) before the slot's deadline, and never for the deadline's sake earlier than its
//! grace and margin need; the same when the agent is stopped, and at once when the agent is gone. When the
//! guardian itself is gone or stands still, the agent kills the groups, and the kernel the programs.
//!
//! Does not guarantee: anything about a program that changed its user, or that broke out of both its process
//! group and its environment, before the guardian's own end.
//!
//! Assumes: agent and guardian run on one machine, as one user.

mod handle;
mod link;
mod plan;
mod process_tree;
mod serve;
mod shim;
#[cfg(test)]
mod tests;
mod wire;

#[cfg(feature = "server")]
pub(super) use handle::own_program;
pub use handle::{Badge, Guardian, Running, Slot};
pub use serve::serve;
pub use shim::become_program;
pub use wire::{Exit, RunError, Task, Why};
