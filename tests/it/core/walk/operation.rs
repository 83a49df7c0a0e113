//! What may happen to a key, drawn at random.

use proptest::prelude::*;
use tenure::lease::{FencePlan, FenceResult, FenceWhen, OnFenceFailure};

use crate::core::harness::{before_grant, failed};

/// One step of a walk. Indices are taken modulo what is there; what cannot happen does nothing.
#[derive(Clone, Debug)]
pub enum Operation {
    Acquire {
        owner: u8,
        ttl_ms: u64,
        wait_ms: u64,
        reclaim: bool,
        id: Option<(u8, u8)>,
        kept: bool,
    },
    Heartbeat {
        proof: usize,
        value: Option<u8>,
        ttl_ms: Option<u64>,
    },
    /// A heartbeat arrives, and its thread is stopped once it has found the promise cell.
    LookUp {
        proof: usize,
    },
    /// Such a thread goes on.
    GoOn {
        nth: usize,
    },
    Release {
        proof: usize,
    },
    Transfer {
        proof: usize,
        to: Option<u8>,
    },
    AskHandover,
    Revoke {
        immediately: bool,
    },
    Pin {
        by: u8,
    },
    Unpin {
        by: u8,
    },
    Leave {
        caller: usize,
    },
    Commit,
    Refuse,
    LoseReply {
        written: bool,
    },
    StrayLands,
    ReadBack,
    ReadFails,
    Pass {
        ms: u64,
    },
    Wake,
    Lapse,
    Restart {
        written: bool,
        away_ms: u64,
    },
    Rebuild,
    /// From now on, this holds for the key.
    Policy {
        lock_delay_ms: u32,
        fence: Option<FencePlan>,
    },
    /// A fence that runs ends like this.
    Report {
        nth: usize,
        outcome: FenceResult,
    },
    SkipFences,
    /// The tombstone of the session that keeps leases is durable; another one is made.
    SessionOver,
}

fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1_000_u64), Just(4_000), Just(10_000)]
}

/// Holders mostly speak for their latest tenure.
fn proof() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0_usize), 1 => 1..4_usize]
}

fn wait() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0_u64), Just(3_000), Just(20_000)]
}

pub fn any() -> BoxedStrategy<Operation> {
    let id = proptest::option::of((0..3_u8, prop_oneof![9 => Just(0_u8), 1 => Just(1)]));
    let (often, seldom) = (proptest::bool::weighted(0.2), proptest::bool::weighted(0.1));
    let acquire = (0..3_u8, ttl(), wait(), often, id, seldom).prop_map(
        |(owner, ttl_ms, wait_ms, reclaim, id, kept)| Operation::Acquire {
            owner,
            ttl_ms,
            wait_ms,
            reclaim,
            id,
            kept,
        },
    );
    let changed = (proof(), proptest::option::of(0..3_u8), proptest::option::of(ttl()))
        .prop_map(|(proof, value, ttl_ms)| Operation::Heartbeat { proof, value, ttl_ms });
    let plain = proof().prop_map(|proof| Operation::Heartbeat { proof, value: None, ttl_ms: None });
    let span = prop_oneof![
        Just(0_u64),
        Just(10),
        Just(250),
        Just(999),
        Just(1_000),
        Just(3_999),
        Just(4_000),
        Just(10_000),
    ];
    prop_oneof![
        16 => acquire,
        10 => plain,
        6 => changed,
        8 => proof().prop_map(|proof| Operation::LookUp { proof }),
        10 => (0..3_usize).prop_map(|nth| Operation::GoOn { nth }),
        8 => proof().prop_map(|proof| Operation::Release { proof }),
        3 => (proof(), proptest::option::of(0..3_u8)).prop_map(|(proof, to)| Operation::Transfer { proof, to }),
        2 => Just(Operation::AskHandover),
        3 => proptest::bool::weighted(0.4).prop_map(|immediately| Operation::Revoke { immediately }),
        2 => (0..2_u8).prop_map(|by| Operation::Pin { by }),
        3 => (0..2_u8).prop_map(|by| Operation::Unpin { by }),
        4 => (0..4_usize).prop_map(|caller| Operation::Leave { caller }),
        40 => Just(Operation::Commit),
        4 => Just(Operation::Refuse),
        5 => any_bool().prop_map(|written| Operation::LoseReply { written }),
        5 => Just(Operation::StrayLands),
        8 => Just(Operation::ReadBack),
        2 => Just(Operation::ReadFails),
        24 => span.prop_map(|ms| Operation::Pass { ms }),
        20 => Just(Operation::Wake),
        1 => Just(Operation::Lapse),
        2 => (any_bool(), 0..2_000_u64)
            .prop_map(|(written, away_ms)| Operation::Restart { written, away_ms }),
        3 => Just(Operation::Rebuild),
        3 => policy(),
        14 => (0..3_usize, outcome()).prop_map(|(nth, outcome)| Operation::Report { nth, outcome }),
        2 => Just(Operation::SkipFences),
        3 => Just(Operation::SessionOver),
    ]
    .boxed()
}

fn policy() -> impl Strategy<Value = Operation> {
    let delay = prop_oneof![2 => Just(0_u32), 1 => Just(2_000), 1 => Just(5_000)];
    let when = prop_oneof![Just(FenceWhen::BeforeGrant), Just(FenceWhen::AfterGrant)];
    let fails = prop_oneof![Just(OnFenceFailure::Block), Just(OnFenceFailure::GrantWithAlarm)];
    let plugins = prop_oneof![2 => Just(&["x"][..]), 1 => Just(&["x", "y"][..])];
    let plan =
        (when, fails, any_bool(), plugins).prop_map(|(when, on_failure, on_release, names)| {
            FencePlan { when, on_failure, on_release, ..before_grant(names) }
        });
    (delay, proptest::option::of(plan))
        .prop_map(|(lock_delay_ms, fence)| Operation::Policy { lock_delay_ms, fence })
}

fn outcome() -> impl Strategy<Value = FenceResult> {
    prop_oneof![
        5 => Just(FenceResult::Confirmed),
        1 => Just(failed()),
        1 => Just(FenceResult::Interrupted),
    ]
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}
