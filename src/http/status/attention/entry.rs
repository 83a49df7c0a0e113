//! Entries of the list.

use std::time::Duration;

use super::facts::Facts;
use crate::{api::Attention, clock::rfc3339, lease::Moment};

/// Something stands still, or is not protected.
pub const CRITICAL: &str = "critical";
/// Something may stand still soon.
pub const WARNING: &str = "warning";

/// An entry that every node of the store has.
pub fn of_store(kind: &str, severity: &str, says: String) -> Attention {
    let (kind, severity) = (kind.to_owned(), severity.to_owned());
    Attention { kind, severity, scope: "store".to_owned(), says, ..Attention::default() }
}

/// An entry that only the answering node has.
pub fn of_node(kind: &str, severity: &str, says: String) -> Attention {
    Attention { scope: "node".to_owned(), ..of_store(kind, severity, says) }
}

impl Facts {
    /// The entry, since this reading of the node's clock.
    pub fn since(&self, since: Moment, entry: Attention) -> Attention {
        let span = self.now.since(since);
        self.since_ms(self.wall_ms.saturating_sub(millis(span)), entry)
    }

    /// The entry, since this reading of the wall clock.
    pub fn since_ms(&self, at_ms: u64, entry: Attention) -> Attention {
        let (since, span) = (rfc3339(at_ms), self.wall_ms.saturating_sub(at_ms));
        Attention { since: Some(since), for_ms: Some(span), ..entry }
    }
}

/// Whole milliseconds.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// `1 key`, `3 keys`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
