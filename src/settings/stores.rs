//! The settings of the stores.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    ByteSize, Secret,
    scalar::{byte_size, duration, flag, kind, path, secret, text, whole},
    units::serialize_duration,
};

/// `[store]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// The kind of store.
    #[serde(deserialize_with = "kind")]
    pub kind: StoreKind,
    /// Settings of the embedded store.
    pub embedded: Embedded,
    /// Settings of the store on NATS JetStream.
    pub nats: Nats,
    /// Settings of the store on DynamoDB.
    pub dynamodb: DynamoDb,
}

/// The kind of store that keeps the leases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// Files in a local directory, for one coordinator.
    #[default]
    Embedded,
    /// A key-value bucket of NATS JetStream, for several coordinators.
    Nats,
    /// A table of DynamoDB, for several coordinators.
    DynamoDb,
}

impl StoreKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Nats, Self::DynamoDb];

    /// The kind's name in settings and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Nats => "nats",
            Self::DynamoDb => "dynamodb",
        }
    }
}

/// `[store.embedded]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Embedded {
    /// The directory. It is created if it is missing, and locked while in use.
    #[serde(deserialize_with = "path")]
    pub data_dir: PathBuf,
    /// The size of one file of the log.
    #[serde(deserialize_with = "byte_size")]
    pub segment_size: ByteSize,
    /// The log, and with it the history of events, is kept for at least this long.
    #[serde(deserialize_with = "byte_size")]
    pub min_log_size: ByteSize,
}

/// `[store.nats]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nats {
    /// The servers, separated by commas.
    #[serde(deserialize_with = "text")]
    pub url: String,
    /// The bucket.
    #[serde(deserialize_with = "text")]
    pub bucket: String,
    /// The number of replicas, when the bucket is created.
    #[serde(deserialize_with = "whole")]
    pub replicas: usize,
    /// Create the bucket if it is missing.
    #[serde(deserialize_with = "flag")]
    pub create_bucket: bool,
    /// How many changes of a key are kept, when the bucket is created.
    #[serde(deserialize_with = "whole")]
    pub history: u8,
    /// Start even if the servers may lose writes that they acknowledged.
    #[serde(deserialize_with = "flag")]
    pub accept_data_loss: bool,
    /// A file of credentials; empty: none.
    #[serde(deserialize_with = "path")]
    pub credentials: PathBuf,
    /// A user; empty: none.
    #[serde(deserialize_with = "text")]
    pub user: String,
    /// The user's password.
    #[serde(deserialize_with = "secret")]
    pub password: Secret,
    /// A file with the user's password; empty: none.
    #[serde(deserialize_with = "path")]
    pub password_file: PathBuf,
    /// A token.
    #[serde(deserialize_with = "secret")]
    pub token: Secret,
    /// A file with the token; empty: none.
    #[serde(deserialize_with = "path")]
    pub token_file: PathBuf,
    /// The certificate authorities for the servers; empty: those of the system.
    #[serde(deserialize_with = "path")]
    pub tls_ca: PathBuf,
    /// This client's certificate; empty: none.
    #[serde(deserialize_with = "path")]
    pub tls_cert: PathBuf,
    /// The key of this client's certificate; empty: none.
    #[serde(deserialize_with = "path")]
    pub tls_key: PathBuf,
    /// Require TLS. Any other TLS setting, or a `tls://` address, requires it too.
    #[serde(deserialize_with = "flag")]
    pub tls_required: bool,
    /// Accept that credentials are sent to other machines in plain text.
    #[serde(deserialize_with = "flag")]
    pub accept_plaintext: bool,
    /// How long a request may take.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub request_timeout: Duration,
}

/// `[store.dynamodb]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DynamoDb {
    /// The table.
    #[serde(deserialize_with = "text")]
    pub table: String,
    /// The region; empty: that of the environment.
    #[serde(deserialize_with = "text")]
    pub region: String,
    /// The URL of the service; empty: that of the region.
    #[serde(deserialize_with = "text")]
    pub endpoint: String,
    /// Create the table if it is missing.
    #[serde(deserialize_with = "flag")]
    pub create_table: bool,
    /// How long a request may take.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub request_timeout: Duration,
    /// The interval between two searches for changes by other nodes.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub poll_interval: Duration,
    /// How long changes are collected before they are written to the history.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub flush_interval: Duration,
    /// How long the history is kept.
    #[serde(deserialize_with = "duration", serialize_with = "serialize_duration")]
    pub history: Duration,
}

impl Default for Embedded {
    fn default() -> Self {
        Self {
            data_dir: "./tenure-data".into(),
            segment_size: ByteSize::mib(4),
            min_log_size: ByteSize::mib(32),
        }
    }
}

impl Default for Nats {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".into(),
            bucket: "tenure".into(),
            replicas: 3,
            create_bucket: true,
            history: 16,
            accept_data_loss: false,
            credentials: PathBuf::new(),
            user: String::new(),
            password: Secret::default(),
            password_file: PathBuf::new(),
            token: Secret::default(),
            token_file: PathBuf::new(),
            tls_ca: PathBuf::new(),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_required: false,
            accept_plaintext: false,
            request_timeout: Duration::from_secs(2),
        }
    }
}

impl Default for DynamoDb {
    fn default() -> Self {
        Self {
            table: "tenure".into(),
            region: String::new(),
            endpoint: String::new(),
            create_table: false,
            request_timeout: Duration::from_secs(2),
            poll_interval: Duration::from_millis(200),
            flush_interval: Duration::from_millis(20),
            history: Duration::from_secs(86_400),
        }
    }
}
