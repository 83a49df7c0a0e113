//! What a node knows of the revocation list: the list in force, whether it is that of the store, and whether it has room.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::access::{Current, Doors};

/// What is wrong with the list. An operator must act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListTrouble {
    /// The list cannot be read. What was known of it holds.
    Unread(String),
    /// The store lost changes of the list. What was known of it holds beside what the store has.
    WentBack,
    /// The record has room for few more entries.
    NearlyFull,
}

/// What the manager knows of the revocation list.
#[derive(Default)]
pub(super) struct Revocations {
    /// The list in force; without an access file, it is only shown.
    pub(super) current: OnceLock<Arc<Current>>,
    /// Whether there is an access file.
    pub(super) is_asked: OnceLock<()>,
    /// The ways in which callers may prove who they are.
    pub(super) doors: OnceLock<Doors>,
    trouble: Mutex<Option<(ListTrouble, u64)>>,
}

impl Revocations {
    /// Remembers what is wrong, if anything is, and logs a change.
    pub(super) fn trouble(&self, trouble: Option<ListTrouble>, now_ms: u64) {
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let same = matches!((&*known, &trouble), (Some((known, _)), Some(now)) if known == now);
        if same {
            return;
        }
        match &trouble {
            Some(ListTrouble::Unread(why)) => {
                tracing::error!(
                    why,
                    "the revocation list cannot be read: what is known of it holds"
                );
            }
            Some(ListTrouble::WentBack) => tracing::error!(
                "the store lost changes of the revocation list: what this node knows of it holds until it ends; the next \
                 order stores all of it (tenure access revoke)"
            ),
            Some(ListTrouble::NearlyFull) => tracing::warn!(
                "the revocation list has room for few more entries: end those that the access file makes superfluous \
                 (tenure access unrevoke)"
            ),
            None if known.is_some() => {
                tracing::info!("the revocation list is that of the store again, and has room")
            }
            None => {}
        }
        *known = trouble.map(|trouble| (trouble, now_ms));
    }

    /// What is wrong, and since when, in milliseconds since 1970.
    pub(super) fn known_trouble(&self) -> Option<(ListTrouble, u64)> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
