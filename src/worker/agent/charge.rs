//! What an agent guards, and with which scripts.

use crate::worker::guard::Settings;

/// What the agent guards: one service under one lease.
#[derive(Clone, Debug)]
pub struct Charge {
    /// The key of the service's lease.
    pub key: String,
    /// The name of this agent. Each agent has a different one.
    pub owner: String,
    pub settings: Settings,
    /// The scripts, as lines for `/bin/sh`.
    pub scripts: Scripts,
}

/// Lines for `/bin/sh -c`, with `active` or `standby` as `$1`.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// Checks the health: exit code 0 means healthy.
    pub healthcheck: String,
    pub activate: String,
    /// Deactivates the service. It must succeed if the service is already inactive.
    pub deactivate: String,
    /// Keeps the previous holder from doing harm.
    pub fence: Option<String>,
}
