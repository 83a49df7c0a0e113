//! The one table of metrics. The recorder, the tests and the documentation read it.

/// How a series counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only goes up.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Its name, with unit and `_total` where those apply.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
}

/// 100 µs to 10 s: a request, or a write.
const FAST: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];
/// 1 ms to a minute: waiting and vacancy.
const SLOW: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0];
/// 100 ms to a week: how long a lease is held.
const HOLD: &[f64] =
    &[0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0];
/// 1 ms to 10 s: how late.
const LATE: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// 10 ms to a minute: a try of a fence, or a notification.
const FENCE: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];
/// A share of the ttl.
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

/// Every metric of the coordinator, `process_*` aside.
pub const TABLE: &[Series] = &[
    counter(
        "tenure_lease_acquisitions_total",
        &["pool", "outcome"],
        "Answered attempts to acquire a lease, each key of an acquire-any counted.",
    ),
    counter(
        "tenure_lease_heartbeats_total",
        &["pool", "outcome"],
        "Answered heartbeats, each lease of a batch counted.",
    ),
    counter(
        "tenure_lease_ended_total",
        &["pool", "reason"],
        "Tenures that ended, by how they ended.",
    ),
    counter("tenure_lease_transfers_total", &["pool"], "Tenures handed over to a successor."),
    counter(
        "tenure_handovers_total",
        &["pool", "outcome"],
        "Leases whose holder was asked to hand over; that it handed over; that were ordered to end instead.",
    ),
    gauge("tenure_leases_held", &["pool"], "Leases that are held now."),
    gauge("tenure_lease_waiters", &["pool"], "Callers that wait in a queue for a lease."),
    gauge(
        "tenure_pool_members",
        &["pool"],
        "Living sessions that joined the pool, at whichever node they are at home.",
    ),
    gauge(
        "tenure_pool_imbalance",
        &["pool"],
        "Leases that would have to move until every member of the pool has its share.",
    ),
    histogram(
        "tenure_lease_acquire_duration_seconds",
        &["pool"],
        SLOW,
        "From the arrival of a granted acquire to its answer, waiting included.",
    ),
    histogram(
        "tenure_lease_hold_duration_seconds",
        &["pool"],
        HOLD,
        "From grant to end of a tenure.",
    ),
    histogram(
        "tenure_lease_vacancy_duration_seconds",
        &["pool"],
        SLOW,
        "From the end of a tenure to the next grant of the key.",
    ),
    histogram(
        "tenure_lease_expiry_lateness_seconds",
        &[],
        LATE,
        "From the moment at which a tenure was due to end to its durable end.",
    ),
    histogram(
        "tenure_heartbeat_margin_ratio",
        &["pool"],
        RATIO,
        "Share of the ttl that was left when a heartbeat arrived.",
    ),
    gauge("tenure_actors", &["kind"], "Actors in memory."),
    counter(
        "tenure_actor_restarts_total",
        &["kind", "reason"],
        "Actors that were started anew after they died.",
    ),
    histogram(
        "tenure_actor_restart_duration_seconds",
        &["kind"],
        FAST,
        "From the death of an actor to its successor's start.",
    ),
    histogram(
        "tenure_store_request_duration_seconds",
        &["store", "op", "outcome"],
        FAST,
        "Requests to the store; a compare-and-set lasts until it is durable.",
    ),
    histogram("tenure_store_sync_duration_seconds", &["store"], FAST, "Syncs of the store's log."),
    counter(
        "tenure_store_synced_writes_total",
        &["store"],
        "Writes made durable; divided by the number of syncs, the size of a group.",
    ),
    gauge("tenure_store_keys", &["store"], "Keys that have a record."),
    gauge("tenure_store_live_bytes", &["store"], "Bytes of the latest record of every key."),
    gauge("tenure_store_log_bytes", &["store"], "Bytes that the store takes on disk."),
    gauge("tenure_store_ready", &["store"], "1 while the store takes writes, else 0."),
    gauge(
        "tenure_store_compaction_stuck",
        &["store"],
        "1 while a log segment cannot be read: the log grows until the disk is full. Else 0.",
    ),
    counter(
        "tenure_store_writes_total",
        &["store", "op"],
        "Writes sent to the store: leases' records, nodes' records, anything else of the store's own.",
    ),
    counter(
        "tenure_store_units_total",
        &["store", "op"],
        "Capacity that the store says it charged: write and read units of DynamoDB.",
    ),
    counter("tenure_store_throttled_total", &["store"], "Requests that the store throttled."),
    counter(
        "tenure_store_feed_gaps_total",
        &["store"],
        "Times that changes were lost between the store and this node; subscribers were told.",
    ),
    gauge(
        "tenure_store_frozen",
        &["store"],
        "1 while nothing is granted because the store went backwards, else 0.",
    ),
    gauge("tenure_nodes", &["kind"], "Nodes on the store whose record is kept, by their state."),
    counter("tenure_node_renewals_total", &["outcome"], "Renewals of this node's own record."),
    counter(
        "tenure_node_lapses_total",
        &["reason"],
        "Times that this node might not promise anything: its record ran out, or was found dead.",
    ),
    counter(
        "tenure_lease_adoptions_total",
        &["pool"],
        "Leases of a dead node that this one keeps, under their owner and token.",
    ),
    counter(
        "tenure_forwarded_requests_total",
        &["outcome"],
        "Requests passed on to the node that a lease is at home at.",
    ),
    counter("tenure_sessions_opened_total", &[], "Sessions that were made at this node."),
    gauge("tenure_sessions", &["pool"], "Sessions that are at home at this node."),
    counter(
        "tenure_session_checks_total",
        &["kind", "outcome"],
        "Rounds of the checks of sessions: passed or failed.",
    ),
    histogram(
        "tenure_fence_duration_seconds",
        &["plugin", "outcome"],
        FENCE,
        "Tries of fence plugins, by how they ended.",
    ),
    gauge(
        "tenure_fences_in_flight",
        &["plugin"],
        "Fence orders that a plugin has yet to answer, those included that wait for a place.",
    ),
    counter(
        "tenure_fences_failed_total",
        &["plugin"],
        "Fence orders that a plugin did not confirm, with all its tries: keys may be shut.",
    ),
    counter(
        "tenure_fences_without_plugin_total",
        &[],
        "Times that a fence asked for a plugin which this node does not have: it waits, and so does its key.",
    ),
    histogram(
        "tenure_notification_duration_seconds",
        &["plugin", "outcome"],
        FENCE,
        "Calls that notify a plugin of an ownership change, by how they ended.",
    ),
    gauge(
        "tenure_notification_lag_seconds",
        &["plugin"],
        "Age of the oldest ownership change that a plugin has yet to confirm; 0 on nodes that do not notify it.",
    ),
    counter(
        "tenure_notification_resets_total",
        &["plugin"],
        "Times that a plugin missed ownership changes, because the store no longer keeps them, and was told a reset.",
    ),
    counter("tenure_events_published_total", &[], "Ownership events published on the bus."),
    gauge(
        "tenure_waiting_places",
        &[],
        "Places that waiting callers have in queues; limits.waiting_places bounds them.",
    ),
    gauge("tenure_event_subscribers", &[], "Subscribers of the event stream."),
    counter(
        "tenure_event_subscribers_dropped_total",
        &[],
        "Subscribers cut off because they did not read.",
    ),
    counter(
        "tenure_http_connections_broken_total",
        &[],
        "Connections that ended with an error: what was sent is no HTTP, or it broke off.",
    ),
    counter(
        "tenure_config_reloads_total",
        &["outcome"],
        "Times that the file was read again on SIGHUP: its policies were applied, or refused.",
    ),
    counter(
        "tenure_clock_jumps_total",
        &[],
        "Moves of the wall clock by more than a second: the node's clock stood still, or may have.",
    ),
    counter(
        "tenure_log_lines_suppressed_total",
        &[],
        "Ownership log lines left out above the configured rate.",
    ),
    gauge("tenure_build_info", &["version"], "1; the version is in the label."),
];
