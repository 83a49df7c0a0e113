//! The streams of a client: at most one to each server, opened in the background.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::Url;
use tokio::sync::{mpsc, oneshot};

use super::{
    beat::{Answer, Beat, Request},
    nudges::{Nudges, Registered, name_of_lease, name_of_session},
    open::{Unopened, open},
    run::run,
};
use crate::{
    client::credentials::Credentials,
    clock::{Clock, Entropy as _, SystemEntropy},
    lease::Moment,
};

/// The most heartbeats that wait to be sent by one stream. Others go by plain calls.
const QUEUE: usize = 1024;
/// The shortest and the longest pause before a stream is opened again, with as much jitter on top.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];
/// The pause after a server said that it has no streams.
const LONG: Duration = Duration::from_secs(300);

/// The streams of a client.
#[derive(Default)]
pub(in crate::client) struct Streams {
    links: Mutex<HashMap<Url, Link>>,
    nudges: Arc<Nudges>,
}

/// What is known of the stream to one server.
enum Link {
    /// It is being opened.
    Opening,
    Open(mpsc::Sender<Request>),
    /// It is not open, and is not opened again before this moment, after so many failures in a row.
    Closed(Moment, u32),
}

/// How a server is reached.
pub(in crate::client) struct Way<'a> {
    pub(in crate::client) http: &'a reqwest::Client,
    pub(in crate::client) credentials: Option<&'a Credentials>,
    pub(in crate::client) clock: &'a Arc<dyn Clock>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl Streams {
    /// What wakes the heartbeat of this lease.
    pub(in crate::client) fn nudge_of_lease(&self, key: &str) -> Registered {
        self.nudges.register(name_of_lease(key))
    }

    /// What wakes the heartbeat of the session with this digest.
    pub(in crate::client) fn nudge_of_session(&self, digest: &str) -> Registered {
        self.nudges.register(name_of_session(digest))
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Url, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a heartbeat by the stream to a server; `None` if there is none, or it gave no answer in time: the heartbeat
    /// is then to be sent by a plain call. If there is none, one is opened in the background.
    pub(in crate::client) async fn beat(
        self: &Arc<Self>,
        way: &Way<'_>,
        server: &Url,
        beat: Beat,
        patience: Duration,
    ) -> Option<Answer> {
        let link = self.link(way, server)?;
        let (answer, answered) = oneshot::channel();
        let Beat { op, params, body } = beat;
        link.try_send(Request { op, params, body, answer }).ok()?;
        match tokio::time::timeout(patience, answered).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                // A stream that is silent may be broken. Whoever waits for an answer by it goes on by plain calls.
                let now = way.clock.now();
                let mut links = self.links();
                if let Some(Link::Open(open)) = links.get(server)
                    && open.same_channel(&link)
                {
                    links.insert(server.clone(), Link::Closed(now + pause(1), 1));
                }
                None
            }
        }
    }

    /// The stream to a server broke. Another one may be open by now.
    fn broke(&self, server: &Url, now: Moment) {
        let mut links = self.links();
        if matches!(links.get(server), Some(Link::Open(open)) if open.is_closed()) {
            links.insert(server.clone(), Link::Closed(now + pause(0), 0));
        }
    }

    /// The open stream to a server. If there is none, and it is time, one is opened in the background.
    fn link(self: &Arc<Self>, way: &Way<'_>, server: &Url) -> Option<mpsc::Sender<Request>> {
        let now = way.clock.now();
        let mut links = self.links();
        let failures = match links.get(server) {
            Some(Link::Open(open)) if !open.is_closed() => return Some(open.clone()),
            Some(Link::Opening) => return None,
            Some(Link::Closed(until, _)) if now < *until => return None,
            Some(Link::Closed(_, failures)) => *failures,
            // It broke, or its runtime is gone.
            Some(Link::Open(_)) | None => 0,
        };
        links.insert(server.clone(), Link::Opening);
        drop(links);
        let opening = Opening {
            // A task must not keep the streams of a client that is gone.
            streams: Arc::downgrade(self),
            server: server.clone(),
            failures,
            clock: way.clock.clone(),
        };
        let (http, credentials) = (way.http.clone(), way.credentials.cloned());
        let nudges = self.nudges.clone();
        tokio::spawn(async move {
            let opened = open(&http, credentials.as_ref(), &opening.server).await;
            drop(http);
            match opened {
                Ok(socket) => {
                    let (requests, receiver) = mpsc::channel(QUEUE);
                    let clock = opening.clock.clone();
                    let server = opening.server.clone();
                    let streams = opening.streams.clone();
                    opening.settle(Link::Open(requests));
                    tracing::debug!(%server, "a stream is open");
                    nudges.wake_all();
                    run(socket, receiver, &nudges).await;
                    if let Some(streams) = streams.upgrade() {
                        streams.broke(&server, clock.now());
                    }
                }
                Err(why) => opening.failed(&why),
            }
        });
        None
    }
}

/// A stream that is being opened. If its task ends, because its runtime does, the next heartbeat tries again.
struct Opening {
    streams: std::sync::Weak<Streams>,
    server: Url,
    failures: u32,
    clock: Arc<dyn Clock>,
}

impl Opening {
    fn settle(self, link: Link) {
        if let Some(streams) = self.streams.upgrade() {
            streams.links().insert(self.server.clone(), link);
        }
    }

    fn failed(self, why: &Unopened) {
        tracing::debug!(server = %self.server, ?why, "no stream: heartbeats go by plain calls");
        let failures = self.failures.saturating_add(1);
        let pause = match why {
            // It is older than streams, or something in between does not pass them.
            Unopened::Refused(status) if *status < 500 && *status != 429 => LONG,
            Unopened::Refused(_) | Unopened::Failed => pause(failures),
        };
        let until = self.clock.now() + pause;
        self.settle(Link::Closed(until, failures));
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(streams) = self.streams.upgrade() {
            let mut links = streams.links();
            if matches!(links.get(&self.server), Some(Link::Opening)) {
                links.remove(&self.server);
            }
        }
    }
}

/// The pause after so many failures in a row. Clients that lost a server together come back at different times.
fn pause(failures: u32) -> Duration {
    let [shortest, longest] = PAUSES;
    let span = shortest.saturating_mul(1 << failures.min(16)).min(longest);
    span + SystemEntropy::new().chance().jitter(span)
}
