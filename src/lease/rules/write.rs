//! §1: writes of unknown outcome, and writes that take long.

use std::time::Duration;

use super::mutant::{Mutant, Rules};
use crate::lease::{
    message::{Loaded, WriteEffect},
    primitives::{Moment, Revision},
};

/// §1: the longest time for which callers wait for a write.
pub const LATE: Duration = Duration::from_secs(10);

impl Rules {
    /// §1: a write of unknown outcome is sent once more under the same expected revision, as long as the store holds
    /// that revision. Returns the revision to expect, or `None` when the write must not be sent again.
    #[must_use]
    pub fn a_write_is_sent_again_over(
        self,
        write: &WriteEffect,
        there: &Loaded,
    ) -> Option<Revision> {
        let expected = write.expected;
        match there {
            Loaded::Absent => (expected == Revision::ABSENT).then_some(expected),
            Loaded::Record(revision, _) if *revision == expected => Some(expected),
            Loaded::Record(revision, record) if record.nonce != write.record.nonce => {
                self.breaks(Mutant::RetriedBlindly).then_some(*revision)
            }
            Loaded::Record(..) | Loaded::Quarantined(..) => None,
        }
    }

    /// §1: no caller waits longer than 10 s for one write.
    #[must_use]
    pub fn callers_wait_for_a_write_until(sent: Moment) -> Moment {
        sent + LATE
    }

    /// §1: once a write is late, its callers are told that its outcome is unknown.
    #[must_use]
    pub fn callers_are_told_of_a_late_write(self) -> bool {
        !self.breaks(Mutant::LateWriteAwaited)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lease::{primitives::Nonce, records::Record};

    fn there(revision: u64, nonce: u128) -> Loaded {
        let record = Record { nonce: Nonce(nonce), ..Record::absent() };
        Loaded::Record(Revision(revision), Arc::new(record))
    }

    #[test]
    fn a_write_is_sent_again_only_over_the_revision_that_it_expected() {
        let record = Arc::new(Record { nonce: Nonce(9), ..Record::absent() });
        let write = WriteEffect { expected: Revision(3), record, changes: Vec::new() };
        let (whole, blind) = (Rules::default(), Rules::breaking(Some(Mutant::RetriedBlindly)));
        let again = |rules: Rules, there: &Loaded| rules.a_write_is_sent_again_over(&write, there);
        assert_eq!(again(whole, &there(3, 1)), Some(Revision(3)));
        assert_eq!(again(whole, &there(4, 1)), None, "another write came first");
        assert_eq!(again(whole, &there(4, 9)), None, "the write itself landed");
        assert_eq!(again(whole, &Loaded::Absent), None);
        assert_eq!(again(blind, &there(4, 1)), Some(Revision(4)));
        assert_eq!(again(blind, &there(4, 9)), None);
    }
}
