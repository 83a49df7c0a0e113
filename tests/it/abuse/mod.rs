//! Clients that misbehave by the thousand, and what the others notice of it.
//!
//! Shown for each kind of abuse, in rounds of a quiet and a busy span by turns, under the same load of
//! well-behaved clients: their 99th percentile at most doubles, memory stays within a stated bound for each
//! of the abusers, and when they are gone nothing of them is left. It is compared with before, and with what clients of
//! a twin see at the same time, whom nobody abuses: a machine that does other things does them to both. The
//! round in the middle counts.
//!
//! `make abuse` sets `ABUSE=full`, which has the sizes that are claimed: 5 000 idle connections, 2 000
//! slow ones, 1 000 stuck subscribers, 1 000 000 waiting attempts, 200 000 parked waiters. Without it, a
//! tenth or less.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

mod attempts;
mod embedded;
mod idle;
mod isolated;
mod line;
mod overload;
mod pages;
mod parked;
pub mod plans;
mod probe;
mod reconnects;
mod slow;
mod stuck;
mod unfinished;

/// A size: the full one, or a smaller one for every day.
fn size(full: usize, small: usize) -> usize {
    if is_full() { full } else { small }
}

fn is_full() -> bool {
    std::env::var_os("ABUSE").is_some_and(|how| how == "full")
}

/// Rounds of quiet and busy.
fn rounds() -> usize {
    size(4, 3)
}
