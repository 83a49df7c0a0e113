//! Members of several versions.
//!
//! Guarantees: while an upgrade is in progress, no key that comes free goes to a member of an older version than the
//! newest, unless those with the newest have no room for it. No member that stays is asked for a key. So a key moves once
//! at most, if the new member comes before the old one leaves.
//!
//! Does not guarantee: that an upgrade is noticed by all nodes at the same moment.

use std::{cmp::Ordering, time::Duration};

use super::pool::{Joined, Pool};
use crate::lease::{Moment, balance::Member, compare_versions};

impl Pool {
    /// The newest version of the members that count and stay.
    pub fn newest_version(&self) -> Option<&str> {
        let replaced = self.replaced();
        let stay = self.present(&replaced).filter(|(_, joined)| !joined.draining);
        let versions = stay.map(|(_, joined)| joined.announced.version.as_deref());
        versions.max_by(|a, b| compare_versions(*a, *b)).flatten()
    }

    /// During an upgrade, members of older versions keep what they have and get no more, unless the others have no room
    /// for the rest of the pool's keys.
    pub fn prefer_newest(&self, members: &mut [Member], keys: usize) {
        if !self.is_mixed || self.table.is_some() {
            // Where policies say where keys go, that is looked at for each key.
            return;
        }
        let newest = self.newest_version();
        let kept: Vec<Member> = members
            .iter()
            .map(|member| match self.members.get(&member.id) {
                Some(joined) if is_older(joined, newest) => {
                    Member { capacity: member.capacity.min(member.held), ..*member }
                }
                _ => *member,
            })
            .collect();
        let room = |member: &Member| if member.draining { 0 } else { member.capacity };
        let room = kept.iter().map(room).fold(0, usize::saturating_add);
        if room >= keys {
            members.copy_from_slice(&kept);
        }
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

pub fn is_older(joined: &Joined, newest: Option<&str>) -> bool {
    compare_versions(joined.announced.version.as_deref(), newest) == Ordering::Less
}
