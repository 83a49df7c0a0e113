//! The configuration: a TOML file, and the layers that override it.
//!
//! Guarantees: the layers, from weakest to strongest, are built-in defaults < file < environment
//! (`TENURE__SECTION__KEY`) < flags. An unknown key is a fault. [`Sources::load`] reports all faults at once, each with
//! its layer, and with its line in the file.
//!
//! Does not guarantee: that what the settings name exists or can be used (a directory, an address).
//! [`Loaded::check_files`] checks files that are only read, and [`Loaded::check_build`] checks for stores and plugins
//! that this build may lack.
//!
//! Assumes: nothing. The values are plain data.

mod build;
mod fault;
mod files;
#[cfg(feature = "testing")]
#[path = "../../tests/doors/readers/settings.rs"]
pub(crate) mod fuzzing;
mod layers;
mod load;
mod networks;
mod plaintext;
mod plugins;
mod policies;
mod rows;
mod scalar;
mod secret;
mod show;
mod stores;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_build;
#[cfg(test)]
mod tests_plaintext;
#[cfg(test)]
mod tests_plugins;
#[cfg(test)]
mod tests_policies;
mod units;
mod validate;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use build::NotBuilt;
pub use fault::{Fault, Faults, Origin};
pub use layers::Sources;
pub use load::Loaded;
pub use networks::{CheckTargets, Network, is_link_local};
#[cfg(feature = "postgres")]
pub use plaintext::of_postgres;
pub use plaintext::{all_loopback, has_tls_address};
pub use plugins::{FENCE_TABLE, NatsMode, Plugin, PluginKind, WEBHOOK_SECRET};
pub use policies::Policy;
pub use secret::{FileError, Secret};
pub use stores::{DynamoDb, Embedded, Nats, Store, StoreKind};
pub use units::{ByteSize, format_duration, parse_duration};

use networks::check_targets;
use scalar::{address, byte_size, duration, flag, log_format, path, text, whole, workers};
use units::serialize_duration;

/// Every setting. `config/tenure.toml` lists them with default, unit and meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The HTTP server.
    pub server: Server,
    /// This coordinator.
    pub node: Node,
    /// Where leases are kept.
    pub store: Store,
    /// Bounds on what callers may request and hold.
    pub limits: Limits,
    /// Health checks of sessions.
    pub checks: Checks,
    /// The event stream.
    pub events: Events,
    /// Logs.
    pub telemetry: Telemetry,
    /// Supervision of the actors.
    pub actors: Actors,
    /// The policies for the keys under a prefix; only a file has them.
    #[serde(skip)]
    pub policies: Vec<Policy>,
    /// The plugins that fence resources; only a file has them.
    #[serde(skip)]
    pub plugins: Vec<Plugin>,
}

/// `[server]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port to listen on; port 0 takes any free one.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Accepted host names, separated by commas, besides IP addresses and the host of `node.advertise_url`.
    #[serde(deserialize_with = "text")]
    pub hosts: String,
    /// Accept that whoever reaches the port controls every lease.
    #[serde(deserialize_with = "flag")]
    pub accept_no_auth: bool,
    /// HTTP worker threads; they also run the lease actors.
    #[serde(deserialize_with = "workers")]
    pub workers: Workers,
    /// The most open connections, over all workers; further ones wait in the listen queue.
    #[serde(deserialize_with = "whole")]
    pub max_connections: usize,
    /// How long a connection without a request stays open.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub keep_alive: Duration,
    /// How long a stop waits for requests in progress.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub shutdown_timeout: Duration,
}

/// The number of HTTP worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One less than the machine has cores, at least one: the store's writer needs a core too.
    Auto,
    /// This many.
    Count(usize),
}

impl Workers {
    /// The number of threads on a machine with `cores` cores.
    #[must_use]
    pub fn resolve(self, cores: usize) -> usize {
        match self {
            Self::Auto => cores.saturating_sub(1).max(1),
            Self::Count(count) => count,
        }
    }
}

/// `[node]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// The name of this coordinator for people; empty: its advertised address.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// The URL at which clients and other coordinators reach it; empty: derived from `server.listen`.
    #[serde(deserialize_with = "text")]
    pub advertise_url: String,
    /// The certificate authorities for other coordinators whose URLs are `https`; empty: those of the system.
    #[serde(deserialize_with = "path")]
    pub ca: PathBuf,
    /// How long it may answer after it last renewed its own record in a shared store.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub ttl: Duration,
    /// The file in which it remembers, from one run to the next, how far a shared store had come; empty: none.
    #[serde(deserialize_with = "path")]
    pub witness: PathBuf,
    /// How long the actor of a free key stays in memory without a call.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub passivate_after: Duration,
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The shortest ttl that a caller may request.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub ttl_min: Duration,
    /// The longest ttl that a caller may request.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub ttl_max: Duration,
    /// The most keys in the store, including free ones.
    #[serde(deserialize_with = "whole")]
    pub keys: u64,
    /// The most callers that wait for one key.
    #[serde(deserialize_with = "whole")]
    pub waiters_per_key: usize,
    /// The most calls in progress for one key, not counting waiters.
    #[serde(deserialize_with = "whole")]
    pub inflight_per_key: usize,
    /// The longest wait that a caller may request.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub wait_max: Duration,
    /// The most event subscribers.
    #[serde(deserialize_with = "whole")]
    pub subscribers: usize,
    /// The most places of waiting callers: one for each key that a caller waits for.
    #[serde(deserialize_with = "whole")]
    pub waiting_places: usize,
    /// The most connections of one address; 0: no bound.
    #[serde(deserialize_with = "whole")]
    pub connections_per_address: usize,
    /// The most bytes that the bodies of calls in progress may take.
    #[serde(deserialize_with = "byte_size")]
    pub body_bytes: ByteSize,
    /// The largest weight that a member of a pool may request.
    #[serde(deserialize_with = "whole")]
    pub weight: u32,
    /// Whether only keys with a policy are granted.
    #[serde(deserialize_with = "flag")]
    pub strict_prefixes: bool,
    /// Whether sessions may use `exec` checks, which run a program on this coordinator.
    #[serde(deserialize_with = "flag")]
    pub exec_checks: bool,
}

/// `[checks]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Checks {
    /// The targets that `http` and `tcp` checks may connect to.
    #[serde(deserialize_with = "check_targets")]
    pub allow: CheckTargets,
    /// Certificate authorities for `https` checks, in addition to those of the system; empty: none.
    #[serde(deserialize_with = "path")]
    pub ca: PathBuf,
}

/// `[events]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// How many events a live subscriber may lag behind before it is cut off; it can resume from its position.
    #[serde(deserialize_with = "whole")]
    pub buffer: usize,
    /// The longest silence of a stream before it gets a comment line.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub heartbeat_interval: Duration,
}

/// `[telemetry]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The log filter: a level, or `target=level` directives separated by commas.
    #[serde(deserialize_with = "text")]
    pub log: String,
    /// The format of log lines.
    #[serde(deserialize_with = "log_format")]
    pub log_format: LogFormat,
    /// The most log lines per second about changes of ownership; 0: no bound.
    #[serde(deserialize_with = "whole")]
    pub ownership_lines_per_second: u32,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[actors]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Actors {
    /// How many restarts of one key's actor within `restart_window` are made at once. After that, the key rests for a
    /// window.
    #[serde(deserialize_with = "whole")]
    pub restart_intensity: u32,
    /// The span in which restarts are counted.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub restart_window: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7373)),
            hosts: String::new(),
            accept_no_auth: false,
            workers: Workers::Auto,
            max_connections: 20_000,
            keep_alive: Duration::from_secs(75),
            shutdown_timeout: Duration::from_secs(10),
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self {
            name: String::new(),
            advertise_url: String::new(),
            ca: PathBuf::new(),
            ttl: Duration::from_secs(3),
            witness: "./tenure-data/witness.json".into(),
            passivate_after: Duration::from_secs(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl_min: Duration::from_millis(100),
            ttl_max: Duration::from_secs(86_400),
            keys: 5_000_000,
            waiters_per_key: 10_000,
            inflight_per_key: 1024,
            wait_max: Duration::from_secs(600),
            subscribers: 2048,
            waiting_places: 200_000,
            connections_per_address: 0,
            body_bytes: ByteSize::mib(64),
            weight: 1000,
            strict_prefixes: false,
            exec_checks: false,
        }
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self { allow: CheckTargets::Auto, ca: PathBuf::new() }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self { buffer: 16_384, heartbeat_interval: Duration::from_secs(5) }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { log: "info".into(), log_format: LogFormat::Text, ownership_lines_per_second: 1000 }
    }
}

impl Default for Actors {
    fn default() -> Self {
        Self { restart_intensity: 10, restart_window: Duration::from_secs(10) }
    }
}

impl Settings {
    /// The policies of all keys.
    #[must_use]
    pub fn lease_policies(&self) -> crate::lease::Policies {
        policies::to_lease(&self.policies, &self.limits)
    }

    /// The keys whose values differ, not counting policies.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<String> {
        let theirs: std::collections::BTreeMap<_, _> = show::values(other).into_iter().collect();
        let differs = |(key, value): (String, _)| (theirs.get(&key) != Some(&value)).then_some(key);
        let mut keys: Vec<_> = show::values(self).into_iter().filter_map(differs).collect();
        // For secrets, the serialized form only says whether they are set.
        let nats = (&self.store.nats, &other.store.nats);
        if nats.0.password != nats.1.password && !keys.iter().any(|k| k == "store.nats.password") {
            keys.push("store.nats.password".to_owned());
        }
        if nats.0.token != nats.1.token && !keys.iter().any(|k| k == "store.nats.token") {
            keys.push("store.nats.token".to_owned());
        }
        keys
    }

    /// These settings, with other policies and plugins.
    ///
    /// # Errors
    /// A sentence for each policy that does not fit the limits and plugins of these settings.
    pub fn with_policies(
        &self,
        policies: Vec<Policy>,
        plugins: Vec<Plugin>,
    ) -> Result<Self, Vec<String>> {
        let next = Self { plugins, ..self.clone() };
        let faults = policies::faults(&policies, &self.limits, &load::known_plugins(&next));
        if !faults.is_empty() {
            let sentence = |(at, key, problem): (usize, _, _)| {
                format!("policy {:?}: {key}: {problem}", policies[at].prefix)
            };
            return Err(faults.into_iter().map(sentence).collect());
        }
        Ok(Self { policies, ..next })
    }

    /// The URL at which clients reach this coordinator when it listens on `bound` (which differs from `server.listen`
    /// if that leaves the port open).
    #[must_use]
    pub fn advertise_url(&self, bound: SocketAddr) -> String {
        if self.node.advertise_url.is_empty() {
            format!("http://{bound}")
        } else {
            self.node.advertise_url.clone()
        }
    }

    /// The name of this coordinator for people.
    #[must_use]
    pub fn node_name(&self, bound: SocketAddr) -> String {
        if self.node.name.is_empty() { bound.to_string() } else { self.node.name.clone() }
    }
}
