//! The messages of a stream: what clients send, and the envelopes of what they are sent.

use std::{borrow::Cow, io::Write as _};

use actix_http::ws::{OpCode, Parser};
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ending::Ending, operations::Parameters};
use crate::{
    api::{HeartbeatAnswer, Verdict},
    http::{answer::Problem, request},
};

/// The largest id of a call: every client can count so far exactly.
pub const MAX_ID: u64 = (1 << 53) - 1;

/// A call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message<'a> {
    /// By which the answer names the call.
    pub id: u64,
    /// The `operationId`. JSON may write it with escapes.
    #[serde(borrow)]
    pub op: Cow<'a, str>,
    /// The parameters of the path and of the query.
    #[serde(default)]
    pub params: Parameters,
    /// The body of the request, as it is.
    #[serde(default, borrow)]
    pub body: Option<&'a RawValue>,
}

/// A call that cannot be read, by its id alone.
#[derive(Deserialize)]
struct Named {
    id: u64,
}

/// The body of a plain heartbeat, which most messages are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat<'a> {
    pub key: &'a str,
    pub lease_id: &'a str,
}

/// A message that could not be read: the call's id, and what is wrong.
pub type Misread = (u64, Problem);

/// Reads a message.
///
/// # Errors
/// The message is answered with a problem; or, without an id, the stream ends.
pub fn read(message: &Bytes) -> Result<Message<'_>, Result<Misread, Ending>> {
    let text = std::str::from_utf8(message).map_err(|_| Err(Ending::Unanswerable))?;
    // Without this, a list of the fields would do.
    if !text.trim_start().starts_with('{') {
        return Err(Err(Ending::Unanswerable));
    }
    match serde_json::from_str::<Message<'_>>(text) {
        Ok(message) if message.id > MAX_ID => Err(Err(Ending::Unanswerable)),
        Ok(message) => Ok(message),
        Err(_) => match serde_json::from_str::<Named>(text) {
            Ok(Named { id }) if id <= MAX_ID => {
                Err(Ok((id, request::explain::<Message<'_>>(message))))
            }
            _ => Err(Err(Ending::Unanswerable)),
        },
    }
}

/// The answer to a call.
pub struct Answer {
    pub id: u64,
    pub status: u16,
    /// In seconds, where HTTP has the header `Retry-After`.
    pub retry_after: Option<u64>,
    /// The URL of the node that answered, if it is another one.
    pub node: Option<String>,
    /// The document. It is JSON, or empty.
    pub body: Bytes,
}

impl Answer {
    /// The refusal of a call.
    pub fn problem(id: u64, problem: &Problem) -> Self {
        let body = serde_json::to_vec(problem).unwrap_or_default().into();
        let retry_after = problem.retry_after();
        Self { id, status: problem.status, retry_after, node: None, body }
    }

    /// A success.
    pub fn ok(id: u64, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).unwrap_or_default().into();
        Self { id, status: 200, retry_after: None, node: None, body }
    }
}

/// The messages that are to be sent, as frames.
#[derive(Default)]
pub struct Outgoing {
    frames: BytesMut,
    /// The message that is being written.
    text: Vec<u8>,
}

impl Outgoing {
    /// How many bytes are to be sent.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// All that is to be sent, if there is anything.
    pub fn take(&mut self) -> Option<Bytes> {
        (!self.frames.is_empty()).then(|| self.frames.split().freeze())
    }

    /// Adds an answer.
    pub fn answer(&mut self, answer: &Answer) {
        self.begin(answer.id, answer.status);
        if let Some(seconds) = answer.retry_after {
            // A write into memory does not fail.
            let _ = write!(self.text, r#","retry_after":{seconds}"#);
        }
        if let Some(node) = &answer.node {
            self.text.extend_from_slice(br#","node":"#);
            let _ = serde_json::to_writer(&mut self.text, node);
        }
        let body: &[u8] = if answer.body.is_empty() { b"null" } else { &answer.body };
        self.text.extend_from_slice(br#","body":"#);
        self.text.extend_from_slice(body);
        self.end();
    }

    /// Adds the answer to a heartbeat that kept its lease.
    pub fn alive(&mut self, id: u64, answer: &HeartbeatAnswer<'_>) {
        self.begin(id, 200);
        self.text.extend_from_slice(br#","body":"#);
        let _ = serde_json::to_writer(&mut self.text, answer);
        self.end();
    }

    /// Adds the answer to a batch of which every lease was kept.
    pub fn verdicts<'a>(&mut self, id: u64, verdicts: impl Iterator<Item = Verdict<'a>>) {
        self.begin(id, 200);
        self.text.extend_from_slice(br#","body":{"results":["#);
        for (at, verdict) in verdicts.enumerate() {
            if at > 0 {
                self.text.push(b',');
            }
            let _ = serde_json::to_writer(&mut self.text, &verdict);
        }
        self.text.extend_from_slice(b"]}");
        self.end();
    }

    /// Adds a message of its own: a document under this name.
    pub fn push(&mut self, name: &str, document: &impl Serialize) {
        let _ = write!(self.text, r#"{{"{name}":"#);
        let _ = serde_json::to_writer(&mut self.text, document);
        self.end();
    }

    /// The same, for a document that is JSON already.
    pub fn push_json(&mut self, name: &str, json: &[u8]) {
        let _ = write!(self.text, r#"{{"{name}":"#);
        self.text.extend_from_slice(json);
        self.end();
    }

    /// Adds a ping.
    pub fn ping(&mut self) {
        Parser::write_message(&mut self.frames, b"", OpCode::Ping, true, false);
    }

    /// Adds the answer to a ping.
    pub fn pong(&mut self, payload: &[u8]) {
        Parser::write_message(&mut self.frames, payload, OpCode::Pong, true, false);
    }

    /// Adds the end.
    pub fn close(&mut self, ending: &Ending) {
        if let Some(told) = ending.told() {
            Parser::write_close(&mut self.frames, Some(told), false);
        }
    }

    fn begin(&mut self, id: u64, status: u16) {
        let _ = write!(self.text, r#"{{"id":{id},"status":{status}"#);
    }

    fn end(&mut self) {
        self.text.push(b'}');
        Parser::write_message(&mut self.frames, &self.text, OpCode::Text, true, false);
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn unread(text: &str) -> Result<(u64, Option<String>), Ending> {
        let message = Bytes::copy_from_slice(text.as_bytes());
        let misread = read(&message).map(drop).expect_err("it cannot be read");
        misread.map(|(id, problem)| {
            assert_eq!(problem.code, "malformed-request", "{text}");
            (id, problem.field)
        })
    }

    #[test]
    fn a_call_has_an_id_an_operation_and_what_the_operation_takes() {
        let text = r#" {"op":"get_lease","id":9007199254740991,"params":{"key":"k"}}"#;
        let message = Bytes::from_static(text.as_bytes());
        let message = read(&message).expect("a call");
        assert_eq!((message.id, &*message.op), (MAX_ID, "get_lease"));
        assert_eq!(message.params["key"], "k");
        assert!(message.body.is_none());
        let message = Bytes::from_static(br#"{"id":0,"op":"heartbeat","body": {"key" : "k"} }"#);
        let message = read(&message).expect("a call");
        assert_eq!(message.body.map(RawValue::get), Some(r#"{"key" : "k"}"#));
    }

    #[test]
    fn what_has_an_id_is_answered_and_what_has_none_ends_the_stream() {
        for (text, field) in [
            (r#"{"id":7}"#, "op"),
            (r#"{"id":7,"op":1}"#, "op"),
            (r#"{"id":7,"op":"heartbeat","body":{"key":"k"},"more":1}"#, "more"),
            (r#"{"id":7,"op":"heartbeat","params":[]}"#, "params"),
        ] {
            assert_eq!(unread(text), Ok((7, Some(field.to_owned()))), "{text}");
        }
        for text in [
            "",
            "7",
            "{",
            r#"[7,"heartbeat"]"#,
            r#"{"op":"heartbeat"}"#,
            r#"{"id":-1,"op":"heartbeat"}"#,
            r#"{"id":"7","op":"heartbeat"}"#,
            r#"{"id":9007199254740992,"op":"heartbeat"}"#,
            r#"{"id":7,"op":"heartbeat"} {}"#,
        ] {
            assert_eq!(unread(text), Err(Ending::Unanswerable), "{text}");
        }
        let message = Bytes::from_static(b"{\"id\":7,\"op\":\"\xff\"}");
        assert!(matches!(read(&message), Err(Err(Ending::Unanswerable))));
    }

    #[test]
    fn answers_are_envelopes_around_the_documents_of_http() {
        let mut outgoing = Outgoing::default();
        let refused = Problem::of(crate::api::Code::Busy, "x").retry(1500);
        outgoing.answer(&Answer::problem(7, &refused));
        let frame = outgoing.take().expect("a frame");
        let length = usize::from(u16::from_be_bytes([frame[2], frame[3]]));
        assert_eq!((frame[0], frame[1], frame.len()), (0x81, 126, length + 4));
        let answer: Value = serde_json::from_slice(&frame[4..]).expect("JSON");
        assert_eq!(answer["id"], 7);
        assert_eq!(answer["status"], 429);
        assert_eq!(answer["retry_after"], 2);
        assert_eq!(answer["body"], serde_json::to_value(&refused).expect("JSON"));
        outgoing.push("notice", &json!({ "a": 1 }));
        let body = Bytes::new();
        outgoing.answer(&Answer { id: 8, status: 204, retry_after: None, node: None, body });
        let frames = outgoing.take().expect("two frames in one piece");
        assert_eq!(
            &frames[2..],
            [&br#"{"notice":{"a":1}}"#[..], b"\x81\x21", br#"{"id":8,"status":204,"body":null}"#]
                .concat()
        );
        assert_eq!(outgoing.take(), None);
    }
}
