//! A store that holds one record.

use std::sync::Arc;

use tenure::lease::{Change, CodecError, Elsewhere, Epoch, Loaded, Record, Revision, WriteEffect};

/// The epoch that every test begins in.
pub const EPOCH: Epoch = Epoch(2);

/// One key's record, its revisions, and the history that its writes made true.
#[derive(Clone, Debug, Default)]
pub struct StoreCell {
    pub there: Option<(Revision, Arc<Record>)>,
    /// The record before it.
    pub before: Option<Arc<Record>>,
    pub history: Vec<Change>,
    /// Set: the record cannot be read.
    pub spoilt: bool,
    last: u64,
}

impl StoreCell {
    pub fn revision(&self) -> Revision {
        self.there.as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision)
    }

    /// The change that the feed reports last.
    pub fn latest(&self) -> Elsewhere {
        let change =
            |(revision, record): &(Revision, Arc<Record>)| (record.seq, record.token(*revision));
        let (seq, token) = self.there.as_ref().map_or_else(Default::default, change);
        Elsewhere::Change { seq, token }
    }

    /// Compare-and-set; `None` is a conflict.
    pub fn compare_and_set(&mut self, write: &WriteEffect) -> Option<Revision> {
        if self.revision() != write.expected || self.spoilt {
            return None;
        }
        // Other keys write in between: revisions of one key have holes.
        self.last += 3;
        let revision = Revision(self.last);
        self.before = self.there.take().map(|(_, record)| record);
        self.there = Some((revision, write.record.clone()));
        for change in &write.changes {
            let mut change = change.clone();
            change.resolve(write.record.epoch, revision);
            self.history.push(change);
        }
        Some(revision)
    }

    pub fn load(&self) -> Loaded {
        match &self.there {
            None => Loaded::Absent,
            Some((revision, _)) if self.spoilt => {
                Loaded::Quarantined(*revision, CodecError::Checksum)
            }
            Some((revision, record)) => Loaded::Record(*revision, record.clone()),
        }
    }

    /// The broken store: it forgets the key, and counts its writes from the start again.
    pub fn forget_everything(&mut self) {
        (self.there, self.before, self.last) = (None, None, 0);
    }
}
