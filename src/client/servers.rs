//! The servers that a client knows, and which of them it asks.

use std::{
    fmt::{self, Display},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use reqwest::Url;

use super::error::ClientError;

/// What an address of a server's Unix socket begins with.
const UNIX: &str = "unix:";
/// The URL of calls through a Unix socket.
const LOCAL: &str = "http://localhost";

/// One or several servers on one store, tried in turn.
#[derive(Debug)]
pub(super) struct Servers {
    all: Vec<Url>,
    /// The Unix socket through which every call goes.
    socket: Option<PathBuf>,
    /// The server to ask first: the one that answered last.
    current: AtomicUsize,
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    /// Whether only a server's answer named it. A refusal by such a server is not believed.
    pub(super) stranger: bool,
}

impl Servers {
    /// Reads URLs or `host:port` that are separated by commas, or the address of one Unix socket.
    pub(super) fn parse(list: &str) -> Result<Self, ClientError> {
        if list.split(',').any(|server| server.trim().starts_with(UNIX)) {
            let all = vec![server_url(LOCAL)?];
            let socket = Some(socket_path(list.trim())?);
            return Ok(Self { all, socket, current: AtomicUsize::new(0) });
        }
        let all = list.split(',').map(|one| listed(one.trim())).collect::<Result<_, _>>()?;
        Ok(Self { all, socket: None, current: AtomicUsize::new(0) })
    }

    /// The Unix socket through which every call goes, if it is one.
    pub(super) fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Url> {
        self.all.iter()
    }

    /// Whether one of them uses TLS.
    pub(super) fn any_secure(&self) -> bool {
        self.all.iter().any(|url| url.scheme() == "https")
    }

    /// Begins with another server than the first of the list: `number` modulo their count.
    pub(super) fn begin_at(&self, number: u64) {
        let count = u64::try_from(self.all.len()).unwrap_or(1);
        self.current.store(usize::try_from(number % count).unwrap_or(0), Ordering::Relaxed);
    }

    /// The server to ask first.
    pub(super) fn current(&self) -> &Url {
        &self.all[self.current.load(Ordering::Relaxed) % self.all.len()]
    }

    /// Notes that this server gave no answer. The next one is asked first from now on.
    pub(super) fn failed(&self, url: &Url) {
        let at = self.current.load(Ordering::Relaxed);
        if &self.all[at % self.all.len()] == url {
            let next = (at + 1) % self.all.len();
            // If this fails, another task has already moved on.
            let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The servers to ask about something at home at `home`: first the home node if it is configured, then the other
    /// configured servers, and last a home node that is not configured. If a configured server uses TLS, a home node
    /// that is not configured is never asked in plain text. No other node is
    /// reached through a Unix socket.
    pub(super) fn order(&self, home: Option<&Url>) -> Vec<Target> {
        let known = |url: &Url| self.all.contains(url);
        let target = |url: &Url| Target { url: url.clone(), stranger: !known(url) };
        let first = home.filter(|home| known(home));
        let at = self.current.load(Ordering::Relaxed);
        let turn = (0..self.all.len()).map(|n| &self.all[(at + n) % self.all.len()]);
        let secret = self.any_secure();
        let is_safe = |home: &Url| !secret || home.scheme() == "https";
        let last = home.filter(|home| self.socket.is_none() && !known(home) && is_safe(home));
        let rest = turn.filter(|url| Some(*url) != first);
        first.into_iter().chain(rest).chain(last).map(target).collect()
    }
}

impl Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = &self.socket {
            return write!(f, "{UNIX}{}", socket.display());
        }
        let shown: Vec<&str> =
            self.all.iter().map(|url| url.as_str().trim_end_matches('/')).collect();
        f.write_str(&shown.join(","))
    }
}

/// Reads one server of a list. `host:port` is a server in plain text.
fn listed(text: &str) -> Result<Url, ClientError> {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !text.contains('/') && is_port(port) => {
            server_url(&format!("http://{text}"))
        }
        _ => server_url(text),
    }
}

/// The absolute path in the address of a Unix socket.
fn socket_path(address: &str) -> Result<PathBuf, ClientError> {
    let bad = |problem: &str| ClientError::Address {
        url: address.to_owned(),
        problem: problem.to_owned(),
    };
    let path = address.strip_prefix(UNIX).filter(|_| !address.contains(','));
    let path = path.ok_or_else(|| bad("a Unix socket must be the only server"))?;
    if path.is_empty() {
        return Err(bad("must be written unix:/path"));
    }
    std::path::absolute(path).map_err(|error| bad(&error.to_string()))
}

pub(super) fn server_url(text: &str) -> Result<Url, ClientError> {
    let bad =
        |why: &dyn Display| ClientError::Address { url: text.to_owned(), problem: why.to_string() };
    let url = Url::parse(text).map_err(|error| bad(&error))?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(bad(
            &"must be written host:port, http://host:port, https://host:port or unix:/path",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ClientError::Address {
            url: url.origin().ascii_serialization(),
            problem: "must not name a user: a token says who calls (--token-file)".into(),
        });
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(servers: &Servers, home: Option<&str>) -> Vec<(String, bool)> {
        let home = home.map(|home| server_url(home).unwrap());
        let named = |target: &Target| {
            (target.url.host_str().unwrap_or_default().to_owned(), target.stranger)
        };
        servers.order(home.as_ref()).iter().map(named).collect()
    }

    fn known(names: &[&str]) -> Vec<(String, bool)> {
        names.iter().map(|name| ((*name).to_owned(), false)).collect()
    }

    #[test]
    fn the_home_comes_first_then_who_answered_last_and_a_stranger_at_the_end() {
        let servers = Servers::parse("http://a, http://b:1/,http://c").unwrap();
        assert_eq!(order(&servers, None), known(&["a", "b", "c"]));
        assert_eq!(order(&servers, Some("http://c")), known(&["c", "a", "b"]));
        servers.failed(&server_url("http://c").unwrap());
        assert_eq!(servers.current().host_str(), Some("a"), "it was not asked");
        servers.failed(&server_url("http://a").unwrap());
        assert_eq!(order(&servers, None), known(&["b", "c", "a"]));
        let with_stranger = order(&servers, Some("http://d"));
        assert_eq!(with_stranger[..3], known(&["b", "c", "a"]));
        assert_eq!(with_stranger[3], ("d".to_owned(), true));
    }

    #[test]
    fn every_one_of_them_is_an_address() {
        for list in [
            "",
            "http://a,",
            "http://a,b",
            "ftp://a",
            "http://a,,http://b",
            "http://u:p@a",
            "u:p@a:80",
            "a:b",
            ":80",
            "a:65536",
        ] {
            let fault = Servers::parse(list).unwrap_err();
            assert!(matches!(fault, ClientError::Address { .. }), "{list}");
            assert!(!fault.to_string().contains("u:p"), "{fault}");
        }
    }

    #[test]
    fn a_host_with_a_port_is_a_server_in_plain_text() {
        let servers = Servers::parse("127.0.0.1:7373, localhost:1,[::1]:2,https://a:3").unwrap();
        let listed = "http://127.0.0.1:7373,http://localhost:1,http://[::1]:2,https://a:3";
        assert_eq!(servers.to_string(), listed);
    }

    #[test]
    fn through_a_socket_there_is_one_server_and_no_stranger() {
        let servers = Servers::parse("unix:/run/tenure/socket").unwrap();
        assert_eq!(servers.socket(), Some(Path::new("/run/tenure/socket")));
        assert_eq!(servers.to_string(), "unix:/run/tenure/socket");
        assert_eq!(order(&servers, Some("http://c")), known(&["localhost"]));
        for list in ["unix:", "unix:/a,unix:/b", "http://a,unix:/b", "unix:/a,http://b"] {
            let fault = Servers::parse(list).unwrap_err();
            assert!(matches!(fault, ClientError::Address { .. }), "{list}");
        }
    }

    #[test]
    fn a_stranger_is_told_nothing_in_plain_text_by_who_asks_by_tls() {
        let servers = Servers::parse("https://a,http://b").unwrap();
        assert_eq!(order(&servers, Some("http://c")), known(&["a", "b"]));
        assert_eq!(order(&servers, Some("http://b")), known(&["b", "a"]), "it is known");
        assert_eq!(order(&servers, Some("https://c")).len(), 3);
        let plain = Servers::parse("http://a").unwrap();
        assert_eq!(order(&plain, Some("http://c")).len(), 2);
    }
}
