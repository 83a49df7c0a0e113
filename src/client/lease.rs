//! The guard of one lease.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use reqwest::Url;
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::watch};

use super::{
    Alive, Client, ClientError, Deadline, Grant, LeaseView, Loss, Notice, Problem,
    call::Call,
    guarantee::{Guarantee, Sent},
    keep::{self, Kept, Outcome},
    servers::server_url,
    session_state::SessionState,
};
use crate::{
    api::{Code, HeartbeatBody, ReleaseBody, TransferBody},
    clock::{Clock, Entropy, SystemEntropy},
};

/// How long a release in the background is tried.
const LET_GO: Duration = Duration::from_secs(10);
/// How long an explicit release or transfer is tried at least.
const LAST_WORD: Duration = Duration::from_secs(2);
/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// A held lease: its proof, its deadline and its heartbeat in one.
///
/// Several tasks may share it through an `Arc`. When the last reference is dropped, the lease is released in the
/// background where that is possible. Only [`Lease::release`] tells whether it was.
pub struct Lease {
    core: Arc<Core>,
}

/// The state that the guard and its heartbeat share.
pub(super) struct Core {
    client: Client,
    /// The runtime of its tasks, whichever thread drops it.
    runtime: Handle,
    view: LeaseView,
    lease_id: String,
    ttl: Duration,
    home: Option<Url>,
    /// The server for its heartbeats: the home node, until that gives no answer.
    turn: AtomicUsize,
    pub(super) guarantee: Guarantee,
    /// The session that keeps it; without one, it has its own heartbeat.
    session_state: Option<Arc<SessionState>>,
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
        let guarantee = Guarantee::new(client.clock.clone(), sent, grant.valid_for_ms);
        let home = grant.lease.other.get("node").and_then(Value::as_str);
        let home = home.and_then(|url| server_url(url).ok());
        let Grant { lease: view, lease_id, .. } = grant;
        let turn = AtomicUsize::new(0);
        let runtime = Handle::current();
        let core =
            Core { client, runtime, view, lease_id, ttl, home, turn, guarantee, session_state };
        let core = Arc::new(core);
        match &core.session_state {
            Some(session_state) => session_state.take_in(&core, sent),
            None => {
                let (kept, chance) = (core.clone(), SystemEntropy::new().chance());
                tokio::spawn(async move { keep::keep(&*kept, kept.ttl, chance).await });
            }
        }
        Self { core }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.core.view.key
    }

    /// The fencing token. The resource that the work writes to must refuse lower tokens.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.core.token()
    }

    /// Who holds it.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.core.view.owner.as_deref().unwrap_or_default()
    }

    /// How long a heartbeat keeps it: its own, or its session's.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.core.ttl
    }

    /// The value that the previous owner left.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.core.view.value.as_deref()
    }

    /// The lease as it was granted.
    #[must_use]
    pub fn view(&self) -> &LeaseView {
        &self.core.view
    }

    /// The secret of this tenure. Whoever knows it can end the tenure.
    #[must_use]
    pub fn lease_id(&self) -> &str {
        &self.core.lease_id
    }

    /// The best server to ask about it: the home node that the grant named, or the server that answered last.
    #[must_use]
    pub fn server(&self) -> String {
        let servers = &self.core.client.servers;
        servers.order(self.core.home.as_ref())[0].url.to_string().trim_end_matches('/').to_owned()
    }

    /// Whether it is held at this moment. Once this is false, it is false forever. A tenure that ran out unseen is not
    /// continued, even if the server would allow it.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.core.valid()
    }

    /// The time until the guarantee ends, unless it is renewed; zero when it has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.valid() { self.core.guarantee.remaining() } else { Duration::ZERO }
    }

    /// The current end of the guarantee.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.core.guarantee.deadline()
    }

    /// The current end of the guarantee, in milliseconds of `CLOCK_BOOTTIME`.
    #[must_use]
    pub fn deadline_boottime_ms(&self) -> u64 {
        self.deadline().boottime_ms
    }

    /// Watches every renewal and every other change. The last value has [`Deadline::lost`].
    #[must_use]
    pub fn deadlines(&self) -> watch::Receiver<Deadline> {
        self.core.guarantee.watch()
    }

    /// Resolves when it is over, with the cause.
    pub async fn lost(&self) -> Loss {
        self.core.guarantee.lost().await
    }

    /// Resolves when a renewal is overdue, with the time left; never if it is lost before.
    pub async fn at_risk(&self) -> Duration {
        self.core.guarantee.at_risk().await
    }

    /// Resolves when the lease must be handed over, with the time left until it is revoked; never if it is lost before.
    /// Finish the work, then call [`Lease::transfer`] without an owner.
    pub async fn handover_requested(&self) -> Duration {
        self.core.guarantee.handover_requested().await
    }

    /// Releases it. It is invalid from the call on, even if the call fails. Returns true when this ended the tenure,
    /// false when it was already over.
    ///
    /// # Errors
    /// When no server could be told: it ends with its ttl or its session.
    pub async fn release(&self) -> Result<bool, ClientError> {
        self.give_back(None).await
    }

    /// Stops keeping it, and tells no server. It runs out like the lease of a holder that died, with the fences that an
    /// expiry requires.
    pub fn abandon(&self) {
        self.core.leave_session_state();
        self.core.guarantee.lose(Loss::Expired);
    }

    /// [`Lease::release`], with a value for the next owner.
    ///
    /// # Errors
    /// As [`Lease::release`].
    pub async fn release_with(&self, value: &str) -> Result<bool, ClientError> {
        self.give_back(Some(value)).await
    }

    /// [`Lease::release`], with or without a value.
    pub(super) async fn give_back(&self, value: Option<&str>) -> Result<bool, ClientError> {
        self.core.end(Loss::Released, "release", self.core.release_body(value)).await
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.core.client.clock
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
        let body = json!(TransferBody {
            key: self.key().to_owned(),
            lease_id: self.lease_id().to_owned(),
            to: to.map(str::to_owned),
            offer_ms: None,
            value: value.map(str::to_owned),
        });
        self.core.end(Loss::Transferred, "transfer", body).await
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
        self.core.leave_session_state();
        if !self.core.guarantee.lose(Loss::Released) {
            return;
        }
        let core = self.core.clone();
        self.core.runtime.spawn(async move {
            if let Err(error) = core.tell("release", core.release_body(None), LET_GO).await {
                tracing::debug!(key = core.view.key, %error, "a dropped lease is left to its ttl");
            }
        });
    }
}

impl Core {
    pub(super) fn key(&self) -> &str {
        &self.view.key
    }

    pub(super) fn token(&self) -> u64 {
        self.view.token.unwrap_or_default()
    }

    fn valid(&self) -> bool {
        self.guarantee.valid()
    }

    fn leave_session_state(&self) {
        if let Some(session_state) = &self.session_state {
            session_state.let_go(self);
        }
    }

    fn release_body(&self, value: Option<&str>) -> Value {
        let (key, lease_id) = (self.view.key.clone(), self.lease_id.clone());
        json!(ReleaseBody { key, lease_id, value: value.map(str::to_owned) })
    }

    fn heartbeat_call(&self) -> Call {
        let (key, lease_id) = (self.view.key.clone(), self.lease_id.clone());
        let body = HeartbeatBody { key, lease_id, value: None, ttl_ms: None };
        Call::post("heartbeat", json!(body))
    }

    /// Ends the tenure here, then at the server.
    async fn end(&self, how: Loss, path: &str, body: Value) -> Result<bool, ClientError> {
        let left = self.guarantee.remaining();
        self.guarantee.lose(how);
        self.leave_session_state();
        self.tell(path, body, left.max(LAST_WORD)).await
    }

    /// Tells a server, and repeats that for a while.
    async fn tell(&self, path: &str, body: Value, patience: Duration) -> Result<bool, ClientError> {
        let clock = &self.client.clock;
        let call = Call::post(path, body).timeout((patience / 4).max(LAST_WORD / 2));
        let end = clock.now() + patience;
        loop {
            let refused = match self.client.ask_around::<Value>(&call, self.home.as_ref()).await {
                Ok(answer) => return Ok(answer["released"] != false),
                Err(refused) => refused,
            };
            match refused.problem() {
                // An earlier attempt may have succeeded and its answer been lost.
                Some(problem) if is_gone(problem) => {
                    return Ok(problem.reason.as_deref()
                        == self.guarantee.deadline().lost.map(Loss::as_str));
                }
                Some(problem) if !problem.retryable => return Err(refused),
                _ if clock.now() >= end => return Err(refused),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Applies a notice about this lease.
    pub(super) fn notice(&self, notice: &Notice, sent: Sent) {
        let deadline = || sent.at + Duration::from_millis(notice.deadline_ms.unwrap_or(0));
        match notice.kind.as_str() {
            "revoked" => {
                self.guarantee.lose(Loss::Revoked);
            }
            "handover-requested" | "draining" => self.guarantee.hand_over(deadline()),
            _ => {}
        }
    }

    /// Asks the server why a tenure that a session keeps is over; `None` when it is not known to be over.
    pub(super) async fn cause_of_loss(&self) -> Option<Loss> {
        let call = self.heartbeat_call().timeout(self.ttl / 6);
        let asked = self.client.ask_around::<Alive>(&call, self.home.as_ref()).await;
        let refused = asked.err()?;
        match failed(&refused, Code::LeaseLost) {
            Outcome::Lost(loss) => Some(loss),
            Outcome::Alive(_) | Outcome::Failed(_) => None,
        }
    }
}

impl Kept for Core {
    fn guarantee(&self) -> &Guarantee {
        &self.guarantee
    }

    async fn beat(&self, sent: Sent, patience: Duration) -> Outcome {
        let call = self.heartbeat_call();
        match self.client.ask_next::<Alive>(&call, self.home.as_ref(), &self.turn, patience).await {
            Ok(alive) => {
                self.guarantee.renew(sent, alive.valid_for_ms);
                for notice in &alive.notices {
                    self.notice(notice, sent);
                }
                Outcome::Alive(None)
            }
            Err(error) => failed(&error, Code::LeaseLost),
        }
    }

    fn overdue(&self) {
        self.guarantee.risk();
    }

    fn over(&self, _: Loss) {}
}

/// Whether the tenure is over.
fn is_gone(problem: &Problem) -> bool {
    matches!(problem.known(), Some(Code::LeaseLost | Code::NotHolder))
}

/// The outcome of a failed heartbeat.
pub(super) fn failed(error: &ClientError, lost: Code) -> Outcome {
    match error.problem() {
        Some(problem) if problem.known() == Some(lost) => {
            Outcome::Lost(Loss::from_reason(problem.reason.as_deref()))
        }
        Some(problem) => Outcome::Failed(problem.retry_after_ms.map(Duration::from_millis)),
        None => Outcome::Failed(None),
    }
}
