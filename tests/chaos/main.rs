//! Real processes under a nemesis: three coordinators on one store, fifty workers, twelve faults, and a history
//! that is checked afterwards.
//!
//! Shown, on each store and under each fault: I1 to I4, I6 and I8 hold (docs/protocol.md, `tests/history`); a
//! counter that checks tokens loses no update, and one that does not check them does. Each run counts only if
//! its fault happened and enough was done. An embedded store has one coordinator, which is all that it can have.
//!
//! Two scenarios look at a calm cluster and at gentle faults: how many leases outlive a node (`kept.rs`), and what a
//! store is written to for (`writes.rs`). `MINUTES` make them long, by `make soak`.
//!
//! It is a program of its own, which is also its workers, its DynamoDB endpoint, and the run inside the
//! namespaces. `chaos matrix` is the long run, by `make chaos`: `MINUTES`, `SEEDS`, `JOBS`, `SEED`, `STORE` and
//! `FAULT` choose. A seed replays the choices, not the timing.

#![allow(
    clippy::disallowed_methods,
    reason = "a test's own threads and processes may wait and end"
)]

mod clock;
mod counter;
mod crew;
mod disk;
mod fault;
#[path = "../history/mod.rs"]
mod history;
mod inside;
mod kept;
mod listener;
mod matrix;
mod nemesis;
mod net;
mod node;
mod operator;
mod protected;
mod run;
mod scenarios;
mod sessions;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod worker;
mod writes;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let well = match args[..] {
        ["worker", orders] => {
            worker::main(orders);
            true
        }
        ["endpoint", addr, disk] => {
            stores::endpoint(addr, disk);
            true
        }
        ["inside", what, plan] => {
            inside::main(what, plan);
            true
        }
        ["probe", to] => nemesis::probe(to),
        ["matrix"] => std::panic::catch_unwind(matrix::main).unwrap_or_else(|_| {
            println!("0 passed, 1 failed");
            false
        }),
        _ => return scenarios::main(&args),
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
