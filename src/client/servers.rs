//! The servers that a client knows, and which of them it asks.

use std::{
    fmt::{self, Display},
    sync::atomic::{AtomicUsize, Ordering},
};

use reqwest::Url;

use super::error::ClientError;

/// One or several servers on one store, tried in turn.
#[derive(Debug)]
pub(super) struct Servers {
    all: Vec<Url>,
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
    /// Reads URLs that are separated by commas.
    pub(super) fn parse(list: &str) -> Result<Self, ClientError> {
        let all = list.split(',').map(|url| server_url(url.trim())).collect::<Result<_, _>>()?;
        Ok(Self { all, current: AtomicUsize::new(0) })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether one of them uses TLS.
    pub(super) fn any_secure(&self) -> bool {
        self.all.iter().any(|url| url.scheme() == "https")
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
    /// that is not configured is never asked in plain text.
    pub(super) fn order(&self, home: Option<&Url>) -> Vec<Target> {
        let known = |url: &Url| self.all.contains(url);
        let target = |url: &Url| Target { url: url.clone(), stranger: !known(url) };
        let first = home.filter(|home| known(home));
        let at = self.current.load(Ordering::Relaxed);
        let turn = (0..self.all.len()).map(|n| &self.all[(at + n) % self.all.len()]);
        let secret = self.any_secure();
        let last = home.filter(|home| !known(home) && (!secret || home.scheme() == "https"));
        let rest = turn.filter(|url| Some(*url) != first);
        first.into_iter().chain(rest).chain(last).map(target).collect()
    }
}

impl Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<&str> =
            self.all.iter().map(|url| url.as_str().trim_end_matches('/')).collect();
        f.write_str(&shown.join(","))
    }
}

pub(super) fn server_url(text: &str) -> Result<Url, ClientError> {
    let bad =
        |why: &dyn Display| ClientError::Address { url: text.to_owned(), problem: why.to_string() };
    let url = Url::parse(text).map_err(|error| bad(&error))?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(bad(&"must be written http://host:port or https://host:port"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ClientError::Address {
            url: url.origin().ascii_serialization(),
            problem: "must not name a user: there are no accounts".into(),
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
        for list in ["", "http://a,", "http://a,b", "ftp://a", "http://a,,http://b", "http://u:p@a"]
        {
            let fault = Servers::parse(list).unwrap_err();
            assert!(matches!(fault, ClientError::Address { .. }), "{list}");
            assert!(!fault.to_string().contains("u:p"), "{fault}");
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
