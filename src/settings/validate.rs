//! Checks values that have the right type.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use tracing_subscriber::EnvFilter;

use crate::lease::MAX_NODE_TTL_MS;

use super::{
    ByteSize, DynamoDb, Embedded, Nats, Node, Settings, StoreKind, Workers, format_duration,
    plaintext, policies::NUMBERS_OF_KEYS,
};

const DAY: Duration = Duration::from_secs(86_400);
/// The most workers. Each is a thread; more than this is a mistake.
const MAX_WORKERS: usize = 1024;
/// The largest ring of live events. It is allocated at start, with about 200 bytes per place.
const MAX_EVENT_BUFFER: usize = 1 << 22;
/// The API promises a comment line at least every 5 s.
const MAX_EVENT_HEARTBEAT: Duration = Duration::from_secs(5);
/// A store must answer or give up while its caller still waits.
const REQUEST_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(30);

/// All faults with their keys, in the order of the sections.
pub(super) fn faults(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut rules = Rules::default();
    let Settings {
        server,
        node,
        store,
        limits,
        checks: _,
        events,
        telemetry,
        actors,
        policies: _,
        plugins: _,
    } = settings;

    if !server.listen.ip().is_loopback() && !server.accept_no_auth {
        let problem = "is not a loopback address, and there are no accounts: whoever reaches the port owns every lease. \
                       Listen on 127.0.0.1, or restrict who can reach the port (a firewall, a private network) and set \
                       server.accept_no_auth = true";
        rules.add("server.listen", problem);
    }
    of_hosts(&mut rules, &server.hosts);
    if let Workers::Count(count) = server.workers {
        rules.count("server.workers", count, 1..=MAX_WORKERS);
    }
    rules.count("server.max_connections", server.max_connections, 1..=1_000_000);
    rules.span("server.keep_alive", server.keep_alive, Duration::from_secs(1)..=DAY);
    rules.span("server.shutdown_timeout", server.shutdown_timeout, Duration::ZERO..=DAY);

    of_node(&mut rules, node);
    let alone = store.kind == StoreKind::Embedded || !node.advertise_url.is_empty();
    if server.listen.ip().is_unspecified() && !alone {
        let problem = "must be set: server.listen is any address, and the other nodes of the store \
                       pass requests on to this one";
        rules.add("node.advertise_url", problem);
    }
    of_embedded(&mut rules, &store.embedded);
    rules.0.extend(of_nats(&store.nats));
    of_dynamodb(&mut rules, &store.dynamodb);

    let ttls = Duration::from_millis(10)..=DAY * 366;
    rules.span("limits.ttl_min", limits.ttl_min, ttls.clone());
    rules.span("limits.ttl_max", limits.ttl_max, ttls);
    if limits.ttl_min > limits.ttl_max {
        let (min, max) = (format_duration(limits.ttl_min), format_duration(limits.ttl_max));
        rules.add("limits.ttl_min", &format!("is {min}, more than limits.ttl_max, which is {max}"));
    }
    rules.range("limits.keys", limits.keys, NUMBERS_OF_KEYS);
    rules.count("limits.waiters_per_key", limits.waiters_per_key, 1..=1_000_000);
    rules.count("limits.waiting_places", limits.waiting_places, 1..=100_000_000);
    rules.count("limits.connections_per_address", limits.connections_per_address, 0..=1_000_000);
    let bodies = ByteSize::mib(2)..=ByteSize(1 << 40);
    rules.range("limits.body_bytes", limits.body_bytes, bodies);
    rules.count("limits.weight", limits.weight as usize, 1..=1_000_000);
    rules.count("limits.inflight_per_key", limits.inflight_per_key, 1..=1_000_000);
    rules.span("limits.wait_max", limits.wait_max, Duration::ZERO..=DAY);
    rules.count("limits.subscribers", limits.subscribers, 1..=1_000_000);

    rules.count("events.buffer", events.buffer, 1..=MAX_EVENT_BUFFER);
    let beats = Duration::from_millis(10)..=MAX_EVENT_HEARTBEAT;
    rules.span("events.heartbeat_interval", events.heartbeat_interval, beats);

    if let Err(error) = EnvFilter::try_new(&telemetry.log) {
        rules.add("telemetry.log", &format!("is not a log filter: {error}"));
    }
    rules.span("actors.restart_window", actors.restart_window, Duration::from_millis(10)..=DAY);
    rules.0
}

fn of_hosts(rules: &mut Rules, hosts: &str) {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let names = hosts.split(',').map(str::trim).filter(|_| !hosts.trim().is_empty());
    for name in names {
        let rest = name.strip_prefix("*.").unwrap_or(name);
        if rest.is_empty() || !rest.chars().all(letter) {
            let problem = format!(
                "{name:?} is not a name such as tenure.example.com or *.example.com, without a port"
            );
            rules.add("server.hosts", &problem);
        }
    }
}

fn of_node(rules: &mut Rules, node: &Node) {
    if !node.advertise_url.is_empty() && !has_scheme(&node.advertise_url, &HTTP) {
        rules.add("node.advertise_url", "must be empty or a URL such as http://10.0.0.7:7373");
    }
    let ttls = Duration::from_millis(500)..=Duration::from_millis(MAX_NODE_TTL_MS);
    rules.span("node.ttl", node.ttl, ttls);
    rules.span("node.passivate_after", node.passivate_after, Duration::from_millis(10)..=DAY);
}

fn of_embedded(rules: &mut Rules, embedded: &Embedded) {
    if embedded.data_dir.as_os_str().is_empty() {
        rules.add("store.embedded.data_dir", "must not be empty");
    }
    let least = ByteSize(64 << 10);
    let segments = least..=ByteSize::mib(256);
    rules.range("store.embedded.segment_size", embedded.segment_size, segments);
    let logs = least..=ByteSize(1 << 40);
    rules.range("store.embedded.min_log_size", embedded.min_log_size, logs);
}

/// The faults in the settings of the connection to NATS and of its bucket.
pub(super) fn of_nats(nats: &Nats) -> Vec<(&'static str, String)> {
    let mut rules = Rules::default();
    let servers = || nats.url.split(',').map(str::trim);
    if !servers().all(|url| has_scheme(url, &NATS)) {
        let problem = "must be URLs such as nats://10.0.0.7:4222, with commas between";
        rules.add("store.nats.url", problem);
    } else if servers().any(|url| url.contains('@')) {
        // A user in the URL would be shown with the settings, and in the log.
        let problem = "must not name a user: store.nats.user, password and token are for that";
        rules.add("store.nats.url", problem);
    }
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if nats.bucket.is_empty() || !nats.bucket.chars().all(named) {
        rules.add("store.nats.bucket", "must be letters, digits, _ and -");
    }
    rules.count("store.nats.replicas", nats.replicas, 1..=5);
    rules.range("store.nats.history", nats.history, 1..=64);
    rules.span("store.nats.request_timeout", nats.request_timeout, REQUEST_TIMEOUTS);
    of_nats_identity(&mut rules, nats);
    if let Some(problem) = plaintext::of_nats(nats) {
        rules.add("store.nats.url", &problem);
    }
    rules.0
}

/// Checks that the client identifies itself in at most one way, and completely.
fn of_nats_identity(rules: &mut Rules, nats: &Nats) {
    let given = |path: &std::path::Path| !path.as_os_str().is_empty();
    if !nats.password.is_empty() && given(&nats.password_file) {
        rules.add("store.nats.password_file", "is given, and store.nats.password too");
    }
    if !nats.token.is_empty() && given(&nats.token_file) {
        rules.add("store.nats.token_file", "is given, and store.nats.token too");
    }
    let user = !nats.user.is_empty();
    let password = !nats.password.is_empty() || given(&nats.password_file);
    if user != password {
        let problem = "and store.nats.password (or password_file) go together";
        rules.add("store.nats.user", problem);
    }
    let token = !nats.token.is_empty() || given(&nats.token_file);
    if [given(&nats.credentials), user || password, token].into_iter().filter(|g| *g).count() > 1 {
        let problem = "at most one of credentials, user and token may be given";
        rules.add("store.nats.credentials", problem);
    }
    if given(&nats.tls_cert) != given(&nats.tls_key) {
        rules.add("store.nats.tls_cert", "and store.nats.tls_key go together");
    }
}

fn of_dynamodb(rules: &mut Rules, dynamodb: &DynamoDb) {
    let table = &dynamodb.table;
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !(3..=255).contains(&table.len()) || !table.chars().all(named) {
        let problem = "must be 3 to 255 letters, digits, _, - and .";
        rules.add("store.dynamodb.table", problem);
    }
    if !dynamodb.endpoint.is_empty() && !has_scheme(&dynamodb.endpoint, &HTTP) {
        let problem = "must be empty or a URL such as http://127.0.0.1:8000";
        rules.add("store.dynamodb.endpoint", problem);
    }
    rules.span("store.dynamodb.request_timeout", dynamodb.request_timeout, REQUEST_TIMEOUTS);
    let polls = Duration::from_millis(10)..=Duration::from_secs(60);
    rules.span("store.dynamodb.poll_interval", dynamodb.poll_interval, polls);
    let flushes = Duration::ZERO..=Duration::from_secs(1);
    rules.span("store.dynamodb.flush_interval", dynamodb.flush_interval, flushes);
    rules.span("store.dynamodb.history", dynamodb.history, Duration::from_secs(60)..=DAY * 366);
}

const HTTP: [&str; 2] = ["http://", "https://"];
const NATS: [&str; 2] = ["nats://", "tls://"];

fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
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
