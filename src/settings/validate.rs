//! Rules about values that have the right type.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use tracing_subscriber::EnvFilter;

use super::{ByteSize, Settings, Workers, format_duration};

const DAY: Duration = Duration::from_secs(86_400);
/// A thread each; more than this is a slip of the pen.
const MAX_WORKERS: usize = 1024;
/// The ring of live events is allocated at start, at about 200 bytes a place.
const MAX_EVENT_BUFFER: usize = 1 << 22;
/// The contract: a comment line at least every 5 s.
const MAX_EVENT_HEARTBEAT: Duration = Duration::from_secs(5);

/// Faults by key, in the order of the sections.
pub(super) fn faults(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut rules = Rules::default();
    let Settings { server, node, store, limits, events, telemetry, actors } = settings;

    if let Workers::Count(count) = server.workers {
        rules.count("server.workers", count, 1..=MAX_WORKERS);
    }
    rules.count("server.max_connections", server.max_connections, 1..=1_000_000);
    rules.span("server.keep_alive", server.keep_alive, Duration::from_secs(1)..=DAY);
    rules.span("server.shutdown_timeout", server.shutdown_timeout, Duration::ZERO..=DAY);

    let url = &node.advertise_url;
    let is_url = ["http://", "https://"].iter().any(|s| url.len() > s.len() && url.starts_with(s));
    if !url.is_empty() && !is_url {
        rules.add("node.advertise_url", "must be empty or a URL such as http://10.0.0.7:7373");
    }
    rules.span("node.passivate_after", node.passivate_after, Duration::from_millis(10)..=DAY);

    if store.embedded.data_dir.as_os_str().is_empty() {
        rules.add("store.embedded.data_dir", "must not be empty");
    }
    let least = ByteSize(64 << 10);
    let segments = least..=ByteSize::mib(256);
    rules.range("store.embedded.segment_size", store.embedded.segment_size, segments);
    let logs = least..=ByteSize(1 << 40);
    rules.range("store.embedded.min_log_size", store.embedded.min_log_size, logs);

    let ttls = Duration::from_millis(10)..=DAY * 366;
    rules.span("limits.ttl_min", limits.ttl_min, ttls.clone());
    rules.span("limits.ttl_max", limits.ttl_max, ttls);
    if limits.ttl_min > limits.ttl_max {
        let (min, max) = (format_duration(limits.ttl_min), format_duration(limits.ttl_max));
        rules.add("limits.ttl_min", &format!("is {min}, more than limits.ttl_max, which is {max}"));
    }
    rules.range("limits.keys", limits.keys, 1..=1_000_000_000);
    rules.count("limits.waiters_per_key", limits.waiters_per_key, 1..=1_000_000);
    rules.count("limits.inflight_per_key", limits.inflight_per_key, 1..=1_000_000);
    rules.span("limits.wait_max", limits.wait_max, Duration::ZERO..=DAY);
    rules.count("limits.subscribers", limits.subscribers, 1..=1_000_000);

    rules.count("events.buffer", events.buffer, 1..=MAX_EVENT_BUFFER);
    let beats = Duration::from_millis(10)..=MAX_EVENT_HEARTBEAT;
    rules.span("events.heartbeat_interval", events.heartbeat_interval, beats);

    if let Err(error) = EnvFilter::try_new(&telemetry.log) {
        rules.add("telemetry.log", &format!("is no filter: {error}"));
    }
    rules.span("actors.restart_window", actors.restart_window, Duration::from_millis(10)..=DAY);
    rules.0
}

#[derive(Default)]
struct Rules(Vec<(&'static str, String)>);

impl Rules {
    fn add(&mut self, key: &'static str, problem: &str) {
        self.0.push((key, problem.to_owned()));
    }

    fn range<T: PartialOrd + Display>(
        &mut self,
        key: &'static str,
        value: T,
        allowed: RangeInclusive<T>,
    ) {
        if !allowed.contains(&value) {
            let (least, most) = allowed.into_inner();
            self.add(key, &format!("is {value}; must be from {least} to {most}"));
        }
    }

    fn count(&mut self, key: &'static str, value: usize, allowed: RangeInclusive<usize>) {
        self.range(key, value, allowed);
    }

    fn span(&mut self, key: &'static str, value: Duration, allowed: RangeInclusive<Duration>) {
        if !allowed.contains(&value) {
            let [value, least, most] =
                [value, *allowed.start(), *allowed.end()].map(format_duration);
            self.add(key, &format!("is {value}; must be from {least} to {most}"));
        }
    }
}
