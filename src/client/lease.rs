//! The guard of one lease, and acquiring it.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    Grant, LeaseView,
    error::ClientError,
    guarantee::{Deadline, Loss, Sent},
    handle::Client,
    hold::Hold,
    keep,
    lease_state::{LAST_WORD, LeaseState},
    reason,
    session_state::SessionState,
    settle::Granted,
};
use crate::{
    api::TransferBody,
    clock::{Clock, Entropy, SystemEntropy},
};

/// How long a release in the background is tried.
const LET_GO: Duration = Duration::from_secs(10);

/// A held lease: its proof, its deadline and its heartbeat in one.
///
/// Several tasks may share it through an `Arc`. When the last reference is dropped, the lease is released in the
/// background where that is possible. Only [`Lease::release`] tells whether it was.
pub struct Lease {
    state: Arc<LeaseState>,
    /// The session that keeps it; without one, it has its own heartbeat.
    session_state: Option<Arc<SessionState>>,
}

impl Client {
    /// Acquires one lease, and keeps it by a heartbeat in the background.
    ///
    /// If the future is dropped while the acquire is in progress, a lease that was granted is released in the
    /// background where that is possible.
    ///
    /// # Errors
    /// The server's refusal (`held`, `none-available`, `held-by-you`, `cooling`…), or that no server could be reached.
    pub async fn hold(&self, hold: Hold) -> Result<Lease, ClientError> {
        let mut leases = self.hold_many(hold.one()?).await?;
        leases.pop().ok_or_else(|| ClientError::not_understood("no grant"))
    }

    /// Acquires up to [`Hold::count`] leases, at least one, each with its own heartbeat. Of [`Hold::all`], all.
    ///
    /// # Errors
    /// As [`Client::hold`].
    pub async fn hold_many(&self, hold: Hold) -> Result<Vec<Lease>, ClientError> {
        let ask = hold.ask(None);
        let granted = self.settle(ask, hold.wait, hold.ttl).await?;
        let guard = |Granted { grant, sent }| Lease::new(self.clone(), grant, sent, hold.ttl, None);
        Ok(granted.into_iter().map(guard).collect())
    }
}

impl Lease {
    /// The guard of a grant, with its own heartbeat or kept by a session.
    pub(super) fn new(
        client: Client,
        grant: Grant,
        sent: Sent,
        ttl: Duration,
        session_state: Option<Arc<SessionState>>,
    ) -> Self {
        let state = Arc::new(LeaseState::new(client, grant, sent, ttl));
        match &session_state {
            Some(session_state) => session_state.take_in(&state, sent),
            None => {
                let (kept, chance) = (state.clone(), SystemEntropy::new().chance());
                tokio::spawn(async move { keep::keep(&*kept, kept.ttl, chance).await });
            }
        }
        Self { state, session_state }
    }

    /// The name of what is leased.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.state.view.key
    }

    /// The fencing token. The resource that the work writes to must refuse lower tokens.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.state.token()
    }

    /// The name of the worker that holds the lease.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.state.view.owner.as_deref().unwrap_or_default()
    }

    /// How long a heartbeat keeps it: its own, or its session's.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.state.ttl
    }

    /// The value that the previous owner left.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.state.view.value.as_deref()
    }

    /// The lease as it was granted.
    #[must_use]
    pub fn view(&self) -> &LeaseView {
        &self.state.view
    }

    /// The secret of this tenure. A process that knows it can end the tenure.
    #[must_use]
    pub fn lease_id(&self) -> &str {
        &self.state.lease_id
    }

    /// The best server to ask about it: the home node that the grant named, or the server that answered last.
    #[must_use]
    pub fn server(&self) -> String {
        let servers = &self.state.client.servers;
        servers.order(self.state.home.as_ref())[0].url.to_string().trim_end_matches('/').to_owned()
    }

    /// Whether it is held at this moment. Once this is false, it is false forever. A tenure that ran out unseen is not
    /// continued, even if the server would allow it.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.state.guarantee.valid()
    }

    /// The time until the guarantee ends, unless it is renewed; zero when it has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.valid() { self.state.guarantee.remaining() } else { Duration::ZERO }
    }

    /// The current end of the guarantee.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.state.guarantee.deadline()
    }

    /// The current end of the guarantee, in milliseconds of `CLOCK_BOOTTIME`.
    #[must_use]
    pub fn deadline_boottime_ms(&self) -> u64 {
        self.deadline().boottime_ms
    }

    /// Watches every renewal and every other change. The last value has [`Deadline::lost`].
    #[must_use]
    pub fn deadlines(&self) -> watch::Receiver<Deadline> {
        self.state.guarantee.watch()
    }

    /// Resolves when it is over, with the cause.
    pub async fn lost(&self) -> Loss {
        self.state.guarantee.lost().await
    }

    /// Resolves when a renewal is overdue, with the time left; never if it is lost before.
    pub async fn at_risk(&self) -> Duration {
        self.state.guarantee.at_risk().await
    }

    /// Resolves when the lease must be handed over, with the time left until it is revoked; never if it is lost before.
    /// Finish the work, then call [`Lease::transfer`] without an owner.
    pub async fn handover_requested(&self) -> Duration {
        self.state.guarantee.handover_requested().await
    }

    /// Sets its load, which the heartbeats of its session report: see
    /// [`Session::report_load`](super::Session::report_load). A lease without a session has none.
    pub fn report_load(&self, load: f64) {
        if let Some(session_state) = self.session_state.as_ref().filter(|_| self.valid()) {
            session_state.loads().set(self.key(), load);
        }
    }

    /// Sends a heartbeat now, in addition to those in the background, and returns the time until the guarantee ends.
    ///
    /// # Errors
    /// `lease-lost` if it is over; [`Lease::lost`] then resolves with the cause. Any other error ends nothing: it stays
    /// held until its deadline. A lease that a session keeps has no heartbeat of its own, and the server refuses with
    /// `kept-by-session`.
    pub async fn renew(&self) -> Result<Duration, ClientError> {
        if self.valid() {
            self.state.renew().await?;
        }
        match (self.valid(), self.deadline().lost) {
            (true, _) => Ok(self.remaining()),
            (false, loss) => {
                Err(ClientError::lease_lost(self.key(), loss.unwrap_or(Loss::Unknown).as_str()))
            }
        }
    }

    /// Releases it. It is invalid from the call on, even if the call fails. Returns true when this ended the tenure,
    /// false when it was already over.
    ///
    /// # Errors
    /// When no server could be told: it ends with its ttl or its session.
    pub async fn release(&self) -> Result<bool, ClientError> {
        self.give_back(None, None).await
    }

    /// [`Lease::release`], with the reason. Whoever may read the key sees it in events and in the history. More than 256
    /// bytes, and control characters, are left out.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub async fn release_because(&self, reason: &str) -> Result<bool, ClientError> {
        self.give_back(None, Some(reason)).await
    }

    /// Stops keeping it, and tells no server. It runs out like the lease of a holder that died, with the fences that an
    /// expiry requires.
    pub fn abandon(&self) {
        self.leave_session_state();
        self.state.guarantee.lose(Loss::Expired);
    }

    /// [`Lease::release`], with a value for the next owner.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub async fn release_with(&self, value: &str) -> Result<bool, ClientError> {
        self.give_back(Some(value), None).await
    }

    /// [`Lease::release`], with or without a value and a reason.
    pub(crate) async fn give_back(
        &self,
        value: Option<&str>,
        reason: Option<&str>,
    ) -> Result<bool, ClientError> {
        self.end(Loss::Released, "release", self.state.release_body(value, reason)).await
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.state.client.clock
    }

    /// Hands it over to one owner or, without a name, to the next caller, with a value for the new owner. It is invalid
    /// from the call on. Returns false when it was already over.
    ///
    /// # Errors
    /// When no server could be told, or it refused: it ends with its ttl or its session.
    pub async fn transfer(
        &self,
        to: Option<&str>,
        value: Option<&str>,
    ) -> Result<bool, ClientError> {
        self.hand_over(to, value, None).await
    }

    /// [`Lease::transfer`], with the reason, which is shown as that of a [release](Lease::release_because).
    ///
    /// # Errors
    /// As [`Lease::transfer`].
    pub async fn transfer_because(
        &self,
        to: Option<&str>,
        value: Option<&str>,
        reason: &str,
    ) -> Result<bool, ClientError> {
        self.hand_over(to, value, Some(reason)).await
    }

    /// [`Lease::transfer`], with or without a reason.
    pub(crate) async fn hand_over(
        &self,
        to: Option<&str>,
        value: Option<&str>,
        reason: Option<&str>,
    ) -> Result<bool, ClientError> {
        let body = json!(TransferBody {
            key: self.key().to_owned(),
            lease_id: self.lease_id().to_owned(),
            to: to.map(str::to_owned),
            offer_ms: None,
            value: value.map(str::to_owned),
            reason: reason.and_then(reason::said),
        });
        self.end(Loss::Transferred, "transfer", body).await
    }

    /// Ends the tenure here, then at the server.
    async fn end(&self, how: Loss, path: &str, body: Value) -> Result<bool, ClientError> {
        let left = self.state.guarantee.remaining();
        self.state.guarantee.lose(how);
        self.leave_session_state();
        self.state.tell(path, body, left.max(LAST_WORD)).await
    }

    fn leave_session_state(&self) {
        if let Some(session_state) = &self.session_state {
            session_state.let_go(&self.state);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Lease");
        shown.field("key", &self.key()).field("token", &self.token());
        shown.field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}

impl Drop for Lease {
    /// A lost lease is not released, so that the fences that its end requires run.
    fn drop(&mut self) {
        self.leave_session_state();
        if !self.state.guarantee.lose(Loss::Released) {
            return;
        }
        let state = self.state.clone();
        self.state.client.background.run(&self.state.runtime, async move {
            if let Err(error) = state.tell("release", state.release_body(None, None), LET_GO).await {
                tracing::debug!(key = state.view.key, %error, "cannot release a dropped lease; it stays held until it expires");
            }
        });
    }
}
