//! The self-checking form of records: version, postcard, CRC-32 (little endian) of both.

use serde::{Serialize, de::DeserializeOwned};

/// Why bytes are no record that this program can read. Such a key counts as held by an unknown owner, never as free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// There are fewer bytes than a version and a checksum take.
    #[error("the record is truncated")]
    Truncated,
    /// The checksum does not match.
    #[error("the record's checksum is wrong")]
    Checksum,
    /// Another program wrote the record.
    #[error("the record has version {0}; this program knows 3 to 5")]
    Version(u8),
    /// The checksum matches, but the content is not a record.
    #[error("the record is malformed: {0}")]
    Malformed(postcard::Error),
}

/// Appends a record.
///
/// # Panics
/// Never: postcard refuses only what serde cannot size, and a record has no such field.
pub(super) fn encode<T: Serialize>(version: u8, record: &T, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(version);
    postcard::to_io(record, &mut *out).expect("a record is always serialisable");
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// How many bytes of a record this part takes.
///
/// # Panics
/// Never, as for [`encode`].
pub(super) fn size<T: Serialize>(part: &T) -> usize {
    postcard::to_io(part, Vec::new()).expect("a part of a record is always serialisable").len()
}

/// The version and the content of a record. The checksum is verified before the version, so a version error means that
/// another program wrote the record, not that the disk is damaged.
pub(super) fn checked(bytes: &[u8]) -> Result<(u8, &[u8]), CodecError> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(CodecError::Truncated)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return Err(CodecError::Checksum);
    }
    let (version, content) = body.split_first().ok_or(CodecError::Truncated)?;
    Ok((*version, content))
}

/// Reads what stands first in the content of a record. A later program may have added to it.
pub(super) fn parse_first<T: DeserializeOwned>(content: &[u8]) -> Result<T, CodecError> {
    postcard::take_from_bytes(content).map(|(record, _)| record).map_err(CodecError::Malformed)
}

/// Reads the content of a record.
pub(super) fn parse<T: DeserializeOwned>(content: &[u8]) -> Result<T, CodecError> {
    let (record, rest) = postcard::take_from_bytes(content).map_err(CodecError::Malformed)?;
    if rest.is_empty() {
        Ok(record)
    } else {
        Err(CodecError::Malformed(postcard::Error::DeserializeBadEncoding))
    }
}
