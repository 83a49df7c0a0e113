//! How a store is opened.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    pub table: String,
    /// The table's region. The default is the usual chain of AWS.
    pub region: Option<String>,
    /// Another address of the service. A loopback address over plain HTTP is taken for a test service, and
    /// credentials are made up unless `AWS_ACCESS_KEY_ID` is set.
    pub endpoint: Option<String>,
    /// Make the table if it is missing, with on-demand billing.
    pub create_table: bool,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How often the log is queried for changes by other nodes.
    pub poll_interval: Duration,
    /// How long changes are gathered before they are written to the log together.
    pub flush_interval: Duration,
    /// How long entries of the log are kept.
    pub history: Duration,
    /// The highest number of keys with a record, as far as this process knows. Nodes that add keys at the same
    /// moment may exceed it.
    pub max_keys: u64,
    /// The store is opened to restore a backup. This is allowed also after an interrupted restore.
    pub restore: bool,
}

impl Options {
    /// The default options for a table.
    #[must_use]
    pub fn new(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            region: None,
            endpoint: None,
            create_table: false,
            request_timeout: Duration::from_secs(2),
            poll_interval: Duration::from_millis(200),
            flush_interval: Duration::from_millis(20),
            history: Duration::from_secs(24 * 3600),
            max_keys: u64::MAX,
            restore: false,
        }
    }
}
