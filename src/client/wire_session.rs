//! The calls about sessions, one method each, for programs that keep their sessions themselves.

use reqwest::Method;
use serde_json::json;

use super::{Client, ClientError, Opened, SessionAlive, SessionOptions, Sessions, call::Call};
use crate::api::BeatBody;

impl Client {
    /// One page of sessions, in the order of their digests.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn sessions(
        &self,
        owner: Option<&str>,
        after: Option<&str>,
    ) -> Result<Sessions, ClientError> {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let pairs = [("owner", text(owner)), ("after", text(after))];
        self.call(&Call::get("sessions").query(pairs)).await
    }

    /// Ends a session, given its id, and all its leases.
    ///
    /// # Errors
    /// `session-lost`, or that the server cannot be reached.
    pub async fn destroy_session(&self, id: &str) -> Result<serde_json::Value, ClientError> {
        self.call(&Call::new(Method::DELETE, "sessions").segment(id)).await
    }

    /// Asks a session, given its id, to hand over all its leases.
    ///
    /// # Errors
    /// `session-lost`, or that the server cannot be reached.
    pub async fn drain_session(&self, id: &str) -> Result<serde_json::Value, ClientError> {
        self.call(&Call::new(Method::POST, "sessions").segment(id).segment("drain")).await
    }

    /// Opens a session that the caller keeps: nothing sends its heartbeats. [`Client::open_session`] keeps one.
    ///
    /// If the answer is lost, an unused session remains; it ends with its ttl.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn create_session(&self, options: &SessionOptions) -> Result<Opened, ClientError> {
        self.call(&Call::post("sessions", json!(options))).await
    }

    /// Sends one heartbeat of a session, given its id, with the progress of its work.
    ///
    /// # Errors
    /// `session-lost`, or that the server cannot be reached.
    pub async fn heartbeat_session(
        &self,
        id: &str,
        progress: Option<&str>,
    ) -> Result<SessionAlive, ClientError> {
        let body = BeatBody { progress: progress.map(str::to_owned), ..BeatBody::default() };
        self.call(&Call::post("sessions", json!(body)).segment(id).segment("heartbeat")).await
    }
}
