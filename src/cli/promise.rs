//! Promises as they are printed: what is left of them at the moment of printing, not what they were when the request
//! was sent.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    exit::Failure,
    output::{plain, span},
};
use crate::clock::boottime_ms;

/// An answer whose request was sent at `asked`. Its `valid_for_ms` is what is left now, and `deadline_boottime_ms` is
/// the end in milliseconds of `CLOCK_BOOTTIME` on this machine.
pub(super) fn at_printing(answer: &impl Serialize, asked: u64) -> Result<Value, Failure> {
    at(boottime_ms(), answer, asked)
}

fn at(now: u64, answer: &impl Serialize, asked: u64) -> Result<Value, Failure> {
    let mut document = serde_json::to_value(answer).map_err(anyhow::Error::from)?;
    let valid = document["valid_for_ms"].as_u64().unwrap_or_default();
    let deadline = asked.saturating_add(valid).max(now);
    document["valid_for_ms"] = json!(deadline - now);
    document["deadline_boottime_ms"] = json!(deadline);
    Ok(document)
}

/// The rows of these fields of a document, as far as they say something. Durations lose the unit in their names.
pub(super) fn rows(document: &Value, fields: &[&str]) -> Vec<(String, String)> {
    let row = |field: &&str| {
        let value = document.get(*field).filter(|value| says_something(value))?;
        Some(match field.strip_suffix("_ms") {
            Some(name) => (name.to_owned(), span(value.as_u64())),
            None => ((*field).to_owned(), plain(value)),
        })
    };
    fields.iter().filter_map(row).collect()
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_printed_with_its_end() {
        let answer = json!({ "token": 7, "valid_for_ms": 10_000, "notices": [], "revived": true });
        let printed = at(3_000, &answer, 1_000).unwrap();
        assert_eq!(printed["valid_for_ms"], 8_000);
        assert_eq!(printed["deadline_boottime_ms"], 11_000);
        let late = at(90_000, &answer, 1_000).unwrap();
        assert_eq!(
            (&late["valid_for_ms"], &late["deadline_boottime_ms"]),
            (&json!(0), &json!(90_000))
        );
        let rows = rows(&printed, &["token", "key", "notices", "revived", "valid_for_ms"]);
        let expected = [("token", "7"), ("revived", "true"), ("valid_for", "8s")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(rows, expected);
    }
}
