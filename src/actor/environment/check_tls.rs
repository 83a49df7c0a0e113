//! The TLS settings of `https` checks. They are read once, when there is such a check.

use std::path::PathBuf;

use reqwest::Url;
use rustls::ClientConfig;
use tokio::sync::OnceCell;

use crate::tls::{self, Roots, TlsError};

/// The TLS settings of `https` checks.
pub struct CheckTls {
    /// A file of additional trusted authorities, beyond those of the system. Empty: none.
    authorities: PathBuf,
    settings: OnceCell<ClientConfig>,
}

impl CheckTls {
    pub fn new(authorities: PathBuf) -> Self {
        Self { authorities, settings: OnceCell::new() }
    }

    /// The settings with which a check of this URL verifies the server.
    pub async fn for_url(&self, url: &Url) -> Result<ClientConfig, String> {
        if url.scheme() != "https" {
            return Ok(tls::none());
        }
        self.settings.get_or_try_init(|| read(self.authorities.clone())).await.cloned()
    }
}

/// Leases are served on this thread, and parsing hundreds of certificates takes time: another thread does it.
async fn read(authorities: PathBuf) -> Result<ClientConfig, String> {
    let parse = move || -> Result<ClientConfig, TlsError> {
        let only_system = authorities.as_os_str().is_empty();
        tls::client(if only_system { Roots::System } else { Roots::SystemAnd(&authorities) })
    };
    let parsed = tokio::task::spawn_blocking(parse).await.map_err(|error| error.to_string())?;
    parsed.map_err(|error| error.to_string())
}
