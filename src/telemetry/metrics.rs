//! Handles to the series of the table without a pool label, which are registered once.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::files::Files;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    Granted,
    /// Refused: the lease is held.
    Held,
    /// The request could not be served.
    Error,
}

/// The outcome of a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasOutcome {
    Committed,
    /// The record had another revision than the write expected.
    Conflict,
    /// The store refused the write, or its outcome is unknown.
    Error,
}

impl CasOutcome {
    /// Each outcome, in the order of declaration.
    const ALL: [Self; 3] = [Self::Committed, Self::Conflict, Self::Error];

    /// The outcome as a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Conflict => "conflict",
            Self::Error => "error",
        }
    }
}

/// Why a span of a trace was not exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedSpan {
    /// Too many spans waited for their export.
    QueueFull,
    /// The collector did not take it.
    NotAccepted,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// Absorbed: the lease goes on.
    Alive,
    /// Absorbed after the tenure had run out.
    Revived,
    Lost,
    /// The request could not be served.
    Error,
}

/// How a TLS handshake with a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// With a new session.
    Done,
    /// With a session that the client resumed.
    Resumed,
    /// The two do not agree, or the client's certificate is not accepted.
    Failed,
    TimedOut,
    /// The place was needed, or the server stopped.
    Cut,
}

/// The class of a call that is shed when there is too much load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedClass {
    /// A new acquire.
    Acquire,
    /// The opening of a session.
    Session,
    List,
    /// A stream of events, or a long poll for them.
    Stream,
}

/// The limit that a call was refused for: one of a principal, or the rate of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Calls per second.
    Rate,
    /// Calls per second of an address whose callers have no principal.
    RatePerAddress,
    /// Leases that are held.
    Held,
    /// Sessions that live.
    Sessions,
    /// Places in queues.
    Waits,
    /// Event streams.
    Streams,
    Connections,
    /// New keys per hour.
    NewKeys,
    /// The share that one principal has of the places in queues.
    WaitingPlaces,
    /// Signatures of JWTs that are wrong, of an address.
    Forgeries,
}

impl LimitKind {
    /// Each kind, in the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::Rate,
        Self::RatePerAddress,
        Self::Held,
        Self::Sessions,
        Self::Waits,
        Self::Streams,
        Self::Connections,
        Self::NewKeys,
        Self::WaitingPlaces,
        Self::Forgeries,
    ];

    /// The name of the limit in the access file or in `[limits]`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::RatePerAddress => "rate_per_address",
            Self::Held => "held",
            Self::Sessions => "sessions",
            Self::Waits => "waits",
            Self::Streams => "streams",
            Self::Connections => "connections",
            Self::NewKeys => "new_keys",
            Self::WaitingPlaces => "waiting_places",
            Self::Forgeries => "forgeries",
        }
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client closed it.
    Closed,
    /// The connection broke.
    Gone,
    /// The coordinator stops.
    Draining,
    /// The client sent what no stream takes.
    Refused,
    /// There was no room for a message.
    NoRoom,
    /// The principal is no longer who it was.
    Removed,
    /// Nothing came from the client.
    Silent,
    /// A message did not come to its end.
    Slow,
    /// The client did not read.
    Stuck,
}

impl StreamEnd {
    /// Each kind, in the order of declaration.
    pub const ALL: [Self; 9] = [
        Self::Closed,
        Self::Gone,
        Self::Draining,
        Self::Refused,
        Self::NoRoom,
        Self::Removed,
        Self::Silent,
        Self::Slow,
        Self::Stuck,
    ];

    /// The name in the metric.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Gone => "gone",
            Self::Draining => "draining",
            Self::Refused => "refused",
            Self::NoRoom => "no-room",
            Self::Removed => "removed",
            Self::Silent => "silent",
            Self::Slow => "slow",
            Self::Stuck => "stuck",
        }
    }
}

/// Handles to every series without a pool label.
pub struct Metrics {
    lateness_seconds: Histogram,
    pub lease_actors: Gauge,
    pub plugin_actors: Gauge,
    restarts_panic: Counter,
    restarts_stop: Counter,
    restart_seconds: Histogram,
    plugin_restarts: [Counter; 2],
    plugin_restart_seconds: Histogram,
    store_cas: [Histogram; 3],
    store_read: [Histogram; 2],
    sync_seconds: Histogram,
    synced_writes: Counter,
    /// Writes that the store has not settled.
    pub writes_waiting: Gauge,
    store_keys: Gauge,
    store_live_bytes: Gauge,
    store_log_bytes: Gauge,
    store_ready: Gauge,
    /// Whether the log cannot be compacted.
    pub store_stuck: Gauge,
    /// Writes of leases' records sent to the store.
    pub lease_writes: Counter,
    /// Writes of nodes' records sent to the store.
    pub node_writes: Counter,
    /// Other writes sent to the store: its log of changes and its own record.
    pub other_writes: Counter,
    write_units: Counter,
    read_units: Counter,
    /// Requests that the store throttled.
    pub throttled: Counter,
    /// Gaps in the store's feed.
    pub feed_gaps: Counter,
    store_frozen: Gauge,
    store_epoch: Gauge,
    nodes: [Gauge; 3],
    renewals: [Counter; 2],
    /// This node's record ran out.
    pub lapses_expired: Counter,
    /// This node's record was marked dead by others.
    pub lapses_found_dead: Counter,
    forwarded: [Counter; 2],
    pub sessions_opened: Counter,
    checks: [[Counter; 2]; 4],
    /// Attempts of fences whose plugin this node does not have.
    pub fences_without_plugin: Counter,
    /// Events published on the bus.
    pub published: Counter,
    /// Places of waiting callers in queues.
    pub waiting_places: Gauge,
    /// Subscribers of the event stream.
    pub subscribers: Gauge,
    /// Subscribers that were cut off because they did not read.
    pub subscribers_dropped: Counter,
    /// Streams that are open.
    pub streams: Gauge,
    /// Calls that came by streams.
    pub stream_calls: Counter,
    /// Notices that streams sent.
    pub stream_notices: Counter,
    streams_ended: [Counter; 9],
    shed: [Counter; 4],
    limited: [Counter; 10],
    /// The longest lag of an HTTP worker thread, in seconds.
    pub http_lag: Gauge,
    /// 1 if whoever reaches the port from elsewhere may do everything.
    pub open_door: Gauge,
    handshakes: [Counter; 5],
    certificate_expires: Gauge,
    pub clock_jumps: Counter,
    /// Which files are in force.
    pub files: Files,
    /// Ownership log lines left out.
    pub lines_suppressed: Counter,
    spans_dropped: [Counter; 2],
}

/// The kinds of a session's checks.
const CHECKS: [&str; 4] = ["http", "tcp", "exec", "progress"];

impl Metrics {
    /// Records a round of a session's check.
    pub fn checked(&self, kind: &str, passed: bool) {
        if let Some(at) = CHECKS.iter().position(|known| *known == kind) {
            self.checks[at][usize::from(!passed)].increment(1);
        }
    }

    /// Registers every known series without a pool label with the installed recorder, with the value 0.
    #[must_use]
    pub fn register(store: &'static str) -> Self {
        let request = |op, outcome| histogram!("tenure_store_request_duration_seconds", "store" => store, "op" => op, "outcome" => outcome);
        let restart =
            |reason| counter!("tenure_actor_restarts_total", "kind" => "lease", "reason" => reason);
        gauge!("tenure_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        // The log layer counts it.
        let _ = counter!("tenure_http_connections_broken_total");
        // 0: there is no such certificate. The files that the settings name follow.
        gauge!("tenure_certificate_expires_seconds", "setting" => "node.ca").set(0.0);
        // The audit log counts it.
        let _ = counter!("tenure_audit_lost_total");
        let _ = counter!("tenure_audit_gaps_total");
        Self {
            lateness_seconds: histogram!("tenure_lease_expiry_lateness_seconds"),
            lease_actors: gauge!("tenure_actors", "kind" => "lease"),
            plugin_actors: gauge!("tenure_actors", "kind" => "plugin"),
            restarts_panic: restart("panic"),
            restarts_stop: restart("stop"),
            restart_seconds: histogram!("tenure_actor_restart_duration_seconds", "kind" => "lease"),
            plugin_restarts: ["panic", "stop"].map(|reason| {
                counter!("tenure_actor_restarts_total", "kind" => "plugin", "reason" => reason)
            }),
            plugin_restart_seconds: histogram!("tenure_actor_restart_duration_seconds", "kind" => "plugin"),
            store_cas: CasOutcome::ALL.map(|outcome| request("compare_and_set", outcome.as_str())),
            store_read: [request("read", "ok"), request("read", "error")],
            sync_seconds: histogram!("tenure_store_sync_duration_seconds", "store" => store),
            synced_writes: counter!("tenure_store_synced_writes_total", "store" => store),
            writes_waiting: gauge!("tenure_store_writes_waiting", "store" => store),
            store_keys: gauge!("tenure_store_keys", "store" => store),
            store_live_bytes: gauge!("tenure_store_live_bytes", "store" => store),
            store_log_bytes: gauge!("tenure_store_log_bytes", "store" => store),
            store_ready: gauge!("tenure_store_ready", "store" => store),
            store_stuck: gauge!("tenure_store_compaction_stuck", "store" => store),
            lease_writes: counter!("tenure_store_writes_total", "store" => store, "op" => "lease"),
            node_writes: counter!("tenure_store_writes_total", "store" => store, "op" => "node"),
            other_writes: counter!("tenure_store_writes_total", "store" => store, "op" => "other"),
            write_units: counter!("tenure_store_units_total", "store" => store, "op" => "write"),
            read_units: counter!("tenure_store_units_total", "store" => store, "op" => "read"),
            throttled: counter!("tenure_store_throttled_total", "store" => store),
            feed_gaps: counter!("tenure_store_feed_gaps_total", "store" => store),
            store_frozen: gauge!("tenure_store_frozen", "store" => store),
            store_epoch: gauge!("tenure_store_epoch", "store" => store),
            nodes: ["alive", "drained", "dead"].map(|kind| gauge!("tenure_nodes", "kind" => kind)),
            renewals: ["committed", "error"]
                .map(|outcome| counter!("tenure_node_renewals_total", "outcome" => outcome)),
            lapses_expired: counter!("tenure_node_lapses_total", "reason" => "expired"),
            lapses_found_dead: counter!("tenure_node_lapses_total", "reason" => "found-dead"),
            forwarded: ["answered", "unreachable"]
                .map(|outcome| counter!("tenure_forwarded_requests_total", "outcome" => outcome)),
            sessions_opened: counter!("tenure_sessions_opened_total"),
            checks: CHECKS.map(|kind| {
                ["passed", "failed"].map(|outcome| {
                    counter!("tenure_session_checks_total", "kind" => kind, "outcome" => outcome)
                })
            }),
            fences_without_plugin: counter!("tenure_fences_without_plugin_total"),
            published: counter!("tenure_events_published_total"),
            waiting_places: gauge!("tenure_waiting_places"),
            subscribers: gauge!("tenure_event_subscribers"),
            subscribers_dropped: counter!("tenure_event_subscribers_dropped_total"),
            streams: gauge!("tenure_streams"),
            stream_calls: counter!("tenure_stream_calls_total"),
            stream_notices: counter!("tenure_stream_notices_total"),
            streams_ended: StreamEnd::ALL
                .map(|end| counter!("tenure_streams_ended_total", "reason" => end.as_str())),
            shed: ["acquire", "session", "list", "stream"]
                .map(|class| counter!("tenure_shed_total", "class" => class)),
            limited: LimitKind::ALL
                .map(|limit| counter!("tenure_limited_total", "limit" => limit.as_str())),
            http_lag: gauge!("tenure_http_lag_seconds"),
            open_door: gauge!("tenure_open_door"),
            handshakes: ["done", "resumed", "failed", "timed-out", "cut-off"].map(
                |outcome| counter!("tenure_tls_handshakes_total", "outcome" => outcome),
            ),
            certificate_expires: gauge!("tenure_tls_certificate_expires_seconds"),
            clock_jumps: counter!("tenure_clock_jumps_total"),
            files: Files::register(),
            lines_suppressed: counter!("tenure_log_lines_suppressed_total"),
            spans_dropped: ["queue-full", "not-accepted"]
                .map(|reason| counter!("tenure_trace_spans_dropped_total", "reason" => reason)),
        }
    }

    /// Records that a tenure ended this long after it was due.
    pub fn ended_late(&self, span: Duration) {
        self.lateness_seconds.record(span);
    }

    /// Records the end of a stream.
    pub fn stream_ended(&self, end: StreamEnd) {
        self.streams_ended[end as usize].increment(1);
    }

    /// Records a call that was shed.
    pub fn shed(&self, class: ShedClass) {
        self.shed[class as usize].increment(1);
    }

    /// Records a call that was refused because its caller used what this limit allows.
    pub fn limited(&self, limit: LimitKind) {
        self.limited[limit as usize].increment(1);
    }

    /// Records spans that were not exported.
    pub fn spans_dropped(&self, why: DroppedSpan, spans: u64) {
        self.spans_dropped[why as usize].increment(spans);
    }

    /// Records the end of a TLS handshake with a client.
    pub fn handshake(&self, outcome: Handshake) {
        self.handshakes[outcome as usize].increment(1);
    }

    /// Sets when the server's certificate ends to be valid, in seconds since 1970.
    pub fn certificate_expires(&self, at: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        self.certificate_expires.set(at as f64);
    }

    /// Sets when the certificates that a setting names end to be valid, in seconds since 1970.
    pub fn named_certificate_expires(&self, setting: &str, at: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        gauge!("tenure_certificate_expires_seconds", "setting" => setting.to_owned())
            .set(at as f64);
    }

    /// Records that a lease actor died and was replaced.
    pub fn restarted(&self, panicked: bool, took: Duration) {
        if panicked { &self.restarts_panic } else { &self.restarts_stop }.increment(1);
        self.restart_seconds.record(took);
    }

    /// Records that a plugin actor died and was replaced.
    pub fn plugin_restarted(&self, panicked: bool, took: Duration) {
        self.plugin_restarts[usize::from(!panicked)].increment(1);
        self.plugin_restart_seconds.record(took);
    }

    pub fn store_cas(&self, outcome: CasOutcome, took: Duration) {
        self.store_cas[outcome as usize].record(took);
    }

    /// Records a read of a record.
    pub fn store_read(&self, ok: bool, took: Duration) {
        self.store_read[usize::from(!ok)].record(took);
    }

    /// Records that a group of writes became durable.
    pub fn synced(&self, writes: usize, took: Duration) {
        self.sync_seconds.record(took);
        self.synced_writes.increment(writes as u64);
    }

    /// Records what the store charged for a request: write and read units of DynamoDB, in thousandths.
    pub fn units(&self, write_milli: u64, read_milli: u64) {
        // Counters are whole numbers, and the smallest charge is half a unit.
        self.write_units.increment(write_milli / 1000);
        self.read_units.increment(read_milli.div_ceil(1000));
    }

    /// Sets whether grants are frozen.
    pub fn frozen(&self, frozen: bool) {
        self.store_frozen.set(if frozen { 1.0 } else { 0.0 });
    }

    /// Sets the store's epoch, at every scrape.
    pub fn epoch(&self, epoch: u16) {
        self.store_epoch.set(f64::from(epoch));
    }

    /// Sets how many nodes are alive, drained and dead.
    pub fn nodes(&self, by_state: [u32; 3]) {
        for (gauge, count) in self.nodes.iter().zip(by_state) {
            gauge.set(f64::from(count));
        }
    }

    /// Records an attempt to renew this node's record.
    pub fn renewed(&self, committed: bool) {
        self.renewals[usize::from(!committed)].increment(1);
    }

    /// Records a forwarded request, and whether it was answered.
    pub fn forwarded(&self, answered: bool) {
        self.forwarded[usize::from(!answered)].increment(1);
    }

    /// Sets the store's own figures, at every scrape.
    pub fn store_state(&self, keys: u64, live_bytes: u64, log_bytes: u64, ready: bool) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        let float = |number: u64| number as f64;
        self.store_keys.set(float(keys));
        self.store_live_bytes.set(float(live_bytes));
        self.store_log_bytes.set(float(log_bytes));
        self.store_ready.set(if ready { 1.0 } else { 0.0 });
    }
}
