//! The agent that keeps one instance of a service active: its state machine, pure.
//!
//! Guarantees, if scripts keep their time-outs and `step` is called when [`Guard::wake_at`] says so: the
//! service is active only under a lease; its deactivation is over, or an alarm is raised, before the
//! lease's guarantee ends; between two activations lies a deactivation that succeeded; a lease is
//! given back only when the service is known to be inactive.
//!
//! Does not guarantee: anything while this process does not run. That is what the last will is for,
//! which the machine orders before the first activation and takes back after the deactivation.
//!
//! Assumes: deadlines and `now` are readings of one suspend-aware clock; a script that reports success
//! did what it says.

mod activation;
mod checks;
mod hold;
mod machine;
mod mutant;
mod settings;
mod words;

pub use machine::Guard;
pub use mutant::Mutant;
pub use settings::{Misfit, Settings};
pub use words::{Alarm, Effect, Input, Outcome, Report, Rest, RunId, Script, State};
