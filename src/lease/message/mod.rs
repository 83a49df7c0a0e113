//! What goes into a lease and what comes out of it: calls and other inputs, effects and answers.

mod answer;
mod call;
mod caller;
#[allow(missing_docs)]
mod effect;
#[allow(missing_docs)]
mod fencing;
#[allow(missing_docs)]
mod input;
mod session_over;
mod store_error;

pub use answer::{Answer, Grant, Lost, Refusal, View};
pub use call::{
    Acquire, AskHandover, Call, GiveBack, Heartbeat, Release, Request, Revoke, Transfer,
};
pub use caller::Caller;
pub use effect::{Alarm, Effect, Effects, ReadFor, WriteEffect};
pub use fencing::{FenceReport, FenceResult, FenceRun};
pub use input::{Elsewhere, Input, Loaded, Settled};
pub use session_over::SessionOver;
pub use store_error::StoreError;
