//! How to open a store.

use std::{path::PathBuf, time::Duration};

use crate::settings::{self, FileError};

/// How many writes of a key are kept, unless said otherwise.
pub const DEFAULT_HISTORY: u8 = 16;
/// As many as a bucket may keep.
pub const MAX_HISTORY: u8 = 64;
/// How long one request may take, unless said otherwise: below a node's time to live, 3 s.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How the connection is secured.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of authorities, PEM; the system's when none is named.
    pub ca: Option<PathBuf>,
    /// The client's certificate, PEM. Goes with `key`.
    pub cert: Option<PathBuf>,
    /// The client's private key, PEM. Goes with `cert`.
    pub key: Option<PathBuf>,
    /// Refuse a connection without TLS. So it is too where one of the others is given, or an address is `tls://`.
    pub required: bool,
    /// Tell other machines in plain text who this client is.
    pub accept_plaintext: bool,
}

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Servers, comma separated: `nats://a:4222,nats://b:4222`.
    pub url: String,
    /// The bucket; its stream is `KV_<bucket>`.
    pub bucket: String,
    /// Copies of each write in a new bucket; the least that one which exists has to keep.
    pub replicas: usize,
    /// Open a bucket that may lose acknowledged writes.
    pub accept_data_loss: bool,
    /// A `.creds` file.
    pub credentials: Option<PathBuf>,
    /// Goes with `password`.
    pub user: Option<String>,
    /// Goes with `user`.
    pub password: Option<String>,
    /// A token.
    pub token: Option<String>,
    /// How the connection is secured.
    pub tls: Tls,
    /// How long one request may take. A call may make a few, one after another.
    pub request_timeout: Duration,
    /// Writes of each key that a new bucket keeps, 1 to 64. How far a slow reader may fall behind.
    pub history: u8,
    /// Make the bucket when it is missing.
    pub create_bucket: bool,
    /// Most keys with a record, as far as this process knows: nodes that add keys at the same moment may go beyond it.
    pub max_keys: u64,
    /// It is opened to bring a backup in: also where a restore was cut off.
    pub restore: bool,
}

impl Options {
    /// The defaults for a bucket on some servers.
    #[must_use]
    pub fn new(url: impl Into<String>, bucket: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            bucket: bucket.into(),
            replicas: 3,
            accept_data_loss: false,
            credentials: None,
            user: None,
            password: None,
            token: None,
            tls: Tls::default(),
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            history: DEFAULT_HISTORY,
            create_bucket: true,
            max_keys: u64::MAX,
            restore: false,
        }
    }
}

impl Options {
    /// The options that the settings name; files of secrets are read.
    ///
    /// # Errors
    /// [`FileError`] where one cannot be.
    pub fn of(section: &settings::Nats) -> Result<Self, FileError> {
        let given = |path: &PathBuf| Some(path.clone()).filter(|path| !path.as_os_str().is_empty());
        Ok(Self {
            url: section.url.clone(),
            bucket: section.bucket.clone(),
            replicas: section.replicas,
            accept_data_loss: section.accept_data_loss,
            credentials: given(&section.credentials),
            user: Some(section.user.clone()).filter(|user| !user.is_empty()),
            password: section.password.or_file("password_file", &section.password_file)?,
            token: section.token.or_file("token_file", &section.token_file)?,
            tls: Tls {
                ca: given(&section.tls_ca),
                cert: given(&section.tls_cert),
                key: given(&section.tls_key),
                required: section.requires_tls(),
                accept_plaintext: section.accept_plaintext,
            },
            request_timeout: section.request_timeout,
            history: section.history,
            create_bucket: section.create_bucket,
            max_keys: u64::MAX,
            restore: false,
        })
    }
}

impl Options {
    /// Whether a server without TLS is told nothing.
    pub(super) fn requires_tls(&self) -> bool {
        let Tls { ca, cert, key, required, .. } = &self.tls;
        let named = [ca, cert, key].iter().any(|path| path.is_some());
        *required || named || settings::has_tls_address(&self.url)
    }

    /// Whether servers are told who this client is.
    pub(super) fn has_credentials(&self) -> bool {
        let files = self.credentials.is_some() || self.token.is_some() || self.password.is_some();
        files || self.url.contains('@')
    }

    /// Credentials that are to go no further than this machine.
    pub(super) fn keeps_to_loopback(&self) -> bool {
        self.has_credentials() && !self.requires_tls() && !self.tls.accept_plaintext
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither password nor token, and a URL may hold one too.
        f.debug_struct("Options")
            .field("bucket", &self.bucket)
            .field("replicas", &self.replicas)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
