//! Builds a client: how it reaches its servers.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use reqwest::{Proxy, redirect};
use rustls::ClientConfig;
use tokio::sync::watch;

use super::{
    background::Background,
    credentials::{Credentials, Source},
    error::ClientError,
    handle::Client,
    http::Http,
    servers::Servers,
};
use crate::{
    clock::{Entropy as _, SystemClock, SystemEntropy},
    tls::{self, Followed, Identity, Roots, TlsError},
};

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same, when there are other servers to ask.
const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(1);
/// A connection that is silent for this long is probed.
const KEEPALIVE: Duration = Duration::from_secs(10);

impl Client {
    /// A client of the server at a URL such as `http://127.0.0.1:7373` or `https://tenure.example.com`, or of several
    /// servers, with commas between the URLs, or of the server at a Unix socket (`unix:/path`). `https` servers are verified by the operating system's certificate
    /// authorities.
    ///
    /// # Errors
    /// [`ClientError::Address`] when one of them is not such a URL, [`ClientError::Tls`] when one is `https` and the
    /// system has no certificate authorities.
    pub fn new(servers: &str) -> Result<Self, ClientError> {
        Self::builder(servers).build()
    }

    /// A builder for a client of these servers, with more options than [`Self::new`].
    pub fn builder(servers: &str) -> ClientBuilder {
        ClientBuilder {
            servers: servers.to_owned(),
            ca: None,
            identity: None,
            proxy: None,
            token: None,
            plaintext_token: false,
            in_order: false,
        }
    }
}

/// The builder that [`Client::builder`] returns.
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    servers: String,
    ca: Option<PathBuf>,
    /// The files of the client's certificate and its private key.
    identity: Option<(PathBuf, PathBuf)>,
    proxy: Option<String>,
    token: Option<Source>,
    plaintext_token: bool,
    in_order: bool,
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The proxy's URL may contain a password, and the token is one.
        f.debug_struct("ClientBuilder")
            .field("servers", &self.servers)
            .field("ca", &self.ca)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Verifies `https` servers with the certificates of this PEM file, and no others. The file is followed: a change is in
    /// effect within 2 s. A file that cannot be used changes nothing.
    pub fn ca(self, file: impl Into<PathBuf>) -> Self {
        Self { ca: Some(file.into()), ..self }
    }

    /// Proves to `https` servers who this client is, if they ask, with the certificate and the private key of these PEM
    /// files. The file of the certificate may also have those of the authorities between it and a root. Both files are
    /// followed, as that of [`ca`](Self::ca) is.
    pub fn client_certificate(self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { identity: Some((cert.into(), key.into())), ..self }
    }

    /// Sends every call through the proxy at this URL, even a call to this machine. Without this, no proxy is used,
    /// whatever the environment says.
    pub fn proxy(self, url: &str) -> Self {
        Self { proxy: Some(url.to_owned()), ..self }
    }

    /// Calls with this token, which proves to a server who calls.
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(Source::Text(token.to_owned())), ..self }
    }

    /// Calls with the token in the first line of this file. The file is read now, and again when a server does not know
    /// the token; the call is then repeated once.
    pub fn token_file(self, file: impl Into<PathBuf>) -> Self {
        Self { token: Some(Source::File(file.into())), ..self }
    }

    /// Whether the token may be sent in plain text to other machines, where whoever is on the network can read it.
    /// Without this, it is sent over `https` and to this machine alone.
    pub fn plaintext_token(self, allowed: bool) -> Self {
        Self { plaintext_token: allowed, ..self }
    }

    /// Whether the first server of the list is asked first. Without this, the client begins with any of them, so that many
    /// clients spread over the servers.
    pub fn in_order(self, in_order: bool) -> Self {
        Self { in_order, ..self }
    }

    /// Builds the client.
    ///
    /// # Errors
    /// [`ClientError::Address`] when a server's URL cannot be used, [`ClientError::Proxy`] when the proxy's URL cannot
    /// be used or the server is a Unix socket, [`ClientError::Tls`] when there are no certificate authorities for an
    /// `https` server, or the client's certificate cannot be used, [`ClientError::Token`] when the token cannot be used,
    /// or would be sent in plain text.
    pub fn build(self) -> Result<Client, ClientError> {
        let known = Servers::parse(&self.servers)?;
        if !self.in_order {
            known.begin_at(SystemEntropy::new().next_u64());
        }
        let connect = if known.len() > 1 { CONNECT_TIMEOUT_OF_SEVERAL } else { CONNECT_TIMEOUT };
        let proxy = self.proxy.as_deref().map(proxy).transpose()?;
        let socket = known.socket().map(Path::to_owned);
        if proxy.is_some() && socket.is_some() {
            let problem = "cannot be used: the server is a Unix socket".to_owned();
            return Err(ClientError::Proxy { problem });
        }
        let (tls, files) = self.tls(&known)?;
        let http = Http::new(files, move || {
            let mut http = tls::http(tls.clone())
                .connect_timeout(connect)
                .tcp_keepalive(KEEPALIVE)
                .tcp_nodelay(true)
                .redirect(redirect::Policy::none())
                // The HTTP library must not repeat a conditional write.
                .retry(reqwest::retry::never())
                .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")));
            if let Some(proxy) = &proxy {
                http = http.proxy(proxy.clone());
            }
            if let Some(socket) = &socket {
                http = http.unix_socket(socket.as_path());
            }
            http.build()
        });
        let http = http.map(Arc::new).map_err(|error| ClientError::Address {
            url: self.servers.clone(),
            problem: error.to_string(),
        })?;
        let proxied = self.proxy.is_some();
        let credentials = |source| Credentials::new(source, self.plaintext_token, &known, proxied);
        let credentials = self.token.as_ref().map(credentials).transpose()?;
        let mut environment = vec![("TENURE_SERVER", OsString::from(known.to_string()))];
        environment.extend(self.ca.as_deref().map(|ca| ("TENURE_CA", absolute(ca))));
        if let Some((cert, key)) = &self.identity {
            environment.push(("TENURE_TLS_CERT", absolute(cert)));
            environment.push(("TENURE_TLS_KEY", absolute(key)));
        }
        environment.extend(self.proxy.map(|url| ("TENURE_PROXY", url.into())));
        Ok(Client {
            http,
            credentials,
            servers: Arc::new(known),
            environment: environment.into(),
            clock: Arc::new(SystemClock::new()),
            streams: Arc::default(),
            denials: watch::Sender::new(None),
            background: Background::default(),
            traceparent: None,
        })
    }

    /// Reading the operating system's certificates takes as long as a call, so they are only read when they are needed.
    fn tls(&self, known: &Servers) -> Result<(ClientConfig, Option<Arc<Followed>>), TlsError> {
        let proxy = self.proxy.as_deref().is_some_and(|url| url.starts_with("https://"));
        let identity = self.identity.as_ref().map(|(cert, key)| Identity { cert, key });
        let roots = match &self.ca {
            Some(file) => Roots::Only(file),
            None if known.any_secure() || proxy => Roots::System,
            None => return Ok((tls::none(), None)),
        };
        tls::followed(roots, identity).map(|(config, files)| (config, Some(files)))
    }
}

fn proxy(url: &str) -> Result<Proxy, ClientError> {
    let bad = |problem: &str| ClientError::Proxy { problem: problem.to_owned() };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(bad("must be written http://host:port"));
    }
    Proxy::all(url).map_err(|_| bad("is not a URL"))
}

/// The absolute path of a file.
fn absolute(path: &Path) -> OsString {
    std::path::absolute(path).map_or_else(|_| path.as_os_str().to_owned(), PathBuf::into_os_string)
}
