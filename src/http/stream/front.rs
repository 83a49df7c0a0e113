//! The beginning of a message: its id and its operation, before the message is parsed or has even come whole.
//!
//! Guarantees: a look at the front costs the same however long the message is. What the front says of a message that can
//! be read is true, since a message that names its id or its operation twice cannot be read.
//!
//! Does not guarantee: that the message can be read, or that its id and operation are in the front. They are if no
//! parameters and no body come before them.

use super::message::MAX_ID;

/// How many bytes of a message are looked at.
pub const FRONT: usize = 512;

/// What the front of a message says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Front<'a> {
    /// The call's id.
    pub id: Option<u64>,
    /// The operation.
    pub op: Option<&'a str>,
}

impl<'a> Front<'a> {
    /// The call's id and its operation, if the front has both, and the id is one.
    pub fn call(&self) -> Option<(u64, &'a str)> {
        self.id.filter(|id| *id <= MAX_ID).zip(self.op)
    }

    /// Looks at the first bytes of a message.
    pub fn of(message: &'a [u8]) -> Self {
        let mut front = Self::default();
        let mut rest = Rest(&message[..message.len().min(FRONT)]);
        // It ends at the first member that is no text and no number, and at whatever is not JSON.
        let _ = front.read(&mut rest);
        front
    }

    fn read(&mut self, rest: &mut Rest<'a>) -> Option<()> {
        rest.take(b'{')?;
        while self.id.is_none() || self.op.is_none() {
            let name = rest.text()?;
            rest.take(b':')?;
            match name {
                "id" => self.id = Some(rest.number()?),
                "op" => self.op = Some(rest.text()?),
                _ if rest.next() == Some(b'"') => drop(rest.text()?),
                _ => drop(rest.number()?),
            }
            rest.take(b',')?;
        }
        Some(())
    }
}

/// What is left of the front.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        self.0 = self.0.trim_ascii_start();
        self.0.first().copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.0 = &self.0[1..])
    }

    /// A text without an escape.
    fn text(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let end = self.0.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        self.take(b'"')?;
        std::str::from_utf8(text).ok()
    }

    /// A whole number, whose end is within the front.
    fn number(&mut self) -> Option<u64> {
        self.next()?;
        let end = self.0.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_and_the_operation_are_found_at_the_beginning_alone() {
        let long = format!(r#"{{"{}":1,"id":1,"op":"heartbeat"}}"#, "x".repeat(FRONT));
        for (message, id, op) in [
            (r#"{"id":7,"op":"heartbeats","body":{"leases":[{"key"#, Some(7), Some("heartbeats")),
            (" {\n \"op\" : \"heartbeat\" , \"id\" : 12 }", Some(12), Some("heartbeat")),
            (r#"{"id":7,"op":"heartbeat"#, Some(7), None),
            (r#"{"id":7,"#, Some(7), None),
            (r#"{"id":7"#, None, None),
            (r#"{"id":7,"more":1,"text":"x","op":"release"}"#, Some(7), Some("release")),
            (r#"{"id":7,"params":{},"op":"release"}"#, Some(7), None),
            (r#"{"body":{"op":"heartbeat"},"id":7,"op":"acquire"}"#, None, None),
            (r#"{"\u006fp":"acquire","id":7,"op":"heartbeat"}"#, None, None),
            (r#"{"op":"heart\u0062eat","id":7}"#, None, None),
            (r#"{"id":-1,"op":"heartbeat"}"#, None, None),
            (r#"{"id":99999999999999999999,"op":"heartbeat"}"#, None, None),
            (r#"[7,"heartbeat"]"#, None, None),
            ("", None, None),
            (&long, None, None),
        ] {
            assert_eq!(Front::of(message.as_bytes()), Front { id, op }, "{message}");
        }
    }
}
