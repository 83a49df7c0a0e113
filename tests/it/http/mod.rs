//! The API, as callers meet it: a real process, real sockets, one file per resource or topic.
//!
//! Each test has a coordinator and a store of its own. Nothing is awaited by sleeping where there is
//! an event to await.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

mod acquire;
mod admin;
mod any;
mod audit;
mod bodies;
mod broken_heads;
mod browsers;
mod check_reach;
mod checks;
mod command_line;
mod company;
mod crowds;
mod events;
mod fences;
mod handover;
mod handover_asked;
mod heartbeat;
mod history;
mod inspect;
mod kept_places;
mod keys;
mod labels;
mod loads;
mod lock_delay;
mod mass_failure;
mod min_hold;
mod orders;
mod overload;
mod permits;
mod permits_reload;
mod places;
mod policies;
mod policy_keys;
mod pools;
mod probe;
mod rejoin;
mod release;
mod request_id;
mod restart;
mod routers;
mod service;
mod session_any;
mod session_ends;
mod session_fields;
mod session_many;
mod session_restart;
mod sessions;
mod shutdown;
mod slow;
mod socket;
mod status;
mod store;
mod supervision;
mod top;
mod transfer;
mod versions;
mod waiters;
mod warming;
