//! Checks that keep a session alive.

use serde::{Deserialize, Serialize};

/// A check of a session's health, which the session's home node performs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = CheckSpec))]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum HealthCheck {
    /// Requests the URL with GET. A response with a 2xx status passes; redirects are not followed. `checks.allow` must
    /// permit the connection.
    Http {
        /// An `http://` or `https://` URL, at most 2048 bytes.
        url: String,
        /// Milliseconds from the end of one round to the start of the next; 100 to 3 600 000.
        interval_ms: u64,
        /// Milliseconds after which a round fails; 100 to 60 000.
        timeout_ms: u64,
        /// The number of failed rounds in a row that ends the session; 1 to 1000.
        fail_after: u32,
    },
    /// Connects to the address. A connection that is accepted passes. `checks.allow` must permit it.
    Tcp {
        /// `host:port`, at most 256 bytes.
        address: String,
        /// Milliseconds from the end of one round to the start of the next; 100 to 3 600 000.
        interval_ms: u64,
        /// Milliseconds after which a round fails; 100 to 60 000.
        timeout_ms: u64,
        /// The number of failed rounds in a row that ends the session; 1 to 1000.
        fail_after: u32,
    },
    /// Runs a program. Exit code 0 passes. Refused unless `limits.exec_checks` is on.
    Exec {
        /// The program and its arguments, at most 4096 bytes together.
        command: Vec<String>,
        /// Milliseconds from the end of one round to the start of the next; 100 to 3 600 000.
        interval_ms: u64,
        /// Milliseconds after which a round fails, and the program and all that it started are killed; 100 to 60 000.
        timeout_ms: u64,
        /// The number of failed rounds in a row that ends the session; 1 to 1000.
        fail_after: u32,
    },
    /// Requires that the `progress` in the session's heartbeats changes in each interval.
    Progress {
        /// The length of an interval in milliseconds; 100 to 3 600 000.
        interval_ms: u64,
        /// The number of intervals in a row without a change that ends the session; 1 to 1000.
        fail_after: u32,
    },
}
