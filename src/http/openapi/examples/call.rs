//! A request that works, and its answer.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::{Content, RefOr, example::Example, path::Operation};

const JSON: &str = "application/json";

/// A request that works, and its answer. Both are examples with the same name. The parameters of the request have
/// examples of their own.
pub struct Call {
    /// The id of the operation.
    pub operation: &'static str,
    /// The name of the example, unique within the operation.
    name: &'static str,
    /// What the request does, in a few words.
    summary: &'static str,
    body: Option<Value>,
    /// The content type of the answer.
    kind: &'static str,
    answer: Value,
}

impl Call {
    /// A request without a body.
    pub fn plain(
        [operation, name]: [&'static str; 2],
        summary: &'static str,
        answer: impl Serialize,
    ) -> Self {
        Self { operation, name, summary, body: None, kind: JSON, answer: json!(answer) }
    }

    /// A request with a body.
    pub fn with(
        names: [&'static str; 2],
        summary: &'static str,
        body: Value,
        answer: impl Serialize,
    ) -> Self {
        Self { body: Some(body), ..Self::plain(names, summary, answer) }
    }

    /// A request whose answer is a text of this content type.
    pub fn text(
        names: [&'static str; 2],
        summary: &'static str,
        kind: &'static str,
        answer: &str,
    ) -> Self {
        Self { kind, ..Self::plain(names, summary, answer) }
    }

    /// Adds both examples to their operation.
    pub fn add_to(self, operation: &mut Operation) {
        let example =
            |value: Value| Example::builder().summary(self.summary).value(Some(value)).build();
        if let (Some(body), Some(RefOr::T(request))) = (self.body, &mut operation.request_body) {
            add(request.content.get_mut(JSON), self.name, example(body));
        }
        let mut responses = operation.responses.responses.iter_mut();
        let success = responses.find(|(status, _)| status.starts_with('2'));
        if let Some((_, RefOr::T(response))) = success {
            add(response.content.get_mut(self.kind), self.name, example(self.answer));
        }
    }
}

fn add(content: Option<&mut RefOr<Content>>, name: &str, example: Example) {
    let is_there = matches!(content, Some(RefOr::T(_)));
    debug_assert!(is_there, "there is no content for the example {name}");
    if let Some(RefOr::T(content)) = content {
        content.examples.insert(name.to_owned(), RefOr::T(example));
    }
}
