//! Requests to the server: conditional publishes, and reads from the stream's leader.
//!
//! Guarantees:
//! - A publish is handed to the connection once.
//! - Its answer, or the lack of one, is known within the request time-out.
//!
//! Does not guarantee: that a publish without an answer will not be stored later. The client keeps what it
//! could not send, and sends it when it is connected again.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Client, HeaderMap, Request, RequestErrorKind,
    connection::State,
    header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
    jetstream::{
        self,
        stream::{self, LastRawMessageErrorKind, Stream},
    },
};
use bytes::Bytes;
use serde::Deserialize;
use tokio::{sync::watch, time::timeout};

use super::{message, subject::Subjects};
use crate::lease::{Revision, StoreError};

/// How much longer than its time-out a request may wait for a place in the client's queue.
const QUEUE: Duration = Duration::from_millis(250);
/// "wrong last sequence", with and without the number in its text.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];
/// "stream not found".
const STREAM_NOT_FOUND: u64 = 10059;

/// The outcome of a publish.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    Stored(Revision),
    /// Not stored: the subject's last message has another sequence.
    WrongLast,
    /// Not stored, and never will be.
    Refused(StoreError),
    /// Stored, or not, or stored later.
    Unknown(StoreError),
}

/// The last message of a subject.
#[derive(Clone, Debug)]
pub(super) struct Last {
    pub revision: Revision,
    /// Whether the message says that what was before it is removed.
    pub removal: bool,
    pub payload: Bytes,
}

/// The answer to a request for the stream's description.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Here(Box<stream::Info>),
    /// The stream does not exist.
    Gone,
    /// No answer, or no useful one; the text says why.
    Unanswered(String),
}

/// The connection, with what requests over it need.
#[derive(Clone)]
pub(super) struct Link {
    pub client: Client,
    pub context: jetstream::Context,
    pub stream: Stream<()>,
    pub subjects: Arc<Subjects>,
    pub timeout: Duration,
    /// How many times the connection was made.
    pub connections: watch::Receiver<u64>,
}

#[derive(Deserialize)]
struct Ack {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    error: Option<AckError>,
}

#[derive(Deserialize)]
struct AckError {
    code: u64,
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

pub(super) fn unavailable(why: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(why.to_string())
}

impl Link {
    pub fn connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Publishes if the subject's last message has the expected sequence (0 if it must have none).
    pub async fn publish(
        &self,
        subject: String,
        expected: Revision,
        mut headers: HeaderMap,
        payload: Bytes,
    ) -> Sent {
        if !self.connected() {
            return Sent::Refused(unavailable("not connected to a server"));
        }
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.0.to_string());
        let request = Request::new().headers(headers).payload(payload).timeout(Some(self.timeout));
        // The client's own time-out does not cover the wait for a place in its queue.
        let limit = self.timeout + QUEUE;
        let answer = timeout(limit, self.client.send_request(subject, request)).await;
        let why = match answer {
            Ok(Ok(answer)) => return self.judge(&answer.payload),
            Ok(Err(why)) => why,
            Err(_) => return Sent::Unknown(unavailable("the write was not sent in time")),
        };
        match why.kind() {
            // No server was there to receive it, or it was too long or had a bad subject.
            RequestErrorKind::NoResponders => {
                Sent::Refused(unavailable("the stream has no leader"))
            }
            RequestErrorKind::MaxPayloadExceeded => {
                Sent::Refused(StoreError::TooLong(why.to_string()))
            }
            RequestErrorKind::InvalidSubject => Sent::Refused(unavailable(why)),
            RequestErrorKind::TimedOut | RequestErrorKind::Other => Sent::Unknown(unavailable(why)),
        }
    }

    /// Whether the stream has a leader that takes writes.
    pub async fn leader_takes_writes(&self) -> bool {
        matches!(self.try_write(self.subjects.meta.clone()).await, Sent::WrongLast)
    }

    /// Sends a write that no leader can accept. [`Sent::WrongLast`] says that a leader read it.
    pub async fn try_write(&self, subject: String) -> Sent {
        self.publish(subject, Revision(u64::MAX), HeaderMap::new(), Bytes::new()).await
    }

    fn judge(&self, answer: &[u8]) -> Sent {
        let ack: Ack = match serde_json::from_slice(answer) {
            Ok(ack) => ack,
            Err(why) => return Sent::Unknown(unavailable(format!("an unreadable answer: {why}"))),
        };
        match ack.error {
            None if ack.seq > 0 && ack.stream == self.subjects.stream => {
                Sent::Stored(Revision(ack.seq))
            }
            None => {
                let why =
                    format!("the stream {:?} answered for {:?}", ack.stream, self.subjects.stream);
                Sent::Unknown(unavailable(why))
            }
            Some(error) if WRONG_LAST_SEQUENCE.contains(&error.err_code) => Sent::WrongLast,
            // The request was at fault, and was judged before anything was stored. If the server itself failed,
            // one of its peers may have stored the message.
            Some(error) if error.code < 500 => Sent::Refused(said(&error)),
            Some(error) => Sent::Unknown(said(&error)),
        }
    }

    /// The subject's last message, from the stream's leader.
    pub async fn last(&self, subject: &str) -> Result<Option<Last>, StoreError> {
        if !self.connected() {
            return Err(unavailable("not connected to a server"));
        }
        let read = self.stream.get_last_raw_message_by_subject(subject);
        match timeout(self.timeout, read).await {
            Ok(Ok(message)) => Ok(Some(Last {
                revision: Revision(message.sequence),
                removal: message::is_removal(Some(&message.headers)),
                payload: message.payload,
            })),
            Ok(Err(why)) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Ok(Err(why)) => Err(unavailable(why)),
            Err(_) => Err(unavailable("a read was not answered in time")),
        }
    }

    /// The sequence of the first message from `from` on that the stream's leader has for some subjects.
    pub async fn next(&self, subjects: &str, from: u64) -> Result<Option<u64>, StoreError> {
        let builder = self.stream.raw_message_builder();
        let read = builder.sequence(from).next_by_subject(subjects).send();
        match timeout(self.timeout, read).await {
            Ok(Ok(message)) => Ok(Some(message.sequence)),
            Ok(Err(why)) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Ok(Err(why)) => Err(unavailable(why)),
            Err(_) => Err(unavailable("a read was not answered in time")),
        }
    }

    /// The stream's description, from its leader.
    pub async fn info(&self) -> Asked {
        if !self.connected() {
            return Asked::Unanswered("not connected to a server".to_owned());
        }
        let subject = format!("STREAM.INFO.{}", self.subjects.stream);
        let nothing = serde_json::json!({});
        let asked = self.context.request(subject, &nothing);
        match timeout(self.timeout, asked).await {
            Ok(Ok(jetstream::response::Response::Ok(info))) => Asked::Here(Box::new(info)),
            Ok(Ok(jetstream::response::Response::Err { error })) => {
                if error.error_code().0 == STREAM_NOT_FOUND {
                    Asked::Gone
                } else {
                    Asked::Unanswered(error.to_string())
                }
            }
            Ok(Err(why)) => Asked::Unanswered(why.to_string()),
            Err(_) => Asked::Unanswered("the server did not answer in time".to_owned()),
        }
    }
}

/// When the stream was created, in nanoseconds since 1970.
pub(super) fn created(info: &stream::Info) -> i128 {
    info.created.unix_timestamp_nanos()
}

fn said(error: &AckError) -> StoreError {
    let why = format!("the server refused: {} ({})", error.description, error.err_code);
    match error.err_code {
        // The codes mean: insufficient resources; maximum bytes; maximum messages.
        10023 | 10047 | 10028 => StoreError::Full(why),
        // The stream has a maximum size of messages.
        10054 => StoreError::TooLong(why),
        _ if error.description.starts_with("maximum") => StoreError::Full(why),
        _ => StoreError::Unavailable(why),
    }
}
