//! How to open a store.

use std::{path::PathBuf, time::Duration};

use crate::settings::{self, FileError};

/// How many writes of a key are kept by default.
pub const DEFAULT_HISTORY: u8 = 16;
/// The highest number of writes of a key that a bucket may keep.
pub const MAX_HISTORY: u8 = 64;
/// How long one request may take by default. It is below a node's ttl of 3 s.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How the connection is secured.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of authorities, PEM. The default is the system's.
    pub ca: Option<PathBuf>,
    /// The client's certificate, PEM. Requires `key`.
    pub cert: Option<PathBuf>,
    /// The client's private key, PEM. Requires `cert`.
    pub key: Option<PathBuf>,
    /// Whether to refuse a connection without TLS. It is refused also if one of the other options is set, or if
    /// an address begins with `tls://`.
    pub required: bool,
    /// Whether to send credentials to other machines in plain text.
    pub accept_plaintext: bool,
}

#[derive(Clone)]
pub struct Options {
    /// The servers, separated by commas: `nats://a:4222,nats://b:4222`.
    pub url: String,
    /// The bucket; its stream is `KV_<bucket>`.
    pub bucket: String,
    /// How many copies of each write a new bucket keeps, and how many an existing one must keep at least.
    pub replicas: usize,
    /// Whether to open a bucket that may lose acknowledged writes.
    pub accept_data_loss: bool,
    /// The path of a `.creds` file.
    pub credentials: Option<PathBuf>,
    /// The user name. Requires `password`.
    pub user: Option<String>,
    pub password: Option<String>,
    /// A file whose first line is the password. It is read for each new connection, and counts in place of `password`.
    pub password_file: Option<PathBuf>,
    pub token: Option<String>,
    /// A file whose first line is the token. It is read for each new connection, and counts in place of `token`.
    pub token_file: Option<PathBuf>,
    /// How the connection is secured.
    pub tls: Tls,
    /// How long one request may take. A call may make a few requests, one after another.
    pub request_timeout: Duration,
    /// How many writes of each key a new bucket keeps, 1 to 64. It limits how far a slow reader may fall behind.
    pub history: u8,
    /// Whether to create the bucket if it is missing.
    pub create_bucket: bool,
    /// The highest number of keys with a record, as far as this process knows. Nodes that add keys at the same
    /// moment may exceed it.
    pub max_keys: u64,
    /// The store is opened to restore a backup. This is allowed also after an interrupted restore.
    pub restore: bool,
}

impl Options {
    /// The default options for a bucket on these servers.
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
            password_file: None,
            token: None,
            token_file: None,
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
    /// The options from the settings. Files with secrets are read.
    ///
    /// # Errors
    /// [`FileError`] if one of the files cannot be read.
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
            password_file: given(&section.password_file),
            token: section.token.or_file("token_file", &section.token_file)?,
            token_file: given(&section.token_file),
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
    /// Whether to send nothing to a server without TLS.
    pub(super) fn requires_tls(&self) -> bool {
        let Tls { ca, cert, key, required, .. } = &self.tls;
        let named = [ca, cert, key].iter().any(|path| path.is_some());
        *required || named || settings::has_tls_address(&self.url)
    }

    /// Whether the client sends credentials to the servers.
    pub(super) fn has_credentials(&self) -> bool {
        self.proves_itself() || self.url.contains('@')
    }

    /// Whether the options, and not the URL, say who the client is.
    pub(super) fn proves_itself(&self) -> bool {
        let files = [&self.credentials, &self.password_file, &self.token_file];
        let given = self.token.is_some() || self.password.is_some();
        given || files.into_iter().any(|file| file.is_some())
    }

    /// Whether the credentials must not leave this machine.
    pub(super) fn keeps_to_loopback(&self) -> bool {
        self.has_credentials() && !self.requires_tls() && !self.tls.accept_plaintext
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The password, the token and the URL, which may contain a secret, are left out.
        f.debug_struct("Options")
            .field("bucket", &self.bucket)
            .field("replicas", &self.replicas)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
