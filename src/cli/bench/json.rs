//! Targeted look-ups in the JSON forms that the server is known to answer with.
//!
//! Guarantees
//! - A member is found by its quoted name followed by a colon; inside a JSON string every quote is
//!   escaped, so no text of a user can be mistaken for a member.
//! - White space around the colon is accepted.
//!
//! Does not guarantee
//! - That the document is well formed, or that the member sits at a certain depth: this is a load
//!   tool's hot path, not a parser. Escapes in strings are left as they are.
//!
//! Assumes
//! - The caller knows the form: which member appears how often.

/// The member names that the workloads look for, quoted as they appear in the document.
pub mod member {
    /// The secret that authorises heartbeat and release.
    pub const LEASE_ID: &str = "\"lease_id\"";
    /// The secret that authorises a session's heartbeat and end.
    pub const ID: &str = "\"id\"";
    /// The lease's key.
    pub const KEY: &str = "\"key\"";
    /// The fencing token.
    pub const TOKEN: &str = "\"token\"";
    /// How long the answer's promise holds.
    pub const VALID_FOR_MS: &str = "\"valid_for_ms\"";
    /// The verdict of a release.
    pub const RELEASED: &str = "\"released\"";
    /// The key of an event.
    pub const SUBJECT: &str = "\"subject\"";
    /// The number of an ownership change.
    pub const SEQ: &str = "\"seq\"";
    /// The program's version in `/v1/info`.
    pub const VERSION: &str = "\"version\"";
}

/// What follows `"name":` in `text`, white space skipped.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find(name)? + name.len()..];
        if let Some(value) = rest.trim_ascii_start().strip_prefix(':') {
            return Some(value.trim_ascii_start());
        }
    }
}

/// The string member `name`, and the text after it; `None` when absent or not a string.
pub fn string<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let value = value_of(text, name)?.strip_prefix('"')?;
    let bytes = value.as_bytes();
    let mut end = 0;
    loop {
        end += value[end..].find('"')?;
        let escapes = bytes[..end].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some((&value[..end], &value[end + 1..]));
        }
        end += 1;
    }
}

/// The unsigned integer member `name`; `None` when absent or something else.
pub fn integer(text: &str, name: &str) -> Option<u64> {
    let value = value_of(text, name)?;
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    value[..digits].parse().ok()
}

/// How often the boolean member `name` is `true`.
pub fn count_true(text: &str, name: &str) -> usize {
    let mut rest = text;
    let mut found = 0;
    while let Some(value) = value_of(rest, name) {
        found += usize::from(value.starts_with("true"));
        rest = value;
    }
    found
}

/// How often the member `name` appears.
pub fn count(text: &str, name: &str) -> usize {
    let mut rest = text;
    let mut found = 0;
    while let Some(value) = value_of(rest, name) {
        found += 1;
        rest = value;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_members_in_compact_and_spaced_documents() {
        for text in [
            r#"{"key":"a/b","lease_id":"77","token":42}"#,
            r#"{ "token" : 42 , "lease_id" : "77", "key": "a/b" }"#,
        ] {
            assert_eq!(string(text, member::KEY).unwrap().0, "a/b");
            assert_eq!(string(text, member::LEASE_ID).unwrap().0, "77");
            assert_eq!(integer(text, member::TOKEN), Some(42));
        }
    }

    #[test]
    fn a_users_text_is_never_taken_for_a_member() {
        let text = r#"{"value":"\"lease_id\":\"forged\"","note":"lease_id","lease_id":"real"}"#;
        assert_eq!(string(text, member::LEASE_ID).unwrap().0, "real");
    }

    #[test]
    fn an_escaped_quote_does_not_end_a_string() {
        let text = r#"{"key":"a\"b\\","token":1}"#;
        let (key, rest) = string(text, member::KEY).unwrap();
        assert_eq!(key, r#"a\"b\\"#);
        assert_eq!(integer(rest, member::TOKEN), Some(1));
    }

    #[test]
    fn counts_verdicts() {
        let text = r#"{"results":[{"released":true},{"released":false},{"released": true}]}"#;
        assert_eq!(count_true(text, member::RELEASED), 2);
        assert_eq!(count(text, member::RELEASED), 3);
    }

    #[test]
    fn absence_and_wrong_types_are_none() {
        assert!(string(r#"{"key":null}"#, member::KEY).is_none());
        assert!(string(r#"{"key":"cut of"#, member::KEY).is_none());
        assert!(integer(r#"{"token":"7"}"#, member::TOKEN).is_none());
    }
}
