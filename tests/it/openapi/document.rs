//! The operations of the document.

use serde_json::{Map, Value};

const JSON: &str = "application/json";

/// An operation of the document.
pub struct Operation<'a> {
    pub name: &'a str,
    /// The method, in upper case.
    pub method: String,
    pub path: &'a str,
    definition: &'a Value,
}

/// A success of an operation.
pub struct Success<'a> {
    pub status: u16,
    /// Each content type of the answer, with its schema and its examples.
    pub content: &'a Map<String, Value>,
}

impl<'a> Success<'a> {
    /// The answer as JSON.
    pub fn json(&self) -> Option<&'a Value> {
        self.content.get(JSON)
    }
}

/// The operations of a document.
pub fn operations(document: &Value) -> Vec<Operation<'_>> {
    let items = document["paths"].as_object().expect("paths");
    let mut operations = Vec::new();
    for (path, item) in items {
        for (method, definition) in item.as_object().expect("operations") {
            let name = text(&definition["operationId"]);
            operations.push(Operation { name, method: method.to_uppercase(), path, definition });
        }
    }
    operations
}

/// A JSON string.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The examples of a content, by name.
pub fn examples(content: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let named = content["examples"].as_object().into_iter().flatten();
    named.map(|(name, example)| (name.as_str(), example))
}

impl<'a> Operation<'a> {
    /// Each answer: its status, and what the document says of it.
    pub fn answers(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let answers = self.definition["responses"].as_object().expect("responses");
        answers.iter().map(|(status, answer)| (status.as_str(), answer))
    }

    /// What it answers when it succeeds; `None` if the connection then speaks another protocol.
    pub fn success(&self) -> Option<Success<'a>> {
        let (status, answer) = self.answers().find(|(status, _)| status.starts_with('2'))?;
        let content = answer["content"].as_object().expect("an answer with content");
        Some(Success { status: status.parse().expect("a status"), content })
    }

    /// The body of its requests, with its schema and its examples.
    pub fn body(&self) -> Option<&'a Value> {
        self.definition["requestBody"]["content"].get(JSON)
    }

    pub fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        self.definition["parameters"].as_array().into_iter().flatten()
    }

    /// The names of the parameters of its query.
    pub fn query(&self) -> impl Iterator<Item = &'a str> {
        let of_query = self.parameters().filter(|parameter| parameter["in"] == "query");
        of_query.map(|parameter| text(&parameter["name"]))
    }

    /// Whether the same request may be sent again and again.
    pub fn may_be_repeated(&self) -> bool {
        self.method == "GET" || self.name.starts_with("heartbeat")
    }
}
