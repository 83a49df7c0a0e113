//! Follows the event stream across disconnects.

use std::{collections::VecDeque, time::Duration};

use reqwest::Response;
use serde::Deserialize;
use serde_json::Value;

use super::{
    call::Call,
    credentials,
    error::ClientError,
    handle::Client,
    overload,
    sse::{Frame, Parser},
};

/// The longest silence of a live stream. The server writes a comment line at least every 5 s, so a stream that is
/// silent for longer than this is dead, whatever the socket says.
const SILENCE: Duration = Duration::from_secs(15);
/// The first and the longest pause before a new connection. The pause doubles in between.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the type of an event in CloudEvents form begins with.
const TYPE: &str = "io.tenure.lease.";

/// Which events a stream contains, and where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only keys that start with it.
    pub prefix: Option<String>,
    /// Only changes from or to this owner.
    pub owner: Option<String>,
    /// Only these short types, separated by commas.
    pub types: Option<String>,
    /// Only what follows this cursor; without one, from now on.
    pub after: Option<String>,
}

/// One event, and the cursor from which a stream resumes after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The cursor from which a stream resumes.
    pub cursor: Option<String>,
    /// The short type: `granted`, `released`…, or `reset` where events were left out.
    pub kind: String,
    /// The whole event, as a CloudEvents object.
    pub body: Value,
}

impl Event {
    /// An event from its CloudEvents object, as a page of past events and the history of a lease have it.
    #[must_use]
    pub fn of(body: Value) -> Self {
        let kind = body["type"].as_str().unwrap_or_default();
        let kind = kind.strip_prefix(TYPE).unwrap_or(kind).to_owned();
        Self { cursor: body["id"].as_str().map(str::to_owned), kind, body }
    }

    /// The key, if the event concerns one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.body["subject"].as_str()
    }
}

/// One page of past events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastEvents {
    /// The events, oldest first. Without events, there are no more for now.
    pub events: Vec<Event>,
    /// The cursor of the page's end, from which the next page or a stream continues.
    pub next: String,
    /// Whether events after the filter's cursor are missing, because the server no longer keeps them.
    pub reset: bool,
}

/// A page of past events, as the server writes it.
#[derive(Deserialize)]
struct Page {
    events: Vec<Value>,
    next: String,
    #[serde(default)]
    reset: bool,
    /// Whether there is more, although the page may have no events: a server bounds what one call looks at.
    #[serde(default)]
    more: bool,
}

/// An item of the stream.
#[derive(Debug)]
pub enum StreamItem {
    /// The stream is connected. The next events follow the cursor without a gap.
    Connected,
    /// An event that passes the filter.
    Event(Event),
    /// The connection was lost. The next call of [`EventStream::next`] makes the next attempt.
    Disconnected {
        /// Why it was lost, for people.
        problem: String,
        /// The pause before the next attempt.
        retry_in: Duration,
    },
}

/// A stream of events that resumes where it stopped when its connection breaks.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    /// What is followed: its path, without a query.
    path: Vec<String>,
    filter: EventFilter,
    connection: Option<(Response, Parser)>,
    ready: VecDeque<Event>,
    /// Whether it was ever connected.
    connected: bool,
    /// How long to pause before the next attempt.
    pause: Duration,
}

impl Client {
    /// The stream of events that pass the filter, from the filter's cursor or from now on.
    #[must_use]
    pub fn events(&self, filter: EventFilter) -> EventStream {
        EventStream::new(self.clone(), &["events"], filter)
    }

    /// One page of past events that pass the filter, from the filter's cursor on. The cursor `0` stands for the oldest
    /// event that the server keeps. Without a cursor, the page is empty, and its end is now.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn past_events(&self, filter: &EventFilter) -> Result<PastEvents, ClientError> {
        let mut filter = filter.clone();
        loop {
            let EventFilter { prefix, owner, types, after } = filter.clone();
            let format = Some("json".to_owned());
            let pairs = [
                ("prefix", prefix),
                ("owner", owner),
                ("types", types),
                ("after", after),
                ("format", format),
            ];
            let page: Page = self.call(&Call::get("events").query(pairs)).await?;
            if !page.events.is_empty() || page.reset || !page.more {
                let events = page.events.into_iter().map(Event::of).collect();
                return Ok(PastEvents { events, next: page.next, reset: page.reset });
            }
            filter.after = Some(page.next);
        }
    }
}

impl EventStream {
    /// The stream at this path.
    pub(super) fn new(client: Client, path: &[&str], filter: EventFilter) -> Self {
        let (connection, ready) = (None, VecDeque::new());
        let path = path.iter().map(|&segment| segment.to_owned()).collect();
        Self { client, path, filter, connection, ready, connected: false, pause: Duration::ZERO }
    }

    /// The next item. It is cancel-safe: dropping the future loses no event.
    ///
    /// # Errors
    /// When the server cannot be reached the first time, or refuses.
    pub async fn next(&mut self) -> Result<StreamItem, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                // The event is delivered, so a new connection resumes after it.
                if event.cursor.is_some() {
                    self.filter.after.clone_from(&event.cursor);
                }
                return Ok(StreamItem::Event(event));
            }
            let Some((response, parser)) = &mut self.connection else {
                return self.connect().await;
            };
            let problem = match tokio::time::timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    let mut frames = Vec::new();
                    let outcome = parser.push(&bytes, &mut frames);
                    self.ready.extend(frames.into_iter().map(Event::from));
                    match outcome {
                        Ok(()) => {
                            self.pause = FIRST_PAUSE;
                            continue;
                        }
                        Err(_) => "an event exceeded the maximum length".to_owned(),
                    }
                }
                Ok(Ok(None)) => "the server closed the stream".to_owned(),
                Ok(Err(error)) => ClientError::from_transport(error).to_string(),
                Err(_) => format!("silent for {} s", SILENCE.as_secs()),
            };
            return Ok(self.lost(problem, None));
        }
    }

    fn lost(&mut self, problem: String, asked: Option<Duration>) -> StreamItem {
        self.connection = None;
        let own = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause = asked.unwrap_or(own);
        StreamItem::Disconnected { problem, retry_in: self.pause }
    }

    async fn connect(&mut self) -> Result<StreamItem, ClientError> {
        tokio::time::sleep(self.pause).await;
        match self.open(SILENCE).await {
            Ok(response) => {
                self.connection = Some((response, Parser::default()));
                self.connected = true;
                Ok(StreamItem::Connected)
            }
            // A server that restarts refuses connections, and one that drains or is overloaded answers 503.
            Err(error)
                if self.connected && is_transient(&error) || overload::is_overload(&error) =>
            {
                let servers = &self.client.servers;
                servers.failed(&servers.current().clone());
                Ok(self.lost(error.to_string(), overload::pause(&error, 1)))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the request for events, and waits for the beginning of the answer for at most `patience`.
    async fn open(&self, patience: Duration) -> Result<Response, ClientError> {
        let EventFilter { prefix, owner, types, after } = self.filter.clone();
        let (first, rest) = self.path.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
        let call = rest.iter().fold(Call::get(first), |call, segment| call.segment(segment));
        let call = call.query([("prefix", prefix), ("owner", owner), ("types", types)]);
        let server = self.client.servers.current().clone();
        let url = call.url(&server);
        // The whole request has no timeout, since the stream is endless.
        let request = || {
            let request =
                self.client.connections().get(url.clone()).header("Accept", "text/event-stream");
            after.iter().fold(request, |request, after| request.header("Last-Event-ID", after))
        };
        let sent = credentials::send(self.client.credentials.as_ref(), &url, request);
        let response = tokio::time::timeout(patience, sent)
            .await
            .map_err(|_| ClientError::no_answer(&server, patience))??;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(ClientError::from_transport)?;
        Err(ClientError::refused(status.as_u16(), &body))
    }
}

fn is_transient(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(problem) => problem.retryable,
        ClientError::Address { .. }
        | ClientError::Proxy { .. }
        | ClientError::Token { .. }
        | ClientError::Replaced { .. }
        | ClientError::Tls(_) => false,
        ClientError::Unreachable { .. }
        | ClientError::NoAnswer { .. }
        | ClientError::NotUnderstood { .. } => true,
    }
}

impl From<Frame> for Event {
    fn from(frame: Frame) -> Self {
        let body = serde_json::from_str(&frame.data).unwrap_or(Value::String(frame.data));
        Self { cursor: frame.id, kind: frame.event, body }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_event_of_a_page_is_that_of_the_stream() {
        let body = serde_json::json!({ "id": "0a-8-0", "type": "io.tenure.lease.granted", "subject": "k" });
        let event = Event::of(body.clone());
        let streamed =
            Frame { id: Some("0a-8-0".into()), event: "granted".into(), data: body.to_string() };
        assert_eq!(event, Event::from(streamed));
        assert_eq!(event.key(), Some("k"));
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_a_request_for_events_is_named() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", silent.local_addr().unwrap());
        let stream = Client::new(&server).unwrap().events(EventFilter::default());
        let error = stream.open(Duration::from_millis(50)).await.unwrap_err();
        let told = format!("no answer in time from {server}: it was silent for 50 ms");
        assert_eq!(error.to_string(), told);
        assert!(is_transient(&error) && !error.may_have_happened());
    }
}
