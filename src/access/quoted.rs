//! Text as TOML has it.

/// A JSON string is a TOML basic string, except that TOML also escapes DEL.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
