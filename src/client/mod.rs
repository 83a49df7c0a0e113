//! The client library of a worker: leases that know how long they are held, sessions, and the plain HTTP calls.
//!
//! [`Client::hold`] returns a [`Lease`], and [`Client::open_session`] returns a [`Session`]. A heartbeat in the
//! background keeps both. Each call of the HTTP API also has its own method ([`Client::acquire`],
//! [`Client::heartbeat`]…), for programs that keep their leases themselves.
//!
//! Guarantees: [`Lease::valid`] is true only while the lease is held, counted from before the request was sent, on a
//! clock that counts suspend. Once it is false, it is false forever. [`Lease::lost`] tells the cause. An acquire whose
//! answer was lost is repeated under the same request id, at any of the servers, and never under another id before it
//! is settled. It is never granted twice. When one of several servers does not answer, the next one is asked, early
//! enough for several attempts before a guarantee ends. A lease's home node is asked first. The server's refusals are
//! returned as its problem documents.
//!
//! Does not guarantee: that a dropped guard releases its lease (this is tried in the background, and
//! [`Client::settled`] waits for it); that a task stops when its lease is lost. The task must check, and the resource
//! that it writes to must refuse lower tokens. A plain call that failed after it was sent may have been carried out.
//!
//! A token that proves who calls ([`ClientBuilder::token`], [`ClientBuilder::token_file`]) is sent over HTTPS, or to this
//! machine. A call that is refused because the server does not know the caller, or does not allow it the call, never
//! ends a lease: the guarantee stands until its deadline.
//!
//! The heartbeats of leases and sessions go over one stream to each server (docs/stream.md), where it offers one. By
//! it, a holder learns at once that its lease or its session is ending or must be handed over. Without it, and from the
//! moment at which it broke, they are plain calls.
//!
//! The client uses HTTP, or HTTPS for servers whose URLs say so. [`Client::builder`] accepts your own certificate
//! authority. If one of the servers is `https`, a server that is only known from an answer is never asked in plain
//! text. The client uses no proxy from the environment (`HTTP_PROXY`…).
//!
//! Assumes: all servers use one store and speak `/v1`; a tokio runtime with time and I/O runs the client's tasks; the
//! clock's rate is within 1 % of the server's. Fields that the client does not know are kept as they are.
//!
//! ```no_run
//! use std::time::Duration;
//! use tenure::client::{Client, Hold};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // One server, or several on one store.
//!     let client = Client::new("http://127.0.0.1:7373,http://127.0.0.1:7374")?;
//!     let hold = Hold::key("reports/daily").owner("w1").ttl(Duration::from_secs(15));
//!     let lease = client.hold(hold.wait(Duration::from_secs(60))).await?;
//!     let work = async {
//!         for page in 0..1000 {
//!             if !lease.valid() {
//!                 return None;
//!             }
//!             // … one page, with lease.token() in every write …
//!             tokio::time::sleep(Duration::from_millis(10)).await;
//!             println!("page {page} under token {}", lease.token());
//!         }
//!         Some("all pages")
//!     };
//!     tokio::select! {
//!         biased;
//!         loss = lease.lost() => println!("stopped: {loss}"),
//!         Some(done) = work => {
//!             lease.release_with(done).await?;
//!         }
//!     }
//!     Ok(())
//! }
//! ```

mod arguments;
mod ask;
mod background;
pub mod blocking;
mod builder;
mod call;
mod credentials;
mod error;
mod events;
mod guarantee;
mod handle;
mod hold;
mod http;
mod keep;
mod lease;
mod lease_state;
mod leave;
mod loads;
mod member_tasks;
mod overload;
mod pool;
mod pool_labels;
mod prepares;
mod readiness;
mod reason;
mod rests;
mod router;
mod servers;
mod session;
mod session_state;
mod settle;
mod sight;
mod sse;
mod stream;
mod tending;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_keep;
#[cfg(test)]
mod tests_session;
#[cfg(test)]
mod tests_settle;
mod warming;
mod wire;
mod wire_admin;
mod wire_session;

pub use arguments::{
    Acquire, AcquireAll, AcquireAny, Count, LeaseFilter, Owner, TopFilter, WantedKey,
};
pub use builder::ClientBuilder;
pub use error::ClientError;
pub use events::{Event, EventFilter, EventStream, PastEvents, StreamItem};
pub use guarantee::{Deadline, Loss};
pub use handle::Client;
pub use hold::Hold;
pub use lease::Lease;
pub use leave::DrainHandle;
pub use member_tasks::{Done, Ended, Handover, Waiting};
pub use pool::WorkerPool;
pub use pool_labels::LabelsHandle;
pub use prepares::Preparation;
pub use router::{Route, Router};
pub use session::{Session, SessionOptions};
pub(crate) use settle::Granted;

pub use crate::api::{
    AccessAction, AccessOrderBody, AnyOrder as Order, Assignment, Attention, CordonedOwner,
    Drained, Forgot, HealthCheck, Holdings, KeyCounts, Measured, Node, NodeCounts, NodeStatus,
    Nodes, OrderedBy, PastTenure, PausedKey, PlannedMove, Pool, PoolAction, PoolGuard, PoolMember,
    PoolOrderBody, PoolPlan, Pools, Released, RetriedFences, RevocationEntry, Revocations,
    RouteState, Series, SeriesPoint, Spans, Status, StoreStatus, Top, TopRow, UnplacedKey,
    UnplacedKeys, WarmingKey,
    reading::{
        Alive, Check, Grant, Grants, History, LeaseView, Leases, Notice, Opened, Problem,
        Readiness, SessionAlive, SessionView, Sessions,
    },
};
