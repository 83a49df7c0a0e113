//! One stream per worker (`GET /v1/stream`), as workers meet it: a real process, real sockets.

mod answers;
mod bounds;
mod documents;
mod ends;
mod nodes;
mod notices;
mod rights;
mod watch;
