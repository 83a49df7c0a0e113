//! kill -9 under load, again and again, at random moments and at every step of the store's work with its
//! disk: nothing that was acknowledged is missing afterwards. And a disk that is full or damaged.
//!
//! Workers and the store's own history write a history of each lane, which `tests/history` judges in parts.
//!
//! `CYCLES` (default 60), `LANES` (servers side by side, default 4) and `SEED` come from the environment; a
//! failure prints the seed, the lane and the cycle.

#![allow(
    clippy::disallowed_methods,
    reason = "the test stands outside, and reads the clock that says when a process was started"
)]

pub mod full;
mod lane;
mod moment;
mod refusals;
mod worker;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use lane::{Lane, Seen};

use crate::support::seed::{from_environment, seed};

/// One lane to its end; what it saw, and whether it failed.
fn run(seed: u64, number: u64, cycles: u64) -> (Seen, bool) {
    let mut lane = Lane::new(seed.wrapping_add(number << 40));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(lane.run(cycles))));
    if ran.is_err() {
        let cycle = lane.seen.cycles;
        eprintln!("the panic above was in SEED={seed}, lane {number}, cycle {cycle}");
    }
    (lane.seen, ran.is_err())
}

#[test]
fn nothing_that_was_acknowledged_is_missing_after_kill_9() {
    let cycles = from_environment("CYCLES").unwrap_or(60);
    let lanes = from_environment("LANES").unwrap_or(4).clamp(1, cycles.max(1));
    let seed = seed("crashes");
    println!("CYCLES={cycles} LANES={lanes}");
    let total = Mutex::new((Seen::default(), 0));
    std::thread::scope(|scope| {
        for number in 0..lanes {
            let total = &total;
            let cycles = cycles / lanes + u64::from(number < cycles % lanes);
            scope.spawn(move || {
                let (seen, failed) = run(seed, number, cycles);
                let mut total = total.lock().expect("nobody panics here");
                total.0.add(seen);
                total.1 += u64::from(failed);
            });
        }
    });
    let (seen, failed) = total.into_inner().expect("nobody panics here");
    println!("{seen}");
    println!("kill cycles: {} passed, {failed} failed", seen.cycles);
    assert_eq!(failed, 0);
    seen.check_that_there_was_load();
}
