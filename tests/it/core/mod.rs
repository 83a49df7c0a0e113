//! The pure core of the lease protocol, put to the question.
//!
//! Scenarios, one file per verb, and of several nodes (`nodes`); random walks against a judge (`walk`); and broken
//! variants of the rules, each with the test that notices it (`mutants`). Its exhaustive models are in
//! `tests/model`.

mod acquire;
mod ambiguity;
mod balance;
mod beside;
mod cooling;
mod ending;
mod fences;
mod forget;
mod handover;
mod harness;
mod heartbeat;
mod min_hold;
mod mutants;
mod nodes;
mod pin;
mod policy_change;
mod principals;
mod recover;
mod request_id;
mod sessions;
mod waiters;
mod walk;
