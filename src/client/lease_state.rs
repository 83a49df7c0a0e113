//! The state that the guard of a lease shares with its heartbeat: the grant, and its guarantee.

use std::{sync::atomic::AtomicUsize, time::Duration};

use reqwest::Url;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    Alive, Grant, LeaseView, Notice, Problem,
    call::Call,
    error::ClientError,
    guarantee::{Guarantee, Loss, Sent},
    handle::Client,
    keep::{KeepOutcome, Kept, Pace},
    reason,
    servers::server_url,
    stream::Registered,
};
use crate::api::{Code, HeartbeatBody, ReleaseBody};

/// How long an explicit release or transfer is tried at least.
pub(super) const LAST_WORD: Duration = Duration::from_secs(2);
/// How long a heartbeat that its holder wants now is tried at one server, at most.
const RENEWAL: Duration = Duration::from_secs(5);
/// The pause between two attempts of a release or transfer.
const PAUSE: Duration = Duration::from_millis(100);

/// What was granted, and what is known of it since.
pub(super) struct LeaseState {
    pub(super) client: Client,
    /// The runtime of its tasks, whichever thread drops it.
    pub(super) runtime: Handle,
    pub(super) view: LeaseView,
    pub(super) lease_id: String,
    pub(super) ttl: Duration,
    pub(super) home: Option<Url>,
    /// The server for its heartbeats: the home node, until that gives no answer.
    turn: AtomicUsize,
    pub(super) guarantee: Guarantee,
    /// What a server tells by itself.
    told: Registered,
}

impl LeaseState {
    pub(super) fn new(client: Client, grant: Grant, sent: Sent, ttl: Duration) -> Self {
        let guarantee = Guarantee::new(client.clock.clone(), sent, grant.valid_for_ms);
        let home = grant.lease.other.get("node").and_then(Value::as_str);
        let home = home.and_then(|url| server_url(url).ok());
        let Grant { lease: view, lease_id, .. } = grant;
        let turn = AtomicUsize::new(0);
        let runtime = Handle::current();
        let told = client.streams.nudge_of_lease(&view.key);
        Self { client, runtime, view, lease_id, ttl, home, turn, guarantee, told }
    }

    pub(super) fn key(&self) -> &str {
        &self.view.key
    }

    pub(super) fn token(&self) -> u64 {
        self.view.token.unwrap_or_default()
    }

    pub(super) fn release_body(&self, value: Option<&str>, reason: Option<&str>) -> Value {
        let (key, lease_id) = (self.view.key.clone(), self.lease_id.clone());
        let (value, reason) = (value.map(str::to_owned), reason.and_then(reason::said));
        json!(ReleaseBody { key, lease_id, value, reason })
    }

    fn heartbeat_call(&self) -> Call {
        let (key, lease_id) = (self.view.key.clone(), self.lease_id.clone());
        let body = HeartbeatBody { key, lease_id, value: None, ttl_ms: None };
        Call::post("heartbeat", json!(body))
    }

    /// Tells a server, and repeats that for a while. A server of the version before knows no reason, and is told none.
    pub(super) async fn tell(
        &self,
        path: &str,
        mut body: Value,
        patience: Duration,
    ) -> Result<bool, ClientError> {
        let clock = &self.client.clock;
        let end = clock.now() + patience;
        loop {
            let call = Call::post(path, body.clone()).timeout((patience / 4).max(LAST_WORD / 2));
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
                Some(problem)
                    if problem.field.as_deref() == Some("reason")
                        && reason::leave_out(&mut body) => {}
                Some(problem) if !problem.retryable => return Err(refused),
                _ if clock.now() >= end => return Err(refused),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Sends a heartbeat now, to one server after the other until one of them knows how it is.
    pub(super) async fn renew(&self) -> Result<(), ClientError> {
        let mut servers = self.client.servers.len();
        loop {
            let left = self.guarantee.remaining();
            let patience = Pace::new(self.ttl).patience(left).min(RENEWAL);
            let sent = Sent::now(self.client.clock.as_ref());
            let Err(error) = self.heartbeat(sent, patience).await else { return Ok(()) };
            servers -= 1;
            match KeepOutcome::of_failure(&error, Code::LeaseLost) {
                KeepOutcome::Lost(loss) => {
                    self.guarantee.lose(loss);
                    return Err(error);
                }
                // What one server refuses for good, all refuse.
                KeepOutcome::Failed(_) if error.problem().is_some_and(|it| !it.retryable) => {
                    return Err(error);
                }
                _ if servers == 0 => return Err(error),
                _ => {}
            }
        }
    }

    /// Sends one heartbeat to one server, and applies its answer.
    async fn heartbeat(&self, sent: Sent, patience: Duration) -> Result<(), ClientError> {
        let (call, home) = (self.heartbeat_call(), self.home.as_ref());
        let alive: Alive = self.client.ask_next(&call, home, &self.turn, patience).await?;
        self.guarantee.renew(sent, alive.valid_for_ms);
        for notice in &alive.notices {
            self.notice(notice, sent);
        }
        Ok(())
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
        match KeepOutcome::of_failure(&refused, Code::LeaseLost) {
            KeepOutcome::Lost(loss) => Some(loss),
            KeepOutcome::Alive(_) | KeepOutcome::Failed(_) | KeepOutcome::Denied(_) => None,
        }
    }
}

impl Kept for LeaseState {
    fn guarantee(&self) -> &Guarantee {
        &self.guarantee
    }

    async fn beat(&self, sent: Sent, patience: Duration) -> KeepOutcome {
        match self.heartbeat(sent, patience).await {
            Ok(()) => KeepOutcome::Alive(None),
            Err(error) => KeepOutcome::of_failure(&error, Code::LeaseLost),
        }
    }

    async fn nudged(&self) {
        self.told.nudge().woken().await;
        if let Some((token, within_ms)) = self.told.nudge().hand_over()
            && token == self.token()
        {
            let now = self.client.clock.now();
            self.guarantee.hand_over(now + Duration::from_millis(within_ms));
        }
    }

    fn overdue(&self) {
        self.guarantee.risk();
    }

    fn over(&self, _: Loss) {}

    fn denied(&self, why: Option<&str>) {
        self.client.tell_denied(&format!("the lease {:?}", self.key()), why);
    }
}

/// Whether the tenure is over.
fn is_gone(problem: &Problem) -> bool {
    matches!(problem.known(), Some(Code::LeaseLost | Code::NotHolder))
}
