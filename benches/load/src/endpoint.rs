//! Where requests go, and the connections that take them there: by HTTP, or in another form.

use std::fmt::Debug;
use std::future::Future;

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where requests go.
pub trait Endpoint: Clone + Debug + Send + Sync + 'static {
    /// A connection to it, which has one request in flight at a time.
    type Connection: Debug + Send + 'static;
    /// What is sent.
    type Request: Send + 'static;
    /// What comes back.
    type Answer: Send + 'static;

    /// Connects.
    fn open(&self) -> impl Future<Output = Result<Self::Connection>> + Send;

    /// Whether the connection takes another request.
    fn is_open(connection: &Self::Connection) -> bool;

    /// Sends one request and waits for its whole answer.
    fn call(
        connection: &mut Self::Connection,
        request: Self::Request,
    ) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// What makes calls to tenure by their names, in one form or the other.
pub trait Callable {
    /// Makes one call and reads its answer; `None`, and a fault, for any that is no success.
    fn make<T: DeserializeOwned>(
        &mut self,
        call: &str,
        body: &(impl Serialize + Sync),
    ) -> impl Future<Output = Option<T>> + Send;
}
