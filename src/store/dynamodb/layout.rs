//! The layout of the table's items, and their encoded parts.
//!
//! | item | `pk` | `sk` |
//! | --- | --- | --- |
//! | a lease | `l#` and the key | `l` |
//! | a node | `nodes` | its incarnation, 32 hexadecimal digits |
//! | an entry of the log of changes | `log` | its number, 20 digits |
//! | the store's own record | `meta` | `meta` |
//!
//! A key has at most 512 bytes and a partition key may have 2048, so keys are stored unchanged.

use std::{collections::HashMap, sync::Arc};

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::lease::{Change, CodecError, Key, Nonce, Record, Revision};

pub(super) type Item = HashMap<String, AttributeValue>;

/// The partition key of the nodes' records.
pub(super) const NODES: &str = "nodes";
/// The partition key of the log.
pub(super) const LOG: &str = "log";
/// Both keys of the store's own record.
pub(super) const META: &str = "meta";
/// The sort key of a lease.
pub(super) const LEASE: &str = "l";
/// The prefix of a lease's partition key.
pub(super) const LEASE_PREFIX: &str = "l#";

/// The version of the encoded parts that this program writes.
const VERSION: u8 = 1;

pub(super) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(super) fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(super) fn b(bytes: Vec<u8>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// The partition key of a lease.
pub(super) fn lease_pk(key: &Key) -> String {
    format!("{LEASE_PREFIX}{key}")
}

/// The key of the lease with this partition key.
pub(super) fn key_of(pk: &str) -> Option<Key> {
    Key::stored(pk.strip_prefix(LEASE_PREFIX)?).ok()
}

/// The sort key of a log entry. It sorts like the number.
pub(super) fn log_sk(number: u64) -> String {
    format!("{number:020}")
}

/// The attribute, if it is text.
pub(super) fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// The attribute as a number.
pub(super) fn number(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// The attribute, if it holds bytes.
pub(super) fn bytes<'a>(item: &'a Item, name: &str) -> Option<&'a [u8]> {
    item.get(name)?.as_b().ok().map(AsRef::as_ref)
}

/// The attribute as a name of 32 hexadecimal digits.
pub(super) fn nonce(item: &Item, name: &str) -> Option<Nonce> {
    u128::from_str_radix(text(item, name)?, 16).ok().map(Nonce)
}

/// A change with what the log needs to know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Noted {
    /// The revision of the write that made it.
    pub revision: Revision,
    /// The incarnation that made the write.
    pub node: Nonce,
    /// The wall clock in milliseconds since 1970, for people.
    pub at_ms: u64,
    /// The change, with its token resolved.
    pub change: Change,
}

impl Noted {
    /// The order of the changes of one key. It holds across a deletion, after which `seq` starts again.
    pub fn order(&self) -> (u64, u64) {
        (self.revision.0, self.change.seq)
    }
}

/// The changes of a lease's item that may not be in the log yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trail {
    /// The store session that wrote the item.
    pub writer: Nonce,
    /// The count of the write in that session; 0 if there is nothing to log.
    pub count: u64,
    /// The number of the last log entry that the writer had read. The changes are in no entry up to it.
    pub head: u64,
    pub changes: Vec<Noted>,
}

/// A line of a log entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Line {
    /// Changes before the next line were lost, at least of its key.
    Hole,
    Change(Key, Noted),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogEntry {
    /// The session that wrote the entry.
    pub by: Nonce,
    /// The highest revision of any key that the session knew of.
    pub high: u64,
    /// The sessions that may have writes which are not logged, with the count up to which all are.
    pub sessions: Vec<(Nonce, u64)>,
    pub lines: Vec<Line>,
}

/// Encodes a value with a checksum: version, postcard, CRC-32 (little endian) of both.
///
/// # Panics
/// Never: postcard refuses only values whose size serde cannot tell, and these types have no such field.
pub(super) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut out = vec![VERSION];
    postcard::to_io(value, &mut out).expect("always serializable");
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes what [`encode`] wrote, if its checksum is right.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(CodecError::Truncated)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return Err(CodecError::Checksum);
    }
    match body.split_first() {
        Some((&VERSION, content)) => postcard::from_bytes(content).map_err(CodecError::Malformed),
        Some((&version, _)) => Err(CodecError::Version(version)),
        None => Err(CodecError::Truncated),
    }
}

#[derive(Clone, Debug)]
pub(super) struct LeaseItem {
    pub key: Key,
    pub revision: Revision,
    pub record: Result<Arc<Record>, CodecError>,
    /// How many changes the key has had; 0 if the item does not say.
    pub seq: u64,
    pub trail: Trail,
}

impl LeaseItem {
    /// Parses an item. `asked` is the key that it was read for. An item that names another key is not judged.
    pub fn parse(item: &Item, asked: Option<&Key>) -> Option<Self> {
        let named = text(item, "key").and_then(|name| Key::stored(name).ok());
        let by_pk = || key_of(text(item, "pk")?);
        let key = asked.cloned().or_else(by_pk)?;
        let record = if named.as_ref() == Some(&key) {
            let bytes = bytes(item, "record").ok_or(CodecError::Truncated);
            bytes.and_then(Record::decode).map(Arc::new)
        } else {
            Err(CodecError::Checksum)
        };
        let trail = bytes(item, "recent").map(decode).transpose().unwrap_or_else(|why| {
            tracing::warn!(key = key.as_str(), %why, "cannot read the latest changes in the item");
            None
        });
        Some(Self {
            revision: Revision(number(item, "rev").unwrap_or(0)),
            seq: number(item, "seq").unwrap_or(0),
            trail: trail.unwrap_or_default(),
            record,
            key,
        })
    }
}

/// Parses a log entry: its number and its content.
pub(super) fn parse_entry(item: &Item) -> Option<(u64, Result<LogEntry, CodecError>)> {
    let number = text(item, "sk")?.parse().ok()?;
    Some((number, bytes(item, "entry").ok_or(CodecError::Truncated).and_then(decode)))
}

#[cfg(feature = "testing")]
#[path = "../../../tests/doors/readers/dynamodb.rs"]
pub mod fuzzing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_sort_by_number_and_a_broken_one_is_noticed() {
        assert!(log_sk(9) < log_sk(10) && log_sk(99_999) < log_sk(100_000));
        let entry =
            LogEntry { by: Nonce(7), high: 3, sessions: vec![(Nonce(1), 2)], lines: vec![] };
        let mut coded = encode(&entry);
        assert_eq!(decode::<LogEntry>(&coded), Ok(entry));
        coded[2] ^= 1;
        assert_eq!(decode::<LogEntry>(&coded), Err(CodecError::Checksum));
        assert_eq!(decode::<LogEntry>(&[]), Err(CodecError::Truncated));
    }

    #[test]
    fn an_item_that_names_another_key_is_not_judged() {
        let key = Key::new("a").unwrap();
        let item = Item::from([
            ("pk".to_owned(), s("l#a")),
            ("key".to_owned(), s("b")),
            ("rev".to_owned(), n(4)),
        ]);
        let read = LeaseItem::parse(&item, Some(&key)).unwrap();
        assert_eq!((read.revision, read.record.is_err()), (Revision(4), true));
    }
}
