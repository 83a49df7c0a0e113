//! Sessions, as their holders use them.

use serde_json::{Value, json};

use super::{Grant, Reply, Server};

/// A session, with what a test needs at hand.
#[derive(Clone, Debug)]
pub struct Session {
    pub id: String,
    pub digest: String,
    pub valid_for_ms: u64,
}

impl Session {
    /// The half of the id that is secret.
    pub fn proof(&self) -> &str {
        &self.id[32..]
    }

    pub fn heartbeat_path(&self) -> String {
        format!("/v1/sessions/{}/heartbeat", self.id)
    }
}

/// A body for `POST /v1/sessions`: these fields over the plainest ones.
pub fn session_body(owner: &str, ttl_ms: u64, more: Value) -> Value {
    let mut body = json!({ "owner": owner, "ttl_ms": ttl_ms });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    body
}

impl Server {
    pub async fn session(&self, owner: &str, ttl_ms: u64, more: Value) -> Session {
        let reply = self.post("/v1/sessions", &session_body(owner, ttl_ms, more)).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        let made = reply.json();
        let text = |name: &str| made[name].as_str().expect(name).to_owned();
        let valid_for_ms = made["valid_for_ms"].as_u64().expect("valid_for_ms");
        Session { id: text("id"), digest: text("digest"), valid_for_ms }
    }

    pub async fn beat(&self, session: &Session) -> Reply {
        self.post(&session.heartbeat_path(), &json!({})).await
    }

    pub async fn destroy(&self, session: &Session) -> Reply {
        self.call("DELETE", &format!("/v1/sessions/{}", session.id), b"").await
    }

    pub async fn acquire_under(&self, key: &str, owner: &str, session: &Session) -> Grant {
        let body = json!({ "key": key, "owner": owner, "session": session.id });
        Grant::of(&self.post("/v1/acquire", &body).await.ok())
    }
}
