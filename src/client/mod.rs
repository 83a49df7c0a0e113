//! What a worker needs: leases that know until when they are held, sessions, and the plain calls.
//!
//! [`Client::hold`] gives a [`Lease`], [`Client::open_session`] a [`Session`]; both are kept by a heartbeat
//! in the background. Beside them are the calls of the HTTP interface, one method each
//! ([`Client::acquire`], [`Client::heartbeat`]…), for whoever keeps leases by hand.
//!
//! Guarantees: [`Lease::valid`] is true only while the lease is held, by a clock that counts suspend, from
//! before the request was sent; once false, it is false for ever. [`Lease::lost`] tells the cause.
//! An acquire whose answer was lost is repeated under the same request id, at whatever server, and never
//! under another before it is settled: it is never granted twice. Of several servers the next is asked
//! when one does not answer, early enough for several tries before a guarantee ends; a lease's home is
//! asked first. What the server refuses comes back as its problem document.
//!
//! Does not guarantee: that a guard that was dropped is given back (that is tried in the background);
//! that a task stops when its lease is lost: it has to look, and what it writes to has to refuse lower
//! tokens. A plain call that failed after it was sent may have been carried out.
//!
//! Servers are asked by HTTP, or by HTTPS where their URLs say so ([`Client::builder`] takes an authority of
//! your own); once one of them is `https`, none that only an answer named is asked in plain text. No proxy of
//! the environment (`HTTP_PROXY`…) is used.
//!
//! Assumes: servers on one store that speak `/v1`; a tokio runtime with time and I/O that runs
//! its tasks; a clock that runs within 1 % of the server's. Fields that it does not know are kept, not
//! judged.
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

pub mod blocking;
mod builder;
mod call;
mod error;
mod events;
mod guarantee;
mod hold;
mod keep;
mod lease;
mod pool;
mod pools;
mod servers;
mod session;
mod session_state;
mod settle;
mod sse;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_keep;
#[cfg(test)]
mod tests_settle;
mod types;
mod wire;

use std::{ffi::OsString, fmt, sync::Arc};

pub use builder::ClientBuilder;
pub use error::{ClientError, Problem};
pub use events::{Event, EventFilter, EventStream, StreamItem};
pub use guarantee::{Deadline, Loss};
pub use hold::{Hold, Order};
pub use lease::Lease;
pub use pool::{Done, DrainHandle, Ended, Handover, Waiting, WorkerPool};
pub use pools::{Pool, PoolMember, Pools};
pub use session::{HealthCheck, Session, SessionOptions};
pub use types::{
    Acquire, AcquireAny, Alive, Check, Count, Forgot, Grant, Grants, Holdings, LeaseFilter,
    LeaseView, Leases, Node, Nodes, Notice, Opened, Owner, Released, SessionAlive, SessionView,
    Sessions,
};

use crate::clock::Clock;
use servers::Servers;

/// How much of an answer that is no JSON an error quotes, in characters.
const QUOTED: usize = 200;

/// A client of one server, or of several on one store. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    servers: Arc<Servers>,
    /// The variables by which programs reach the same servers in the same way.
    environment: Arc<[(&'static str, OsString)]>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at a URL such as `http://127.0.0.1:7373` or `https://tenure.example.com`, or of
    /// several, with commas between them. The operating system's authorities vouch for those of `https`.
    ///
    /// # Errors
    /// [`ClientError::Address`] when one of them is no such URL, [`ClientError::Tls`] when the system has no
    /// authorities and one is `https`.
    pub fn new(servers: &str) -> Result<Self, ClientError> {
        Self::builder(servers).build()
    }

    /// A client of these servers, with what [`Self::new`] leaves as it is.
    pub fn builder(servers: &str) -> ClientBuilder {
        ClientBuilder::new(servers)
    }

    /// The clock that guarantees are reckoned on.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The URLs of the servers that it knows, with commas between them.
    #[must_use]
    pub fn servers(&self) -> String {
        self.servers.to_string()
    }

    /// The variables of the environment by which `tenure`, as a program, reaches the same servers in the same
    /// way: `TENURE_SERVER`, and `TENURE_CA` and `TENURE_PROXY` where they were set.
    #[must_use]
    pub fn environment(&self) -> &[(&'static str, OsString)] {
        &self.environment
    }

    /// The stream of events that pass the filter, from the filter's cursor or from now on.
    #[must_use]
    pub fn events(&self, filter: EventFilter) -> EventStream {
        EventStream::new(self.clone(), filter)
    }
}

/// The beginning of a body, for an error message.
fn quote(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(QUOTED).collect()
}
