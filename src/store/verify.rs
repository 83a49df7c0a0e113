//! What `tenure store verify` finds in a store.
//!
//! Guarantees: whoever makes findings changes nothing that a coordinator reads.
//!
//! Does not guarantee: that a coordinator can be started. What a user of the store may do is tried with writes that the
//! store must refuse, which shows most missing rights, but not all.

use std::fmt::{Display, Write as _};

use serde::Serialize;

use super::{found::FoundNode, level::own_level};
use crate::lease::{CodecError, Epoch, Level, Nonce, Record, Revision};

/// How many faulty records are named.
const NAMED: usize = 3;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Nothing is wrong.
    Ok,
    /// A coordinator would start. Somebody should look at this first.
    Warning,
    /// A coordinator would not start, or would not serve as it should.
    Failed,
}

impl Grade {
    /// The grade as it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked, in one word or two.
    pub check: &'static str,
    /// How the check ended.
    pub result: Grade,
    /// What was found and, unless all is well, what to do about it.
    pub detail: String,
}

impl Finding {
    /// All is well.
    pub fn ok(check: &'static str, detail: impl Display) -> Self {
        Self { check, result: Grade::Ok, detail: detail.to_string() }
    }

    /// Something is odd.
    pub fn warning(check: &'static str, detail: impl Display) -> Self {
        Self { check, result: Grade::Warning, detail: detail.to_string() }
    }

    /// Something is wrong.
    pub fn failed(check: &'static str, detail: impl Display) -> Self {
        Self { check, result: Grade::Failed, detail: detail.to_string() }
    }
}

/// What a store says of itself, for people, if this program may open it.
pub(super) fn identity(identity: Nonce, epoch: Epoch, level: Level) -> Finding {
    const CHECK: &str = "identity";
    match own_level().opens(level) {
        Ok(()) => {
            let epoch = epoch.0;
            Finding::ok(CHECK, format!("store {identity}, epoch {epoch}, level {level}"))
        }
        Err(why) => Finding::failed(CHECK, why),
    }
}

/// Why a coordinator would freeze, and what to do about it.
pub(super) fn frozen(why: &str) -> String {
    format!(
        "{why}; a coordinator would grant nothing until the epoch is raised (docs/stores.md, a store that went \
         backwards)"
    )
}

/// What was found in the records of a store.
pub(super) struct Records {
    epoch: Epoch,
    keys: u64,
    held: u64,
    faulty: u64,
    named: String,
    newer: bool,
}

impl Records {
    /// Nothing, in a store with this epoch.
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { epoch, keys: 0, held: 0, faulty: 0, named: String::new(), newer: false }
    }

    /// Judges one key's record.
    pub(super) fn take(
        &mut self,
        key: &str,
        revision: Revision,
        record: Result<&Record, &CodecError>,
    ) {
        self.keys += 1;
        match record {
            Ok(record) => {
                self.held += u64::from(record.tenure.is_some());
                if let Some(why) = record.contradiction(self.epoch, revision) {
                    self.fault(key, why);
                }
            }
            Err(why) => {
                self.newer |= matches!(why, CodecError::Version(_));
                self.fault(key, why);
            }
        }
    }

    fn fault(&mut self, key: &str, why: impl Display) {
        self.faulty += 1;
        if self.faulty <= NAMED as u64 {
            // Writing to a string cannot fail.
            let _ = write!(self.named, "; {key:?}: {why}");
        }
    }

    /// The finding about all records.
    pub(super) fn finding(self) -> Finding {
        let Self { keys, held, faulty, named, newer, .. } = self;
        if faulty == 0 {
            return Finding::ok("records", format!("{keys} keys, {held} of them held"));
        }
        let remedy = if newer {
            "start no program of this version on the store: it would keep these keys shut. Use the version that wrote \
             them, or a later one"
        } else {
            "such a key stays shut, or its token is given twice: find out what happened to the store, and restore a \
             backup (docs/stores.md)"
        };
        Finding::failed("records", format!("{faulty} of {keys} keys{named}. {remedy}"))
    }
}

/// The finding about the records of nodes.
pub(super) fn nodes(found: &[FoundNode]) -> Finding {
    let (mut alive, mut unread) = (Vec::new(), Vec::new());
    for FoundNode { incarnation, record, .. } in found {
        match record {
            Ok(record) if record.state.is_terminal() => {}
            Ok(record) => alive.push(format!("{} ({})", record.url, record.program())),
            Err(why) => unread.push(format!("{incarnation}: {why}")),
        }
    }
    alive.sort_unstable();
    if !unread.is_empty() {
        let unread = unread.join("; ");
        return Finding::failed(
            "nodes",
            format!(
                "the records of these nodes cannot be read, so they count as alive: {unread}. Use the version that \
                 wrote them, or a later one"
            ),
        );
    }
    if alive.is_empty() {
        Finding::ok("nodes", "none")
    } else {
        Finding::ok("nodes", alive.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{NodeRecord, NodeState};

    #[test]
    fn unreadable_and_contradictory_records_are_counted_and_the_first_are_named() {
        let mut records = Records::new(Epoch(1));
        records.take("sound", Revision(1), Ok(&Record::absent()));
        assert_eq!(records.finding(), Finding::ok("records", "1 keys, 0 of them held"));
        let mut records = Records::new(Epoch(1));
        let later = Record { epoch: Epoch(2), ..Record::absent() };
        for key in ["a", "b\n", "c", "d"] {
            records.take(key, Revision(1), Ok(&later));
        }
        let found = records.finding();
        assert_eq!(found.result, Grade::Failed);
        let said = &found.detail;
        assert!(said.contains("4 of 4 keys") && said.contains("\"b\\n\""), "{said}");
        assert!(!said.contains("\"d\"") && said.contains("restore a backup"), "{said}");
        let mut records = Records::new(Epoch(1));
        records.take("new", Revision(1), Err(&CodecError::Version(9)));
        let said = records.finding().detail;
        assert!(said.contains("has version 9") && said.contains("or a later one"), "{said}");
    }

    #[test]
    fn nodes_that_may_live_are_named() {
        let found = |node: u128, record| {
            let revision = Revision(1);
            FoundNode { incarnation: Nonce(node), revision, record }
        };
        let alive = NodeRecord {
            state: NodeState::Alive,
            url: "http://a".into(),
            version: "1.2.3".into(),
            ..NodeRecord::unseen(Nonce(1), Nonce(2))
        };
        let gone = NodeRecord::unseen(Nonce(3), Nonce(4));
        assert_eq!(nodes(&[found(3, Ok(gone))]), Finding::ok("nodes", "none"));
        let living = found(1, Ok(alive));
        assert_eq!(nodes(std::slice::from_ref(&living)), Finding::ok("nodes", "http://a (1.2.3)"));
        let odd = nodes(&[living, found(5, Err(CodecError::Version(7)))]);
        assert!(odd.result == Grade::Failed && odd.detail.contains("version 7"), "{odd:?}");
    }
}
