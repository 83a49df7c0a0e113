//! Sends spans to a collector, by OTLP over HTTP.
//!
//! Guarantees: a collector that fails or hangs delays nothing but other spans. Each span that it does not take is
//! counted. The stop of a coordinator waits for at most [`FLUSH`].
//!
//! Does not guarantee: that a span is sent once. A request that got no answer is repeated.

use std::{mem, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::{
    Client,
    header::{CONTENT_TYPE, HeaderMap},
};
use rustls::ClientConfig;
use tokio::{
    sync::{mpsc::Receiver, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    finished::Finished,
    otlp::{self, Resource},
    tracer::Tracer,
};
use crate::{
    clock::{Clock, Entropy},
    lease::Moment,
    telemetry::{DroppedSpan, Metrics},
    tls,
};

/// The most spans of a request: some 300 KiB.
const BATCH: usize = 512;
/// How long a request waits for more spans.
const GATHER: Duration = Duration::from_millis(200);
/// How long the collector may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// How long the collector may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The pause before a request is repeated.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a stop waits for the last spans to be sent.
const FLUSH: Duration = Duration::from_secs(2);
/// The shortest time between two warnings.
const WARNING: Duration = Duration::from_secs(60);
/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Where spans go, and which.
pub struct ExportOptions {
    /// The URL to which spans are posted.
    pub url: String,
    /// Headers for the collector.
    pub headers: HeaderMap,
    /// How an `https` collector is verified.
    pub tls: ClientConfig,
    /// The name of the service.
    pub service: String,
    /// The name of the node.
    pub node: String,
    /// The share of calls without a parent that are traced.
    pub ratio: f64,
}

/// Sends the spans of a coordinator in the background.
pub struct Exporter {
    tracer: Arc<Tracer>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts it. Must be called inside a runtime.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn start(
        options: ExportOptions,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, reqwest::Error> {
        let ExportOptions { url, headers, tls, service, node, ratio } = options;
        let client = tls::http(tls).connect_timeout(CONNECT).timeout(ANSWER);
        // A redirect would send the headers to whatever server it names.
        let client = client.redirect(reqwest::redirect::Policy::none()).build()?;
        let (tracer, spans) = Tracer::new(ratio, clock.clone(), entropy, metrics.clone());
        let tracer = Arc::new(tracer);
        let sender = Sender {
            tracer: tracer.clone(),
            metrics,
            client,
            url,
            headers,
            resource: Resource { service, node },
            clock,
            warned: None,
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(sender.run(spans, stopped));
        Ok(Self { tracer, stop, task })
    }

    /// What decides which calls are traced.
    #[must_use]
    pub fn tracer(&self) -> Arc<Tracer> {
        self.tracer.clone()
    }

    /// Sends what is left, within a bound.
    pub async fn stop(self) {
        let Self { stop, mut task, .. } = self;
        let _ = stop.send(());
        if timeout(FLUSH, &mut task).await.is_err() {
            task.abort();
            tracing::warn!("the collector of traces did not take the last spans in time");
        }
    }
}

struct Sender {
    tracer: Arc<Tracer>,
    metrics: Arc<Metrics>,
    client: Client,
    url: String,
    headers: HeaderMap,
    resource: Resource,
    clock: Arc<dyn Clock>,
    warned: Option<Moment>,
}

/// Why a request failed, and whether it may be repeated.
struct Failure {
    why: String,
    again: bool,
}

impl Sender {
    async fn run(mut self, mut spans: Receiver<Finished>, mut stop: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                biased;
                _ = &mut stop => break,
                taken = spans.recv_many(&mut batch, BATCH) => if taken == 0 { return },
            }
            // The spans of one call end soon after each other.
            tokio::select! {
                biased;
                _ = &mut stop => break,
                () = sleep(GATHER) => {}
            }
            fill(&mut batch, &mut spans);
            self.send(&mut batch).await;
        }
        spans.close();
        fill(&mut batch, &mut spans);
        while !batch.is_empty() {
            self.send(&mut batch).await;
            fill(&mut batch, &mut spans);
        }
    }

    /// Sends spans. Counts those that the collector does not take.
    async fn send(&mut self, batch: &mut Vec<Finished>) {
        self.tracer.align();
        let count = batch.len() as u64;
        let body = Bytes::from(otlp::encode(&self.resource, &mem::take(batch)));
        let mut outcome = self.post(body.clone()).await;
        if outcome.as_ref().is_err_and(|failure| failure.again) {
            sleep(AGAIN).await;
            outcome = self.post(body).await;
        }
        let lost = match outcome {
            Ok(rejected) => rejected.min(count),
            Err(failure) => {
                self.warn(&failure.why);
                count
            }
        };
        if lost > 0 {
            self.metrics.spans_dropped(DroppedSpan::NotAccepted, lost);
        }
    }

    /// Sends a request. Returns how many of its spans the collector rejected.
    async fn post(&self, body: Bytes) -> Result<u64, Failure> {
        let request = self.client.post(&self.url).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let mut answer = request.send().await.map_err(|error| {
            let error = error.without_url();
            let why = tls::explain(&error, "telemetry.otlp_ca");
            Failure { why, again: tls::fault(&error).is_none() }
        })?;
        let status = answer.status();
        if !status.is_success() {
            let again = matches!(status.as_u16(), 429 | 502 | 503 | 504);
            return Err(Failure { why: format!("it answers {status}"), again });
        }
        let mut said = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await
            && said.len() + chunk.len() <= LONGEST_ANSWER
        {
            said.extend_from_slice(&chunk);
        }
        Ok(otlp::rejected(&said))
    }

    fn warn(&mut self, why: &str) {
        let now = self.clock.now();
        if self.warned.is_none_or(|last| now.since(last) >= WARNING) {
            self.warned = Some(now);
            tracing::warn!(url = &*self.url, why, "the collector of traces takes no spans");
        }
    }
}

/// Takes what waits, up to a whole batch.
fn fill(batch: &mut Vec<Finished>, spans: &mut Receiver<Finished>) {
    while batch.len() < BATCH
        && let Ok(span) = spans.try_recv()
    {
        batch.push(span);
    }
}
