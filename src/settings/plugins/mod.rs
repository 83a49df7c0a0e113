//! `[[plugin]]`: the plugins that fence resources.

mod read;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub(super) use read::read;

use super::{Nats, Secret};

/// The table of the postgres plugin, by default.
pub const FENCE_TABLE: &str = "tenure_fence";
/// The prefix of a webhook's secret.
pub const WEBHOOK_SECRET: &str = "whsec_";

/// `[[plugin]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// The plugin's name in policies and metrics: 1 to 64 letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often a failed fence is tried again.
    pub retries: u32,
    /// The most fences that it works on at a time.
    pub concurrency: usize,
    /// The plugin's kind, with its settings.
    pub kind: PluginKind,
}

/// The kind of a plugin, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginKind {
    /// Runs a program.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
        /// Additional environment variables; their values are not shown.
        environment: BTreeMap<String, Secret>,
    },
    /// Posts to a URL.
    Webhook {
        /// The URL.
        url: String,
        /// The secrets that sign the request, the newest first. Each adds a signature.
        secrets: Vec<Secret>,
        /// Accept plain text to other machines.
        accept_plaintext: bool,
    },
    /// Sends a request to, or publishes on, a NATS subject.
    Nats {
        /// The servers and the client's credentials; `None`: those of `[store.nats]`. The settings of the bucket are
        /// not used.
        servers: Option<Box<Nats>>,
        /// The subject.
        subject: String,
        /// What confirms the fence.
        mode: NatsMode,
    },
    /// Raises the token in a table of PostgreSQL.
    Postgres {
        /// The database's URL, which may contain a password.
        url: Secret,
        /// A file whose first line is the URL; empty: none.
        url_file: PathBuf,
        /// The table, optionally with its schema.
        table: String,
        /// Accept that the password is sent to another machine in plain text.
        accept_plaintext: bool,
    },
    /// Writes a line to the log.
    Log,
    /// For tests: panics.
    #[cfg(feature = "testing")]
    Panic,
}

/// What confirms a fence over NATS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsMode {
    /// An answer that begins with `+OK` or `ok`.
    Request,
    /// The acknowledgement of a stream.
    Publish,
}

impl NatsMode {
    /// The name in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Publish => "publish",
        }
    }
}

impl PluginKind {
    /// The name in settings.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Exec { .. } => "exec",
            Self::Webhook { .. } => "webhook",
            Self::Nats { .. } => "nats",
            Self::Postgres { .. } => "postgres",
            Self::Log => "log",
            #[cfg(feature = "testing")]
            Self::Panic => "panic",
        }
    }
}
