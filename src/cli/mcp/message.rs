//! Messages of JSON-RPC 2.0, one on each line.

use serde_json::{Map, Value, json};

/// The line is no JSON.
pub(super) const PARSE_ERROR: i32 = -32700;
/// The JSON is no message.
const INVALID_REQUEST: i32 = -32600;
/// There is no such method.
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters of the method are not valid.
pub(super) const INVALID_PARAMS: i32 = -32602;
/// The server has a fault.
pub(super) const INTERNAL_ERROR: i32 = -32603;
/// Too many calls are in progress.
pub(super) const BUSY: i32 = -32000;

/// What a client sends.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// It wants an answer.
    Request { id: Value, method: String, params: Map<String, Value> },
    /// It wants no answer.
    Notification { method: String, params: Map<String, Value> },
    /// It answers a request of the server. This server makes none.
    Answer,
}

/// Why a message gets no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    code: i32,
    message: String,
}

impl Fault {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The line that answers the request with this id; the id is null if it cannot be told.
    pub(super) fn line(&self, id: &Value) -> String {
        let error = json!({ "code": self.code, "message": self.message });
        json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
    }
}

/// The line that answers the request with this id.
pub(super) fn answer(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

impl Message {
    /// Reads a line.
    ///
    /// # Errors
    /// The id to answer with, and the fault.
    pub(super) fn read(line: &[u8]) -> Result<Self, (Value, Fault)> {
        let read: Value = serde_json::from_slice(line).map_err(|error| {
            let fault = Fault::new(PARSE_ERROR, format!("the line is not JSON: {error}"));
            (Value::Null, fault)
        })?;
        let Value::Object(mut message) = read else {
            let fault = "a message is one JSON object; batches are not supported";
            return Err((Value::Null, Fault::new(INVALID_REQUEST, fault)));
        };
        let id = message.remove("id");
        // A fault is answered with the id, if there is one that an answer can have.
        let named = id.clone().filter(|id| id.is_string() || id.is_number());
        let invalid = |code, fault: &str| {
            Err((named.clone().unwrap_or(Value::Null), Fault::new(code, fault)))
        };
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return invalid(INVALID_REQUEST, "jsonrpc must be \"2.0\"");
        }
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            None if message.contains_key("result") || message.contains_key("error") => {
                return Ok(Self::Answer);
            }
            _ => return invalid(INVALID_REQUEST, "method must be a text"),
        };
        if id.is_some() && named.is_none() {
            return invalid(INVALID_REQUEST, "id must be a text or a number");
        }
        let params = match message.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            // A notification is never answered.
            Some(_) if named.is_none() => Map::new(),
            Some(_) => return invalid(INVALID_PARAMS, "params must be an object"),
        };
        Ok(match named {
            Some(id) => Self::Request { id, method, params },
            None => Self::Notification { method, params },
        })
    }
}
