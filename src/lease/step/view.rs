//! The public view of a lease.

use super::lease::{Home, Lease};
use crate::lease::{
    message::{Caller, View},
    primitives::{LeaseId, Moment, Nonce, Revision, Token},
    records::{KeyState, Record},
};

impl<C: Caller> Lease<C> {
    /// The public view at a moment.
    #[must_use]
    pub fn view(&self, now: Moment) -> View {
        let record = &*self.record;
        let lapsed =
            matches!(record.state, KeyState::Offered | KeyState::Cooling) && self.opened(now);
        let tenure = record.tenure.as_ref();
        let deadline = match record.state {
            KeyState::Held => self.tenure_deadline(),
            KeyState::Offered | KeyState::Cooling => self.opens_at,
            KeyState::Free | KeyState::Fencing => Moment::NEVER,
        };
        View {
            state: if lapsed { KeyState::Free } else { record.state },
            known: self.revision != Revision::ABSENT,
            quarantined: self.quarantine.is_some(),
            node: (record.state != KeyState::Free).then_some(record.node),
            elsewhere: self.home == Home::Living,
            owner: tenure.map(|tenure| tenure.owner.clone()),
            token: self.token,
            ttl_ms: tenure.map(|tenure| tenure.ttl_ms),
            expires_in_ms: (deadline != Moment::NEVER && !lapsed)
                .then(|| u64::try_from(deadline.since(now).as_millis()).unwrap_or(u64::MAX)),
            acquired_at_ms: tenure.map(|tenure| tenure.acquired_at_ms),
            value: record.value.clone(),
            spec: record.spec.clone(),
            waiters: self.waiters_present(),
            pins: record.pins.clone(),
            offered_to: match &record.offer {
                Some(offer) if !lapsed => Some(offer.to.clone()),
                _ => None,
            },
            previous: record
                .previous
                .as_ref()
                .map(|ended| (ended.tenure.owner.clone(), ended.tenure.token, ended.reason)),
            session: record.session_ref().map(|session_ref| session_ref.session),
            fences: record
                .fences()
                .iter()
                .flat_map(|fence| fence.pending.iter().cloned())
                .collect(),
            fenced: record.fences().first().map(|fence| fence.owner.clone()),
            fence_failed: record.fences().iter().any(|fence| !fence.failed.is_empty()),
            marks: self.marks(),
            granting: self.mark_on_its_way(),
        }
    }

    /// The granted request ids, including that of a grant in flight: a repeated call must find it here and must not
    /// take another key meanwhile.
    fn marks(&self) -> Box<[(u128, bool)]> {
        let record = self.flight().map_or(&self.record, |flight| &flight.write.record);
        let standing = record.tenure.as_ref().map(|tenure| tenure.grant_nonce);
        let marks = record.request_marks.iter();
        marks.map(|mark| (mark.id, Some(mark.grant_nonce) == standing)).collect()
    }

    /// The request id of the grant in flight. No store shows it yet.
    fn mark_on_its_way(&self) -> Option<u128> {
        let nonce = |record: &Record| record.tenure.as_ref().map(|tenure| tenure.grant_nonce);
        let record = &self.flight()?.write.record;
        let granted = nonce(record).filter(|granted| nonce(&self.record) != Some(*granted))?;
        record.request_marks.iter().find(|mark| mark.grant_nonce == granted).map(|mark| mark.id)
    }

    /// Whether the key is held, and the current or last token. The pair changes with every tenure.
    #[must_use]
    pub fn tenure_mark(&self) -> (bool, Token) {
        (self.record.state == KeyState::Held, self.token)
    }

    /// The share of the ttl that is left at `now`, for a caller that proves to be the holder. `None` for any other
    /// caller, and where the tenure does not end by itself.
    #[must_use]
    pub fn margin(&self, proof: LeaseId, now: Moment) -> Option<f64> {
        let deadline = self.tenure_deadline();
        if self.lease_id != Some(proof) || deadline == Moment::NEVER {
            return None;
        }
        let ttl = self.ttl().as_secs_f64();
        Some((deadline.since(now).as_secs_f64() / ttl).clamp(0.0, 1.0))
    }

    /// The wall clock when the key last changed hands, in milliseconds since 1970; `None` when it never did.
    #[must_use]
    pub fn changed_at_ms(&self) -> Option<u64> {
        match (&self.record.tenure, &self.record.previous) {
            (Some(tenure), _) => Some(tenure.acquired_at_ms),
            (None, Some(ended)) => Some(ended.ended_at_ms),
            (None, None) => None,
        }
    }

    /// Whether the key is held and this node is its home node.
    #[must_use]
    pub fn is_home(&self) -> bool {
        self.record.state == KeyState::Held && self.home == Home::Here
    }

    /// Whether callers wait although nobody holds the key and nothing keeps it shut.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.record.state == KeyState::Free && self.waiters_len() > 0
    }

    /// The session that keeps the tenure.
    #[must_use]
    pub fn kept_by(&self) -> Option<Nonce> {
        self.record.session_ref().map(|session_ref| session_ref.session)
    }

    /// Whether a write is in flight.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.flight().is_some()
    }

    /// Whether a write is in flight whose outcome should be known soon.
    #[must_use]
    pub fn is_writing_in_time(&self) -> bool {
        self.flight().is_some_and(|flight| !flight.reading && !flight.late)
    }
}
