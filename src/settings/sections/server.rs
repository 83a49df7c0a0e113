//! `[server]`: the HTTP server.

use std::{net::SocketAddr, time::Duration};

use config::{ConfigError, Value};

use super::super::{
    table::section,
    units::DAY,
    value::{Bounded, Format, Shown, from_text_or_number},
};

/// The most workers. Each is a thread; more than this is a mistake.
const MAX_WORKERS: usize = 1024;

section! {
    /// The section `[server]`: the HTTP server.
    pub struct Server {
        /// IP address and port to listen on. Port 0 takes any free port.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7373)), if open_to_all;
        /// Host names by which clients may call this coordinator, separated by commas. "*.example.com" matches every
        /// name below that one. IP addresses, localhost and the host in node.advertise_url are always allowed. Requests
        /// for other names are refused, so that no web page can reach the coordinator under a name of its own.
        hosts: String = String::new(), if odd_hosts;
        /// There are no accounts: anyone who can reach the port controls every lease. Any listen address other than
        /// loopback is refused until this setting confirms that only authorized clients can reach it.
        accept_no_auth: bool = false;
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
        /// How long shutdown waits for requests in progress.
        shutdown_timeout: Duration = Duration::from_secs(10), in Duration::ZERO..=DAY;
    }
}

fn open_to_all(server: &Server) -> Option<String> {
    let problem = "is not a loopback address, and there are no accounts: whoever reaches the port owns every lease. \
                   Listen on 127.0.0.1, or restrict who can reach the port (a firewall, a private network) and set \
                   server.accept_no_auth = true";
    let open = !server.listen.ip().is_loopback() && !server.accept_no_auth;
    open.then(|| problem.to_owned())
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
