//! Checks that keep a session alive.

use serde::{Deserialize, Serialize};

/// A check that the session's home carries out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = CheckSpec))]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum HealthCheck {
    /// A GET of the URL is to answer with a 2xx; a redirect is not followed. Only where `checks.allow` lets it connect.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// From the end of one round to the next; 100 to 3 600 000.
        interval_ms: u64,
        /// A round that takes longer has failed; 100 to 60 000.
        timeout_ms: u64,
        /// So many failed rounds in a row end the session; 1 to 1000.
        fail_after: u32,
    },
    /// The address is to accept a connection. Only where `checks.allow` lets it connect.
    Tcp {
        /// `host:port`.
        address: String,
        /// From the end of one round to the next.
        interval_ms: u64,
        /// A round that takes longer has failed.
        timeout_ms: u64,
        /// So many failed rounds in a row end the session.
        fail_after: u32,
    },
    /// The program is to exit with 0. Refused unless the settings allow it.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
        /// From the end of one round to the next.
        interval_ms: u64,
        /// A round that takes longer has failed: the program and all that it started are killed.
        timeout_ms: u64,
        /// So many failed rounds in a row end the session.
        fail_after: u32,
    },
    /// The `progress` of the heartbeats is to change within the interval.
    Progress {
        /// Within this.
        interval_ms: u64,
        /// So many intervals in a row without a change end the session.
        fail_after: u32,
    },
}
