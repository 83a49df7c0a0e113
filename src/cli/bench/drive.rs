//! The closed loop: each connection sends its next request when its last answer has come.
//!
//! Guarantees
//! - One task per connection on the calling thread; one clock reading per request.
//! - A client ends at a boundary of its own (`may_stop`), so that no lease is left held behind a
//!   waiting queue.
//! - The whole run ends at its hard limit, whatever the server does.
//!
//! Assumes
//! - A current-thread tokio runtime: the tally's lock is then never contended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::tally::{Tally, Window};
use super::tick::tick;
use super::wire::{Answer, Connection, Target};

/// How long after a window's end the last answers may take: a parked acquire waits 10 s.
const LAST_ANSWERS: Duration = Duration::from_secs(20);
/// Pause before a broken connection is opened again.
const RECONNECT: Duration = Duration::from_millis(20);
/// Failures in a row after which a connection gives up.
const GIVE_UP_AFTER: u32 = 100;
/// A paced request that is later than this counts from its due time: a server that stalls must not
/// hide the requests that it kept from being sent.
const LATE: Duration = Duration::from_millis(2);

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As expected; so many units of work were done by it, and its latency counts.
    Done(u64),
    /// As expected, so many units, but its latency is not of interest.
    Untimed(u64),
    /// Not expected: the text names the request.
    Unexpected(&'static str),
}

/// What one connection does. Implementations are small state machines without any I/O.
pub trait Client: Send + 'static {
    /// Writes the next whole request into `out` (which it clears); `false` when all is done.
    fn request(&mut self, out: &mut Vec<u8>) -> bool;
    /// Judges the answer to it.
    fn answer(&mut self, answer: Answer<'_>) -> Verdict;
    /// The connection broke: the outcome of the last request is unknown.
    fn lost(&mut self) {}
    /// Whether this is a good place to end.
    fn may_stop(&self) -> bool {
        true
    }
    /// When the next request is due; `None` for at once.
    fn due(&self) -> Option<Instant> {
        None
    }
}

/// A finished run: the clients with what they remember, and the counters.
#[derive(Debug)]
pub struct Ran<C> {
    /// The clients, in no order.
    pub clients: Vec<C>,
    /// The counters over all of them.
    pub tally: Tally,
}

/// Runs each of `clients` on a connection of its own until `window` closes or all are done.
///
/// # Errors
/// When the clients are still not done some time after the window's end.
pub async fn drive<C: Client>(target: &Target, clients: Vec<C>, window: Window) -> Result<Ran<C>> {
    let connections = clients.iter().map(|_| None).collect();
    drive_on(target, connections, clients, window).await
}

/// Opens `count` connections, one after the other: all at once would overflow the server's queue,
/// and each connection that is dropped there is tried again after a whole second only.
pub async fn connect(target: &Target, count: usize) -> Result<Vec<Option<Connection>>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(Some(Connection::open(target).await?));
    }
    Ok(connections)
}

/// Runs each of `clients` on the connection beside it, as [`drive`] does.
pub async fn drive_on<C: Client>(
    target: &Target,
    connections: Vec<Option<Connection>>,
    clients: Vec<C>,
    window: Window,
) -> Result<Ran<C>> {
    let tally = Arc::new(Mutex::new(Tally::new()));
    let mut running = JoinSet::new();
    for (client, connection) in clients.into_iter().zip(connections) {
        let worker = Worker { target: target.clone(), client, window, tally: Arc::clone(&tally) };
        running.spawn(worker.run(connection));
    }
    let hard_limit: tokio::time::Instant = (window.closes + LAST_ANSWERS).into();
    let mut clients = Vec::new();
    loop {
        match timeout_at(hard_limit, running.join_next()).await {
            Ok(None) => break,
            Ok(Some(ended)) => clients.push(ended?),
            Err(_) => {
                let faults = tally.lock().unwrap_or_else(PoisonError::into_inner).faults.clone();
                bail!(
                    "{} of {} connections had no answer {} s after the end of the run ({} faults; {})",
                    running.len(),
                    running.len() + clients.len(),
                    LAST_ANSWERS.as_secs(),
                    faults.count,
                    faults.first.unwrap_or_else(|| "none described".to_owned()),
                );
            }
        }
    }
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Ran { clients, tally })
}

struct Worker<C> {
    target: Target,
    client: C,
    window: Window,
    tally: Arc<Mutex<Tally>>,
}

impl<C: Client> Worker<C> {
    async fn run(mut self, mut connection: Option<Connection>) -> C {
        let mut out = Vec::with_capacity(512);
        let mut failures = 0;
        let mut sent = tick();
        while !(sent >= self.window.closes && self.client.may_stop()) {
            if let Some(due) = self.client.due() {
                if due >= self.window.closes {
                    break;
                }
                sleep_until(due.into()).await;
                let now = tick();
                sent = if now - due > LATE { due } else { now };
            }
            if !self.client.request(&mut out) {
                break;
            }
            match self.exchange(&mut connection, &out, sent).await {
                Ok(arrived) => {
                    sent = arrived;
                    failures = 0;
                }
                Err(what) => {
                    self.note(|tally| tally.faults.add(|| what));
                    self.client.lost();
                    connection = None;
                    failures += 1;
                    if failures >= GIVE_UP_AFTER {
                        break;
                    }
                    sleep(RECONNECT).await;
                    sent = tick();
                }
            }
        }
        self.client
    }

    /// One request and its answer; gives the moment at which the answer was there.
    async fn exchange(
        &mut self,
        slot: &mut Option<Connection>,
        request: &[u8],
        sent: Instant,
    ) -> Result<Instant, String> {
        let connection = match slot {
            Some(open) if open.is_open() => open,
            _ => slot
                .insert(Connection::open(&self.target).await.map_err(|error| error.to_string())?),
        };
        let answer = connection.call(request).await.map_err(|error| error.to_string())?;
        let arrived = tick();
        let verdict = self.client.answer(answer);
        let counts = self.window.counts(arrived);
        self.note(|tally| match verdict {
            Verdict::Done(units) if counts => {
                tally.requests += 1;
                tally.units += units;
                tally.latencies.record(arrived - sent);
            }
            Verdict::Untimed(units) if counts => {
                tally.requests += 1;
                tally.units += units;
            }
            Verdict::Done(_) | Verdict::Untimed(_) => {}
            Verdict::Unexpected(what) => tally.faults.add_reply(what, answer.status, answer.body),
        });
        Ok(arrived)
    }

    fn note(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
