//! Credentials that whoever is on the way could read: they are a fault, unless that was accepted by name.
//!
//! Guarantees: what [`of_nats`], [`of_postgres`] and [`of_webhook`] let pass goes by TLS, stays on this machine, carries
//! nothing that proves who somebody is, or was accepted.
//!
//! Does not guarantee: that this machine is safe from its own users.

use super::Nats;
use crate::lease::is_loopback;

/// What else a plugin may do.
const ACCEPT: &str = "or set accept_plaintext = true where nobody else is on the way";

impl Nats {
    /// Whether a server without TLS is told nothing: one of the settings of TLS was made, or one address is `tls://`.
    #[must_use]
    pub fn requires_tls(&self) -> bool {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key];
        let named = files.iter().any(|path| !path.as_os_str().is_empty());
        self.tls_required || named || has_tls_address(&self.url)
    }

    fn has_credentials(&self) -> bool {
        let files = [&self.credentials, &self.password_file, &self.token_file];
        let named = files.iter().any(|path| !path.as_os_str().is_empty());
        named || !self.password.is_empty() || !self.token.is_empty()
    }
}

/// Whether one of the addresses says that TLS is spoken. All of them are meant then: they are one cluster.
#[must_use]
pub fn has_tls_address(urls: &str) -> bool {
    servers(urls).any(|url| url.starts_with("tls://"))
}

/// Whether all of the addresses lead to this machine.
#[must_use]
pub fn all_loopback(urls: &str) -> bool {
    servers(urls).all(is_loopback)
}

fn servers(urls: &str) -> impl Iterator<Item = &str> {
    urls.split(',').map(str::trim).filter(|url| !url.is_empty())
}

/// What is wrong with how NATS is told who this client is.
pub(super) fn of_nats(nats: &Nats) -> Option<String> {
    let open = nats.has_credentials() && !nats.requires_tls() && !all_loopback(&nats.url);
    let problem = "is plain text to another machine, and whoever is on the way could read the credentials: write tls://, \
                   set store.nats.tls_required = true or tls_ca, or set store.nats.accept_plaintext = true where nobody \
                   else is on the way";
    (open && !nats.accept_plaintext).then(|| problem.to_owned())
}

/// What is wrong with a webhook's URL. Its body is signed, but its answer is not.
pub(super) fn of_webhook(url: &str) -> Option<String> {
    (url.starts_with("http://") && !is_loopback(url)).then(|| {
        format!(
            "is plain text to another machine, and whoever is on the way could read the order, and confirm a fence that \
             never ran: write https://, {ACCEPT}"
        )
    })
}

/// What is wrong with the URL of a database, as the library reads it.
#[cfg(feature = "postgres")]
#[must_use]
pub fn of_postgres(config: &tokio_postgres::Config) -> Option<String> {
    use tokio_postgres::config::{Host, SslMode};
    let host = |host: &Host| match host {
        Host::Tcp(name) if name.contains(':') => is_loopback(&format!("[{name}]")),
        Host::Tcp(name) => is_loopback(name),
        // A socket of this machine.
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    // Where there are addresses, names are not looked up.
    let addresses = config.get_hostaddrs();
    let here = match addresses {
        [] => config.get_hosts().iter().all(host),
        addresses => addresses.iter().all(std::net::IpAddr::is_loopback),
    };
    let secure = config.get_ssl_mode() == SslMode::Require;
    (config.get_password().is_some() && !secure && !here).then(|| {
        format!(
            "is plain text to another machine, and whoever is on the way could read the password: add sslmode=require, \
             {ACCEPT}"
        )
    })
}
