//! The pure state machine of the guard.
//!
//! Scenarios, one per rule; random walks against a judge; and broken variants of the rules, each with
//! the test that notices it.

mod bench;
mod judge;
mod mutants;
mod scenarios;
mod settings;
mod walk;
