//! The guardian: one helper process of an agent, and the parent of all programs that the agent runs.
//!
//! Guarantees: what runs for a slot gets SIGTERM and then SIGKILL before the slot's deadline: the whole process group,
//! and the processes that left the group. The deadline stops nothing earlier than grace and margin require. This holds
//! even if the agent is stopped. If the agent is gone, everything is stopped at once. If the guardian itself is gone or
//! stands still, the agent kills the process groups. If the guardian is gone, the kernel kills the programs too.
//!
//! Does not guarantee: anything about a program that changed its user. Until the guardian itself ends: anything about a
//! process that left its process group and also cleared its environment.
//!
//! Assumes: agent and guardian run on one machine, as one user.

mod badge;
mod handle;
mod link;
mod plan;
mod process_tree;
mod program;
mod serve;
mod shared;
mod shim;
mod slot;
#[cfg(test)]
mod tests;
mod wire;

pub use badge::Badge;
pub use handle::Guardian;
#[cfg(feature = "server")]
pub(super) use program::own_program;
pub use serve::serve;
pub use shim::become_program;
pub use slot::{Running, Slot};
pub use wire::{Exit, RunError, Task, Why};
