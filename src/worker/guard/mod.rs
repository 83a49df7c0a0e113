//! The state machine of the agent that keeps one instance of a service active. Pure.
//!
//! Guarantees, if scripts keep their time-outs and `step` is called when [`Guard::wake_at`] says so:
//!
//! - The service is active only under a lease.
//! - Before the guarantee of the lease ends, the deactivation is over or an alarm is raised.
//! - Between two activations, a deactivation succeeds.
//! - A lease is given back only when the service is known to be inactive.
//!
//! Does not guarantee: anything while this process does not run. The last will covers that case: the machine orders it
//! before the first activation, and cancels it after the deactivation.
//!
//! Assumes: deadlines and `now` are readings of one clock that counts suspend. A script that reports success did what
//! it is meant to do.

mod activation;
mod campaign;
mod checks;
mod hold;
mod interface;
mod machine;
mod rounds;
mod rules;
mod settings;
mod step;

pub use interface::{Alarm, Effect, GuardState, Input, Report, Rest, RunId, Script, ScriptOutcome};
pub use machine::Guard;
pub use rules::Mutant;
pub use settings::{Misfit, Settings};
