//! Handles to the series of the table, registered once.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::lease::{Change, ChangeKind, DEFAULT_POOL};

/// How an acquire was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// Granted.
    Granted,
    /// Somebody has it.
    Held,
    /// The request could not be served.
    Error,
}

/// How a heartbeat was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// Absorbed.
    Alive,
    /// Absorbed after the tenure had run out.
    Revived,
    /// The lease was lost.
    Lost,
    /// The request could not be served.
    Error,
}

/// Handles to every series that is counted on a hot path.
pub struct Metrics {
    acquisitions: [Counter; 3],
    heartbeats: [Counter; 4],
    ended: Vec<Counter>,
    transfers: Counter,
    /// Leases that are held now.
    pub held: Gauge,
    /// Callers that wait.
    pub waiters: Gauge,
    acquire_seconds: Histogram,
    hold_seconds: Histogram,
    vacancy_seconds: Histogram,
    lateness_seconds: Histogram,
    margin: Histogram,
    /// Lease actors in memory.
    pub lease_actors: Gauge,
    /// Plugin actors in memory.
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
    store_keys: Gauge,
    store_live_bytes: Gauge,
    store_log_bytes: Gauge,
    store_ready: Gauge,
    /// Writes of leases' records sent to the store.
    pub lease_writes: Counter,
    /// Writes of nodes' records sent to the store.
    pub node_writes: Counter,
    /// Other writes sent to the store: its log of changes, its own record.
    pub other_writes: Counter,
    write_units: Counter,
    read_units: Counter,
    /// Requests that the store throttled.
    pub throttled: Counter,
    /// Gaps of the store's feed.
    pub feed_gaps: Counter,
    store_frozen: Gauge,
    nodes: [Gauge; 3],
    renewals: [Counter; 2],
    /// This node's record ran out.
    pub lapses_expired: Counter,
    /// This node's record was found dead by others.
    pub lapses_buried: Counter,
    /// Leases adopted from dead nodes.
    pub adoptions: Counter,
    forwarded: [Counter; 2],
    /// Events published on the bus.
    pub published: Counter,
    /// Subscribers of the event stream.
    pub subscribers: Gauge,
    /// Subscribers cut off.
    pub subscribers_dropped: Counter,
    /// Clock jumps.
    pub clock_jumps: Counter,
    /// Ownership lines left out.
    pub lines_suppressed: Counter,
}

/// The reasons of [`Metrics::ended`], in the order of their counters.
const ENDS: [ChangeKind; 5] = [
    ChangeKind::Released,
    ChangeKind::Expired,
    ChangeKind::Revoked,
    ChangeKind::Reclaimed,
    ChangeKind::Transferred,
];

impl Metrics {
    /// Registers every known series with the installed recorder, at 0.
    #[must_use]
    pub fn register(store: &'static str) -> Self {
        let acquisition = |outcome| counter!("tenure_lease_acquisitions_total", "pool" => DEFAULT_POOL, "outcome" => outcome);
        let heartbeat = |outcome| counter!("tenure_lease_heartbeats_total", "pool" => DEFAULT_POOL, "outcome" => outcome);
        let request = |op, outcome| histogram!("tenure_store_request_duration_seconds", "store" => store, "op" => op, "outcome" => outcome);
        let restart =
            |reason| counter!("tenure_actor_restarts_total", "kind" => "lease", "reason" => reason);
        gauge!("tenure_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        Self {
            acquisitions: [acquisition("granted"), acquisition("held"), acquisition("error")],
            heartbeats: [heartbeat("alive"), heartbeat("revived"), heartbeat("lost"), heartbeat("error")],
            ended: ENDS
                .iter()
                .map(|kind| {
                    counter!("tenure_lease_ended_total", "pool" => DEFAULT_POOL, "reason" => kind.as_str())
                })
                .collect(),
            transfers: counter!("tenure_lease_transfers_total", "pool" => DEFAULT_POOL),
            held: gauge!("tenure_leases_held", "pool" => DEFAULT_POOL),
            waiters: gauge!("tenure_lease_waiters", "pool" => DEFAULT_POOL),
            acquire_seconds: histogram!("tenure_lease_acquire_duration_seconds", "pool" => DEFAULT_POOL),
            hold_seconds: histogram!("tenure_lease_hold_duration_seconds", "pool" => DEFAULT_POOL),
            vacancy_seconds: histogram!("tenure_lease_vacancy_duration_seconds", "pool" => DEFAULT_POOL),
            lateness_seconds: histogram!("tenure_lease_expiry_lateness_seconds"),
            margin: histogram!("tenure_heartbeat_margin_ratio", "pool" => DEFAULT_POOL),
            lease_actors: gauge!("tenure_actors", "kind" => "lease"),
            plugin_actors: gauge!("tenure_actors", "kind" => "plugin"),
            restarts_panic: restart("panic"),
            restarts_stop: restart("stop"),
            restart_seconds: histogram!("tenure_actor_restart_duration_seconds", "kind" => "lease"),
            plugin_restarts: ["panic", "stop"].map(|reason| {
                counter!("tenure_actor_restarts_total", "kind" => "plugin", "reason" => reason)
            }),
            plugin_restart_seconds: histogram!("tenure_actor_restart_duration_seconds", "kind" => "plugin"),
            store_cas: [
                request("compare_and_set", "committed"),
                request("compare_and_set", "conflict"),
                request("compare_and_set", "error"),
            ],
            store_read: [request("read", "ok"), request("read", "error")],
            sync_seconds: histogram!("tenure_store_sync_duration_seconds", "store" => store),
            synced_writes: counter!("tenure_store_synced_writes_total", "store" => store),
            store_keys: gauge!("tenure_store_keys", "store" => store),
            store_live_bytes: gauge!("tenure_store_live_bytes", "store" => store),
            store_log_bytes: gauge!("tenure_store_log_bytes", "store" => store),
            store_ready: gauge!("tenure_store_ready", "store" => store),
            lease_writes: counter!("tenure_store_writes_total", "store" => store, "op" => "lease"),
            node_writes: counter!("tenure_store_writes_total", "store" => store, "op" => "node"),
            other_writes: counter!("tenure_store_writes_total", "store" => store, "op" => "other"),
            write_units: counter!("tenure_store_units_total", "store" => store, "op" => "write"),
            read_units: counter!("tenure_store_units_total", "store" => store, "op" => "read"),
            throttled: counter!("tenure_store_throttled_total", "store" => store),
            feed_gaps: counter!("tenure_store_feed_gaps_total", "store" => store),
            store_frozen: gauge!("tenure_store_frozen", "store" => store),
            nodes: ["alive", "drained", "dead"].map(|kind| gauge!("tenure_nodes", "kind" => kind)),
            renewals: ["committed", "error"]
                .map(|outcome| counter!("tenure_node_renewals_total", "outcome" => outcome)),
            lapses_expired: counter!("tenure_node_lapses_total", "reason" => "expired"),
            lapses_buried: counter!("tenure_node_lapses_total", "reason" => "found-dead"),
            adoptions: counter!("tenure_lease_adoptions_total", "pool" => DEFAULT_POOL),
            forwarded: ["answered", "unreachable"]
                .map(|outcome| counter!("tenure_forwarded_requests_total", "outcome" => outcome)),
            published: counter!("tenure_events_published_total"),
            subscribers: gauge!("tenure_event_subscribers"),
            subscribers_dropped: counter!("tenure_event_subscribers_dropped_total"),
            clock_jumps: counter!("tenure_clock_jumps_total"),
            lines_suppressed: counter!("tenure_log_lines_suppressed_total"),
        }
    }

    /// An acquire was answered.
    pub fn acquired(&self, outcome: AcquireOutcome, took: Duration) {
        self.acquisitions[outcome as usize].increment(1);
        if outcome == AcquireOutcome::Granted {
            self.acquire_seconds.record(took);
        }
    }

    /// A heartbeat was answered.
    pub fn heartbeat(&self, outcome: HeartbeatOutcome) {
        self.heartbeats[outcome as usize].increment(1);
    }

    /// A heartbeat arrived with this share of the ttl left.
    pub fn margin(&self, ratio: f64) {
        self.margin.record(ratio);
    }

    /// A change that this node wrote became public.
    pub fn changed(&self, change: &Change) {
        let kind = change.kind;
        if let Some(at) = ENDS.iter().position(|end| *end == kind)
            && change.previous.is_some()
        {
            // Without one an offer was withdrawn, and no tenure ended.
            self.ended[at].increment(1);
        }
        if kind == ChangeKind::Transferred {
            self.transfers.increment(1);
        }
    }

    /// A tenure lasted this long.
    pub fn held_for(&self, span: Duration) {
        self.hold_seconds.record(span);
    }

    /// A key was free for this long.
    pub fn vacant_for(&self, span: Duration) {
        self.vacancy_seconds.record(span);
    }

    /// A tenure ended this long after it was due.
    pub fn ended_late(&self, span: Duration) {
        self.lateness_seconds.record(span);
    }

    /// A lease actor died and another took its place.
    pub fn restarted(&self, panicked: bool, took: Duration) {
        if panicked { &self.restarts_panic } else { &self.restarts_stop }.increment(1);
        self.restart_seconds.record(took);
    }

    /// A plugin actor died and another took its place.
    pub fn plugin_restarted(&self, panicked: bool, took: Duration) {
        self.plugin_restarts[usize::from(!panicked)].increment(1);
        self.plugin_restart_seconds.record(took);
    }

    /// A compare-and-set was settled: 0 committed, 1 conflict, 2 anything else.
    pub fn store_cas(&self, outcome: usize, took: Duration) {
        self.store_cas[outcome].record(took);
    }

    /// A record was read.
    pub fn store_read(&self, ok: bool, took: Duration) {
        self.store_read[usize::from(!ok)].record(took);
    }

    /// A group of writes was made durable.
    pub fn synced(&self, writes: usize, took: Duration) {
        self.sync_seconds.record(took);
        self.synced_writes.increment(writes as u64);
    }

    /// The store charged so much for a request: write and read units of DynamoDB, in thousandths.
    pub fn units(&self, write_milli: u64, read_milli: u64) {
        // Counters are whole: units are charged in halves at the least.
        self.write_units.increment(write_milli / 1000);
        self.read_units.increment(read_milli.div_ceil(1000));
    }

    /// Whether grants are frozen.
    pub fn frozen(&self, frozen: bool) {
        self.store_frozen.set(if frozen { 1.0 } else { 0.0 });
    }

    /// How many nodes are alive, drained, dead.
    pub fn nodes(&self, by_state: [u32; 3]) {
        for (gauge, count) in self.nodes.iter().zip(by_state) {
            gauge.set(f64::from(count));
        }
    }

    /// This node's record was renewed, or not.
    pub fn renewed(&self, committed: bool) {
        self.renewals[usize::from(!committed)].increment(1);
    }

    /// A request was passed on, and answered or not.
    pub fn forwarded(&self, answered: bool) {
        self.forwarded[usize::from(!answered)].increment(1);
    }

    /// What the store says of itself, set at every scrape.
    pub fn store_state(&self, keys: u64, live_bytes: u64, log_bytes: u64, ready: bool) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        let float = |number: u64| number as f64;
        self.store_keys.set(float(keys));
        self.store_live_bytes.set(float(live_bytes));
        self.store_log_bytes.set(float(log_bytes));
        self.store_ready.set(if ready { 1.0 } else { 0.0 });
    }
}
