//! The HTTP API: one file per resource, and ONE place that turns errors into answers.
//!
//! A request passes these rooms. Each uses only those that follow it here:
//!
//! | room | does |
//! | --- | --- |
//! | `server.rs` | accepts connections; its workers are also the arbiters of the lease actors |
//! | `routes.rs`, `openapi`, `pages` | say which handler serves which path; describe the API; pages for people |
//! | `handlers` | one file per resource: read, ask the manager, answer |
//! | `stream` | one stream per worker: many calls over one WebSocket, and notices at once |
//! | `events` | the stream of ownership changes |
//! | `forward` | forward a call to the lease's home node, and relay the answer |
//! | `status` | what needs a person, what happened lately, what changed most |
//! | `views` | show the coordinator's own values as documents, and its refusals as problems |
//! | `request` | read bodies, queries and fields |
//! | `app.rs`, `replays.rs`, `streams.rs`, `following.rs`, `about.rs` | what the handlers share |
//! | `door` | what a request passes before a handler: connections, TLS and places, names and origins, the shedding of load, the budget of bodies |
//! | `caller` | who sends a request, what it may do, and how much |
//! | `peer` | calls between nodes: headers, seal, client |
//! | `answer` | JSON and problem documents |
//!
//! [`crate::api`] has the documents.
//!
//! Guarantees: a success is answered only after what it reports is durable. Bad input is answered with a 4xx that
//! names the field, never with a 5xx. A caller that hung up is never granted anything.
//!
//! Does not guarantee: that a call without an answer had no effect. The caller must repeat it with a `request_id`.
//!
//! Assumes: each worker runs on its own arbiter, which also runs lease actors.

mod about;
mod answer;
mod app;
mod caller;
mod door;
mod events;
mod following;
mod forward;
#[cfg(feature = "testing")]
#[path = "../../tests/doors/readers/http.rs"]
pub(crate) mod fuzzing;
mod handlers;
mod openapi;
mod pages;
mod peer;
mod percent;
mod replays;
mod request;
mod routes;
mod server;
mod status;
mod stream;
mod streams;
#[cfg(feature = "testing")]
#[path = "../../tests/doors/calls.rs"]
mod testing;
mod views;

pub use app::{App, Source};
pub use caller::{Cookies, Gatekeeper, PeerCertificate, PeerUid};
pub use door::{Budget, Door, LongestLag, Names, RESERVED, Shedding, Tls};
pub use openapi::document;
pub use peer::{Forwarder, Nodes, Seal};
pub use replays::Replays;
pub use server::{CONNECTION_LINES, Listeners, Server, ServerOptions};
pub use streams::{StreamBounds, Streams};
