//! Members of several versions.
//!
//! Guarantees: while an upgrade is in progress, no key that comes free goes to a member of an older version than the
//! newest, and no member that stays is asked for a key. So a key moves once at most, if the new member comes before the
//! old one leaves.
//!
//! Does not guarantee: that an upgrade is noticed by all nodes at the same moment.

use std::{cmp::Ordering, time::Duration};

use super::pool::{Joined, Pool};
use crate::lease::{Moment, compare_versions};

impl Pool {
    /// The newest version of the members that count.
    pub fn newest_version(&self) -> Option<&str> {
        let replaced = self.replaced();
        let versions =
            self.present(&replaced).map(|(_, joined)| joined.announced.version.as_deref());
        versions.max_by(|a, b| compare_versions(*a, *b)).flatten()
    }

    /// Whether the member takes no keys because others have a newer version.
    pub fn is_outdated(&self, joined: &Joined, newest: Option<&str>) -> bool {
        self.is_mixed && is_older(joined, newest)
    }

    /// Whether the members that count have two versions or more.
    pub fn has_versions(&self) -> bool {
        let newest = self.newest_version();
        let replaced = self.replaced();
        self.present(&replaced).any(|(_, joined)| is_older(joined, newest))
    }

    /// Notes whether an upgrade is in progress, which lasts for `most` at the longest. Returns whether it is.
    pub fn note_versions(&mut self, now: Moment, most: Duration) -> bool {
        let since = self.has_versions().then(|| self.mixed_since.unwrap_or(now));
        let is_mixed = since.is_some_and(|since| now.since(since) < most);
        self.mixed_since = since;
        if is_mixed != self.is_mixed {
            self.is_mixed = is_mixed;
            self.moved();
        }
        is_mixed
    }
}

fn is_older(joined: &Joined, newest: Option<&str>) -> bool {
    compare_versions(joined.announced.version.as_deref(), newest) == Ordering::Less
}
