//! Finds credentials that would cross the network in plain text. They are a fault, unless a setting accepts that. The
//! rule for NATS is in `stores/nats.rs`.
//!
//! Guarantees: a connection that [`of_postgres`] or [`of_webhook`] lets pass uses TLS, stays on this machine, or carries
//! no credentials.
//!
//! Does not guarantee: that this machine is safe from its own users.

use crate::lease::is_loopback;

/// The alternative for a plugin.
const ACCEPT: &str = "or set accept_plaintext = true on a network that you trust";

/// Whether one of the addresses asks for TLS. This then applies to all of them, since they are one cluster.
#[must_use]
pub fn has_tls_address(urls: &str) -> bool {
    servers(urls).any(|url| url.starts_with("tls://"))
}

/// Whether all addresses are on this machine.
#[must_use]
pub fn all_loopback(urls: &str) -> bool {
    servers(urls).all(is_loopback)
}

fn servers(urls: &str) -> impl Iterator<Item = &str> {
    urls.split(',').map(str::trim).filter(|url| !url.is_empty())
}

/// The fault of a webhook's URL, if any. A webhook's body is signed, but its answer is not.
pub(super) fn of_webhook(url: &str) -> Option<String> {
    (url.starts_with("http://") && !is_loopback(url)).then(|| {
        format!(
            "is plain text to another machine, and others on the network could read the request and confirm a fence \
             that never ran: write https://, {ACCEPT}"
        )
    })
}

/// The fault of the URL of a collector of traces that is sent headers, if any.
pub(super) fn of_collector(url: &str) -> Option<String> {
    (url.starts_with("http://") && !is_loopback(url)).then(|| {
        "is plain text to another machine, and others on the network could read the headers of otlp_headers_file: \
         write https://, or send to a collector on this machine"
            .to_owned()
    })
}

/// The fault of a database's URL, if any, in the library's reading.
#[cfg(feature = "postgres")]
#[must_use]
pub fn of_postgres(config: &tokio_postgres::Config) -> Option<String> {
    use tokio_postgres::config::{Host, SslMode};
    let host = |host: &Host| match host {
        Host::Tcp(name) if name.contains(':') => is_loopback(&format!("[{name}]")),
        Host::Tcp(name) => is_loopback(name),
        // A socket on this machine.
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    // If there are addresses, names are not resolved.
    let addresses = config.get_hostaddrs();
    let here = match addresses {
        [] => config.get_hosts().iter().all(host),
        addresses => addresses.iter().all(std::net::IpAddr::is_loopback),
    };
    let secure = config.get_ssl_mode() == SslMode::Require;
    (config.get_password().is_some() && !secure && !here).then(|| {
        format!(
            "is plain text to another machine, and others on the network could read the password: add sslmode=require, \
             {ACCEPT}"
        )
    })
}
