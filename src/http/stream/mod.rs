//! One stream per worker (`GET /v1/stream`, WebSocket): many calls in flight, answers by id, and notices at once.
//! docs/stream.md describes it for users.
//!
//! | file | does |
//! | --- | --- |
//! | `upgrade.rs` | admits a stream |
//! | `body.rs` | gives the server what a stream sends; ends one whose client does not read |
//! | `talk.rs` | one stream: reads, answers, tells |
//! | `beat.rs`, `beats.rs`, `calls.rs` | plain heartbeats, batches of them; all other calls, which the handlers of HTTP answer |
//! | `watch.rs`, `notices.rs` | ownership changes; notices as documents |
//! | `operations.rs` | the operations that a stream takes |
//! | `message.rs`, `frames.rs`, `front.rs` | messages and their envelopes; the frames that arrive; the beginning of a message |
//! | `controls.rs` | how many pings and pongs a client may send |
//! | `ending.rs` | why a stream ends |
//!
//! `http/streams.rs` has the bounds of all streams, and what is counted of them.

mod beat;
mod beats;
mod body;
mod calls;
mod controls;
mod ending;
mod frames;
mod front;
mod message;
mod notices;
mod operations;
mod talk;
mod upgrade;
mod watch;

pub use calls::{Inside, Serve};
pub use upgrade::upgrade;
