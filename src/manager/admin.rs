//! Operations for administrators.

use futures_util::{StreamExt, stream};

use super::{
    AdminError, Asked, CallError, Manager, SessionView,
    checks::check_text,
    looks::{Looks, UNCOUNTED},
};
use crate::{
    actor,
    api::limits::MAX_REASON_BYTES,
    clock::HashSet,
    lease::{
        Answer, Key, KeyState, MAX_KEY_BYTES, MAX_PIN_BYTES, Owner, Request, Revoke, Tenure, View,
    },
    store::{Found, Pages},
};

/// How many keys are read at a time while an owner is drained or keys are forgotten.
const PAGE: usize = 256;

/// How many pages of keys one call of [`Manager::forget`] reads.
const FORGET_PAGES: usize = 40;

/// The result of forgetting keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgottenKeys {
    /// How many keys are forgotten.
    pub forgotten: usize,
    /// How many keys were not forgotten because they are held, shut, offered, pinned or waited for.
    pub left: usize,
    /// The call stopped after this key: there may be more.
    pub next: Option<String>,
}

impl Manager {
    /// Ends a tenure: when its last promise has run out, or at once with `immediately`. Returns the longest time that
    /// it takes, in milliseconds.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn revoke(
        &self,
        key: &Key,
        revoke: Revoke,
        asked: impl Into<Asked>,
    ) -> Result<u64, AdminError> {
        check_text("reason", &revoke.reason, MAX_REASON_BYTES)?;
        let answer =
            actor::revoke(&self.coordinator.session_service, key, revoke, asked.into()).await;
        match self.answered(answer)? {
            Answer::Revoked(ends_in_ms) => Ok(ends_in_ms),
            Answer::NotHeld(view) => {
                self.check_lease(key.as_str()).map_err(CallError::from)?;
                Err(AdminError::NotHeld(view))
            }
            Answer::Pinned(view) => Err(AdminError::Pinned(view)),
            other => Err(CallError::of("revoke", other).into()),
        }
    }

    /// Forgets free keys that begin with a prefix and sort after `after`, some thousands of them at most. Their records
    /// are removed five minutes later, unless a caller was granted them meanwhile. Later tokens are higher than all
    /// earlier ones.
    ///
    /// # Errors
    /// [`AdminError`]. Keys that were forgotten before the error stay forgotten.
    pub async fn forget(
        &self,
        prefix: &str,
        after: Option<String>,
        said: (&str, &str),
        asked: impl Into<Asked>,
    ) -> Result<ForgottenKeys, AdminError> {
        self.forget_counted(prefix, after, said, asked, UNCOUNTED).await
    }

    /// The same, and tells how many records it looks at.
    pub(crate) async fn forget_counted(
        &self,
        prefix: &str,
        after: Option<String>,
        (reason, actor): (&str, &str),
        asked: impl Into<Asked>,
        looks: Looks<'_>,
    ) -> Result<ForgottenKeys, AdminError> {
        check_text("reason", reason, MAX_REASON_BYTES)?;
        check_text("prefix", prefix, MAX_KEY_BYTES)?;
        if let Some(after) = &after {
            check_text("after", after, MAX_KEY_BYTES)?;
        }
        let asked = asked.into();
        let mut done = ForgottenKeys::default();
        let mut pages = Pages::of(&*self.coordinator.store, prefix, PAGE).after(after);
        for _ in 0..FORGET_PAGES {
            let page = pages.next().await.map_err(CallError::Store)?;
            let Some(page) = page else { return Ok(done) };
            looks(page.len());
            let keys = page.into_iter().filter(|(key, _)| !key.is_internal());
            let each = keys.map(|(key, found)| self.forget_one(key, found, (reason, actor), asked));
            let mut each = stream::iter(each).buffer_unordered(PAGE.min(self.at_once()));
            while let Some(forgotten) = each.next().await {
                *(if forgotten? { &mut done.forgotten } else { &mut done.left }) += 1;
            }
        }
        done.next = pages.into_position();
        Ok(done)
    }

    /// Forgets one key, if it can be. Returns whether it is forgotten, now or by an earlier call.
    async fn forget_one(
        &self,
        key: Key,
        found: Found,
        (reason, actor): (&str, &str),
        asked: Asked,
    ) -> Result<bool, AdminError> {
        let Ok(record) = found.record.as_ref() else { return Ok(false) };
        if self.coordinator.forgotten.has(&key, record.seq) {
            return Ok(true);
        }
        if record.state != KeyState::Free {
            return Ok(false);
        }
        match self.ask(key.as_str(), asked, || Request::Forget(reason.into(), actor.into())).await?
        {
            // The record may have been written again by now. Then it stays.
            Answer::Forgotten(seq) => {
                self.coordinator.forgotten.add(&key, seq, self.now());
                Ok(true)
            }
            Answer::NotForgotten(_) => Ok(false),
            other => Err(CallError::of("forget", other).into()),
        }
    }

    /// Keeps a key's tenures from expiring until the same name is unpinned.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn pin(
        &self,
        key: &Key,
        by: &str,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<View, AdminError> {
        check_text("by", by, MAX_PIN_BYTES)?;
        self.check_lease(key.as_str()).map_err(CallError::from)?;
        self.check_ordered_key(key).await?;
        self.carry_out(key, asked.into(), || Request::Pin(by.into(), actor.into())).await
    }

    /// Removes a pin.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn unpin(
        &self,
        key: &Key,
        by: &str,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<View, AdminError> {
        check_text("by", by, MAX_PIN_BYTES)?;
        self.carry_out(key, asked.into(), || Request::Unpin(by.into(), actor.into())).await
    }

    pub(super) async fn carry_out(
        &self,
        key: &Key,
        asked: Asked,
        make: impl Fn() -> Request,
    ) -> Result<View, AdminError> {
        match self.ask(key.as_str(), asked, make).await? {
            Answer::Done(view) => Ok(*view),
            Answer::NotFencing(view) => Err(AdminError::NotFencing(view)),
            Answer::TooManyPins => Err(AdminError::TooManyPins),
            other => Err(CallError::of("change a key", other).into()),
        }
    }

    /// Revokes, gracefully, every lease of the owner whose home node is this one, or has ended. Sessions that are
    /// members of a pool with `balance` are first asked to hand over. Returns how many it revoked, how many it could
    /// not revoke because they are pinned, and how many it asked. The caller must ask the other nodes
    /// ([`Self::others`]) as well.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn drain_owner(
        &self,
        owner: &Owner,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<DrainedOwner, AdminError> {
        self.drain_owner_counted(owner, actor, asked, UNCOUNTED).await
    }

    /// The same, and tells how many records it looks at.
    pub(crate) async fn drain_owner_counted(
        &self,
        owner: &Owner,
        actor: &str,
        asked: impl Into<Asked>,
        looks: Looks<'_>,
    ) -> Result<DrainedOwner, AdminError> {
        let asked = asked.into();
        let mut drained = DrainedOwner::default();
        // The leases of the owner's sessions end with them.
        let (mut sessions, mut members, mut from) = (HashSet::default(), HashSet::default(), None);
        loop {
            let found = self.sessions(Some(owner), from, PAGE, |_| true, looks);
            let (page, next) = found.await?;
            for session in page {
                sessions.insert(session.digest);
                if self.is_balanced(&session) {
                    members.insert(Key::of_session(session.digest));
                    drained.asked += usize::from(self.drain_member(&session, actor, asked).await?);
                }
            }
            from = next;
            if from.is_none() {
                break;
            }
        }
        let mut pages = Pages::of(&*self.coordinator.store, "", PAGE);
        while let Some(page) = pages.next().await.map_err(CallError::Store)? {
            looks(page.len());
            for (key, found) in &page {
                let tenure = found.record.as_ref().ok().and_then(|record| record.tenure.as_ref());
                let fits = |tenure: &&Tenure| {
                    let session_ref = tenure.session_ref.as_ref();
                    tenure.owner.has_name_of(owner)
                        && session_ref.is_none_or(|b| !sessions.contains(&b.session))
                };
                if tenure.filter(fits).is_some() && !members.contains(key) {
                    self.drain_lease(key, owner, actor, asked, &mut drained).await?;
                }
            }
        }
        Ok(drained)
    }

    fn is_balanced(&self, session: &SessionView) -> bool {
        let pool = session.spec.pool.as_deref();
        pool.is_some_and(|pool| self.coordinator.node_context().policies.balances(pool))
    }

    /// Asks a member of a pool to hand over all its leases. Returns whether this node could.
    async fn drain_member(
        &self,
        session: &SessionView,
        actor: &str,
        asked: Asked,
    ) -> Result<bool, AdminError> {
        match self.ask_to_drain(session.digest, session.spec.pool.as_deref(), actor, asked).await {
            Ok(answer) => Ok(matches!(answer, Answer::Done(_))),
            Err(CallError::Elsewhere(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn drain_lease(
        &self,
        key: &Key,
        owner: &Owner,
        actor: &str,
        asked: Asked,
        drained: &mut DrainedOwner,
    ) -> Result<(), AdminError> {
        let order = Revoke {
            floor: None,
            reason: "drain".into(),
            actor: actor.into(),
            immediately: false,
            owner: Some(owner.clone()),
            token: None,
        };
        match self.revoke(key, order, asked).await {
            Ok(_) => drained.revoked += 1,
            Err(AdminError::Pinned(_)) => drained.pinned += 1,
            Err(AdminError::NotHeld(_) | AdminError::Call(CallError::Elsewhere(_))) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Asks the holder of a lease to hand it over within the `handover_timeout` of the key's policy. A second request
    /// changes nothing.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn ask_handover(
        &self,
        key: &Key,
        reason: &str,
        actor: &str,
        asked: impl Into<Asked>,
    ) -> Result<(), AdminError> {
        check_text("reason", reason, MAX_REASON_BYTES)?;
        let service = &self.coordinator.session_service;
        let answer = actor::ask_handover(service, key, reason, actor, asked.into()).await;
        match self.answered(answer)? {
            Answer::Done(_) => Ok(()),
            Answer::NotHeld(view) => Err(AdminError::NotHeld(view)),
            other => Err(CallError::of("ask for a hand-over", other).into()),
        }
    }
}

/// What [`Manager::drain_owner`] did to the owner's leases and sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainedOwner {
    /// How many leases and sessions were revoked.
    pub revoked: usize,
    /// How many leases were not revoked because they are pinned.
    pub pinned: usize,
    /// How many sessions were asked to hand over all their leases.
    pub asked: usize,
}
