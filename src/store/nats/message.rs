//! Encodes one write of a lease's record.
//!
//! ```text
//! 0 version u8 | 1 key_len u16 | 3 record_len u32 | 7 expected u64 | 15 at_ms u64
//! 23 key, record, changes | crc u32 of all before it
//! ```
//! Little endian. The key shows a reader that it read the key it requested. `expected` is the revision of the
//! previous write, so that a reader notices that it missed one.

use std::sync::Arc;

use async_nats::HeaderMap;

use super::super::{Found, Write};
use crate::lease::{Change, CodecError, Key, Record, Revision};

const VERSION: u8 = 1;
const HEAD: usize = 23;

#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub key: &'a str,
    /// The revision of the previous write, or of the mark of a removal that the write found; 0 for none.
    pub expected: Revision,
    /// The wall clock before the write was sent, in milliseconds since 1970.
    pub at_ms: u64,
    record: &'a [u8],
    changes: &'a [u8],
}

/// Encodes a write; `None` if it is too long to be written at all.
pub(super) fn encode(write: &Write, at_ms: u64) -> Option<Vec<u8>> {
    let key = write.key.as_str().as_bytes();
    let mut out = Vec::with_capacity(384);
    out.resize(HEAD, 0);
    out[0] = VERSION;
    out[1..3].copy_from_slice(&u16::try_from(key.len()).ok()?.to_le_bytes());
    out[15..23].copy_from_slice(&at_ms.to_le_bytes());
    out.extend_from_slice(key);
    let record_at = out.len();
    write.record.encode_into(&mut out);
    let record_len = u32::try_from(out.len() - record_at).ok()?;
    out[3..7].copy_from_slice(&record_len.to_le_bytes());
    if !write.changes.is_empty() {
        postcard::to_io(&write.changes, &mut out).ok()?;
    }
    out.extend_from_slice(&[0; 4]);
    expect(&mut out, write.expected);
    Some(out)
}

/// Sets the expected revision in an encoded write.
pub(super) fn expect(encoded: &mut [u8], expected: Revision) {
    encoded[7..15].copy_from_slice(&expected.0.to_le_bytes());
    let body = encoded.len() - 4;
    let crc = crc32fast::hash(&encoded[..body]);
    encoded[body..].copy_from_slice(&crc.to_le_bytes());
}

/// Decodes what [`encode`] wrote. Never panics.
pub(super) fn parse(bytes: &[u8]) -> Result<Message<'_>, CodecError> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(CodecError::Truncated)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return Err(CodecError::Checksum);
    }
    match body.first() {
        Some(&VERSION) => content(body).ok_or_else(malformed),
        Some(&version) => Err(CodecError::Version(version)),
        None => Err(CodecError::Truncated),
    }
}

fn content(body: &[u8]) -> Option<Message<'_>> {
    let key_len = usize::from(u16::from_le_bytes(*body.get(1..)?.first_chunk()?));
    let record_len = u32::from_le_bytes(*body.get(3..)?.first_chunk()?) as usize;
    let expected = u64::from_le_bytes(*body.get(7..)?.first_chunk()?);
    let at_ms = u64::from_le_bytes(*body.get(15..)?.first_chunk()?);
    let (key, rest) = body.get(HEAD..)?.split_at_checked(key_len)?;
    let (record, changes) = rest.split_at_checked(record_len)?;
    let key = std::str::from_utf8(key).ok()?;
    Some(Message { key, expected: Revision(expected), at_ms, record, changes })
}

/// The error for a right checksum with wrong content.
pub(super) fn malformed() -> CodecError {
    CodecError::Malformed(postcard::Error::DeserializeBadEncoding)
}

impl Message<'_> {
    pub fn record(&self) -> Result<Record, CodecError> {
        Record::decode(self.record)
    }

    /// The changes as they were written. Their tokens are not resolved yet.
    pub fn changes(&self) -> Result<Vec<Change>, CodecError> {
        if self.changes.is_empty() {
            return Ok(Vec::new());
        }
        postcard::from_bytes(self.changes).map_err(CodecError::Malformed)
    }
}

/// What a message says about a key: its record, or why it cannot be judged.
pub(super) fn found(key: &Key, revision: Revision, bytes: &[u8]) -> Found {
    let sound = parse(bytes).and_then(|message| {
        // Another key's record under this subject says nothing about this key.
        if message.key == key.as_str() { message.record() } else { Err(malformed()) }
    });
    Found { revision, record: sound.map(Arc::new) }
}

/// Whether the message says that the key was removed.
pub(super) fn is_removal(headers: Option<&HeaderMap>) -> bool {
    headers.is_some_and(|headers| {
        let operation = headers.get("KV-Operation").map(async_nats::HeaderValue::as_str);
        matches!(operation, Some("DEL" | "PURGE")) || headers.get("Nats-Marker-Reason").is_some()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lease::{Epoch, Nonce};

    fn write(key: &str) -> Write {
        let record =
            Record { nonce: Nonce(1), node: Nonce(2), epoch: Epoch(3), ..Record::absent() };
        let (key, record) = (Key::new(key).unwrap(), Arc::new(record));
        Write { key, expected: Revision(9), record, changes: Vec::new() }
    }

    #[test]
    fn a_write_reads_as_it_was_written() {
        let write = write("jobs/1");
        let mut bytes = encode(&write, 5).unwrap();
        let message = parse(&bytes).unwrap();
        assert_eq!((message.key, message.expected, message.at_ms), ("jobs/1", Revision(9), 5));
        assert_eq!(message.record().unwrap(), *write.record);
        expect(&mut bytes, Revision(11));
        assert_eq!(parse(&bytes).unwrap().expected, Revision(11));
    }

    #[test]
    fn the_record_of_another_key_is_not_taken_for_ones_own() {
        let bytes = encode(&write("a"), 0).unwrap();
        let found = found(&Key::new("b").unwrap(), Revision(1), &bytes);
        assert_eq!(found.record, Err(malformed()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut sealed = bytes.clone();
            if let Some(first) = sealed.first_mut() {
                *first = VERSION;
            }
            sealed.extend_from_slice(&crc32fast::hash(&sealed).to_le_bytes());
            for bytes in [bytes, sealed] {
                if let Ok(message) = parse(&bytes) {
                    let _ = (message.record(), message.changes());
                }
            }
        }

        #[test]
        fn a_flipped_bit_is_noticed(at in 0_usize..1000, bit in 0_u8..8) {
            let mut bytes = encode(&write("jobs/1"), 5).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(parse(&bytes).is_err());
        }
    }
}
