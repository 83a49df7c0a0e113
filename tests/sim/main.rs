//! A deterministic simulation of whole clusters: the real managers and actors, on simulated stores, machines,
//! clocks and networks, under virtual time. One seed is one run; the same seed and commit give the same history,
//! byte by byte.
//!
//! `SEEDS`, `FROM`: which seeds; `MUTANT`: the rule that is broken; `LOG`: where the history goes;
//! `TRACE`: whatever the code traces, each step of each lease, to stderr.

#![allow(clippy::disallowed_methods, reason = "virtual time is read from tokio's clock")]

mod admin;
mod ask;
#[path = "../support/dice.rs"]
mod dice;
mod door;
mod faults;
#[path = "../history/mod.rs"]
mod history;
mod host;
mod memories;
mod mutants;
mod net;
mod operator;
mod panics;
mod plain;
mod plan;
mod plugin;
mod pools;
mod raise;
mod rules;
mod run;
mod seeds;
mod session;
mod signal;
mod store;
mod time;
mod worker;
