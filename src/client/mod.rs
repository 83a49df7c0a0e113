//! A thin client of tenure's HTTP interface.
//!
//! Guarantees: a call is sent once, except that an acquire with a request id is repeated under the
//! same id when its answer was lost; whatever the server refuses comes back as its problem document.
//!
//! Does not guarantee: anything about a lease after `valid_for_ms`, which counts from before the
//! request was sent; a call that failed after it was sent may have been carried out.
//!
//! Assumes: plain HTTP; a server that speaks `/v1`. Fields that it does not know are kept, not judged.

mod error;
mod events;
mod pools;
mod sse;
#[cfg(test)]
mod tests;
mod types;

use std::{fmt::Display, time::Duration};

use reqwest::{Method, RequestBuilder, Url, redirect};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

pub use error::{ClientError, Problem};
pub use events::{Event, EventFilter, EventStream, StreamItem};
pub use pools::{Pool, PoolMember, Pools};
pub use types::{
    Acquire, AcquireAny, Alive, Check, Grant, Grants, Holdings, Lease, LeaseFilter, Leases, Node,
    Nodes, Owner, Released, Session, Sessions,
};

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for an answer, beside the wait that was asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often an acquire whose answer was lost is sent, the first time included.
const ACQUIRE_TRIES: u32 = 3;
/// What lies between them.
const ACQUIRE_PAUSE: Duration = Duration::from_millis(200);
/// How much of an answer that is no JSON an error quotes, in characters.
const QUOTED: usize = 200;

/// A client of one server. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    /// A client of the server at `url`, such as `http://127.0.0.1:7373`.
    ///
    /// # Errors
    /// [`ClientError::Address`] when that is no `http` URL.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let bad = |why: &dyn Display| ClientError::Address {
            url: url.to_owned(),
            problem: why.to_string(),
        };
        let base = Url::parse(url).map_err(|error| bad(&error))?;
        if base.scheme() != "http" || !base.has_host() {
            return Err(bad(&"must be written http://host:port"));
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            // A conditional write is never repeated by a library.
            .retry(reqwest::retry::never())
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| bad(&error))?;
        Ok(Self { http, base })
    }

    /// Acquires one key.
    ///
    /// # Errors
    /// The server's refusal (`held`, `held-by-you`, `cooling`…), or that it cannot be reached.
    pub async fn acquire(&self, body: &Acquire) -> Result<Grant, ClientError> {
        let wait = Duration::from_millis(body.wait_ms.unwrap_or(0));
        self.repeated("acquire", body, wait, body.request_id.is_some()).await
    }

    /// Acquires some of several keys.
    ///
    /// # Errors
    /// The server's refusal (`none-available`), or that it cannot be reached.
    pub async fn acquire_any(&self, body: &AcquireAny) -> Result<Grants, ClientError> {
        let wait = Duration::from_millis(body.wait_ms.unwrap_or(0));
        self.repeated("acquire-any", body, wait, body.request_id.is_some()).await
    }

    /// Keeps a lease.
    ///
    /// # Errors
    /// `lease-lost`, or that the server cannot be reached.
    pub async fn heartbeat(&self, key: &str, lease_id: &str) -> Result<Alive, ClientError> {
        self.post("heartbeat", &json!({"key": key, "lease_id": lease_id})).await
    }

    /// Gives a lease back; `value` is what the next owner reads.
    ///
    /// # Errors
    /// `not-holder`, or that the server cannot be reached.
    pub async fn release(
        &self,
        key: &str,
        lease_id: &str,
        value: Option<&str>,
    ) -> Result<Released, ClientError> {
        let mut body = json!({"key": key, "lease_id": lease_id});
        set(&mut body, "value", value);
        self.post("release", &body).await
    }

    /// Hands a lease over to the owner `to`, for whom it is kept for `offer_ms`; without `to`, to whoever
    /// waits first.
    ///
    /// # Errors
    /// `not-holder`, or that the server cannot be reached.
    pub async fn transfer(
        &self,
        key: &str,
        lease_id: &str,
        to: Option<&str>,
        offer_ms: Option<u64>,
        value: Option<&str>,
    ) -> Result<serde_json::Value, ClientError> {
        let mut body = json!({"key": key, "lease_id": lease_id});
        set(&mut body, "to", to);
        set(&mut body, "offer_ms", offer_ms);
        set(&mut body, "value", value);
        self.post("transfer", &body).await
    }

    /// Whether `token` is that of the present holder.
    ///
    /// # Errors
    /// `unknown-key`, or that the server cannot be reached.
    pub async fn check(&self, key: &str, token: u64) -> Result<Check, ClientError> {
        self.post("check", &json!({"key": key, "token": token})).await
    }

    /// Ends a tenure for its holder; `immediately` does not wait for the end of its last promise.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn revoke(
        &self,
        key: &str,
        reason: &str,
        immediately: bool,
    ) -> Result<serde_json::Value, ClientError> {
        let mut body = json!({"key": key, "reason": reason});
        set(&mut body, "immediately", immediately.then_some(true));
        self.post("admin/revoke", &body).await
    }

    /// The public view of a key's lease.
    ///
    /// # Errors
    /// `unknown-key`, or that the server cannot be reached.
    pub async fn lease(&self, key: &str) -> Result<Lease, ClientError> {
        let mut url = self.url("leases");
        // A path cannot carry these two: every URL parser takes them for directions.
        if key == "." || key == ".." {
            url.query_pairs_mut().append_pair("key", key);
            let found: Leases = answer(self.request(Method::GET, url)).await?;
            return found.leases.into_iter().next().ok_or_else(|| ClientError::unknown_key(key));
        }
        if let Ok(mut path) = url.path_segments_mut() {
            path.push(key);
        }
        answer(self.request(Method::GET, url)).await
    }

    /// One page of leases, in the order of their keys.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn leases(&self, filter: &LeaseFilter) -> Result<Leases, ClientError> {
        let mut url = self.url("leases");
        append(&mut url, &filter.pairs());
        answer(self.request(Method::GET, url)).await
    }

    /// Strikes the fences of a key that were not confirmed.
    ///
    /// # Errors
    /// `not-fencing`, or that the server cannot be reached.
    pub async fn skip_fences(
        &self,
        key: &str,
        reason: &str,
    ) -> Result<serde_json::Value, ClientError> {
        self.post("admin/fence-skip", &json!({"key": key, "reason": reason})).await
    }

    /// One page of sessions, in the order of their digests.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn sessions(
        &self,
        owner: Option<&str>,
        after: Option<&str>,
    ) -> Result<Sessions, ClientError> {
        let mut url = self.url("sessions");
        let text = |text: Option<&str>| text.map(str::to_owned);
        append(&mut url, &[("owner", text(owner)), ("after", text(after))]);
        answer(self.request(Method::GET, url)).await
    }

    /// Ends a session by its id, and every lease of it.
    ///
    /// # Errors
    /// `session-lost`, or that the server cannot be reached.
    pub async fn destroy_session(&self, id: &str) -> Result<serde_json::Value, ClientError> {
        let mut url = self.url("sessions");
        if let Ok(mut path) = url.path_segments_mut() {
            path.push(id);
        }
        answer(self.request(Method::DELETE, url)).await
    }

    /// Has a session hand over all that it keeps, by its id.
    ///
    /// # Errors
    /// `session-lost`, or that the server cannot be reached.
    pub async fn drain_session(&self, id: &str) -> Result<serde_json::Value, ClientError> {
        let mut url = self.url("sessions");
        if let Ok(mut path) = url.path_segments_mut() {
            path.push(id).push("drain");
        }
        answer(self.request(Method::POST, url)).await
    }

    /// The coordinators on the server's store.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn nodes(&self) -> Result<Nodes, ClientError> {
        answer(self.request(Method::GET, self.url("nodes"))).await
    }

    /// The stream of events that pass the filter, from the filter's cursor or from now on.
    #[must_use]
    pub fn events(&self, filter: EventFilter) -> EventStream {
        EventStream::new(self.clone(), filter)
    }

    async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ClientError> {
        answer(self.request(Method::POST, self.url(path)).json(body)).await
    }

    /// Sends again, under the same request id, what may have been granted without us hearing of it.
    async fn repeated<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        wait: Duration,
        repeatable: bool,
    ) -> Result<T, ClientError> {
        let mut tries = 1;
        loop {
            let request = self.request(Method::POST, self.url(path)).json(body);
            match answer(request.timeout(ANSWER_TIMEOUT.saturating_add(wait))).await {
                Err(error) if repeatable && error.may_have_happened() && tries < ACQUIRE_TRIES => {
                    tokio::time::sleep(ACQUIRE_PAUSE).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http.request(method, url).timeout(ANSWER_TIMEOUT)
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path.split('/'));
        }
        url
    }
}

fn set<T: Serialize>(body: &mut serde_json::Value, name: &str, value: Option<T>) {
    if let Some(value) = value {
        body[name] = json!(value);
    }
}

/// Adds the pairs that have a value to the URL's query.
fn append(url: &mut Url, pairs: &[(&str, Option<String>)]) {
    for (name, value) in pairs {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
}

/// Sends, and reads the answer or the problem.
async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, ClientError> {
    let response = request.send().await.map_err(ClientError::from_transport)?;
    let status = response.status();
    let body = response.bytes().await.map_err(ClientError::from_transport)?;
    if !status.is_success() {
        return Err(ClientError::refused(status.as_u16(), &body));
    }
    serde_json::from_slice(&body).map_err(|error| ClientError::NotUnderstood {
        status: status.as_u16(),
        problem: error.to_string(),
        body: quote(&body),
    })
}

/// The beginning of a body, for an error message.
fn quote(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(QUOTED).collect()
}
