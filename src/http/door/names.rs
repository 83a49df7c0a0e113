//! Decides by names and origins which requests are served. A browser may only act for pages of this coordinator.
//!
//! Guarantees: a page of another origin changes and reads nothing. Neither does a page whose name was pointed at this
//! address after the page was loaded (DNS rebinding).
//!
//! Does not guarantee: any protection against programs. Those are judged by their principals (`http/caller`).
//!
//! Assumes: a browser sends a user agent that starts with `Mozilla/`, or an `Origin`, `Referer` or `Sec-Fetch-Site`
//! header.

use std::{net::IpAddr, sync::Arc};

use actix_web::{
    dev::ServiceRequest,
    http::{Method, header},
};

use crate::http::answer::Problem;

const FETCH_SITE: header::HeaderName = header::HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: header::HeaderName = header::HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: header::HeaderName = header::HeaderName::from_static("sec-fetch-dest");

/// The host names of this coordinator, in addition to IP addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Names {
    own: Arc<str>,
    configured: Arc<[Box<str>]>,
}

impl Names {
    /// The names in `hosts`, separated by commas (`*.example.com` stands for all names below it), and that of `url`.
    #[must_use]
    pub fn new(hosts: &str, url: &str) -> Self {
        let own =
            url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(rest));
        let plain = |name: &'_ str| name.trim().trim_end_matches('.').to_owned();
        let named = hosts.split(',').map(plain).filter(|name| !name.is_empty());
        Self { own: plain(host_of(own)).into(), configured: named.map(Box::from).collect() }
    }

    fn knows(&self, authority: &str) -> bool {
        let host = host_of(authority).trim_end_matches('.');
        // A page that was loaded from an IP address cannot come from a rebound name.
        host.parse::<IpAddr>().is_ok()
            || is_below(host, "localhost")
            || host.eq_ignore_ascii_case(&self.own) && !host.is_empty()
            || self.names(host)
    }

    fn names(&self, host: &str) -> bool {
        self.configured.iter().any(|name| match name.strip_prefix("*.") {
            Some(parent) => is_below(host, parent) && host.len() > parent.len(),
            None => host.eq_ignore_ascii_case(name),
        })
    }

    pub(super) fn judge(&self, request: &ServiceRequest) -> Result<(), Problem> {
        let text = |name: &header::HeaderName| {
            let value = request.headers().get(name);
            value.map(|value| value.to_str().unwrap_or("?"))
        };
        let host = text(&header::HOST);
        let target = request.uri().authority().map(|authority| authority.as_str());
        if let Some(unknown) = host.iter().chain(&target).find(|host| !self.knows(host)) {
            return Err(Problem::unknown_host(unknown));
        }
        let origin = text(&header::ORIGIN);
        let site = text(&FETCH_SITE);
        if let Some(origin) = origin {
            let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
            let own = host.is_some_and(|host| host.eq_ignore_ascii_case(authority));
            let foreign = matches!(site, Some("cross-site" | "same-site"))
                || host.is_some_and(|host| is_of_another_port(host, origin));
            if !own && (foreign || !self.names(host_of(authority).trim_end_matches('.'))) {
                return Err(Problem::foreign_origin(origin));
            }
        } else if matches!(site, Some("cross-site" | "same-site"))
            && !(request.method() == Method::GET
                && text(&FETCH_MODE) == Some("navigate")
                && text(&FETCH_DEST) == Some("document"))
        {
            return Err(Problem::foreign_origin("another site"));
        }
        let is_browser = || {
            origin.or(site).or_else(|| text(&header::REFERER)).is_some()
                || text(&header::USER_AGENT).is_some_and(|agent| agent.starts_with("Mozilla/"))
        };
        // A page may send any other type to any server. Before it sends JSON, its browser sends a preflight request,
        // which is refused.
        if request.method() == Method::POST && !is_json(text(&header::CONTENT_TYPE)) && is_browser()
        {
            return Err(Problem::not_json());
        }
        Ok(())
    }
}

fn is_json(kind: Option<&str>) -> bool {
    let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// The host of an authority, without the port.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    }
}

/// The port of an authority, if it names one.
fn port_of(authority: &str) -> Option<&str> {
    let (_, port) = authority.rsplit_once(':')?;
    Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether an origin is another port of the host that is called. A `Host` without a port does not tell: some proxies
/// leave the port out.
fn is_of_another_port(host: &str, origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let usual = if scheme == "https" { "443" } else { "80" };
    let is_same_name = host_of(host)
        .trim_end_matches('.')
        .eq_ignore_ascii_case(host_of(authority).trim_end_matches('.'));
    is_same_name
        && port_of(host).is_some_and(|called| called != port_of(authority).unwrap_or(usual))
}

/// Whether `host` is the domain `parent` or a name below it.
fn is_below(host: &str, parent: &str) -> bool {
    let Some(start) = host.len().checked_sub(parent.len()) else { return false };
    host.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(parent))
        && (start == 0 || host.as_bytes()[start - 1] == b'.')
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    /// The problem codes for a GET and a POST with these headers.
    fn judged(headers: &[(&'static str, &str)]) -> [Option<&'static str>; 2] {
        let door = Names::new("tenure.example., *.corp.example", "http://node-1.:7373");
        [Method::GET, Method::POST].map(|method| {
            let mut request = TestRequest::default().method(method);
            for header in headers {
                request = request.insert_header(*header);
            }
            door.judge(&request.to_srv_request()).err().map(|problem| problem.code)
        })
    }

    #[test]
    fn a_name_that_nobody_configured_is_refused() {
        let known =
            ["127.0.0.1:7373", "[::1]:7373", "10.0.0.7", "localhost:1", "a.localhost", "node-1"];
        let named = ["node-1:7373", "NODE-1.", "tenure.example:80", "a.b.corp.example:7373"];
        for host in known.into_iter().chain(named) {
            assert_eq!(judged(&[("host", host)]), [None, None], "{host}");
        }
        let foreign =
            ["evil.example", "localhost.evil.example", "corp.example", "xcorp.example", "x", ""];
        for host in foreign {
            assert_eq!(judged(&[("host", host)]), [Some("unknown-host"); 2], "{host}");
        }
    }

    #[test]
    fn a_page_of_another_origin_reaches_nothing() {
        let host = ("host", "127.0.0.1:7373");
        let foreign = [
            "https://evil.example",
            "null",
            "http://127.0.0.1:8080",
            "http://node-1:8080",
            "http://evil.example:7373",
        ];
        for origin in foreign {
            let judged = judged(&[host, ("origin", origin), ("content-type", "application/json")]);
            assert_eq!(judged, [Some("foreign-origin"); 2], "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(judged(&[host, ("sec-fetch-site", site)]), [Some("foreign-origin"); 2]);
            let followed = [
                host,
                ("sec-fetch-site", site),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ];
            assert_eq!(judged(&followed), [None, Some("foreign-origin")], "a link may be followed");
        }
        for origin in ["http://127.0.0.1:7373", "https://tenure.example"] {
            let own =
                [host, ("origin", origin), ("content-type", "application/json; charset=utf-8")];
            assert_eq!(judged(&own), [None, None], "{origin}");
        }
    }

    #[test]
    fn another_port_of_a_configured_name_is_another_origin() {
        let judged = |host, origin| {
            judged(&[("host", host), ("origin", origin), ("content-type", "application/json")])
        };
        let foreign = [
            ("tenure.example:7373", "http://tenure.example:8080"),
            ("tenure.example:7373", "http://TENURE.example."),
            ("tenure.example:7373", "https://tenure.example"),
        ];
        for (host, origin) in foreign {
            assert_eq!(judged(host, origin), [Some("foreign-origin"); 2], "{host} {origin}");
        }
        // Proxies write the usual port, leave out any port, or call the coordinator by another name.
        let own = [
            ("tenure.example:443", "https://tenure.example"),
            ("tenure.example", "https://tenure.example:7443"),
            ("127.0.0.1:7373", "https://tenure.example:7443"),
        ];
        for (host, origin) in own {
            assert_eq!(judged(host, origin), [None, None], "{host} {origin}");
        }
    }

    #[test]
    fn a_browser_sends_json_and_a_program_what_it_likes() {
        let host = ("host", "localhost");
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"]
        {
            assert_eq!(judged(&[host, ("content-type", kind)]), [None, None], "as curl does");
            let agents = [
                ("user-agent", "Mozilla/5.0"),
                ("referer", "http://x/"),
                ("sec-fetch-site", "none"),
            ];
            for by in agents {
                assert_eq!(
                    judged(&[host, by, ("content-type", kind)]),
                    [None, Some("not-json")],
                    "{by:?}"
                );
            }
        }
        assert_eq!(
            judged(&[host, ("user-agent", "Mozilla/5.0")]),
            [None, Some("not-json")],
            "no body"
        );
    }
}
