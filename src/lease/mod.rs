//! The lease protocol of one key. It is pure: no I/O, no clock, no task, no source of chance.
//!
//! [`Lease::step`] takes an [`Input`] and returns [`Effect`]s. The code that performs them is called the shell; in
//! production it is `actor/`. The same protocol code runs in production, in the model checker and in the tests.
//!
//! | room | holds |
//! | --- | --- |
//! | `primitives` | names and numbers: keys, tokens, nonces, readings of a clock |
//! | `labels`, `place_rule` | labels of the members of pools, and what policies require of them |
//! | `policy` | what holds for the keys with a prefix |
//! | `records` | what a store keeps, and its form in bytes |
//! | `message` | what goes into a lease and what comes out: calls, inputs, effects, answers |
//! | `rules` | the rules of `docs/protocol.md`, as functions, each beside its mutant, if it has one |
//! | `promise_cell` | where promises are made beside a lease's actor |
//! | `cluster` | nodes: their membership, and what a node knows of the others |
//! | `session` | what a session keeps, and what follows its end |
//! | `pool` | the shares of a pool's members |
//! | `step` | the state machine and its verbs |
//!
//! A room uses those above it in this list, and never those below.
//!
//! Guarantees: the same inputs at the same moments give the same effects. No promise outlives the bound that a rival
//! waits for. The tokens of a key strictly increase.
//!
//! Does not guarantee: timely expiry, which the shell's timer provides; anything about work that a holder does after
//! its window closed, which tokens are for.
//!
//! Assumes: every [`Moment`] comes from one suspend-aware monotonic clock. A nonce is never used twice. Effects are
//! performed in the order in which they are returned.

// What only a shell needs, which no user of the library writes, is not documented item by item.
#[allow(missing_docs)]
mod cluster;
mod labels;
mod message;
mod place_rule;
mod policy;
mod pool;
mod primitives;
mod promise_cell;
mod records;
mod rules;
#[allow(missing_docs)]
mod session;
#[allow(missing_docs)]
mod step;

pub use cluster::{Findings, Membership, Peer, Peers, Renewal, is_loopback};
pub use labels::{
    Labels, MAX_LABEL_NAME_BYTES, MAX_LABEL_VALUE_BYTES, MAX_LABELS, MAX_LABELS_BYTES, ZONE,
    check_label_name, check_label_value, labels_of,
};
pub use message::{
    Acquire, Alarm, Answer, AskHandover, Call, Caller, Effect, Effects, Elsewhere, FenceReport,
    FenceResult, FenceRun, GiveBack, Grant, Heartbeat, Input, Loaded, Lost, ReadFor, Refusal,
    Release, Request, Revoke, SessionOver, Settled, StoreError, Transfer, View, WriteEffect,
};
pub use place_rule::{LabelRule, MAX_LABEL_RULES, PlaceRule};
pub use policy::{
    Balance, DEFAULT_HANDOVER_MS, DEFAULT_MASS_FAILURE_PERCENT, DEFAULT_MIXED_VERSIONS_MS,
    DEFAULT_POOL, DEFAULT_WARMUPS, FencePlan, FenceWhen, MAX_LOCK_DELAY_MS, MAX_PERMITS,
    MAX_WARMUPS, MassFailure, Named, OnFenceFailure, Policies, Policy, Tolerance, TtlBounds,
    Warmups,
};
pub use pool::{
    Announced, CandidateOrder, Guard, MAX_ADDRESS_BYTES, MAX_VERSION_BYTES, MAX_WARMING_BYTES,
    PlaceTable, PoolControls, PoolOrder, Said, Unplaced, UnreadableOrders, Warm, WarmStep, Warming,
    arrange, balance, compare_versions, load, reports, sites,
};
#[cfg(feature = "server")]
pub(crate) use primitives::HIDDEN;
pub use primitives::{
    CLIENT_DRIFT, ClusterSecret, Drift, Epoch, InvalidName, Key, KeySet, LeaseId, MAX_KEY_BYTES,
    MAX_OWNER_BYTES, Moment, NODE_DRIFT, Nonce, NotALeaseId, Owner, Principal, PrincipalDigest,
    Revision, Span, Token, check_seen, is_hidden, is_plugin_name, is_pool_name, permit_of,
};
pub use promise_cell::{PromiseCell, PromiseTerms};
pub use records::{
    Behavior, Change, ChangeKind, Check, CheckKind, CodecError, Common, Condition, Ended, Fence,
    FencesAndDelay, Handover, KeyState, LEVEL, Level, LevelError, MAX_CHECKS, MAX_LATE_FENCES,
    MAX_NODE_TTL_MS, MAX_REQUEST_MARKS, NodeRecord, NodeState, NotASessionId, Offer, Record,
    RequestMark, Revocation, SessionId, SessionRef, SessionSpec, Tenure, digest_of,
};
pub use rules::{Inherited, Mutant, Rules, valid_for};
pub use session::{Cleanup, CleanupEffect, Holdings, Indexing, Inquiry, Kept, KeptEffect, Repeats};
pub use step::{Absorbed, Env, Lease, MAX_PIN_BYTES, MAX_PINS, NodeContext};
