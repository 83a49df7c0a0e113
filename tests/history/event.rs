//! What a history is made of: a line for each thing that a worker, a node, a store, a subscriber or a plugin
//! did or was told.
//!
//! A worker goes by the name of the owner that it asks as.
//!
//! `t` is nanoseconds on ONE clock for the whole run: true time in a simulation, the machine's
//! `CLOCK_BOOTTIME` for real processes. Whoever writes a line converts: a window's end, which its holder counts
//! on a clock of its own, is written as the instant of that one clock at which the holder stops believing.

use serde::{Deserialize, Serialize};

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When, in nanoseconds.
    pub t: u64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What a worker asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    Acquire,
    AcquireAny,
    Heartbeat,
    Release,
    Transfer,
    OpenSession,
    BeatSession,
    EndSession,
    Revoke,
    Check,
}

/// What a run must have had plenty of, or it shows little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    /// A lease of a dead node went on under another one.
    Adoption,
    /// A write whose outcome was not known at first.
    Ambiguous,
    /// A node could not promise for a while.
    Lapse,
    /// A node was found dead, or left, or was killed.
    NodeEnded,
    /// A read that was answered with what is no longer there.
    StaleRead,
    /// A feed lost its place.
    FeedGap,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Event {
    /// The first line: what made this history, so that it can be made again.
    Run { maker: String, store: String, seed: u64, commit: String },
    /// A fault begins.
    Fault { fault: String, at: String },
    /// The faults are over: from here on everything must come to an end (I8).
    Calm,
    /// Anywhere in a history: its [`Event::Committed`] and [`Event::Tombstone`] lines stand where somebody read
    /// them, not where they became durable. Their order alone counts then.
    LateCommits,
    /// The end of the run: calls that were not answered by now never were.
    Over,
    /// Up to here the history is whole: above stand every call that was sent and, in the order of the store's own
    /// history, every change that is durable by now. A history with such lines has the changes where somebody read
    /// them, and acknowledges a release only to the caller whose call ended the tenure.
    Whole,
    /// What stands above was judged before, and is there for what follows: see `carry`.
    Judged,

    /// A worker is about to send a call, whose number no other call of the run has. `answer_by`: when the answer must be there at the latest, were there no
    /// faults; `None` for a call that nobody counts on.
    Asked { call: u64, worker: String, op: Op, key: String, answer_by: Option<u64> },
    /// The call was answered with a grant or with an absorbed heartbeat: from `t` on the worker believes that it
    /// holds the key, until `until` or until [`Event::Shut`].
    Told {
        call: Option<u64>,
        worker: String,
        key: String,
        token: u64,
        until: u64,
        /// The answer to an acquire, and not to a heartbeat.
        grant: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// The call was answered with a no, which is an answer.
    Refused { call: u64, why: String },
    /// The answer was lost, or is not known: the call may have had its effect or not.
    Lost { call: u64 },
    /// The call was answered; what it did to the lease is durable (I3): a release, a transfer, an end.
    Acknowledged { call: u64, op: Op, key: String, token: u64 },
    /// The end of a session was acknowledged (I3).
    SessionEndAcknowledged { call: u64, session: String },
    /// The holder's window closes: it is about to send a release, heard that the lease is lost, or died.
    Shut { worker: String, key: String, token: u64, why: String },
    /// An administrator took the key away at once, or its owner reclaimed it: windows of this token that go on
    /// after `t` are excepted from I1.
    Cut { key: String, token: u64, why: String },

    /// A change became durable, in the order of the store's own history. `kind` as in `/v1/events`.
    Committed {
        key: String,
        seq: u64,
        kind: String,
        /// Of the tenure that the change is about: that begins, or that ended.
        token: u64,
        owner: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Plugins that must confirm before the next grant, on a line that ends a tenure.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fences: Vec<String>,
        /// When its node first sent it to the store, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent: Option<u64>,
    },
    /// From now on a node grants the keys with this prefix by this number of permits.
    InForce { node: String, prefix: String, permits: u32 },
    /// A node answers a call for all permits of a key with this many leases.
    All { node: String, key: String, leases: u32 },
    /// A session's tombstone became durable.
    Tombstone { session: String },
    /// What operators ordered for the pool became durable, as the value of its record.
    Orders { value: Option<String> },
    /// An order for the pool was acknowledged. `since`: when it was sent.
    Ordered { order: String, since: u64 },
    /// A fair call was granted a key whose policy requires labels that the session did not have since before the call.
    Misplaced { key: String, session: String },
    /// A session joined the pool, and the answer said so.
    Joined {
        session: String,
        owner: String,
        weight: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        unready: bool,
    },
    /// From now on nobody can be sure which sessions of this owner are members that stay.
    Unsure { owner: String },
    /// A session asked for its share of the pool, and was granted these keys, each under its token. `since`: when it
    /// first asked. `unready`: it never said that it is ready.
    Shared { session: String, keys: Vec<(String, u64)>, since: u64, unready: bool },
    /// The request that a holder hand over a key of the pool for the sake of its balance became durable.
    Balanced { key: String, token: u64, reason: String },
    /// A subscriber was told of a change (I4).
    Heard { subscriber: String, key: String, seq: u64, kind: String, token: u64 },
    /// A subscriber was told that it may have missed something (I4).
    Reset { subscriber: String },
    /// A plugin did its work for a tenure that ended, and is about to say so.
    Fenced { plugin: String, key: String, token: u64 },
    /// A plugin began to fence a tenure that ended, and did not do it.
    Tried { plugin: String, key: String, token: u64 },
    /// Anywhere in a history: a fence of this key that failed for good shuts it until an administrator skips it.
    Blocks { key: String },
    /// A coordinator that started again shows a key, before it serves anybody. `until`: the end of the whole ttl
    /// that a held lease gets (R10); `None`: nobody holds it.
    Stood { key: String, token: u64, until: Option<u64> },
    /// A program that holds a key shows that it runs. `began`: this is its first sign of life.
    Ran { program: String, key: String, token: u64, began: bool },

    /// I7: a node decided to promise. All on the node's own clock: `decided` is the reading, `until` the end of
    /// what was promised, `d` the end of its last committed record.
    Promised { node: String, key: String, token: u64, decided: u64, until: u64, d: u64, ttl: u64 },
    /// Something happened that a run must have had enough of.
    Seen { sight: Sight },
    /// A store of the user's own took or refused a write under a token: the protected counter.
    Wrote { key: String, token: u64, taken: bool },
}
