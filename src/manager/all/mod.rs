//! Acquire-all: takes every key of a list, or none of them. It also takes the permits of a key.
//!
//! Guarantees: a call that is refused keeps nothing: what it had taken is released before it is answered. Calls that
//! wait never wait for each other: each takes its keys in one order, which is the same for all calls, and its permits by
//! [`Rules::a_call_waits_for_permit`]. At one coordinator, the calls for the permits of a key are served in the order of
//! their arrival.
//!
//! Does not guarantee: that order between coordinators. A caller that already holds some keys and waits here for others
//! may wait for a caller that does the same, until its time is over.
//!
//! [`Rules::a_call_waits_for_permit`]: crate::lease::Rules::a_call_waits_for_permit

mod adapt;
mod collect;
mod kept;
mod parts;
mod request;

pub use request::{AcquireAll, MAX_TAKEN, NotAll, Take, Wanted};

use std::pin::pin;

use super::{
    Manager,
    acquire::AcquireOne,
    any::{AcquireAny, AnyCall, Count},
    checks::{check_min_hold, check_new, check_value},
    error::{AcquireError, CallError, Home},
};
use crate::{
    actor::Asked,
    lease::{ChangeKind, Grant, Key, Moment, Named, Refusal, SessionId, View},
};
use collect::Collector;
use parts::Part;

impl Manager {
    /// What a key stands for under its policy.
    #[must_use]
    pub fn named(&self, key: &str) -> Named {
        self.coordinator.policy_table().of(key).0.named(key)
    }

    /// What everybody may see of the permits of a key, in the order of their numbers. None if the key is a lease.
    ///
    /// # Errors
    /// [`CallError`] when the store cannot be read.
    pub async fn permits(&self, key: &Key) -> Result<Vec<(Key, View)>, CallError> {
        let permits = parts::permits(self, key)?;
        let views = self.views(&permits).await?;
        Ok(permits.into_iter().zip(views).collect())
    }

    /// Acquires every key of a list, or none.
    ///
    /// # Errors
    /// [`NotAll`].
    pub async fn acquire_all(
        &self,
        all: &AcquireAll,
        received: Moment,
    ) -> Result<Vec<(Key, Grant)>, NotAll> {
        self.acquire_all_in_turn(all, received, async |_: &Key, _: &Home| false).await
    }

    /// [`Self::acquire_all`]. Where another living node keeps the queue of a key, `turn` waits there by
    /// [`Self::take_place`], and says whether the key was offered to the caller. If not, the call waits here.
    pub(crate) async fn acquire_all_in_turn(
        &self,
        all: &AcquireAll,
        received: Moment,
        turn: impl AsyncFn(&Key, &Home) -> bool,
    ) -> Result<Vec<(Key, Grant)>, NotAll> {
        check_value(all.value.as_deref())?;
        check_min_hold(all.min_hold_ms)?;
        check_new("owner", all.owner.as_str())?;
        let parts = parts::resolve(self, all)?;
        self.check_room(&all.owner, parts.iter().map(|it| (it.keys().collect(), it.leases())))?;
        let any = AcquireAny {
            session: all.session,
            wait_ms: all.wait_ms,
            mark: all.mark,
            count: Count::UpTo(parts.iter().map(Part::leases).sum()),
            ..AcquireAny::new(all.owner.clone(), all.ttl_ms)
        };
        let call = AnyCall::checked(self, &any, received)?;
        let call = AnyCall { value: all.value.as_deref(), min_hold_ms: all.min_hold_ms, ..call };
        match all.session {
            None => {
                for key in parts.iter().flat_map(Part::keys) {
                    self.check_ttl(key.as_str(), "ttl_ms", all.ttl_ms)?;
                }
                let collector = Collector::new(call, all, parts, &turn)?;
                collector.collect().await?;
                Ok(collector.told())
            }
            Some(session) => self.acquire_all_under(session, call, (all, parts), &turn).await,
        }
    }

    /// Acquires one of the permits of a key.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire_permit(
        &self,
        one: &AcquireOne,
        asked: impl Into<Asked>,
    ) -> Result<(Key, Grant), AcquireError> {
        let all = AcquireAll::permit(one)?;
        let granted = Box::pin(self.acquire_all(&all, asked.into().received)).await;
        let granted = granted.map_err(|not_all| not_all.error)?;
        granted.into_iter().next().ok_or_else(|| CallError::Unexpected.into())
    }

    /// R6: the session is seen alive before any grant is written, and again before the caller is told.
    async fn acquire_all_under(
        &self,
        session: SessionId,
        call: AnyCall<'_>,
        (all, parts): (&AcquireAll, Vec<Part>),
        turn: &impl AsyncFn(&Key, &Home) -> bool,
    ) -> Result<Vec<(Key, Grant)>, NotAll> {
        let under = self.call_under(session, call.received.into()).await?;
        let call = call.under(under.session_ref(), under.ttl_ms());
        let collector = Collector::new(call, all, parts, turn)?;
        let valid_for_ms = loop {
            under.unless_over(pin!(collector.collect())).await?;
            let valid_for_ms = under.promise(|| collector.keys()).await?;
            // The policies may have changed while the session was heard.
            if collector.may_be_answered() {
                break valid_for_ms;
            }
        };
        let is_lost = |key: &Key, grant: &Grant| under.is_lost(key, grant.view.token);
        if let Some(key) = collector.first(is_lost) {
            collector.give_back().await;
            let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
            return Err(NotAll::at(&key, AcquireError::Refused(spent, None)));
        }
        collector.promise(valid_for_ms);
        Ok(collector.told())
    }
}
