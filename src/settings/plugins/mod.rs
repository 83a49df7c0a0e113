//! `[[plugin]]`: what fences resources.

mod read;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub(super) use read::read;

use super::{Nats, Secret};

/// The table of the postgres plugin, unless another is named.
pub const FENCE_TABLE: &str = "tenure_fence";
/// What a secret of a webhook begins with.
pub const WEBHOOK_SECRET: &str = "whsec_";

/// `[[plugin]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// What policies and metrics call it: 1 to 64 letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// How long one try may take.
    pub timeout: Duration,
    /// How often an order that failed is tried again.
    pub retries: u32,
    /// Most orders that it works on at a time.
    pub concurrency: usize,
    /// What it does.
    pub kind: PluginKind,
}

/// What a plugin does, and with what.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginKind {
    /// Runs a program.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables that it gets besides; their values are not shown.
        environment: BTreeMap<String, Secret>,
    },
    /// Posts to a URL.
    Webhook {
        /// The URL.
        url: String,
        /// What it is signed with, the newest first; all of them sign.
        secrets: Vec<Secret>,
        /// Post to other machines in plain text.
        accept_plaintext: bool,
    },
    /// Asks or tells on a subject of NATS.
    Nats {
        /// The servers, and who the client is; `None`: those of `[store.nats]`. What concerns buckets
        /// is not used.
        servers: Option<Box<Nats>>,
        /// The subject.
        subject: String,
        /// What confirms.
        mode: NatsMode,
    },
    /// Raises the token in a table of PostgreSQL.
    Postgres {
        /// Where; it may hold a password.
        url: Secret,
        /// A file whose first line is the URL; empty: none.
        url_file: PathBuf,
        /// The table, perhaps with its schema.
        table: String,
        /// Tell another machine the password in plain text.
        accept_plaintext: bool,
    },
    /// Writes a line to the log.
    Log,
    /// For tests: panics.
    #[cfg(feature = "testing")]
    Panic,
}

/// What confirms a fence by NATS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsMode {
    /// An answer that begins with `+OK` or `ok`.
    Request,
    /// The acknowledgement of a stream.
    Publish,
}

impl NatsMode {
    /// As settings name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Publish => "publish",
        }
    }
}

impl PluginKind {
    /// As settings name it.
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
