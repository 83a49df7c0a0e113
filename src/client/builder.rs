//! A client, and how it reaches its servers.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::{Proxy, redirect};
use rustls::ClientConfig;

use super::{Client, ClientError, servers::Servers};
use crate::{
    clock::SystemClock,
    tls::{self, Roots, TlsError},
};

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same, where there are others to ask.
const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(1);
/// A connection on which nothing comes for so long is asked whether it lives.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// What [`Client::builder`] makes a client of.
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    servers: String,
    ca: Option<PathBuf>,
    proxy: Option<String>,
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The proxy may have a password.
        f.debug_struct("ClientBuilder")
            .field("servers", &self.servers)
            .field("ca", &self.ca)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(super) fn new(servers: &str) -> Self {
        Self { servers: servers.to_owned(), ca: None, proxy: None }
    }

    /// The certificates of a PEM file vouch for `https` servers, and no others. The file is read once.
    pub fn ca(self, file: impl Into<PathBuf>) -> Self {
        Self { ca: Some(file.into()), ..self }
    }

    /// Every call goes through the proxy at this URL, also one to this machine. Without it none is used,
    /// whatever the environment says.
    pub fn proxy(self, url: &str) -> Self {
        Self { proxy: Some(url.to_owned()), ..self }
    }

    /// The client.
    ///
    /// # Errors
    /// [`ClientError::Address`] when a server's URL cannot be used, [`ClientError::Proxy`] when the proxy's
    /// cannot, [`ClientError::Tls`] when nobody can vouch for an `https` server.
    pub fn build(self) -> Result<Client, ClientError> {
        let known = Servers::parse(&self.servers)?;
        let connect = if known.len() > 1 { CONNECT_TIMEOUT_OF_SEVERAL } else { CONNECT_TIMEOUT };
        let http = tls::http(self.tls(&known)?)
            .connect_timeout(connect)
            .tcp_keepalive(KEEPALIVE)
            .tcp_nodelay(true)
            .redirect(redirect::Policy::none())
            // A conditional write is never repeated by a library.
            .retry(reqwest::retry::never())
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")));
        let http = match &self.proxy {
            Some(url) => http.proxy(proxy(url)?),
            None => http,
        };
        let http = http.build().map_err(|error| ClientError::Address {
            url: self.servers.clone(),
            problem: error.to_string(),
        })?;
        let mut environment = vec![("TENURE_SERVER", OsString::from(known.to_string()))];
        environment.extend(self.ca.as_deref().map(|ca| ("TENURE_CA", absolute(ca))));
        environment.extend(self.proxy.map(|url| ("TENURE_PROXY", url.into())));
        Ok(Client {
            http,
            servers: Arc::new(known),
            environment: environment.into(),
            clock: Arc::new(SystemClock::new()),
        })
    }

    /// To read what the operating system has takes as long as a call: that is left out where it is not needed.
    fn tls(&self, known: &Servers) -> Result<ClientConfig, TlsError> {
        let proxy = self.proxy.as_deref().is_some_and(|url| url.starts_with("https://"));
        match &self.ca {
            Some(file) => tls::client(Roots::Only(file)),
            None if known.any_secure() || proxy => tls::client(Roots::System),
            None => Ok(tls::none()),
        }
    }
}

fn proxy(url: &str) -> Result<Proxy, ClientError> {
    let bad = |problem: &str| ClientError::Proxy { problem: problem.to_owned() };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(bad("must be written http://host:port"));
    }
    Proxy::all(url).map_err(|_| bad("is no URL"))
}

/// The path of a file as it is in every directory.
fn absolute(path: &Path) -> OsString {
    std::path::absolute(path).map_or_else(|_| path.as_os_str().to_owned(), PathBuf::into_os_string)
}
