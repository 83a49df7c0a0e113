//! Where requests go, and what they are.

use std::net::{SocketAddr, ToSocketAddrs as _};

use anyhow::{Context as _, Result, ensure};
use http_body_util::Full;
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use serde::Serialize;

use super::Means;

/// A whole request. A clone shares the body.
pub type Request = hyper::Request<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A server on the loopback interface.
#[derive(Clone, Debug)]
pub struct Target {
    /// The socket address.
    pub address: SocketAddr,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    means: Means,
}

impl Target {
    /// Reads `http://HOST:PORT`; the address that HOST stands for must be a loopback one.
    ///
    /// # Errors
    /// When the text has another form, the name cannot be resolved, or it leads off this machine:
    /// load is put on one's own machine only, and several workloads compare the two clocks.
    pub fn parse(url: &str) -> Result<Self> {
        Self::reached_by(url, Means::default())
    }

    /// The same, of a server that is reached by these means: with TLS, by `https://HOST:PORT`.
    pub fn reached_by(url: &str, means: Means) -> Result<Self> {
        let scheme = means.scheme();
        let rest = url.strip_prefix(scheme);
        let rest = rest.with_context(|| format!("{url} is not {scheme}HOST:PORT"))?;
        let authority = rest.trim_end_matches('/');
        let with_port = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:80"),
        };
        let mut found = with_port.to_socket_addrs().with_context(|| url.to_owned())?;
        let address = found.next().with_context(|| format!("{url} has no address"))?;
        ensure!(
            address.ip().is_loopback(),
            "{url} is not on this machine: the load goes to the loopback interface only"
        );
        let host = HeaderValue::from_str(&address.to_string())?;
        let authorization = means.authorization()?;
        Ok(Self { address, host, authorization, means })
    }

    /// What a caller needs besides the address.
    pub fn means(&self) -> &Means {
        &self.means
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("{}{}", self.means.scheme(), self.address)
    }

    /// A GET.
    pub fn get(&self, path_and_query: &str) -> Result<Request> {
        self.request(Method::GET, path_and_query, Bytes::new())
    }

    /// A POST of a body that is JSON already.
    pub fn post(&self, path: &str, body: impl Into<Bytes>) -> Result<Request> {
        self.request(Method::POST, path, body.into())
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request> {
        let request = hyper::Request::builder().method(method).uri(path);
        let mut request = request.header(HOST, &self.host).header(CONTENT_TYPE, JSON);
        if let Some(shown) = &self.authorization {
            request = request.header(AUTHORIZATION, shown);
        }
        Ok(request.body(Full::new(body))?)
    }
}

/// A body as JSON.
pub fn json(body: &impl Serialize) -> Vec<u8> {
    // The bodies of this tool have no maps with odd keys, the one thing that could fail.
    serde_json::to_vec(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_targets_are_taken() {
        assert_eq!(Target::parse("http://127.0.0.1:7373/").unwrap().address.port(), 7373);
        assert_eq!(Target::parse("http://127.0.0.1").unwrap().address.port(), 80);
        assert!(Target::parse("http://[::1]:7373").unwrap().address.is_ipv6());
        for wrong in ["https://127.0.0.1:7373", "127.0.0.1:7373", "http://192.0.2.1:7373"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_request_shows_the_token() {
        let means = Means::default().showing("t");
        let target = Target::reached_by("http://127.0.0.1:1", means).unwrap();
        assert_eq!(target.post("/", "").unwrap().headers()[AUTHORIZATION], "Bearer t");
        let target = Target::parse("http://127.0.0.1:1").unwrap();
        assert!(!target.get("/").unwrap().headers().contains_key(AUTHORIZATION));
    }
}
