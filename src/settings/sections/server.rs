//! `[server]`: the HTTP server.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use config::{ConfigError, Value};

use super::super::{
    content::Content,
    table::section,
    units::DAY,
    value::{Bounded, Format, Shown, from_text_or_number},
};
use crate::tls::ServerFiles;

/// The longest path of a Unix socket, in bytes: the kernel's address has no room for more.
const MAX_SOCKET_PATH: usize = 107;
/// The most workers. Each is a thread; more than this is a mistake.
const MAX_WORKERS: usize = 1024;

section! {
    /// The section `[server]`: the HTTP server.
    pub struct Server {
        /// IP address and port to listen on. Port 0 takes any free port.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7373));
        /// Host names by which clients may call this coordinator, separated by commas. "*.example.com" matches every
        /// name below that one. IP addresses, localhost and the host in node.advertise_url are always allowed. Requests
        /// for other names are refused, so that no web page can reach the coordinator under a name of its own.
        hosts: String = String::new(), if odd_hosts;
        /// Accept calls without an access file (auth.file) at an address other than loopback: anyone who can reach the
        /// port controls every lease. Set it only if a firewall or a private network keeps everybody else out.
        accept_no_auth: bool = false;
        /// Accept tokens over plain HTTP at an address other than loopback. Set it only if a proxy in front of the
        /// coordinator ends TLS, and nobody else reaches the port.
        accept_plaintext: bool = false;
        /// PEM file with the coordinator's certificate, followed by those of the authorities between it and a root. The
        /// port then speaks TLS (1.2 or 1.3), and nothing else. Empty: the port speaks plain text. The files of this
        /// setting and the next three are read again at SIGHUP, and within 5 s after they change.
        tls_cert: PathBuf = PathBuf::new(), file Content::Pem("CERTIFICATE"), if half_a_pair;
        /// PEM file with the private key of the certificate.
        tls_key: PathBuf = PathBuf::new(), file Content::Pem("PRIVATE KEY");
        /// PEM file with the certificate authorities that verify the certificates of clients. A client may still
        /// connect without a certificate. Empty: clients are asked for none.
        tls_client_ca: PathBuf = PathBuf::new(), file Content::Pem("CERTIFICATE"), if without_tls;
        /// PEM file with the revocation lists of all these authorities, the ones in between too. Clients with a
        /// certificate that is revoked, or of an authority without a list, cannot connect. Empty: revoked certificates
        /// are accepted.
        tls_crl: PathBuf = PathBuf::new(), file Content::Pem("X509 CRL"), if without_client_ca;
        /// Path of a Unix socket on which the coordinator listens too. Its mode is 0660: the coordinator's user and
        /// group may connect. Empty: no socket.
        listen_uds: PathBuf = PathBuf::new(), if long_path;
        /// Number of HTTP worker threads. The actors of the leases run on them. "auto": one less than the number of
        /// cores, at least one, because the store's writer also needs a core.
        workers: Workers = Workers::Auto, in 1..=MAX_WORKERS;
        /// Maximum number of open connections of all workers together. When connections run short, the coordinator
        /// closes those that it has waited for the longest: idle ones, and ones whose request head or body does not
        /// arrive. Waiting calls and event streams take at most three quarters. If every connection has a call in
        /// progress, each worker keeps eight more for probes, heartbeats and releases. A low open-file limit reduces
        /// this number: half of that limit, but at most 512 files, is reserved for the store and other uses.
        max_connections: usize = 20_000, in 1..=1_000_000;
        /// How long a connection without a request stays open.
        keep_alive: Duration = Duration::from_secs(75), in Duration::from_secs(1)..=DAY;
        /// How often a stream (GET /v1/stream) sends a ping. A stream from which nothing came for four pings is closed.
        stream_ping: Duration = Duration::from_secs(15), in Duration::from_millis(10)..=DAY;
        /// How long shutdown waits for requests in progress.
        shutdown_timeout: Duration = Duration::from_secs(10), in Duration::ZERO..=DAY;
    }
}

impl Server {
    /// The files of the TLS settings; `None` if the port speaks plain text.
    #[must_use]
    pub fn tls_files(&self) -> Option<ServerFiles> {
        (!self.tls_cert.as_os_str().is_empty()).then(|| ServerFiles {
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            client_ca: self.tls_client_ca.clone(),
            crl: self.tls_crl.clone(),
        })
    }
}

fn half_a_pair(server: &Server) -> Option<&'static str> {
    match (server.tls_cert.as_os_str().is_empty(), server.tls_key.as_os_str().is_empty()) {
        (false, true) => Some("needs server.tls_key, the private key of the certificate"),
        (true, false) => Some("must be set too: server.tls_key is the key of a certificate"),
        _ => None,
    }
}

fn without_tls(server: &Server) -> Option<&'static str> {
    let alone = !server.tls_client_ca.as_os_str().is_empty() && server.tls_files().is_none();
    alone.then_some("needs server.tls_cert: only TLS knows certificates of clients")
}

fn without_client_ca(server: &Server) -> Option<&'static str> {
    let alone =
        !server.tls_crl.as_os_str().is_empty() && server.tls_client_ca.as_os_str().is_empty();
    alone.then_some("needs server.tls_client_ca: it revokes certificates of clients")
}

fn long_path(server: &Server) -> Option<String> {
    let is_long = server.listen_uds.as_os_str().len() > MAX_SOCKET_PATH;
    is_long.then(|| {
        format!("is longer than {MAX_SOCKET_PATH} bytes, the most that a socket's path may have")
    })
}

fn odd_hosts(server: &Server) -> Vec<String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let odd = |name: &&str| {
        let rest = name.strip_prefix("*.").unwrap_or(name);
        rest.is_empty() || !rest.chars().all(letter)
    };
    let say = |name: &str| {
        format!(
            "{name:?} is not a name such as tenure.example.com or *.example.com, without a port"
        )
    };
    let hosts = Some(server.hosts.trim()).filter(|hosts| !hosts.is_empty());
    let names = hosts.into_iter().flat_map(|hosts| hosts.split(',')).map(str::trim);
    names.filter(odd).map(say).collect()
}

/// The number of HTTP worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One less than the machine has cores, at least one: the store's writer needs a core too.
    Auto,
    /// This many threads, from 1 to 1024.
    Count(usize),
}

impl Workers {
    /// The number of threads on a machine with `cores` cores.
    #[must_use]
    pub fn resolve(self, cores: usize) -> usize {
        match self {
            Self::Auto => cores.saturating_sub(1).max(1),
            Self::Count(count) => count,
        }
    }
}

impl Format for Workers {
    fn read(value: Value) -> Result<Self, ConfigError> {
        from_text_or_number(
            value,
            "\"auto\" or a whole number",
            |text| match text {
                "auto" => Some(Self::Auto),
                number => number.parse().ok().map(Self::Count),
            },
            |number| number.try_into().ok().map(Self::Count),
        )
    }

    fn show(&self) -> Shown {
        match self {
            Self::Auto => Shown::Text("auto".to_owned()),
            Self::Count(count) => count.show(),
        }
    }
}

impl Bounded for Workers {
    type Bound = usize;

    fn bounded(&self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Count(count) => Some(*count),
        }
    }
}
