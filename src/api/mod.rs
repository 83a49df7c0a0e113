//! The documents of the HTTP API, which coordinators and clients exchange.
//!
//! Here are the documents as the coordinator has them: bodies of requests, queries, answers, the kinds of problems, and
//! the bounds of fields. The OpenAPI document is generated from them. Its descriptions are the comments of these types
//! and fields. The problem document itself is in `http/answer/problem.rs`, because it becomes an HTTP response.
//!
//! Guarantees: a body refuses unknown fields, with a message that names the field. An answer may have fields that the
//! reader does not know, so old clients work with new coordinators.
//!
//! The client uses some of these types itself, such as [`HeartbeatBody`] and [`Released`]. For others it has a form of
//! its own:
//!
//! - [`reading`] has the answers on leases and sessions, and the problem document. The coordinator writes every field;
//!   the client names the fields that it uses, and keeps the others of those that it passes on.
//! - `client/arguments.rs` has the bodies of an acquire and an acquire-any. They leave out what the caller did not set.
//!   `client/tests.rs` checks that a coordinator reads them.

pub mod limits;
pub mod reading;

#[cfg(feature = "server")]
mod acquire;
#[cfg(feature = "server")]
mod acquire_all;
#[cfg(feature = "server")]
mod acquire_any;
mod admin;
mod assignment;
#[cfg(feature = "server")]
mod batch;
#[cfg(feature = "server")]
mod events;
mod health_check;
mod history;
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
mod status;
#[cfg(feature = "server")]
mod stream;
mod strict;
#[cfg(all(test, feature = "server"))]
mod tests;
mod top;

#[cfg(feature = "server")]
pub use acquire::{AcquireBody, Grant};
#[cfg(feature = "server")]
pub use acquire_all::{AcquireAllBody, Mode, WantedKey};
#[cfg(feature = "server")]
pub use acquire_any::{AcquireAnyBody, AnyGrant, Count, Counts, Grants, GrantsOfOthers};
pub use admin::{
    AccessAction, AccessOrderBody, DrainBody, Drained, FenceRetryBody, FenceSkipBody, ForgetBody,
    Forgot, PinBody, PoolAction, PoolOrderBody, RetriedFences, RevocationEntry, Revocations,
    RevokeBody, Revoked,
};
pub use assignment::{Assignment, Route, RouteState, RoutedMember};
#[cfg(feature = "server")]
pub use batch::{BatchBody, BatchRefs, Item, LeaseRef, Verdict, Verdicts};
#[cfg(feature = "server")]
pub use events::EventsPage;
pub use health_check::HealthCheck;
#[cfg(feature = "server")]
pub use history::LeaseHistory;
pub use history::PastTenure;
pub use holding::{CheckBody, HeartbeatAnswer, HeartbeatBody, ReleaseBody, Released, TransferBody};
#[cfg(feature = "server")]
pub use lease::{Checked, GatedLease, Lease, LeaseAnswer, LeaseList, Permits};
pub use node::{Node, Nodes};
pub use notice::Notice;
pub use order::AnyOrder;
pub use pool::{
    CordonedOwner, OrderedBy, PausedKey, PlannedMove, Pool, PoolGuard, PoolMember, PoolPlan, Pools,
    UnplacedKey, UnplacedKeys, WarmingKey,
};
pub use problem::Code;
#[cfg(feature = "server")]
pub use queries::{
    AssignmentQuery, EventsQuery, HistoryQuery, LeaseQuery, ListQuery, RoutesQuery, SeriesQuery,
    SessionsQuery, TopQuery,
};
#[cfg(feature = "server")]
pub use service::{Info, Live, Ready};
pub use session::{
    BeatBody, BehaviorName, ClosedSession, DrainingSession, Holdings, OpenedSession, Session,
    SessionBeat, SessionBody, SessionDrainBody, Sessions,
};
pub use status::{
    Attention, KeyCounts, Measured, NodeCounts, NodeStatus, Series, SeriesPoint, Spans, Status,
    StoreStatus,
};
#[cfg(feature = "server")]
pub use stream::{Hello, LeaseNotice, SessionNotice, StreamNotice};
#[cfg(feature = "server")]
pub use strict::Object;
pub use top::{Top, TopRow};
