//! A heartbeat, and its answer, as a stream has them.

use serde_json::Value;
use tokio::sync::oneshot;

/// A heartbeat as a stream takes it.
#[derive(Clone, Debug)]
pub(in crate::client) struct Beat {
    /// The `operationId`.
    pub(in crate::client) op: &'static str,
    pub(in crate::client) params: Option<Value>,
    pub(in crate::client) body: Option<Value>,
}

/// A heartbeat that is to be sent.
pub(super) struct Request {
    pub(super) op: &'static str,
    pub(super) params: Option<Value>,
    pub(super) body: Option<Value>,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// The answer to a heartbeat.
#[derive(Debug)]
pub(in crate::client) struct Answer {
    pub(in crate::client) status: u16,
    pub(in crate::client) body: Vec<u8>,
}
