//! A thousand fences in flight, with plugins that succeed, fail twice, hang, fail and panic, and kill -9 in
//! their middle: every key ends up granted or shut exactly as its policy says, and under `before-grant` a
//! confirmed fence lies between the end of each tenure and the next grant (I5).
//!
//! Judged by `tests/history`, from what the plugins wrote down and from the events. `FENCES` is their number, `FENCE_CYCLES`
//! how often the only node is killed in [`restarts`]; `SEED` replays the choices.

#![allow(
    clippy::disallowed_methods,
    reason = "the test stands outside and reads the clock that the plugins would read"
)]

mod journal;
mod judge;
mod plan;
mod restarts;
mod scenario;
mod stand;
mod waiters;

use stand::Stand;

use crate::support::seed::{from_environment, seed};

/// Fences, unless `FENCES` says otherwise.
const FENCES: u64 = 1000;
/// On the DynamoDB endpoint, which shares the processor with the waiters.
const FENCES_DYNAMODB: u64 = 300;
/// Deaths of the only node, unless `FENCE_CYCLES` says otherwise.
const CYCLES: u64 = 30;

fn fences(otherwise: u64) -> usize {
    from_environment("FENCES").unwrap_or(otherwise) as usize
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded() {
    scenario::run(Stand::embedded().await, fences(FENCES), seed("fences")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats() {
    scenario::run(Stand::nats().await, fences(FENCES), seed("fences")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamodb() {
    scenario::run(Stand::dynamodb().await, fences(FENCES_DYNAMODB), seed("fences")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_check_fails_and_kill_9_before_the_confirmation() {
    restarts::run(from_environment("FENCE_CYCLES").unwrap_or(CYCLES), seed("fences")).await;
}
