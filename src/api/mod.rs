//! The documents of the HTTP API, which coordinators and clients exchange.
//!
//! Each document is defined once, for the server and the client: bodies of requests, queries, answers, the kinds of
//! problems, and the bounds of fields. The OpenAPI document is generated from them. Its descriptions are the comments
//! of these types and fields.
//!
//! Guarantees: a body refuses unknown fields, with a message that names the field. An answer may have fields that the
//! reader does not know, so old clients work with new coordinators.
//!
//! Answers that a client passes on as a whole have a second form in [`reading`]: the coordinator writes every field,
//! while the client names the fields that it uses and keeps the others.

pub mod limits;
pub mod reading;

#[cfg(feature = "server")]
mod acquire;
#[cfg(feature = "server")]
mod acquire_any;
mod admin;
#[cfg(feature = "server")]
mod batch;
#[cfg(feature = "server")]
mod events;
mod health_check;
mod holding;
#[cfg(feature = "server")]
mod lease;
mod node;
mod notice;
mod order;
mod pool;
mod problem;
#[cfg(feature = "server")]
mod queries;
#[cfg(feature = "server")]
mod service;
mod session;
mod strict;
#[cfg(all(test, feature = "server"))]
mod tests;

#[cfg(feature = "server")]
pub use acquire::{AcquireBody, Grant};
#[cfg(feature = "server")]
pub use acquire_any::{AcquireAnyBody, AnyGrant, Count, Counts, Grants, GrantsOfOthers};
pub use admin::{
    DrainBody, Drained, FenceSkipBody, ForgetBody, Forgot, PinBody, RevokeBody, Revoked,
};
#[cfg(feature = "server")]
pub use batch::{BatchBody, BatchRefs, Item, LeaseRef, Verdict, Verdicts};
#[cfg(feature = "server")]
pub use events::EventsPage;
pub use health_check::HealthCheck;
pub use holding::{CheckBody, HeartbeatAnswer, HeartbeatBody, ReleaseBody, Released, TransferBody};
#[cfg(feature = "server")]
pub use lease::{Checked, GatedLease, Lease, LeaseAnswer, LeaseList};
pub use node::{Node, Nodes};
pub use notice::Notice;
pub use order::AnyOrder;
pub use pool::{Pool, PoolMember, Pools};
pub use problem::Code;
#[cfg(feature = "server")]
pub use queries::{EventsQuery, LeaseQuery, ListQuery, SessionsQuery};
#[cfg(feature = "server")]
pub use service::{Info, Live, Ready};
pub use session::{
    BeatBody, BehaviorName, ClosedSession, DrainingSession, Holdings, OpenedSession, Session,
    SessionBeat, SessionBody, SessionDrainBody, Sessions,
};
#[cfg(feature = "server")]
pub use strict::Object;
