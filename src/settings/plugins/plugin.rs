//! A plugin: what all kinds have in common, and its kind.

use std::{ops::RangeInclusive, time::Duration};

use config::{ConfigError, Value};

use super::{
    super::{
        table::{About, section, shown},
        units::{in_one_unit, parse_duration},
        value::{Format, Shown},
    },
    exec::ExecPlugin,
    nats::NatsPlugin,
    postgres::PostgresPlugin,
    strict::{any_text, flag, must_be, number, text, texts},
    webhook::WebhookPlugin,
};
use crate::lease::{ChangeKind, MAX_KEY_BYTES, is_plugin_name};

/// The bounds of how long one attempt may take.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
const MAX_RETRIES: u32 = 100;
/// The highest concurrency. Each fence takes a thread, a process or a connection.
const MAX_CONCURRENCY: usize = 1024;

section! {
    /// One table `[[plugin]]`: a plugin that fences, and may be notified of changes.
    pub struct Plugin {
        /// Name in policies and metrics. 1 to 64 letters, digits, _, - and .
        name: String = String::new(), required = true, read name;
        /// "exec", "webhook", "nats", "postgres" or "log".
        kind: PluginKind = PluginKind::Log, required = true;
        /// Maximum time for one try. 10ms to 1h.
        timeout: Duration = Duration::from_secs(10), read timeout;
        /// How often a failed fence is retried, within the fence_timeout of its policy. 0 to 100.
        retries: u32 = 3, read retries;
        /// Maximum number of fences in progress, and of notifications; more wait. 1 to 1024.
        concurrency: usize = 32, read concurrency;
        /// Whether the log has an excerpt of what the program or the server said when it failed, such as the body of a
        /// webhook's answer or what a program wrote to stderr. It may hold secrets. If false, the log has the kind of
        /// failure alone: the exit status, the HTTP status, or that there was no answer in time.
        log_detail: bool = true, read flag;
        /// Kinds of ownership changes that the plugin is notified of, named as in the event stream: ["granted",
        /// "expired", "released"]. At least once, in order per key. docs/notifications.md says more. Empty: none.
        on: Vec<ChangeKind> = Vec::new(), if kind_twice;
        /// Prefix of the keys whose changes it is notified of. Empty: all keys.
        prefix: String = String::new(), read any_text, if odd_prefix;
    }
}

/// The kind of a plugin, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginKind {
    /// Runs a program for each fence.
    Exec(ExecPlugin),
    /// Posts each fence to a URL.
    Webhook(WebhookPlugin),
    /// Sends a request to, or publishes on, a NATS subject.
    Nats(NatsPlugin),
    /// Raises the token in a table of PostgreSQL.
    Postgres(PostgresPlugin),
    /// Writes a line to the log.
    Log,
    /// For tests: panics.
    #[cfg(feature = "testing")]
    Panic,
}

impl PluginKind {
    /// The name of the kind in settings.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Webhook(_) => "webhook",
            Self::Nats(_) => "nats",
            Self::Postgres(_) => "postgres",
            Self::Log => "log",
            #[cfg(feature = "testing")]
            Self::Panic => "panic",
        }
    }

    /// The kind with this name, with defaults.
    pub(in crate::settings) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "exec" => Self::Exec(ExecPlugin::default()),
            "webhook" => Self::Webhook(WebhookPlugin::default()),
            "nats" => Self::Nats(NatsPlugin::default()),
            "postgres" => Self::Postgres(PostgresPlugin::default()),
            "log" => Self::Log,
            #[cfg(feature = "testing")]
            "panic" => Self::Panic,
            _ => return None,
        })
    }

    /// The settings of the kind, with their values as they are shown.
    pub(in crate::settings) fn shown(&self) -> Vec<(&'static About, Shown)> {
        match self {
            Self::Exec(exec) => shown(exec),
            Self::Webhook(webhook) => shown(webhook),
            Self::Nats(nats) => nats.shown(),
            Self::Postgres(postgres) => shown(postgres),
            Self::Log => Vec::new(),
            #[cfg(feature = "testing")]
            Self::Panic => Vec::new(),
        }
    }

    /// The fault of `url_file`.
    pub(in crate::settings) fn file_fault(&self) -> Option<String> {
        match self {
            Self::Postgres(postgres) => postgres.file_fault(),
            _ => None,
        }
    }
}

impl Format for PluginKind {
    fn read(value: Value) -> Result<Self, ConfigError> {
        let kind = text(value).and_then(|name| Self::named(&name));
        must_be("\"exec\", \"webhook\", \"nats\", \"postgres\" or \"log\"", kind)
    }

    fn show(&self) -> Shown {
        Shown::Text(self.as_str().to_owned())
    }
}

impl Format for Vec<ChangeKind> {
    fn read(value: Value) -> Result<Self, ConfigError> {
        let named = |name: String| ChangeKind::ALL.into_iter().find(|kind| kind.as_str() == name);
        let kinds = texts(value).and_then(|names| names.into_iter().map(named).collect());
        let known = ChangeKind::ALL.map(ChangeKind::as_str).join(", ");
        must_be(format!("a list of kinds of changes: {known}"), kinds)
    }

    fn show(&self) -> Shown {
        self.iter().map(|kind| kind.as_str().to_owned()).collect::<Vec<_>>().show()
    }
}

fn kind_twice(plugin: &Plugin) -> Vec<String> {
    let twice = plugin.on.iter().enumerate().filter(|(at, kind)| plugin.on[..*at].contains(kind));
    twice.map(|(_, kind)| format!("names {:?} twice", kind.as_str())).collect()
}

fn odd_prefix(plugin: &Plugin) -> Option<String> {
    if plugin.prefix.len() > MAX_KEY_BYTES {
        return Some(format!("is longer than any key: {MAX_KEY_BYTES} bytes"));
    }
    let alone = !plugin.prefix.is_empty() && plugin.on.is_empty();
    alone
        .then(|| "needs on: it selects the keys whose changes the plugin is notified of".to_owned())
}

pub(in crate::settings) fn names(plugins: &[Plugin]) -> Vec<String> {
    plugins.iter().map(|plugin| plugin.name.clone()).collect()
}

fn name(value: Value) -> Result<String, ConfigError> {
    let name = text(value).filter(|name| is_plugin_name(name));
    must_be("1 to 64 letters, digits, _, - and .", name)
}

fn timeout(value: Value) -> Result<Duration, ConfigError> {
    let timeout = text(value).and_then(|text| parse_duration(&text).ok());
    let [least, most] = [*TIMEOUTS.start(), *TIMEOUTS.end()].map(in_one_unit);
    let expecting = format!("a duration in quotes such as \"10s\", from {least} to {most}");
    must_be(expecting, timeout.filter(|timeout| TIMEOUTS.contains(timeout)))
}

fn retries(value: Value) -> Result<u32, ConfigError> {
    number(value, 0..=MAX_RETRIES)
}

fn concurrency(value: Value) -> Result<usize, ConfigError> {
    number(value, 1..=MAX_CONCURRENCY)
}
