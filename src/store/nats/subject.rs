//! The subjects of a bucket.
//!
//! ```text
//! $KV.<bucket>.l.<key>           a lease's record
//! $KV.<bucket>.n.<incarnation>   a node's record
//! $KV.<bucket>.meta              the store's own record
//! $KV.<bucket>.app.…             whatever applications publish under a condition
//! ```
//! A key's letters, digits, `-`, `_` and `/` stay as they are, so that people find the key with the usual
//! tools. Every other byte is written as `=` and two lowercase hexadecimal digits. Different keys have
//! different subjects, because `=` itself is always encoded.

use std::fmt::Write;

use crate::lease::{Key, Nonce};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A lease; `None` if no key is written like that.
    Lease(Option<Key>),
    Node(Option<Nonce>),
    Meta,
    /// None of the store's subjects.
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Subjects {
    pub stream: String,
    /// All of the bucket's subjects.
    pub all: String,
    pub meta: String,
    /// The prefix of the subjects that applications may publish to.
    pub app: String,
    leases: String,
    nodes: String,
}

impl Subjects {
    pub fn new(bucket: &str) -> Self {
        let of = |what: &str| format!("$KV.{bucket}.{what}");
        Self {
            stream: format!("KV_{bucket}"),
            all: of(">"),
            meta: of("meta"),
            app: of("app."),
            leases: of("l."),
            nodes: of("n."),
        }
    }

    pub fn lease(&self, key: &Key) -> String {
        let mut subject = String::with_capacity(self.leases.len() + key.as_str().len() * 2);
        subject.push_str(&self.leases);
        for byte in key.as_str().bytes() {
            if stays(byte) {
                subject.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(subject, "={byte:02x}");
            }
        }
        subject
    }

    pub fn node(&self, incarnation: Nonce) -> String {
        format!("{}{incarnation}", self.nodes)
    }

    pub fn all_leases(&self) -> String {
        format!("{}>", self.leases)
    }

    pub fn all_nodes(&self) -> String {
        format!("{}>", self.nodes)
    }

    pub fn name(&self, subject: &str) -> Name {
        if let Some(rest) = subject.strip_prefix(&self.leases) {
            Name::Lease(key_of(rest))
        } else if let Some(rest) = subject.strip_prefix(&self.nodes) {
            let number = (rest.len() == 32).then(|| u128::from_str_radix(rest, 16).ok()).flatten();
            Name::Node(number.map(Nonce).filter(|nonce| nonce.to_string() == rest))
        } else if subject == self.meta {
            Name::Meta
        } else {
            Name::Other
        }
    }
}

fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/')
}

/// The key that is written like this; `None` for anything that [`Subjects::lease`] never writes.
fn key_of(written: &str) -> Option<Key> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'=' {
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            let byte = high << 4 | low;
            if stays(byte) {
                return None;
            }
            bytes.push(byte);
        } else if stays(byte) {
            bytes.push(byte);
        } else {
            return None;
        }
    }
    Key::stored(std::str::from_utf8(&bytes).ok()?).ok()
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(feature = "testing")]
#[path = "../../../tests/doors/readers/nats.rs"]
pub mod fuzzing;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = Key> {
        "[^\\p{Cc}]{1,128}".prop_filter_map("too long", |name| Key::new(&name).ok())
    }

    proptest! {
        #[test]
        fn a_subject_gives_its_key_back(key in key()) {
            let subjects = Subjects::new("b");
            let subject = subjects.lease(&key);
            let tail = subject.strip_prefix("$KV.b.l.").unwrap();
            prop_assert!(tail.bytes().all(|b| stays(b) || b == b'='));
            prop_assert_eq!(subjects.name(&subject), Name::Lease(Some(key)));
        }

        #[test]
        fn what_reads_as_a_key_is_written_like_that(tail in "[a-f0-9=/._A-Z-]{1,40}") {
            let subjects = Subjects::new("b");
            let subject = format!("$KV.b.l.{tail}");
            if let Name::Lease(Some(key)) = subjects.name(&subject) {
                prop_assert_eq!(subjects.lease(&key), subject);
            }
        }
    }

    #[test]
    fn the_longest_key_stays_far_below_the_control_line_of_a_server() {
        let key = Key::new(&"=".repeat(512)).unwrap();
        assert_eq!(Subjects::new("b").lease(&key).len(), 8 + 3 * 512);
    }

    #[test]
    fn nodes_and_the_rest_are_told_apart() {
        let subjects = Subjects::new("b");
        let node = subjects.node(Nonce(7));
        assert_eq!(subjects.name(&node), Name::Node(Some(Nonce(7))));
        assert_eq!(subjects.name("$KV.b.n.7"), Name::Node(None));
        assert_eq!(subjects.name("$KV.b.meta"), Name::Meta);
        assert_eq!(subjects.name("$KV.b.app.x"), Name::Other);
        assert_eq!(subjects.name("$KV.b.l.a.b"), Name::Lease(None));
        assert_eq!(subjects.name("$KV.b.l.=61"), Name::Lease(None));
    }
}
