//! Orders of administrators, one method for each call of the HTTP API.

use serde::Deserialize;

use super::{Client, ClientError, Drained, Forgot, Pool, RetriedFences, Revocations, call::Call};
use crate::api::{
    AccessOrderBody, DrainBody, FenceRetryBody, FenceSkipBody, ForgetBody, PinBody, PoolOrderBody,
    RevokeBody,
};

/// The answer to an order for a pool.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ordered {
    Shown(Box<Pool>),
    /// The caller may order and may not read.
    Hidden(Hidden),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hidden {}

impl Client {
    /// Ends a tenure for its holder; `immediately` does not wait for the end of its last promise.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn revoke(
        &self,
        key: &str,
        reason: &str,
        immediately: bool,
    ) -> Result<serde_json::Value, ClientError> {
        let (key, reason) = (key.to_owned(), reason.to_owned());
        self.post("admin/revoke", &RevokeBody { key, reason, immediately }).await
    }

    /// Cancels the fences of a key that are not confirmed.
    ///
    /// # Errors
    /// `not-fencing`, or that the server cannot be reached.
    pub async fn skip_fences(
        &self,
        key: &str,
        reason: &str,
    ) -> Result<serde_json::Value, ClientError> {
        let (key, reason) = (key.to_owned(), reason.to_owned());
        self.post("admin/fence-skip", &FenceSkipBody { key, reason }).await
    }

    /// Runs fences that failed for good once more, without a wait for their outcome.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn retry_fences(&self, body: &FenceRetryBody) -> Result<RetriedFences, ClientError> {
        self.post("admin/fence-retry", body).await
    }

    /// Forgets free keys that start with a prefix, up to the limit of one call.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn forget(
        &self,
        prefix: &str,
        after: Option<&str>,
        reason: &str,
    ) -> Result<Forgot, ClientError> {
        let body = ForgetBody {
            prefix: prefix.to_owned(),
            reason: reason.to_owned(),
            after: after.map(str::to_owned),
        };
        self.post("admin/forget", &body).await
    }

    /// Orders something for a pool, such as to freeze it. Returns the pool as the server knows it.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn order_pool(&self, order: &PoolOrderBody) -> Result<Option<Pool>, ClientError> {
        Ok(match self.post("admin/pool", order).await? {
            Ordered::Shown(pool) => Some(*pool),
            Ordered::Hidden(Hidden {}) => None,
        })
    }

    /// Revokes a principal, a token or a certificate, or ends that. Returns the list as it is then.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn order_access(&self, order: &AccessOrderBody) -> Result<Revocations, ClientError> {
        self.post("admin/access", order).await
    }

    /// What is revoked.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn revocations(&self) -> Result<Revocations, ClientError> {
        self.call(&Call::get("revocations")).await
    }

    /// Pins a key under a name: its tenures do not expire while it has a pin.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn pin(&self, key: &str, by: &str) -> Result<serde_json::Value, ClientError> {
        self.post("admin/pin", &PinBody { key: key.to_owned(), by: by.to_owned() }).await
    }

    /// Removes the pin of this name from a key.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached.
    pub async fn unpin(&self, key: &str, by: &str) -> Result<serde_json::Value, ClientError> {
        self.post("admin/unpin", &PinBody { key: key.to_owned(), by: by.to_owned() }).await
    }

    /// Ends all leases of an owner gracefully. Its sessions in pools with `balance` are asked to hand over first.
    ///
    /// # Errors
    /// The server's refusal, or that it cannot be reached. What was ordered before an error stays ordered.
    pub async fn drain_owner(&self, owner: &str) -> Result<Drained, ClientError> {
        self.post("admin/drain", &DrainBody { owner: owner.to_owned() }).await
    }
}
