//! Operations for holders: heartbeat, release, and transfer.

use futures_util::{StreamExt, future::join_all, stream};

use super::{
    Asked, Manager,
    checks::{check_new, check_reason, check_value},
    error::{CallError, HolderError, Invalid},
};
use crate::{
    actor::Decided,
    lease::{
        Absorbed, Answer, GiveBack, Heartbeat, LeaseId, Lost, Moment, Release, Request, Transfer,
        View,
    },
    telemetry::HeartbeatOutcome,
};

/// A heartbeat that was absorbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alive {
    /// The token of the tenure that goes on.
    pub token: crate::lease::Token,
    /// The holder's window, in milliseconds from before it sent the heartbeat, on its own clock.
    pub valid_for_ms: u64,
    /// The tenure had expired and was revived.
    pub revived: bool,
}

impl Manager {
    /// Keeps a lease alive.
    ///
    /// # Errors
    /// [`HolderError`].
    pub async fn heartbeat(
        &self,
        key: &str,
        beat: Heartbeat,
        asked: impl Into<Asked>,
    ) -> Result<Alive, HolderError> {
        if let Some(ttl_ms) = beat.ttl_ms {
            self.check_ttl(key, "ttl_ms", ttl_ms)?;
        }
        check_value(beat.value.as_deref())?;
        let asked = asked.into();
        let result = self.keep_alive(key, &beat, asked).await;
        match &result {
            // The other node counts it.
            Err(HolderError::Call(error)) if error.is_forwarded(asked) => {}
            _ => self.coordinator.policy_table().of(key).1.heartbeat(outcome(&result)),
        }
        result.map_err(|error| error.blaming(beat.value.as_deref()))
    }

    /// Reads the clock once, for any number of heartbeats that have arrived.
    #[must_use]
    pub fn decide(&self) -> Decided {
        self.coordinator.decide()
    }

    /// Keeps a lease alive at once, on a reading of the clock from after the heartbeat arrived. That is possible if the
    /// heartbeat changes neither the value nor the ttl, if it is not the first one of its tenure, and if nothing else
    /// happens to the lease at this moment. `None`: nothing was promised, and [`Self::heartbeat`] must be called.
    pub fn heartbeat_at_once(
        &self,
        key: &str,
        beat: &Heartbeat,
        asked: impl Into<Asked>,
        decided: Decided,
    ) -> Option<Alive> {
        if let Some(ttl_ms) = beat.ttl_ms {
            self.check_ttl(key, "ttl_ms", ttl_ms).ok()?;
        }
        let absorbed = self.coordinator.absorb(key, beat, asked.into().received, decided)?;
        self.coordinator.policy_table().of(key).1.heartbeat(HeartbeatOutcome::Alive);
        Some(absorbed.into())
    }

    /// Keeps many leases alive at once, each as [`Self::heartbeat_at_once`] does. `None`: at least one of them must be kept
    /// by [`Self::heartbeat`], and none is counted.
    pub fn heartbeats_at_once(
        &self,
        leases: &[(&str, LeaseId)],
        received: Moment,
        decided: Decided,
    ) -> Option<Vec<Alive>> {
        let absorb = |(key, id): &(&str, LeaseId)| {
            let absorbed = self.coordinator.absorb(key, &Heartbeat::new(*id), received, decided)?;
            Some(absorbed.into())
        };
        let kept: Vec<Alive> = leases.iter().map(absorb).collect::<Option<_>>()?;
        let policies = self.coordinator.policy_table();
        leases.iter().for_each(|(key, _)| policies.of(key).1.heartbeat(HeartbeatOutcome::Alive));
        Some(kept)
    }

    /// Sends a heartbeat without checking or counting it. It may revive a tenure if the limit of its principal allows
    /// one more lease.
    pub(super) async fn keep_alive(
        &self,
        key: &str,
        beat: &Heartbeat,
        asked: Asked,
    ) -> Result<Alive, HolderError> {
        let at_once = self.coordinator.absorb(key, beat, asked.received, self.decide());
        if let Some(absorbed) = at_once {
            return Ok(absorbed.into());
        }
        let claim = self.claim_to_revive(beat.lease_id, key, asked);
        let may_revive = beat.may_revive && claim.is_some();
        let make = || Request::Heartbeat(Heartbeat { may_revive, ..beat.clone() });
        match self.ask(key, asked, make).await? {
            Answer::Alive { token, valid_for_ms, revived } => {
                if let Some(claim) = claim {
                    claim.end(Some(token));
                }
                Ok(Alive { token, valid_for_ms, revived })
            }
            Answer::Lost(lost) => Err(self.lost(key, lost)),
            Answer::KeptBySession(session, _) => Err(HolderError::KeptBySession(session)),
            other => Err(CallError::of("heartbeat", other).into()),
        }
    }

    /// Keeps many leases alive. Returns one result for each, in order.
    pub async fn heartbeats<'a>(
        &self,
        leases: impl Iterator<Item = (&'a str, LeaseId)>,
        asked: impl Into<Asked>,
    ) -> Vec<Result<Alive, HolderError>> {
        let (asked, decided) = (asked.into(), self.decide());
        let beats: Vec<_> = leases.map(|(key, id)| (key, Heartbeat::new(id))).collect();
        let at_once =
            |(key, beat): &(&str, Heartbeat)| self.heartbeat_at_once(key, beat, asked, decided);
        let at_once: Vec<Option<Alive>> = beats.iter().map(at_once).collect();
        let others = beats.into_iter().zip(&at_once).filter(|(_, alive)| alive.is_none());
        let others = others.map(|((key, beat), _)| self.heartbeat(key, beat, asked));
        let mut others = join_all(others).await.into_iter();
        at_once.into_iter().filter_map(|alive| alive.map(Ok).or_else(|| others.next())).collect()
    }

    /// Releases a lease. `Ok(false)`: the tenure was already over.
    ///
    /// # Errors
    /// [`HolderError`].
    pub async fn release(
        &self,
        key: &str,
        release: Release,
        asked: impl Into<Asked>,
    ) -> Result<bool, HolderError> {
        check_value(release.value.as_deref())?;
        check_reason(release.reason.as_deref())?;
        let quotas = &self.coordinator.quotas;
        let standing = quotas.standing(release.lease_id.principal(), key);
        match self.ask(key, asked.into(), || Request::Release(release.clone())).await? {
            Answer::Released(released) => {
                if !released {
                    self.check_lease(key).map_err(CallError::from)?;
                }
                quotas.released(standing.filter(|_| released));
                Ok(released)
            }
            Answer::NotHolder(view) => Err(HolderError::NotHolder(view)),
            other => {
                let error = CallError::of("release", other);
                Err(error.blaming(release.value.as_deref()).into())
            }
        }
    }

    /// Gives back a grant that the caller was not told of. Returns whether this call ended the tenure, or opened the key
    /// that it left shut.
    pub(super) async fn give_back(&self, key: &str, back: GiveBack) -> Result<bool, CallError> {
        let quotas = &self.coordinator.quotas;
        let standing = quotas.standing(back.lease_id.principal(), key);
        match self.ask(key, self.now().into(), || Request::GiveBack(back)).await? {
            Answer::Released(released) => {
                quotas.released(standing.filter(|_| released));
                Ok(released)
            }
            Answer::NotHolder(_) => Ok(false),
            other => Err(CallError::of("give back", other)),
        }
    }

    /// Releases many leases, in as few syncs as possible. Returns one result for each, in order.
    pub async fn releases<'a>(
        &self,
        leases: impl Iterator<Item = (&'a str, LeaseId)>,
        asked: impl Into<Asked>,
    ) -> Vec<Result<bool, HolderError>> {
        let release = |lease_id| Release::new(lease_id);
        let asked = asked.into();
        let releases = leases.map(|(key, id)| self.release(key, release(id), asked));
        stream::iter(releases).buffered(self.at_once()).collect().await
    }

    /// Hands a lease over to a named successor, to which the key is offered for a while.
    ///
    /// # Errors
    /// [`HolderError`].
    pub async fn transfer(
        &self,
        key: &str,
        transfer: Transfer,
        asked: impl Into<Asked>,
    ) -> Result<View, HolderError> {
        if let Some(offer_ms) = transfer.offer_ms {
            self.check_ttl(key, "offer_ms", offer_ms)?;
        }
        check_value(transfer.value.as_deref())?;
        check_reason(transfer.reason.as_deref())?;
        if let Some(to) = &transfer.to {
            check_new("to", to.as_str())?;
        }
        let claim = self.claim_of_holder(transfer.lease_id, key);
        let make = || Request::Transfer(Box::new(transfer.clone()));
        match self.ask(key, asked.into(), make).await? {
            Answer::Done(view) => {
                self.transferred(claim, key, &transfer, &view);
                Ok(*view)
            }
            Answer::Lost(lost) => Err(self.lost(key, lost)),
            Answer::NoLease => Err(self.cannot_be_offered(key).into()),
            other => {
                let error = CallError::of("transfer", other);
                Err(error.blaming(transfer.value.as_deref()).into())
            }
        }
    }
}

impl Manager {
    /// Why a caller is not the holder. If the record remembers no tenure of it, the caller may have named a key that is no
    /// lease.
    fn lost(&self, key: &str, lost: Lost) -> HolderError {
        match self.no_lease(key).filter(|_| lost == Lost::UnknownLease) {
            Some(detail) => Invalid { field: "key", detail }.into(),
            None => HolderError::Lost(lost),
        }
    }

    /// Why a lease is not transferred to a successor by name: the key was a lease when it was granted, and is none now.
    fn cannot_be_offered(&self, key: &str) -> CallError {
        let Some(why) = self.no_lease(key) else { return CallError::PolicyChanged };
        let detail = format!(
            "{why}. The lease goes on, but no successor could take it: release it, or transfer it without `to`"
        );
        Invalid { field: "key", detail }.into()
    }
}

impl From<Absorbed> for Alive {
    fn from(Absorbed { token, valid_for_ms, .. }: Absorbed) -> Self {
        Self { token, valid_for_ms, revived: false }
    }
}

fn outcome(result: &Result<Alive, HolderError>) -> HeartbeatOutcome {
    match result {
        Ok(alive) if alive.revived => HeartbeatOutcome::Revived,
        Ok(_) => HeartbeatOutcome::Alive,
        Err(HolderError::Lost(_)) => HeartbeatOutcome::Lost,
        Err(_) => HeartbeatOutcome::Error,
    }
}
