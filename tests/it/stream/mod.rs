//! One stream per worker (`GET /v1/stream`), as workers meet it: a real process, real sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

mod answers;
mod bounds;
mod documents;
mod ends;
mod nodes;
mod notices;
pub mod rates;
pub mod rights;
mod watch;
