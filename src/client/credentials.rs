//! The token that proves who calls.
//!
//! Guarantees: the token is in no message and in no `Debug` output. It is sent over TLS or to this machine alone, unless
//! the caller said otherwise.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use reqwest::{
    RequestBuilder, Url,
    header::{AUTHORIZATION, HeaderValue},
};

use super::{error::ClientError, servers::Servers};
use crate::lease::is_loopback;

/// The longest token, in bytes: the longest JWT that a server reads. A server's own tokens have 53.
const MAX_BYTES: usize = 8 * 1024;

/// Where a token comes from.
#[derive(Clone)]
pub(super) enum Source {
    Text(String),
    /// The first line of a file. It is read again when a server refuses the token.
    File(PathBuf),
}

/// A token, and to whom it may be sent.
#[derive(Clone)]
pub(super) struct Credentials {
    file: Option<Arc<Path>>,
    header: Arc<RwLock<HeaderValue>>,
    /// Whether it may be sent to other machines in plain text.
    plaintext: bool,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Credentials {
    /// The token of the source. Every server must be one to which it may be sent.
    pub(super) fn new(
        source: &Source,
        plaintext: bool,
        servers: &Servers,
        proxied: bool,
    ) -> Result<Self, ClientError> {
        let (file, header) = match source {
            Source::Text(token) => (None, header(token).map_err(fault)?),
            Source::File(path) => (Some(Arc::from(path.as_path())), read(path).map_err(fault)?),
        };
        let made = Self { file, header: Arc::new(RwLock::new(header)), plaintext };
        // A proxy sees what is sent in plain text, even to this machine.
        let open =
            |url: &&Url| !made.may_go_to(url) || (proxied && !plaintext && url.scheme() == "http");
        match servers.iter().find(open) {
            Some(url) => Err(fault(format!(
                "is not sent to {} in plain text, where others can read it: use https, or say that the network is \
                 private (--plaintext-token, TENURE_PLAINTEXT_TOKEN or ClientBuilder::plaintext_token)",
                url.origin().ascii_serialization()
            ))),
            None => Ok(made),
        }
    }

    /// Whether the token may be sent to this server.
    pub(super) fn may_go_to(&self, url: &Url) -> bool {
        self.plaintext || url.scheme() == "https" || is_loopback(url.as_str())
    }

    /// The arguments of a command that calls with the same token. A token that is not in a file has none: everybody on
    /// the machine sees arguments.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let Some(file) = &self.file else { return Vec::new() };
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        let mut arguments = vec!["--token-file".into(), file.into_os_string()];
        arguments.extend(self.plaintext.then(|| "--plaintext-token".into()));
        arguments
    }

    fn header(&self) -> HeaderValue {
        self.header.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The token to try after a server refused the one that was sent: another one, if there is one by now.
    async fn renewed(&self, sent: &HeaderValue) -> Option<HeaderValue> {
        let now = self.header();
        if now != *sent {
            return Some(now);
        }
        let file = self.file.clone()?;
        let read = tokio::task::spawn_blocking(move || read(&file)).await.ok()?;
        match read {
            Ok(header) if header != *sent => {
                *self.header.write().unwrap_or_else(PoisonError::into_inner) = header.clone();
                tracing::info!("the token was refused; another one was read from its file");
                Some(header)
            }
            Ok(_) => None,
            Err(problem) => {
                tracing::warn!(problem, "the token was refused, and its file cannot be used");
                None
            }
        }
    }
}

/// Sends a request with the token, if there is one. If the server does not know the token and its file has another one
/// by now, the request is sent once more: a server that does not know its caller has not carried anything out.
pub(super) async fn send(
    credentials: Option<&Credentials>,
    url: &Url,
    request: impl Fn() -> RequestBuilder,
) -> Result<reqwest::Response, ClientError> {
    let plain =
        async |request: RequestBuilder| request.send().await.map_err(ClientError::from_transport);
    let Some(credentials) = credentials.filter(|credentials| credentials.may_go_to(url)) else {
        return plain(request()).await;
    };
    let token = credentials.header();
    let answer = plain(request().header(AUTHORIZATION, &token)).await?;
    if answer.status() != reqwest::StatusCode::UNAUTHORIZED {
        return Ok(answer);
    }
    match credentials.renewed(&token).await {
        Some(other) => plain(request().header(AUTHORIZATION, other)).await,
        None => Ok(answer),
    }
}

fn read(path: &Path) -> Result<HeaderValue, String> {
    let content = std::fs::read_to_string(path);
    let content =
        content.map_err(|error| format!("in {} cannot be read: {error}", path.display()))?;
    header(content.lines().next().unwrap_or_default()).map_err(|problem| {
        format!("in {} {problem}: its first line must be the token", path.display())
    })
}

/// The header with the token. The problem does not quote it.
fn header(token: &str) -> Result<HeaderValue, String> {
    // Some editors put a byte order mark before the text.
    let token = token.trim_start_matches('\u{feff}').trim();
    if token.is_empty() {
        return Err("is empty".to_owned());
    }
    if token.len() > MAX_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("is not a text of at most {MAX_BYTES} visible ASCII characters"));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| "cannot be sent in a header".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

fn fault(problem: String) -> ClientError {
    ClientError::Token { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(servers: &str, plaintext: bool, proxied: bool) -> Result<Credentials, ClientError> {
        let source = Source::Text("tnr_secret".to_owned());
        Credentials::new(&source, plaintext, &Servers::parse(servers).unwrap(), proxied)
    }

    #[test]
    fn a_token_goes_in_plain_text_to_this_machine_alone() {
        for servers in ["http://127.0.0.1:1,http://[::1]:2,http://localhost", "https://a.example"] {
            assert!(judged(servers, false, false).is_ok(), "{servers}");
        }
        for servers in
            ["http://a.example", "http://127.0.0.1:1,http://10.0.0.7:2", "http://127.0.0.1.example"]
        {
            let fault = judged(servers, false, false).unwrap_err().to_string();
            assert!(fault.contains("plain text") && fault.contains("--plaintext-token"), "{fault}");
            assert!(!fault.contains("tnr_") && judged(servers, true, false).is_ok(), "{fault}");
        }
        assert!(judged("http://127.0.0.1", false, true).is_err(), "the proxy reads it");
        assert!(judged("https://a.example", false, true).is_ok());
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert!(read(&path).unwrap_err().contains("cannot be read"));
        for (content, problem) in
            [("", "is empty"), ("\nx", "is empty"), ("a b", "visible"), ("ü", "visible")]
        {
            std::fs::write(&path, content).unwrap();
            let fault = read(&path).unwrap_err();
            assert!(fault.contains(problem) && fault.contains("first line"), "{fault}");
        }
        std::fs::write(&path, "\u{feff} secret \nmore\n").unwrap();
        let header = read(&path).unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer secret");
        assert!(!format!("{header:?}").contains("secret"));
    }

    #[test]
    fn a_jwt_of_any_length_that_a_server_reads_is_a_token() {
        let jwt = |length: usize| format!("e30.e30.{}", "a".repeat(length - 8));
        assert_eq!(header(&jwt(8192)).unwrap().len(), "Bearer ".len() + 8192);
        assert!(header(&jwt(8193)).unwrap_err().contains("at most 8192"));
    }
}
