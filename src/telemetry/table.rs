//! The table of all metrics. The recorder, the tests and `docs/metrics.md` take them from here.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// A count of events, which only rises.
    Counter,
    /// A current value, which rises and falls.
    Gauge,
    /// A distribution of observations, in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The name. It ends with the unit, and a counter's with `_total`.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
}

/// 100 µs to 10 s: requests and writes.
const FAST: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];
/// 1 ms to 60 s: waits and vacancies.
const SLOW: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0];
/// 100 ms to 7 days: tenures.
const HOLD: &[f64] =
    &[0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0];
/// 1 ms to 10 s: delays.
const LATE: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// 10 ms to 60 s: attempts of fences, and notifications.
const FENCE: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];
/// Fractions of the ttl.
const RATIO: &[f64] = &[0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Series {
    Series { name, help, kind: MetricKind::Counter, labels }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Series {
    Series { name, help, kind: MetricKind::Gauge, labels }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    help: &'static str,
) -> Series {
    Series { name, help, kind: MetricKind::Histogram(buckets), labels }
}

/// Every metric of the coordinator, except `process_*`.
pub const TABLE: &[Series] = &[
    counter(
        "tenure_lease_acquisitions_total",
        &["pool", "outcome"],
        "Attempts to acquire a lease that were answered. Each key that an acquire-any tries counts as one attempt.",
    ),
    counter(
        "tenure_lease_heartbeats_total",
        &["pool", "outcome"],
        "Heartbeats that were answered. Each lease of a batch counts as one heartbeat.",
    ),
    counter(
        "tenure_lease_ended_total",
        &["pool", "reason"],
        "Tenures that ended, by the reason for their end.",
    ),
    counter(
        "tenure_lease_transfers_total",
        &["pool"],
        "Tenures that ended with a transfer to a successor.",
    ),
    counter(
        "tenure_handovers_total",
        &["pool", "outcome"],
        "Requests to hand over a lease, by outcome: the holder was asked, it complied, or the lease was revoked.",
    ),
    counter(
        "tenure_pool_warmups_total",
        &["pool", "outcome"],
        "Preparations of members for planned moves, by outcome: the member was prepared, its time was over, or the move was called off.",
    ),
    gauge(
        "tenure_leases_held",
        &["pool"],
        "Leases that are held now and whose home node is this node. Leases that a node which is gone left to a session count at the session's home node.",
    ),
    gauge("tenure_lease_waiters", &["pool"], "Callers that now wait in queues of the pool's keys."),
    gauge(
        "tenure_pool_members",
        &["pool"],
        "Live sessions that joined the pool, whatever their home node.",
    ),
    gauge(
        "tenure_pool_imbalance",
        &["pool"],
        "Leases that must move before every member of the pool has its share, or before loads are even.",
    ),
    gauge(
        "tenure_pool_load_peak",
        &["pool"],
        "Load of the most loaded member divided by the mean of the members; 0 if the pool is not balanced by load.",
    ),
    gauge(
        "tenure_pool_guarded",
        &["pool"],
        "1 while the guard against a mass failure stands: members get no more than their former shares.",
    ),
    gauge(
        "tenure_pool_unplaced",
        &["pool", "why"],
        "Keys of the pool that nobody holds and that have no member to go to. 0 if no session has joined the pool since the start.",
    ),
    gauge(
        "tenure_pool_vacant",
        &["pool"],
        "Keys of the pool that nobody holds, whatever the reason. 0 if no session has joined the pool since the start.",
    ),
    histogram(
        "tenure_lease_acquire_duration_seconds",
        &["pool"],
        SLOW,
        "Time from the arrival of an acquire to its grant, including the time in the queue.",
    ),
    histogram(
        "tenure_lease_hold_duration_seconds",
        &["pool"],
        HOLD,
        "Time from the grant of a tenure to its end.",
    ),
    histogram(
        "tenure_lease_vacancy_duration_seconds",
        &["pool"],
        SLOW,
        "Time from the end of a tenure to the next grant of the key.",
    ),
    histogram(
        "tenure_lease_expiry_lateness_seconds",
        &[],
        LATE,
        "Time from the moment when a tenure was due to end to its durable end.",
    ),
    histogram(
        "tenure_heartbeat_margin_ratio",
        &["pool"],
        RATIO,
        "Fraction of the ttl that was left when a heartbeat arrived.",
    ),
    gauge("tenure_actors", &["kind"], "Actors in memory, by kind."),
    counter(
        "tenure_actor_restarts_total",
        &["kind", "reason"],
        "Actors that died and were replaced by a successor.",
    ),
    histogram(
        "tenure_actor_restart_duration_seconds",
        &["kind"],
        FAST,
        "Time from the death of an actor to the start of its successor.",
    ),
    histogram(
        "tenure_store_request_duration_seconds",
        &["store", "op", "outcome"],
        FAST,
        "Time that a request to the store takes. A compare-and-set includes the wait until it is durable.",
    ),
    histogram(
        "tenure_store_sync_duration_seconds",
        &["store"],
        FAST,
        "Time that a sync of the store's log takes.",
    ),
    counter(
        "tenure_store_synced_writes_total",
        &["store"],
        "Writes that syncs of the log made durable. Divided by the syncs, this is the mean size of a group commit.",
    ),
    gauge(
        "tenure_store_writes_waiting",
        &["store"],
        "Writes of leases that the store has not settled yet. Limit: limits.shed_writes.",
    ),
    gauge("tenure_store_keys", &["store"], "Keys that have a record in the store."),
    gauge("tenure_store_live_bytes", &["store"], "Total size of the latest records of all keys."),
    gauge("tenure_store_log_bytes", &["store"], "Disk space that the store uses."),
    gauge("tenure_store_ready", &["store"], "1 while the store accepts writes, otherwise 0."),
    gauge(
        "tenure_store_compaction_stuck",
        &["store"],
        "1 while compaction cannot read a log segment, otherwise 0. Meanwhile the log grows until the disk is full.",
    ),
    counter(
        "tenure_store_writes_total",
        &["store", "op"],
        "Writes sent to the store, by content: records of leases, records of nodes, or the store's own records.",
    ),
    counter(
        "tenure_store_units_total",
        &["store", "op"],
        "Capacity units that DynamoDB reports as consumed by writes and reads. Other stores report none.",
    ),
    counter("tenure_store_throttled_total", &["store"], "Requests that the store throttled."),
    counter(
        "tenure_store_feed_gaps_total",
        &["store"],
        "Times that changes were lost between the store and this node. Event streams then sent a reset.",
    ),
    gauge(
        "tenure_store_frozen",
        &["store"],
        "1 while this node grants nothing because the store went backwards, otherwise 0.",
    ),
    gauge(
        "tenure_store_epoch",
        &["store"],
        "Epoch of the store: the upper part of every new token.",
    ),
    gauge("tenure_nodes", &["kind"], "Nodes that have a record in the store, by state."),
    counter(
        "tenure_node_renewals_total",
        &["outcome"],
        "Attempts to renew this node's own record.",
    ),
    counter(
        "tenure_node_lapses_total",
        &["reason"],
        "Periods in which this node could make no promise, because its record ran out or another node found it dead.",
    ),
    counter(
        "tenure_lease_adoptions_total",
        &["pool"],
        "Leases that this node adopted from a dead node. An adopted lease keeps its owner and token.",
    ),
    counter(
        "tenure_audit_lost_total",
        &[],
        "Lines of the audit log that could not be written. A later line says how many.",
    ),
    counter(
        "tenure_audit_gaps_total",
        &[],
        "Times at which lines of the audit log that were written were found to be gone or changed.",
    ),
    counter(
        "tenure_forwarded_requests_total",
        &["outcome"],
        "Requests that this node forwarded to the lease's home node.",
    ),
    counter("tenure_sessions_opened_total", &[], "Sessions that were opened at this node."),
    gauge("tenure_sessions", &["pool"], "Open sessions whose home node is this node."),
    counter(
        "tenure_session_checks_total",
        &["kind", "outcome"],
        "Rounds of the checks of sessions, by kind of check and outcome.",
    ),
    histogram(
        "tenure_fence_duration_seconds",
        &["plugin", "outcome"],
        FENCE,
        "Time that one attempt of a fence plugin takes, by outcome.",
    ),
    gauge(
        "tenure_fences_in_flight",
        &["plugin"],
        "Fence orders that a plugin has not answered yet, including those that wait for a free slot.",
    ),
    counter(
        "tenure_fences_failed_total",
        &["plugin"],
        "Fence orders that a plugin confirmed in no attempt. Their keys may be closed until an administrator acts.",
    ),
    counter(
        "tenure_fences_without_plugin_total",
        &[],
        "Attempts to run a fence whose plugin this node does not have. The fence and its key wait.",
    ),
    histogram(
        "tenure_notification_duration_seconds",
        &["plugin", "outcome"],
        FENCE,
        "Time that a call takes that notifies a plugin of an ownership change, by outcome.",
    ),
    gauge(
        "tenure_notification_lag_seconds",
        &["plugin"],
        "Age of the oldest ownership change that the plugin has not confirmed. 0 on nodes that do not notify it.",
    ),
    counter(
        "tenure_notification_resets_total",
        &["plugin"],
        "Resets sent to the plugin: it missed ownership changes, because the store no longer keeps them.",
    ),
    counter(
        "tenure_events_published_total",
        &[],
        "Ownership events that this node published on its bus.",
    ),
    gauge(
        "tenure_waiting_places",
        &[],
        "Places of waiting callers in queues, one per key that a caller waits for. Limit: limits.waiting_places.",
    ),
    gauge(
        "tenure_event_subscribers",
        &[],
        "Subscribers of the event stream that are connected now.",
    ),
    counter(
        "tenure_event_subscribers_dropped_total",
        &[],
        "Subscribers that were disconnected because they read too slowly.",
    ),
    gauge(
        "tenure_streams",
        &[],
        "Streams (GET /v1/stream) that are open now. Limit: limits.streams.",
    ),
    counter(
        "tenure_stream_calls_total",
        &[],
        "Calls that came by streams. The metrics of heartbeats, acquisitions and others count them too.",
    ),
    counter(
        "tenure_stream_notices_total",
        &[],
        "Notices that streams sent: a lease or a session is ending, or must be handed over.",
    ),
    counter("tenure_streams_ended_total", &["reason"], "Streams that ended, by the reason."),
    counter(
        "tenure_shed_total",
        &["class"],
        "Calls that were refused with `overloaded` because the node has too much to do, by the class of the call.",
    ),
    counter(
        "tenure_limited_total",
        &["limit"],
        "Calls that were refused because their caller used all that a limit allows, by the limit: those of principals (docs/access.md), and `rate_per_address`.",
    ),
    gauge(
        "tenure_http_lag_seconds",
        &[],
        "Longest time since the last scrape by which an HTTP worker thread ran late. Limit: limits.shed_lag.",
    ),
    gauge(
        "tenure_open_door",
        &[],
        "1 if the node listens at an address other than loopback and has no access file: whoever reaches the port may do everything.",
    ),
    counter(
        "tenure_http_connections_broken_total",
        &[],
        "Connections that ended with an error: the peer sent no valid HTTP, or the connection broke.",
    ),
    counter(
        "tenure_config_reloads_total",
        &["outcome"],
        "Reloads of the settings file after SIGHUP, by whether its policies were applied or refused.",
    ),
    counter(
        "tenure_access_reloads_total",
        &["outcome"],
        "Readings of the access file and its files of keys after they changed or after SIGHUP, by whether they were applied or refused.",
    ),
    gauge(
        "tenure_access_generation",
        &[],
        "Rises with each reading of the access file that is put into force, and with each change of the revocation list that the node then follows. 0: no access file.",
    ),
    counter(
        "tenure_tls_reloads_total",
        &["outcome"],
        "Readings of the port's TLS files after they changed or after SIGHUP, by whether they were applied or refused.",
    ),
    gauge(
        "tenure_file_not_in_force",
        &["file"],
        "1 if a file on disk was read and refused, so that what it said before is in force: `access` (with its files of keys), `tls` or `settings`.",
    ),
    counter(
        "tenure_tls_handshakes_total",
        &["outcome"],
        "TLS handshakes with clients that ended, by how.",
    ),
    gauge(
        "tenure_tls_certificate_expires_seconds",
        &[],
        "When the server's certificate, or the first of the authorities in its file, expires: Unix time. 0: no TLS.",
    ),
    gauge(
        "tenure_certificate_expires_seconds",
        &["setting"],
        "When the certificates that a setting other than server.tls_cert names expire: Unix time. Of several authorities, the first that is still valid counts. 0: there are none.",
    ),
    counter(
        "tenure_clock_jumps_total",
        &[],
        "Jumps of the wall clock by more than 1 s against the node's clock. The node's clock may have missed a pause.",
    ),
    counter(
        "tenure_log_lines_suppressed_total",
        &[],
        "Ownership log lines that were not written because they exceeded the configured rate.",
    ),
    counter(
        "tenure_trace_spans_dropped_total",
        &["reason"],
        "Spans of traces that were not exported, by the reason. 0 without a collector (telemetry.otlp_endpoint).",
    ),
    gauge("tenure_build_info", &["version"], "Always 1. The label has the program's version."),
];
