//! A client: its connections, its servers and its clock.

use std::{ffi::OsString, fmt, sync::Arc};

use super::servers::Servers;
use crate::clock::Clock;

/// A client of one server, or of several servers on one store. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(super) http: reqwest::Client,
    pub(super) servers: Arc<Servers>,
    /// The environment variables with which programs reach the same servers in the same way.
    pub(super) environment: Arc<[(&'static str, OsString)]>,
    pub(super) clock: Arc<dyn Clock>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Client {
    /// The clock by which guarantees are measured.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The URLs of the known servers, with commas between them.
    #[must_use]
    pub fn servers(&self) -> String {
        self.servers.to_string()
    }

    /// The environment variables with which the program `tenure` reaches the same servers in the same way:
    /// `TENURE_SERVER`, and also `TENURE_CA` and `TENURE_PROXY` if they were set.
    #[must_use]
    pub fn environment(&self) -> &[(&'static str, OsString)] {
        &self.environment
    }
}
