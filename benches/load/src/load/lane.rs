//! The closed loop: each connection sends its next request when its last answer has come.
//!
//! Guarantees
//! - One task per connection on the calling thread; one clock reading per request.
//! - The whole run ends at its hard limit, whatever the server does.
//!
//! Assumes
//! - A current-thread tokio runtime: the tally's lock is then never contended.
//! - Work that looks at [`Lane::is_open`] wherever it may end: not while it holds a lease, so that
//!   none is left held behind a waiting queue.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::Tally;
use crate::endpoint::{Callable, Endpoint};
use crate::http::{Request, Target, json};
use crate::stopwatch::tick;

/// How long after a window's end the last answers may take: a parked acquire waits 10 s.
const LAST_ANSWERS: Duration = Duration::from_secs(20);
/// Pause before a broken connection is opened again.
const RECONNECT: Duration = Duration::from_millis(20);
/// Failures in a row after which a connection gives up.
const GIVE_UP_AFTER: u32 = 100;
/// A paced request that is later than this counts from its due time: a server that stalls must not
/// hide the requests that it kept from being sent.
const LATE: Duration = Duration::from_millis(2);

/// The time in which answers count: what comes before is warm-up.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Answers from here on are counted.
    opens: Instant,
    /// No request is begun after this; answers after it are not counted.
    closes: Instant,
}

/// One connection, and what it counts. Without another endpoint, the requests go by HTTP.
#[derive(Debug)]
pub struct Lane<E: Endpoint = Target> {
    endpoint: E,
    connection: Option<E::Connection>,
    window: Window,
    tally: Arc<Mutex<Tally>>,
    /// From when the latency of the next answer counts: the arrival of the last one, or a due time.
    from: Instant,
    /// When the last request counted from, and when its answer came.
    last: (Instant, Instant),
    failures: u32,
}

/// Runs `work` on each of `count` connections for `span` after `warm_up`, or until all are done; gives
/// what each of them brought back, in no order.
///
/// # Errors
/// When a connection cannot be opened, or the work is not done some time after the window's end.
pub async fn drive<E, T, F>(
    endpoint: &E,
    count: usize,
    span: (Duration, Duration),
    work: impl FnMut(usize, Lane<E>) -> F,
) -> Result<(Vec<T>, Tally)>
where
    E: Endpoint,
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let nothing = |_, _| std::future::ready(());
    let (brought, tally, ()) = drive_beside(endpoint, count, span, work, nothing).await?;
    Ok((brought, tally))
}

/// The same, and something else meanwhile: `beside` is told when the window opens and when it closes.
///
/// # Errors
/// As those of [`drive`].
pub async fn drive_beside<E, T, F, B>(
    endpoint: &E,
    count: usize,
    (warm_up, span): (Duration, Duration),
    mut work: impl FnMut(usize, Lane<E>) -> F,
    beside: impl FnOnce(Instant, Instant) -> B,
) -> Result<(Vec<T>, Tally, B::Output)>
where
    E: Endpoint,
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
    B: Future,
{
    // One after the other: all at once would overflow the server's queue, and each connection that is
    // dropped there is tried again after a whole second only.
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(endpoint.open().await?);
    }
    let opens = tick() + warm_up;
    let window = Window { opens, closes: opens + span };
    let tally = Arc::new(Mutex::new(Tally::new()));
    let mut running = JoinSet::new();
    for (index, connection) in connections.into_iter().enumerate() {
        let from = tick();
        running.spawn(work(
            index,
            Lane {
                endpoint: endpoint.clone(),
                connection: Some(connection),
                window,
                tally: Arc::clone(&tally),
                from,
                last: (from, from),
                failures: 0,
            },
        ));
    }
    let hard_limit: tokio::time::Instant = (window.closes + LAST_ANSWERS).into();
    let ending = async {
        let mut brought = Vec::with_capacity(count);
        while !running.is_empty() {
            match timeout_at(hard_limit, running.join_next()).await {
                Ok(ended) => brought.extend(ended.transpose()?),
                Err(_) => {
                    let faults = lock(&tally).faults.clone();
                    bail!(
                        "{} of {count} connections had no answer {} s after the end of the run ({} faults; {})",
                        running.len(),
                        LAST_ANSWERS.as_secs(),
                        faults.count,
                        faults.first.unwrap_or_else(|| "none described".to_owned()),
                    );
                }
            }
        }
        anyhow::Ok(brought)
    };
    let (brought, beside) = tokio::join!(ending, beside(window.opens, window.closes));
    let tally = lock(&tally).clone();
    Ok((brought?, tally, beside))
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    /// Posts `body` and reads the answer; `None`, and a fault, for any that is no success.
    pub async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Option<T> {
        self.send(self.endpoint.post(path, json(body))).await
    }

    /// Sends a request that was built beforehand, as [`Lane::post`] does.
    pub async fn send<T: DeserializeOwned>(&mut self, request: Result<Request>) -> Option<T> {
        let named = request.as_ref().map(|it| (it.method().clone(), it.uri().clone())).ok();
        let answer = self.exchange(request).await?;
        let told = answer.json();
        if told.is_none() {
            let (method, uri) = named.unwrap_or_default();
            let body = String::from_utf8_lossy(&answer.body);
            self.fault(&format!("{method} {uri}: {} {body}", answer.status));
        }
        told
    }
}

impl Callable for Lane {
    async fn make<T: DeserializeOwned>(
        &mut self,
        call: &str,
        body: &(impl Serialize + Sync),
    ) -> Option<T> {
        self.post(&format!("/v1/{call}"), body).await
    }
}

impl<E: Endpoint> Lane<E> {
    /// Whether another round of work may begin.
    pub fn is_open(&self) -> bool {
        self.from < self.window.closes && self.failures < GIVE_UP_AFTER
    }

    /// Waits until `due`, from which the next request counts; `false` when the window closes before.
    pub async fn pace(&mut self, due: Instant) -> bool {
        if due < self.window.closes {
            sleep_until(due.into()).await;
            let now = tick();
            self.from = if now - due > LATE { due } else { now };
        }
        due < self.window.closes && self.is_open()
    }

    /// Sends a request and gives its answer, whatever it says; `None`, and a fault, when none comes.
    pub async fn exchange(&mut self, request: Result<E::Request>) -> Option<E::Answer> {
        let sent = self.from;
        let answer = self.call(request).await;
        self.from = tick();
        self.last = (sent, self.from);
        match answer {
            Ok(answer) => {
                self.failures = 0;
                Some(answer)
            }
            Err(error) => {
                self.connection = None;
                self.failures += 1;
                self.fault(&format!("{error:#}"));
                sleep(RECONNECT).await;
                self.from = tick();
                None
            }
        }
    }

    async fn call(&mut self, request: Result<E::Request>) -> Result<E::Answer> {
        let connection = match &mut self.connection {
            Some(open) if E::is_open(open) => open,
            slot => slot.insert(self.endpoint.open().await?),
        };
        E::call(connection, request?).await
    }

    /// When the last request counted from, and when its answer came.
    pub fn last(&self) -> (Instant, Instant) {
        self.last
    }

    /// The last answer was as expected, and so many units of work were done by it.
    pub fn done(&self, units: u64) {
        let (from, arrived) = self.last;
        self.count(units, |tally| tally.latencies.record(arrived - from));
    }

    /// The same, where the latency is not of interest.
    pub fn untimed(&self, units: u64) {
        self.count(units, |_| ());
    }

    /// A cycle of several requests that began at `begun` is over with the last answer.
    pub fn cycled(&self, begun: Instant) {
        let arrived = self.last.1;
        if self.counts() {
            lock(&self.tally).cycles.record(arrived - begun);
        }
    }

    /// As [`Lane::done`] if `expected`, else a fault.
    pub fn judge(&self, expected: bool, units: u64, otherwise: &str) {
        if expected { self.done(units) } else { self.fault(otherwise) }
    }

    /// What should not have come, also outside the window.
    pub fn fault(&self, what: &str) {
        lock(&self.tally).faults.add(|| what.to_owned());
    }

    /// Whether the last answer came in the window.
    fn counts(&self) -> bool {
        let arrived = self.last.1;
        arrived >= self.window.opens && arrived <= self.window.closes
    }

    fn count(&self, units: u64, also: impl FnOnce(&mut Tally)) {
        if self.counts() {
            let mut tally = lock(&self.tally);
            tally.requests += 1;
            tally.units += units;
            also(&mut tally);
        }
    }
}
