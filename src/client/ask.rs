//! What a caller asks for when it acquires: a request that is repeated until it is settled.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ClientError, call::Call};
use crate::api::Code;

/// The pause after a refusal that the end of a tenure may change.
const AGAIN: Duration = Duration::from_millis(50);
/// The pause before a lease is tried again that an earlier process of the same owner holds.
const OWN_TENURE: Duration = Duration::from_secs(1);

/// The path of a call for every key of a list.
pub(super) const ALL: &str = "acquire-all";

/// A request without its wait.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) path: &'static str,
    /// With a `request_id` if the caller chose it. Otherwise the client gives each request a new id.
    pub(super) body: Value,
    /// Whether a caller that waits also waits for the end of its own owner's earlier tenure.
    pub(super) outwaits_its_own: bool,
}

impl Ask {
    pub(super) fn call(&self, wait: Duration) -> Call {
        let mut body = self.body.clone();
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        if wait_ms > 0 {
            body["wait_ms"] = json!(wait_ms);
        }
        Call::post(self.path, body)
    }

    /// How long a caller that waits pauses after this refusal, if it goes on.
    pub(super) fn pause_after(&self, error: &ClientError) -> Option<Duration> {
        use Code::{Cooling, Fencing, Held, HeldByYou, NoneAvailable, RequestIdSpent};
        match error.code()? {
            Held | NoneAvailable | Cooling | Fencing => Some(AGAIN),
            HeldByYou if self.outwaits_its_own => Some(OWN_TENURE),
            // An id that the caller chose is spent for the caller.
            RequestIdSpent if self.body.get("request_id").is_none() => Some(AGAIN),
            _ => None,
        }
    }
}
