//! The state machine of one lease: inputs in, effects out.
//!
//! | files | part |
//! | --- | --- |
//! | `lease`, `busy`, `flight`, `waiters`, `draft`, `context` | the state, and what a step reads |
//! | `dispatch` | one step: which part handles which input |
//! | `acquire`, `grant`, `queue`, `repeat` | becoming the owner |
//! | `heartbeat`, `beside`, `own_cell`, `revival`, `pin`, `handover` | remaining the owner |
//! | `release`, `transfer`, `revoke`, `ending`, `session_ref`, `session_tombstone` | the end of a tenure |
//! | `fences_and_delay`, `fence`, `offer`, `forget` | what an end leaves behind |
//! | `settle`, `look`, `recover` | what the store says |
//! | `home`, `lapse` | several nodes, and a node that may not promise |
//! | `view` | what is shown |
//!
//! The verbs are methods of [`Lease`]. `dispatch` calls them, and they call each other: an end may grant the key, and a
//! write that is settled serves the queue. So these files are one unit.

mod acquire;
#[cfg(any(test, feature = "testing"))]
mod age;
mod beside;
mod busy;
mod context;
mod dispatch;
mod draft;
mod ending;
mod fence;
mod fences_and_delay;
mod flight;
mod forget;
mod grant;
mod handover;
mod heartbeat;
mod home;
mod lapse;
mod lease;
mod look;
mod offer;
mod own_cell;
mod pin;
mod queue;
mod recover;
mod release;
mod repeat;
mod revival;
mod revoke;
mod session_ref;
mod session_tombstone;
mod settle;
mod transfer;
mod view;
mod waiters;

pub use beside::Absorbed;
pub use context::{Env, NodeContext};
pub use lease::Lease;
pub use pin::{MAX_PIN_BYTES, MAX_PINS};
