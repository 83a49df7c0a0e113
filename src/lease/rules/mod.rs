//! The rules of `docs/protocol.md`, each beside its mutant, if it has one.
//!
//! | rule | file |
//! | --- | --- |
//! | §1 the primitive | `write` |
//! | §2 clocks | `clock` |
//! | R1 promise | `promise` |
//! | R2 expiry | `expiry` |
//! | R3 dead nodes, §3 node records | `death` |
//! | R4 take-over | `takeover` |
//! | R5 adoption, acquire-any | `adoption` |
//! | R6 sessions | `session` |
//! | R7 tokens and epochs | `token` |
//! | R8 fences | `fence` |
//! | lock-delay | `lock_delay` |
//! | R9 waiters | `waiter` |
//! | R10 embedded store | `restart` |
//! | R11 revival | `revival` |
//! | R12 principals | `principal` |
//! | I4 the stream of changes | `feed` |
//! | orders for pools | `order` |
//! | permits | `permit` |
//! | where keys of pools go | `place` |
//! | when keys of pools stay, and who gets them | `pool` |
//!
//! Each rule is a pure function of [`Rules`]: facts in, decision out. The machine and the shell ask these functions, and
//! nothing else asks about a [`Mutant`].

mod adoption;
mod clock;
mod death;
mod expiry;
mod feed;
mod fence;
mod lock_delay;
mod mutant;
mod order;
mod permit;
mod place;
mod pool;
mod principal;
mod promise;
mod restart;
mod revival;
mod session;
mod takeover;
mod token;
mod waiter;
mod write;

pub use mutant::{Mutant, Rules};
pub use promise::valid_for;
pub use restart::Inherited;
pub use waiter::TURN_MS;
pub use write::LATE;
