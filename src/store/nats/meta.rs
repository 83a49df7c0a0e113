//! The store's own record: the identity of the store, and the stream that it was created for.

use std::fmt;

use async_nats::HeaderMap;
use serde::{Deserialize, Serialize};

use super::{
    super::{Fresh, Meta},
    link::{Last, Link, Sent},
    message,
};
use crate::lease::{ClusterSecret, Epoch, Level, Nonce, Revision, StoreError};

const VERSION: u8 = 1;
/// The format version of the record while a restore fills the store. A program that does not know it refuses the
/// store.
const RESTORING: u8 = 2;
/// The format version of the record of a store above the first level: [`MetaRecord`], its level, and whether a restore
/// fills the store. A program that knows no levels refuses the store. What later programs add at the end is not read.
const LEVELED: u8 = 3;

/// The record as it is stored.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct MetaRecord {
    pub identity: Nonce,
    pub epoch: Epoch,
    pub secret: [u8; 32],
    pub created_ms: u64,
    /// When the server created the stream that the record was written for, in nanoseconds since 1970. A stream
    /// that was deleted and created again numbers its writes from 1, and must not be taken for this one.
    pub stream_created: i128,
    /// A restore was begun and has not ended.
    #[serde(skip)]
    pub restoring: bool,
    /// What every program that opens the store can read.
    #[serde(skip)]
    pub level: Level,
}

impl fmt::Debug for MetaRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetaRecord")
            .field("identity", &self.identity)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The result of reading the record.
#[derive(Clone, Debug)]
pub(super) enum MetaState {
    /// There is no record. A write must expect this revision.
    Missing(Revision),
    Here(Revision, MetaRecord),
    /// A record that cannot be read: its revision, and why.
    Damaged(Revision, String),
}

impl MetaRecord {
    pub fn fresh(fresh: &Fresh, stream_created: i128) -> Self {
        let Fresh { identity, secret, created_ms } = *fresh;
        let (epoch, level, restoring) = (Epoch::default(), Level::FIRST, false);
        Self { identity, epoch, secret, created_ms, stream_created, restoring, level }
    }

    pub fn meta(&self) -> Meta {
        Meta {
            identity: self.identity,
            epoch: self.epoch,
            level: self.level,
            created_ms: self.created_ms,
            secret: ClusterSecret::new(&self.secret),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let version = match (self.level, self.restoring) {
            (Level::FIRST, false) => VERSION,
            (Level::FIRST, true) => RESTORING,
            _ => LEVELED,
        };
        let mut out = vec![version];
        postcard::to_io(self, &mut out).expect("numbers and bytes are always serialisable");
        if version == LEVELED {
            out.extend([self.level.0, u8::from(self.restoring)]);
        }
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or("is truncated")?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return Err("has a wrong checksum".to_owned());
        }
        match body.split_first() {
            Some((version @ (&VERSION | &RESTORING), rest)) => {
                let read = postcard::from_bytes(rest);
                let record: Self = read.map_err(|why| format!("is malformed: {why}"))?;
                Ok(Self { restoring: *version == RESTORING, ..record })
            }
            Some((&LEVELED, rest)) => {
                let read = postcard::from_bytes(rest);
                let (record, level, restoring): (Self, Level, bool) =
                    read.map_err(|why| format!("is malformed: {why}"))?;
                Ok(Self { level, restoring, ..record })
            }
            Some((version, _)) => {
                Err(format!("has version {version}, and this program knows {LEVELED}"))
            }
            None => Err("is truncated".to_owned()),
        }
    }
}

/// Reads the record from the stream's leader.
pub(super) async fn read(link: &Link) -> Result<MetaState, StoreError> {
    let Some(Last { revision, removal, payload }) = link.last(&link.subjects.meta).await? else {
        return Ok(MetaState::Missing(Revision::ABSENT));
    };
    if removal {
        return Ok(MetaState::Missing(revision));
    }
    Ok(match MetaRecord::decode(&payload) {
        Ok(record) => MetaState::Here(revision, record),
        Err(why) => MetaState::Damaged(revision, why),
    })
}

/// Writes the record if its revision is the expected one.
pub(super) async fn write(link: &Link, expected: Revision, record: &MetaRecord) -> Sent {
    let subject = link.subjects.meta.clone();
    link.publish(subject, expected, HeaderMap::new(), record.encode().into()).await
}

/// The headers of a removal. They make the server drop the earlier messages of the subject.
pub(super) fn removal_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("KV-Operation", "PURGE");
    headers.insert("Nats-Rollup", "sub");
    debug_assert!(message::is_removal(Some(&headers)));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_it_was_written_and_shows_no_secret() {
        let fresh = Fresh { identity: Nonce(7), secret: [9; 32], created_ms: 3 };
        let record = MetaRecord::fresh(&fresh, -5);
        let bytes = record.encode();
        let read = MetaRecord::decode(&bytes).unwrap();
        assert_eq!((read.identity, read.secret, read.stream_created), (Nonce(7), [9; 32], -5));
        assert!(!read.restoring);
        let marked = MetaRecord { restoring: true, ..record.clone() }.encode();
        let read = MetaRecord::decode(&marked).unwrap();
        assert_eq!((read.restoring, read.identity), (true, Nonce(7)));
        assert!(!format!("{record:?}").contains("9, 9"));
        for restoring in [false, true] {
            let leveled = MetaRecord { level: Level(2), restoring, ..record.clone() };
            let mut bytes = leveled.encode();
            let read = MetaRecord::decode(&bytes).unwrap();
            assert_eq!((bytes[0], read.level, read.restoring), (LEVELED, Level(2), restoring));
            bytes.truncate(bytes.len() - 4);
            bytes.extend(b"added");
            bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
            assert_eq!(MetaRecord::decode(&bytes).unwrap().level, Level(2), "added to later");
        }
        for cut in 0..bytes.len() {
            assert!(MetaRecord::decode(&bytes[..cut]).is_err());
        }
    }
}
