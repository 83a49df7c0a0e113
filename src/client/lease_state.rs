//! The state that the guard of a lease shares with its heartbeat: the grant, and its guarantee.

use std::{sync::atomic::AtomicUsize, time::Duration};

use reqwest::Url;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    Alive, Grant, LeaseView, Notice,
    call::Call,
    error::ClientError,
    guarantee::{Guarantee, Loss, Sent},
    handle::Client,
    keep::{Kept, Outcome},
    servers::server_url,
};

/// How long an explicit release or transfer is tried at least.
pub(super) const LAST_WORD: Duration = Duration::from_secs(2);
/// The pause between attempts.
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
}

impl LeaseState {
    pub(super) fn new(client: Client, grant: Grant, sent: Sent, ttl: Duration) -> Self {
        let guarantee = Guarantee::new(client.clock.clone(), sent, grant.valid_for_ms);
        let home = grant.lease.other.get("node").and_then(Value::as_str);
        let home = home.and_then(|url| server_url(url).ok());
        let Grant { lease: view, lease_id, .. } = grant;
        let turn = AtomicUsize::new(0);
        let runtime = Handle::current();
        Self { client, runtime, view, lease_id, ttl, home, turn, guarantee }
    }

    pub(super) fn key(&self) -> &str {
        &self.view.key
    }

    pub(super) fn token(&self) -> u64 {
        self.view.token.unwrap_or_default()
    }

    /// Tells a server, and repeats that for a while.
    pub(super) async fn tell(
        &self,
        path: &str,
        mut body: Value,
        patience: Duration,
    ) -> Result<bool, ClientError> {
        body["key"] = json!(self.view.key);
        body["lease_id"] = json!(self.lease_id);
        let clock = &self.client.clock;
        let call = Call::post(path, body).timeout((patience / 4).max(LAST_WORD / 2));
        let end = clock.now() + patience;
        loop {
            let refused = match self.client.ask_around::<Value>(&call, self.home.as_ref()).await {
                Ok(answer) => return Ok(answer["released"] != false),
                Err(refused) => refused,
            };
            let gone = |code: &str| matches!(code, "lease-lost" | "not-holder");
            match refused.problem() {
                // An earlier attempt may have succeeded and its answer been lost.
                Some(problem) if gone(&problem.code) => {
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
        let body = json!({ "key": self.view.key, "lease_id": self.lease_id });
        let call = Call::post("heartbeat", body).timeout(self.ttl / 6);
        let asked = self.client.ask_around::<Alive>(&call, self.home.as_ref()).await;
        let refused = asked.err()?;
        let problem = refused.problem().filter(|problem| problem.code == "lease-lost")?;
        Some(Loss::from_reason(problem.reason.as_deref()))
    }
}

impl Kept for LeaseState {
    fn guarantee(&self) -> &Guarantee {
        &self.guarantee
    }

    async fn beat(&self, sent: Sent, patience: Duration) -> Outcome {
        let body = json!({ "key": self.view.key, "lease_id": self.lease_id });
        let call = Call::post("heartbeat", body);
        match self.client.ask_next::<Alive>(&call, self.home.as_ref(), &self.turn, patience).await {
            Ok(alive) => {
                self.guarantee.renew(sent, alive.valid_for_ms);
                for notice in &alive.notices {
                    self.notice(notice, sent);
                }
                Outcome::Alive(None)
            }
            Err(error) => Outcome::of_failure(&error, "lease-lost"),
        }
    }

    fn overdue(&self) {
        self.guarantee.risk();
    }

    fn over(&self, _: Loss) {}
}
