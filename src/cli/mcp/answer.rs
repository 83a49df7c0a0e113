//! The answers of tools: a sentence for the agent's model, and the same as data.

use serde_json::{Map, Value, json};

use super::view::foreign_text;
use crate::{cli::output::shown_lines, client::ClientError};

/// The answer of a tool.
#[derive(Debug)]
pub(super) struct Answer {
    message: String,
    data: Map<String, Value>,
    failed: bool,
    /// The tenure that began with it.
    claimed: Option<Claimed>,
}

/// A tenure that a call claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub(super) key: String,
    pub(super) token: u64,
}

impl Answer {
    /// The tool did what it was asked for. The data is a JSON object.
    pub(super) fn done(message: impl Into<String>, data: Value) -> Self {
        let data = match data {
            Value::Object(data) => data,
            _ => Map::new(),
        };
        Self { message: message.into(), data, failed: false, claimed: None }
    }

    /// The tool did not do what it was asked for.
    pub(super) fn failed(message: impl Into<String>, data: Value) -> Self {
        Self { failed: true, ..Self::done(message, data) }
    }

    /// An argument is not valid.
    pub(super) fn wrong(field: &str, why: &str) -> Self {
        let message = format!("The argument `{field}` {why}.");
        Self::failed(message, json!({ "code": "invalid-field", "field": field }))
    }

    /// The server refused a call, or gave no answer. `what` says in a sentence what did not happen.
    pub(super) fn refused(what: &str, error: &ClientError) -> Self {
        let mut data = json!({ "retryable": true });
        if let Some(problem) = error.problem() {
            data["code"] = json!(problem.code);
            data["retryable"] = json!(problem.retryable);
            if let Some(field) = &problem.field {
                data["field"] = json!(field);
            }
        }
        // A refusal may name owners and keys of others.
        Self::failed(format!("{what} {}", foreign_text(&error.to_string())), data)
    }

    /// No server answered in time.
    pub(super) fn silent(what: &str) -> Self {
        let message = format!("{what} No server answered in time. Call again.");
        Self::failed(message, json!({ "retryable": true }))
    }

    /// The same answer, of a claim.
    pub(super) fn of_claim(self, claimed: Claimed) -> Self {
        Self { claimed: Some(claimed), ..self }
    }

    /// The result as the protocol has it, with notices about other leases, and what was claimed.
    pub(super) fn result(mut self, notices: &[String]) -> (Value, Option<Claimed>) {
        let texts = std::iter::once(&self.message).chain(notices);
        let content: Vec<Value> =
            texts.map(|text| json!({ "type": "text", "text": text })).collect();
        // Some clients show their model the data alone.
        self.data.insert("message".to_owned(), json!(self.message));
        if !notices.is_empty() {
            self.data.insert("notices".to_owned(), json!(notices));
        }
        let result = json!({
            "content": content,
            "structuredContent": self.data,
            "isError": self.failed,
        });
        (seen(result), self.claimed)
    }
}

/// The same with each character that is not seen as an escape. A person who reads along must see what a model reads.
fn seen(value: Value) -> Value {
    match value {
        Value::String(text) => shown_lines(&text).into(),
        Value::Array(items) => items.into_iter().map(seen).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (shown_lines(&name), seen(value))).collect()
        }
        other => other,
    }
}
