//! A client: its connections, its servers and its clock.

use std::{ffi::OsString, fmt, sync::Arc};

use reqwest::header::HeaderValue;
use tokio::sync::watch;

use super::{
    background::Background, credentials::Credentials, http::Http, servers::Servers, stream::Streams,
};
use crate::clock::Clock;

/// A client of one server, or of several servers on one store. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    pub(super) http: Arc<Http>,
    pub(super) servers: Arc<Servers>,
    pub(super) credentials: Option<Credentials>,
    /// The environment variables with which programs reach the same servers in the same way.
    pub(super) environment: Arc<[(&'static str, OsString)]>,
    pub(super) clock: Arc<dyn Clock>,
    /// One stream to each server, for heartbeats.
    pub(super) streams: Arc<Streams>,
    /// What was last told of heartbeats that a server denied.
    pub(super) denials: watch::Sender<Option<Arc<str>>>,
    pub(super) background: Background,
    /// The header `traceparent` of calls.
    pub(super) traceparent: Option<HeaderValue>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Client {
    /// The same client, whose calls are parts of a trace: they have this header `traceparent` (W3C Trace Context), such
    /// as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`. Heartbeats do not have it: a lease may be kept for
    /// longer than any trace lasts. A text that is no header is left out.
    #[must_use]
    pub fn traced(&self, traceparent: &str) -> Self {
        Self { traceparent: HeaderValue::from_str(traceparent).ok(), ..self.clone() }
    }

    /// The connections for a call that begins now.
    pub(super) fn connections(&self) -> reqwest::Client {
        self.http.pool()
    }

    /// The clock by which guarantees are measured.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The URLs of the known servers, with commas between them, or the address of the Unix socket.
    #[must_use]
    pub fn servers(&self) -> String {
        self.servers.to_string()
    }

    /// The environment variables with which the program `tenure` reaches the same servers in the same way:
    /// `TENURE_SERVER`, and also `TENURE_CA`, `TENURE_TLS_CERT`, `TENURE_TLS_KEY` and `TENURE_PROXY` if they were set. The
    /// token is not among them: a program that calls a server needs one of its own.
    #[must_use]
    pub fn environment(&self) -> &[(&'static str, OsString)] {
        &self.environment
    }

    /// The arguments with which the program `tenure` calls with the same token, if it comes from a file.
    #[must_use]
    pub fn token_arguments(&self) -> Vec<OsString> {
        self.credentials.as_ref().map_or_else(Vec::new, Credentials::arguments)
    }

    /// A sentence for people, each time that a server begins to deny the heartbeats of a lease or session because it
    /// does not know the caller or does not allow it the call, and when it allows them again. What is denied stays held
    /// until its deadline.
    #[must_use]
    pub fn denials(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.denials.subscribe()
    }

    /// Resolves when everything is given back, or given up, that is given back in the background: leases and sessions
    /// whose guards were dropped, and what may have been granted to callers that gave up. A program that ends its
    /// runtime waits for this first, for as long as it wants to.
    pub async fn settled(&self) {
        self.background.settled().await;
    }

    pub(super) fn tell_denied(&self, what: &str, why: Option<&str>) {
        let sentence = match why {
            Some(why) => {
                tracing::warn!(what, why, "a heartbeat was denied");
                format!(
                    "the heartbeat of {what} was denied: {why}; it stays held until its deadline"
                )
            }
            None => {
                tracing::info!(what, "heartbeats are allowed again");
                format!("the heartbeats of {what} are allowed again")
            }
        };
        self.denials.send_replace(Some(sentence.into()));
    }
}
