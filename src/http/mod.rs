//! The HTTP door: wire types, one file per resource, and ONE place that turns errors into answers.
//!
//! Guarantees: an answer of success leaves after what it reports is durable; bad input is a 4xx that
//! names the field, never a 5xx; a caller that hung up is never granted anything.
//!
//! Does not guarantee: that a caller which got no answer had no effect: repeat with a `request_id`.
//!
//! Assumes: each worker runs on an arbiter of its own, on which lease actors live too.

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
