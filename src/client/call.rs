//! One request: what is sent, and to which server.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use reqwest::{Method, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    credentials,
    error::{ClientError, quote},
    handle::Client,
    overload,
    servers::Target,
    stream::{Beat, Way},
};

/// How long to wait for an answer, in addition to the wait in the request.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that can be sent to any server, and repeated.
#[derive(Clone, Debug)]
pub(super) struct Call {
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
    timeout: Duration,
}

impl Call {
    /// A call of a path below `/v1`.
    pub(super) fn new(method: Method, path: &str) -> Self {
        let path = path.split('/').map(str::to_owned).collect();
        Self { method, path, query: Vec::new(), body: None, timeout: ANSWER_TIMEOUT }
    }

    pub(super) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: &str, body: Value) -> Self {
        Self { body: Some(body), ..Self::new(Method::POST, path) }
    }

    /// Adds one segment to the path, whatever characters it contains.
    pub(super) fn segment(mut self, segment: &str) -> Self {
        self.path.push(segment.to_owned());
        self
    }

    /// Adds the pairs that have a value.
    pub(super) fn query<const N: usize>(
        mut self,
        pairs: [(&'static str, Option<String>); N],
    ) -> Self {
        let given = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
        self.query.extend(given);
        self
    }

    pub(super) fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The call as a stream takes it, if it is a heartbeat.
    fn beat(&self) -> Option<Beat> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let (op, params) = match path.as_slice() {
            ["heartbeat"] => ("heartbeat", None),
            ["sessions", id, "heartbeat"] => {
                ("heartbeat_session", Some(serde_json::json!({ "id": id })))
            }
            _ => return None,
        };
        Some(Beat { op, params, body: self.body.clone() })
    }

    pub(super) fn url(&self, base: &Url) -> Url {
        let mut url = base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(&self.path);
        }
        for (name, value) in &self.query {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    fn request(&self, http: &reqwest::Client, base: &Url) -> RequestBuilder {
        let request = http.request(self.method.clone(), self.url(base)).timeout(self.timeout);
        match &self.body {
            Some(body) => request.json(body),
            None => request,
        }
    }
}

impl Client {
    /// Sends to the server whose turn it is. The next one is only tried if the call cannot have had an effect. While all
    /// servers are overloaded, they are asked again for some seconds.
    pub(super) async fn call<T: DeserializeOwned>(&self, call: &Call) -> Result<T, ClientError> {
        let (start, mut refusals) = (self.clock.now(), 0);
        loop {
            let error = match self.call_each(call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            refusals += 1;
            match overload::pause(&error, refusals) {
                Some(pause) if self.clock.now() + pause < start + overload::PATIENCE => {
                    tokio::time::sleep(pause).await;
                }
                _ => return Err(error),
            }
        }
    }

    /// Sends to each server, until one does not refuse for its load and can be reached.
    async fn call_each<T: DeserializeOwned>(&self, call: &Call) -> Result<T, ClientError> {
        let mut servers = self.servers.len();
        loop {
            let server = self.servers.current();
            let outcome = self.call_at(server, call).await;
            servers -= 1;
            match outcome {
                Err(ClientError::Unreachable { sent, source }) => {
                    self.servers.failed(server);
                    if sent || servers == 0 {
                        return Err(ClientError::Unreachable { sent, source });
                    }
                }
                Err(error) if overload::is_overload(&error) && servers > 0 => {
                    self.servers.failed(server);
                }
                outcome => return outcome,
            }
        }
    }

    /// Sends to one server after the other until one of them accepts or finally refuses.
    pub(super) async fn ask_around<T: DeserializeOwned>(
        &self,
        call: &Call,
        home: Option<&Url>,
    ) -> Result<T, ClientError> {
        let targets = self.targets(home);
        let mut failed = None;
        for target in &targets {
            match self.ask(target, call).await {
                Ok(answer) => return Ok(answer),
                Err(ClientError::Refused(problem)) if !problem.retryable => {
                    return Err(ClientError::Refused(problem));
                }
                // Of several errors, the first is from the best informed server.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| unreachable!("there is at least one server")))
    }

    /// Sends once, to the server whose turn it is. The turn moves on if the server gives no answer, cannot help now, or
    /// does not allow it.
    pub(super) async fn ask_next<T: DeserializeOwned>(
        &self,
        call: &Call,
        home: Option<&Url>,
        turn: &AtomicUsize,
        patience: Duration,
    ) -> Result<T, ClientError> {
        let targets = self.targets(home);
        let at = turn.load(Ordering::Relaxed) % targets.len();
        let outcome = self.beat_at(&targets[at], call, patience).await;
        let passing = match &outcome {
            Ok(_) => false,
            Err(error) => {
                // Another server may know a caller that this one does not know yet, or no longer.
                error.is_no_permission() || error.problem().is_none_or(|problem| problem.retryable)
            }
        };
        if passing {
            turn.store(at + 1, Ordering::Relaxed);
        }
        outcome
    }

    /// Sends a heartbeat to one server: by the stream to it, or else by a plain call. A heartbeat may be sent twice.
    async fn beat_at<T: DeserializeOwned>(
        &self,
        target: &Target,
        call: &Call,
        patience: Duration,
    ) -> Result<T, ClientError> {
        if let Some(beat) = call.beat().filter(|_| !target.stranger) {
            let way = Way {
                http: &self.connections(),
                credentials: self.credentials.as_ref(),
                clock: &self.clock,
            };
            // As much is left for a plain call.
            let answer = self.streams.beat(&way, &target.url, beat, patience / 2).await;
            if let Some(answer) = answer {
                return read(answer.status, &answer.body);
            }
            return self.ask(target, &call.clone().timeout(patience / 2)).await;
        }
        self.ask(target, &call.clone().timeout(patience)).await
    }

    /// The servers to ask, in order, without those that must not see the token.
    pub(super) fn targets(&self, home: Option<&Url>) -> Vec<Target> {
        let mut targets = self.servers.order(home);
        let credentials = self.credentials.as_ref();
        targets.retain(|target| {
            !target.stranger || credentials.is_none_or(|own| own.may_go_to(&target.url))
        });
        targets
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        target: &Target,
        call: &Call,
    ) -> Result<T, ClientError> {
        match self.call_at(&target.url, call).await {
            Err(ClientError::Refused(problem)) if target.stranger => {
                Err(ClientError::NotUnderstood {
                    status: problem.status,
                    problem: "from a server that only another server named".into(),
                    body: problem.to_string(),
                })
            }
            outcome => outcome,
        }
    }

    /// Sends to one server, once.
    pub(super) async fn call_at<T: DeserializeOwned>(
        &self,
        server: &Url,
        call: &Call,
    ) -> Result<T, ClientError> {
        let parent = self.traceparent.as_ref().filter(|_| call.beat().is_none());
        let request = || {
            let request = call.request(&self.connections(), server);
            match parent {
                Some(parent) => request.header("traceparent", parent),
                None => request,
            }
        };
        answer(credentials::send(self.credentials.as_ref(), server, request).await?).await
    }
}

/// Reads the answer or the problem.
async fn answer<T: DeserializeOwned>(response: Response) -> Result<T, ClientError> {
    let status = response.status();
    let body = response.bytes().await.map_err(ClientError::from_transport)?;
    read(status.as_u16(), &body)
}

/// Reads the document or the problem of an answer.
fn read<T: DeserializeOwned>(status: u16, body: &[u8]) -> Result<T, ClientError> {
    if !(200..300).contains(&status) {
        return Err(ClientError::refused(status, body));
    }
    serde_json::from_slice(body).map_err(|error| ClientError::NotUnderstood {
        status,
        problem: error.to_string(),
        body: quote(body),
    })
}
