//! The lease protocol of one key. It is pure: no I/O, no clock, no task, no source of chance.
//!
//! [`Lease::step`] takes an [`Input`] and returns [`Effect`]s. The code that performs them is called the shell; in
//! production it is `actor/`. The same protocol code runs in production, in the model checker and in the tests.
//!
//! Guarantees: the same inputs at the same moments give the same effects. No promise outlives the bound that a rival
//! waits for. The tokens of a key strictly increase.
//!
//! Does not guarantee: timely expiry, which the shell's timer provides; anything about work that a holder does after
//! its window closed, which tokens are for.
//!
//! Assumes: every [`Moment`] comes from one suspend-aware monotonic clock. A nonce is never used twice. Effects are
//! performed in the order in which they are returned.

mod acquire;
#[cfg(any(test, feature = "testing"))]
mod age;
mod answer;
mod any_of;
pub mod balance;
mod bond;
mod bounds;
mod call;
mod change;
mod cleanup;
mod codec;
mod effect;
mod ending;
mod fence;
mod forget;
mod handover;
mod heartbeat;
mod home;
mod kept;
mod key;
mod lease_id;
mod machine;
mod membership;
mod moment;
mod mutant;
mod nonce;
mod peer;
mod pin;
mod policy;
mod record;
mod recover;
mod repeats;
mod session;
mod settle;
mod token;
mod view;
mod waiters;

pub use answer::{Answer, Grant, Lost, Refusal, StoreError, View};
pub use any_of::{Order, arrange};
pub use bond::{Behavior, Bond, Inquiry, SessionOver};
pub use bounds::{CLIENT_DRIFT, Drift, NODE_DRIFT, TtlBounds, valid_for};
pub use call::{Acquire, AskHandover, Call, Caller, Heartbeat, Release, Request, Revoke, Transfer};
pub use change::{Change, ChangeKind};
pub use cleanup::{Cleanup, CleanupEffect};
pub use effect::{Alarm, Effect, Env, Input, Loaded, NodeContext, Settled, WriteEffect};
pub use fence::{Fence, FenceReport, FenceResult, FenceRun, MAX_LATE_FENCES};
pub use handover::Handover;
pub use kept::{Holdings, Kept, KeptEffect, Survey};
pub use key::{InvalidName, Key, MAX_KEY_BYTES, MAX_OWNER_BYTES, Owner};
pub use lease_id::{ClusterSecret, LeaseId, NotALeaseId};
pub use machine::{Effects, Lease};
pub use membership::{Findings, Membership, Renewal, is_loopback};
pub use moment::Moment;
pub use mutant::Mutant;
pub use nonce::Nonce;
pub use peer::{MAX_NODE_TTL_MS, NodeRecord, NodeState, Peer, Peers};
pub use pin::{MAX_PIN_BYTES, MAX_PINS};
pub use policy::{
    DEFAULT_HANDOVER_MS, DEFAULT_POOL, FencePlan, FenceWhen, MAX_LOCK_DELAY_MS, OnFenceFailure,
    Policies, Policy,
};
pub use record::{
    Aftermath, CodecError, Ended, MAX_REQUEST_MARKS, Offer, Record, RequestMark, Revocation, State,
    Tenure,
};
pub use recover::Inherited;
pub use repeats::Repeats;
pub use session::{Check, CheckKind, MAX_CHECKS, NotASessionId, SessionId, SessionSpec, digest_of};
pub use token::{Epoch, Revision, Token};
