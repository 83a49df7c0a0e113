//! The pure core of the lease protocol, put to the question.
//!
//! Scenarios, one file per verb, and of several nodes (`nodes`); random walks against a judge (`walk`);
//! exhaustive models of one node (`model`), of a session and what it keeps (`duo`), and of two nodes
//! (`pair`); and broken variants of the rules, each
//! with the test that notices it (`mutants`).

mod acquire;
mod ambiguity;
mod balance;
mod cooling;
mod duo;
mod ending;
mod fences;
mod handover;
mod harness;
mod heartbeat;
mod model;
mod mutants;
mod nodes;
mod pair;
mod pin;
mod recover;
mod request_id;
mod sessions;
mod waiters;
mod walk;
