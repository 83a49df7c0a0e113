//! Text without characters that are not seen: each is written as an escape.
//!
//! Guarantees: JSON stays the same document. A line of the log keeps its colours and its end.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, Write},
};

use crate::lease::is_hidden;

/// JSON in which the characters from U+007F on that are not seen are escaped. They are in texts alone.
#[must_use]
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    escaped(json, |c, text| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    })
}

/// Text in which the characters from U+007F on that are not seen are escaped. Those below are colours and line breaks.
#[must_use]
pub fn escaped_text(text: &str) -> Cow<'_, str> {
    escaped(text, |c, text| text.extend(c.escape_default()))
}

fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let is_escaped = |c: char| c >= '\u{7f}' && is_hidden(c);
    // Most texts are ASCII.
    if text.bytes().all(|byte| byte < 0x7f) || !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) { escape(c, &mut escaped) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// Writes whole lines of the log.
pub(super) struct Lines<W> {
    to: W,
    is_json: bool,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(to: W, is_json: bool) -> Self {
        Self { to, is_json }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let escape = if self.is_json { escaped_json } else { escaped_text };
        let text = String::from_utf8_lossy(line);
        self.to.write_all(escape(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_escaped_and_says_the_same() {
        let value = serde_json::json!({ "a\u{ad}": "x\u{9b}31m\u{202e}\u{e0072}\u{7f}ü🦀\n" });
        let (plain, escaped) = (value.to_string(), escaped_json(&value.to_string()).into_owned());
        assert!(escaped.contains("\\u009b31m\\u202e\\udb40\\udc72\\u007fü🦀\\n"), "{escaped}");
        assert_ne!(plain, escaped);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), value);
        assert!(matches!(escaped_json("{\"a\":1}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_line_of_the_log_keeps_its_colours_and_its_end() {
        let mut lines = Lines::new(Vec::new(), false);
        lines
            .write_all("\u{1b}[1mkey\u{1b}[0m=\"a\u{2066}\u{3164}\"\n".as_bytes())
            .expect("a line");
        let expected = "\u{1b}[1mkey\u{1b}[0m=\"a\\u{2066}\\u{3164}\"\n";
        assert_eq!(String::from_utf8(lines.to).expect("text"), expected);
    }
}
