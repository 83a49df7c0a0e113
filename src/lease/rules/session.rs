//! R6: sessions, and the leases that they keep.

use super::mutant::{Mutant, Rules};
use crate::lease::{
    primitives::{Key, Moment, Nonce},
    records::Change,
};

impl Rules {
    /// R6: a session has one tenure. Its key is never granted again, and that tenure is never revived.
    #[must_use]
    pub fn a_sessions_key_is_spent(self, key: &Key, has_record: bool) -> bool {
        key.is_session() && has_record && !self.breaks(Mutant::SessionGrantedAgain)
    }

    /// R6: a kept lease ends once the session's tombstone is known to be durable. Until then it ends only after a
    /// revocation, at the node that announced it: only that node knows which promises cover the lease.
    #[must_use]
    pub fn a_kept_tenure_ends_at(
        session_is_over: bool,
        revoked_here: bool,
        expires_at: Moment,
    ) -> Moment {
        match () {
            () if session_is_over => Moment::ZERO,
            () if revoked_here => expires_at,
            () => Moment::NEVER,
        }
    }

    /// R6: the session whose leases are told of its end when the write of the tombstone is sent: none, because a
    /// tombstone counts once it is durable.
    #[must_use]
    pub fn a_session_that_is_over_once_sent(self, key: &Key, changes: &[Change]) -> Option<Nonce> {
        let ends = || changes.iter().any(|change| change.kind.ends_tenure());
        key.session().filter(|_| self.breaks(Mutant::SessionFreedBeforeTombstone) && ends())
    }

    /// R6: the session absorbs a heartbeat before a grant under it is written.
    #[must_use]
    pub fn a_session_is_heard_before_a_grant(self) -> bool {
        !self.breaks(Mutant::GrantUnderEndingSession)
    }

    /// R6: what the caller of a grant is told, in milliseconds, without a heartbeat of the session after the grant is
    /// durable: nothing, because the promise is that of the second heartbeat.
    #[must_use]
    pub fn a_grant_is_told_without_a_heartbeat(self, ttl_ms: u64) -> Option<u64> {
        self.breaks(Mutant::GrantUnderEndingSession).then_some(ttl_ms * 9 / 10)
    }

    /// R6: a call does not name a lease that was revoked after the call was granted it.
    #[must_use]
    pub fn a_call_does_not_name_what_was_revoked_meanwhile(self) -> bool {
        !self.breaks(Mutant::EndDuringACallUnseen)
    }

    /// R6: every node knows from the feed which leases each session keeps, whichever node wrote the change.
    #[must_use]
    pub fn a_node_indexes_the_leases_of_sessions(self, own: bool) -> bool {
        own || !self.breaks(Mutant::OthersSessionLeasesNotIndexed)
    }

    /// R6: after a gap in the feed, a node reads the leases of sessions again.
    #[must_use]
    pub fn leases_of_sessions_are_read_again_after_a_gap(self) -> bool {
        !self.breaks(Mutant::SessionLeasesNotReread)
    }

    /// R6: after a gap in the feed, a node searches for sessions and pool members whose end it may have missed.
    #[must_use]
    pub fn ends_of_sessions_are_searched_for_after_a_gap(self) -> bool {
        !self.breaks(Mutant::EndsNotSearchedAfterGap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_tenure_ends_with_its_session_or_where_its_revocation_was_announced() {
        let expires_at = Moment(7);
        assert_eq!(Rules::a_kept_tenure_ends_at(true, false, expires_at), Moment::ZERO);
        assert_eq!(Rules::a_kept_tenure_ends_at(false, true, expires_at), expires_at);
        assert_eq!(Rules::a_kept_tenure_ends_at(false, false, expires_at), Moment::NEVER);
    }
}
