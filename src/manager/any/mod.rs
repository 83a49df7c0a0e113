//! Acquire-any: takes up to `count` of several keys, or what a member of a pool lacks of its share.
//!
//! A call passes these stages, each in a file of its own:
//!
//! 1. `request` is what the caller asks for. `call` checks it, and holds it while the call is served.
//! 2. `repeat` gives a repeated call what it was granted earlier.
//! 3. `candidates` lists the keys, and `order` arranges them.
//! 4. `attempt` tries them, in waves.
//! 5. `wait` queues the caller at all of them at once.
//! 6. `taken` is what the caller is told.
//!
//! `available` takes what a call finds free, and `share` what is left of a fair share: both go through stages 3 to 5
//! until something is granted or the caller's time is over.

mod attempt;
mod available;
mod call;
mod candidates;
mod order;
mod repeat;
mod request;
mod share;
mod taken;
mod wait;

pub(super) use attempt::{Basis, Tried};
pub(super) use call::AnyCall;
pub(super) use repeat::Serving;
pub use request::{AcquireAny, Candidates, Count, MAX_CANDIDATES};
pub use taken::Taken;

use std::pin::pin;

use super::{
    Manager,
    error::AcquireError,
    looks::{Looks, UNCOUNTED},
};
use crate::lease::{ChangeKind, Moment, Refusal, SessionId};
use taken::Served;

impl Manager {
    /// Acquires 1 to `count` of the candidates. If none is free and the call waits, ONE registration waits on all of
    /// them, and is granted one.
    ///
    /// With a mark: of two calls at this node, one is refused while the other is served. A repeated call gets its own
    /// grants. Calls at several nodes must first be brought to one node: [`Self::server_of`].
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire_any(
        &self,
        any: &AcquireAny,
        received: Moment,
    ) -> Result<Taken, AcquireError> {
        self.acquire_any_counted(any, received, UNCOUNTED).await
    }

    /// The same. `looks` counts the records that the search for candidates looks at.
    pub(crate) async fn acquire_any_counted(
        &self,
        any: &AcquireAny,
        received: Moment,
        looks: Looks<'_>,
    ) -> Result<Taken, AcquireError> {
        let call = AnyCall::checked(self, any, received)?;
        let stay = self.stay(any.mark, any.wait_ms, received);
        let call = AnyCall { looks, since: stay.since(), ..call };
        let served = match any.session {
            Some(session) => call.serve_under(session).await?,
            None => call.serve().await?,
        };
        if !served.is_empty() {
            stay.end();
        }
        Ok(served.into())
    }
}

impl AnyCall<'_> {
    /// R6: the session is seen alive before any grant is written, and again before the caller is told.
    async fn serve_under(self, session: SessionId) -> Result<Served, AcquireError> {
        let under = self.manager.call_under(session, self.received.into()).await?;
        let call = self.under(under.session_ref(), under.ttl_ms());
        let mut served = under.unless_over(pin!(call.serve())).await?;
        let granted = !served.is_empty();
        let grants = &mut served.grants;
        // Grants under a session hold for as long as the session was promised.
        let keys = || grants.iter().map(|one| one.key.clone()).collect();
        let valid_for_ms = under.promise(keys).await?;
        grants.retain(|one| !under.is_lost(&one.key, one.grant.view.token));
        grants.iter_mut().for_each(|one| one.grant.valid_for_ms = valid_for_ms);
        if granted && served.is_empty() {
            let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
            return Err(AcquireError::Refused(spent, None));
        }
        Ok(served)
    }

    async fn serve(&self) -> Result<Served, AcquireError> {
        let Count::UpTo(count) = self.any.count else { return self.serve_share().await };
        let candidates = self.resolve().await?;
        if self.session_ref.is_none() {
            self.check_ttls(&candidates.keys)?;
        }
        let _serving = self.begin()?;
        match self.granted_before(&candidates.keys).await? {
            Some(served) => Ok(served),
            None => Ok(self.take_available(candidates, count).await?.into()),
        }
    }
}
