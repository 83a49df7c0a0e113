//! The calls of the HTTP API, one method each. They return the server's answer as it is.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Acquire, AcquireAll, AcquireAny, Alive, Assignment, Check, Client, ClientError, Grant, Grants,
    History, LeaseFilter, LeaseView, Leases, Nodes, Pool, PoolPlan, Pools, Released, Series,
    Status, Top, TopFilter,
    call::{ANSWER_TIMEOUT, Call},
};
use crate::api::{CheckBody, HeartbeatBody, ReleaseBody, TransferBody};

/// How often an acquire whose answer was lost is sent, including the first time.
const ACQUIRE_TRIES: u32 = 3;
/// The pause between two of these tries.
const ACQUIRE_PAUSE: Duration = Duration::from_millis(200);

impl Client {
    /// Acquires one key.
    ///
    /// # Errors
    /// The server's refusal (`held`, `held-by-you`, `cooling`…), or that it cannot be reached.
    pub async fn acquire(&self, body: &Acquire) -> Result<Grant, ClientError> {
        let wait = Duration::from_millis(body.wait_ms.unwrap_or(0));
        self.repeated("acquire", json!(body), wait, body.request_id.is_some()).await
    }

    /// Acquires some of several keys.
    ///
    /// # Errors
    /// The server's refusal (`none-available`), or that it cannot be reached.
    pub async fn acquire_any(&self, body: &AcquireAny) -> Result<Grants, ClientError> {
        let wait = Duration::from_millis(body.wait_ms.unwrap_or(0));
        self.repeated("acquire-any", json!(body), wait, body.request_id.is_some()).await
    }

    /// Acquires every key of a list, or none.
    ///
    /// # Errors
    /// The server's refusal (`held`, `none-available`…), or that it cannot be reached.
    pub async fn acquire_all(&self, body: &AcquireAll) -> Result<Grants, ClientError> {
        let wait = Duration::from_millis(body.wait_ms.unwrap_or(0));
        self.repeated("acquire-all", json!(body), wait, body.request_id.is_some()).await
    }

    /// Keeps a lease.
    ///
    /// # Errors
    /// `lease-lost`, or that the server cannot be reached.
    pub async fn heartbeat(&self, key: &str, lease_id: &str) -> Result<Alive, ClientError> {
        self.heartbeat_with(key, lease_id, None, None).await
    }

    /// Keeps a lease, and changes the value of its key and its ttl where these are given.
    ///
    /// # Errors
    /// `lease-lost`, or that the server cannot be reached.
    pub async fn heartbeat_with(
        &self,
        key: &str,
        lease_id: &str,
        value: Option<&str>,
        ttl_ms: Option<u64>,
    ) -> Result<Alive, ClientError> {
        let (key, lease_id) = (key.to_owned(), lease_id.to_owned());
        let body = HeartbeatBody { key, lease_id, value: value.map(str::to_owned), ttl_ms };
        self.post("heartbeat", &body).await
    }

    /// Releases a lease; `value` is what the next owner reads.
    ///
    /// # Errors
    /// `not-holder`, or that the server cannot be reached.
    pub async fn release(
        &self,
        key: &str,
        lease_id: &str,
        value: Option<&str>,
    ) -> Result<Released, ClientError> {
        let (key, lease_id) = (key.to_owned(), lease_id.to_owned());
        let value = value.map(str::to_owned);
        self.release_with(&ReleaseBody { key, lease_id, value, reason: None }).await
    }

    /// Releases a lease, with all that its holder says.
    ///
    /// # Errors
    /// `not-holder`, or that the server cannot be reached.
    pub async fn release_with(&self, body: &ReleaseBody) -> Result<Released, ClientError> {
        self.post("release", body).await
    }

    /// Hands a lease over to the owner `to`, for whom it is reserved for `offer_ms`; without `to`, to the next caller.
    ///
    /// # Errors
    /// `not-holder`, or that the server cannot be reached.
    pub async fn transfer(
        &self,
        key: &str,
        lease_id: &str,
        to: Option<&str>,
        offer_ms: Option<u64>,
        value: Option<&str>,
    ) -> Result<serde_json::Value, ClientError> {
        let body = TransferBody {
            key: key.to_owned(),
            lease_id: lease_id.to_owned(),
            to: to.map(str::to_owned),
            offer_ms,
            value: value.map(str::to_owned),
            reason: None,
        };
        self.transfer_with(&body).await
    }

    /// Hands a lease over, with all that its holder says.
    ///
    /// # Errors
    /// `not-holder`, or that the server cannot be reached.
    pub async fn transfer_with(
        &self,
        body: &TransferBody,
    ) -> Result<serde_json::Value, ClientError> {
        self.post("transfer", body).await
    }

    /// Whether `token` is the current holder's.
    ///
    /// # Errors
    /// `unknown-key`, or that the server cannot be reached.
    pub async fn check(&self, key: &str, token: u64) -> Result<Check, ClientError> {
        self.post("check", &CheckBody { key: key.to_owned(), token }).await
    }

    /// The public view of a key's lease.
    ///
    /// # Errors
    /// `unknown-key`, or that the server cannot be reached.
    pub async fn lease(&self, key: &str) -> Result<LeaseView, ClientError> {
        let leases = Call::get("leases");
        // These two cannot be part of a path: every URL parser resolves them.
        if key == "." || key == ".." {
            let call = leases.query([("key", Some(key.to_owned()))]);
            let found: Leases = self.call(&call).await?;
            return found.leases.into_iter().next().ok_or_else(|| ClientError::unknown_key(key));
        }
        self.call(&leases.segment(key)).await
    }

    /// One page of leases, in the order of their keys.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn leases(&self, filter: &LeaseFilter) -> Result<Leases, ClientError> {
        self.call(&Call::get("leases").query(filter.pairs())).await
    }

    /// Lists the coordinators on the server's store.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn nodes(&self) -> Result<Nodes, ClientError> {
        self.call(&Call::get("nodes")).await
    }

    /// How long after its death a coordinator of the server's store counts as alive. `None` if the store is not shared, or the
    /// server is too old to say.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn node_ttl(&self) -> Result<Option<Duration>, ClientError> {
        let info: Value = self.call(&Call::get("info")).await?;
        Ok(info["node_ttl_ms"].as_u64().map(Duration::from_millis))
    }

    /// Lists all pools that the server's policies name, with their members.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn pools(&self) -> Result<Pools, ClientError> {
        self.call(&Call::get("pools")).await
    }

    /// Reads one pool, with its members.
    ///
    /// # Errors
    /// `unknown-pool`, or that the server cannot be reached.
    pub async fn pool(&self, pool: &str) -> Result<Pool, ClientError> {
        self.call(&Call::get("pools").segment(pool)).await
    }

    /// Reads what would be done now for the balance of a pool.
    ///
    /// # Errors
    /// `unknown-pool`, or that the server cannot be reached.
    pub async fn plan_of_pool(&self, pool: &str) -> Result<PoolPlan, ClientError> {
        self.call(&Call::get("pools").segment(pool).segment("plan")).await
    }

    /// What needs a person, and the figures of the store and of the server.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.call(&Call::get("status")).await
    }

    /// What happened in each of the last slices of time: of five seconds if `fine`, or else of a minute.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn series(&self, fine: bool) -> Result<Series, ClientError> {
        let step = if fine { "5s" } else { "1m" };
        self.call(&Call::get("status/series").query([("step", Some(step.to_owned()))])).await
    }

    /// A page of the keys of a pool, each with its owner, from the `next` of the page before.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn assignment(
        &self,
        pool: &str,
        after: Option<String>,
    ) -> Result<Assignment, ClientError> {
        let call = Call::get("pools").segment(pool).segment("assignment");
        self.call(&call.query([("after", after)])).await
    }

    /// The keys, owners or pools that changed most.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn top(&self, filter: &TopFilter) -> Result<Top, ClientError> {
        self.call(&Call::get("top").query(filter.pairs())).await
    }

    /// What became of a lease: its latest events, `limit` at most, and the tenures that they tell of.
    ///
    /// # Errors
    /// `unknown-key`, or that the server cannot be reached.
    pub async fn history(&self, key: &str, limit: Option<u32>) -> Result<History, ClientError> {
        let limit = limit.map(|limit| limit.to_string());
        let pairs = [("key", Some(key.to_owned())), ("limit", limit)];
        self.call(&Call::get("history").query(pairs)).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.call(&Call::post(path, json!(body))).await
    }

    /// Repeats, under the same request id, a request that may have been granted although its answer was lost.
    async fn repeated<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Value,
        wait: Duration,
        repeatable: bool,
    ) -> Result<T, ClientError> {
        let call = Call::post(path, body).timeout(ANSWER_TIMEOUT.saturating_add(wait));
        let mut tries = 1;
        loop {
            match self.call(&call).await {
                Err(error) if repeatable && error.may_have_happened() && tries < ACQUIRE_TRIES => {
                    tokio::time::sleep(ACQUIRE_PAUSE).await;
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }
}
