//! The HTTP API: wire types, one file per resource, and ONE module that turns errors into answers.
//!
//! Guarantees: a success is answered only after what it reports is durable. Bad input is answered with a 4xx that
//! names the field, never with a 5xx. A caller that hung up is never granted anything.
//!
//! Does not guarantee: that a call without an answer had no effect. The caller must repeat it with a `request_id`.
//!
//! Assumes: each worker runs on its own arbiter, which also runs lease actors.

mod addresses;
mod admin;
mod any;
mod batch;
mod body;
mod bounds;
mod budget;
mod cloud_event;
mod door;
mod event_filter;
mod events;
mod follow;
mod forward;
#[cfg(feature = "testing")]
#[path = "../../tests/doors/readers/http.rs"]
pub(crate) mod fuzzing;
mod gate;
mod heartbeats;
mod leases;
mod line;
mod openapi;
mod pages;
mod places;
mod pools;
mod problem;
mod query;
mod queue;
mod releases;
mod replay;
mod seal;
mod server;
mod service;
mod sessions;
mod swagger;
#[cfg(feature = "testing")]
#[path = "../../tests/doors/calls.rs"]
mod testing;
mod wire;
mod words;

pub use budget::Budget;
pub use door::{Door, Names};
pub use forward::Forwarder;
pub use openapi::document;
pub use places::RESERVED;
pub use replay::Replays;
pub use seal::Seal;
pub use server::{App, CONNECTION_LINES, Server, ServerOptions, Source};
