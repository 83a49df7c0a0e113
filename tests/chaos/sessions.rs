//! Workers that hold their leases under a session each.

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    clock::{nanos, now},
    history::{Event, Op},
    worker::{Answer, Held, Worker},
};

/// A worker's session, while it has one.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Its secret.
    pub id: Option<String>,
    /// Its name for everybody.
    pub digest: Option<String>,
    /// The end of what its holder was told.
    pub until: u64,
}

impl Worker {
    /// Keeps its session, and with it every lease; opens one, or ends it, in between. Whether it was answered.
    pub(crate) async fn beat_session(&mut self) -> bool {
        let Some(id) = self.session.as_ref().and_then(|session| session.id.clone()) else {
            return self.open_session().await;
        };
        if self.below(40) == 0 {
            return self.end_session(&id).await;
        }
        let call = self.asks(Op::BeatSession, "", 0);
        let path = format!("/v1/sessions/{id}/heartbeat");
        match self.ask(&path, Some(&json!({})), 1).await {
            Some((Answer { status: 200, body }, sent)) => {
                let until = sent + nanos(body["valid_for_ms"].as_u64().expect("valid_for_ms"));
                self.lives_until(until);
                let held: Vec<_> = self.held.values().cloned().collect();
                // What both know of is kept. Where they differ, a grant's answer was lost, or a store went
                // backwards and has forgotten a lease while the session lives on.
                let same = body["leases"]["digest"] == json!(digest(&held));
                for held in &held {
                    if same || self.is_current(&held.key, held.token).await {
                        self.told(Some(call), &held.key, held.token, until, false);
                    } else {
                        self.shut(&held.key, "not-current");
                    }
                }
                if held.is_empty() {
                    self.refused(call, &json!({ "code": "holds-nothing" }));
                }
                true
            }
            Some((Answer { status, body }, _)) => {
                assert!(status == 409 && body["code"] == "session-lost", "{status} {body}");
                self.shut_all("session-lost");
                self.refused(call, &body);
                true
            }
            None => {
                self.lost(call);
                false
            }
        }
    }

    fn lives_until(&mut self, until: u64) {
        if let Some(session) = &mut self.session {
            session.until = session.until.max(until);
        }
    }

    /// It believes in nothing that it held, and has no session.
    fn shut_all(&mut self, why: &str) {
        let keys: Vec<String> = self.held.keys().cloned().collect();
        for key in keys {
            self.shut(&key, why);
        }
        self.session = Some(Session::default());
    }

    async fn open_session(&mut self) -> bool {
        let call = self.asks(Op::OpenSession, "", 0);
        let body = json!({ "owner": self.name, "ttl_ms": self.orders.ttl_ms });
        let Some((Answer { status, body }, sent)) = self.ask("/v1/sessions", Some(&body), 1).await
        else {
            self.lost(call);
            return false;
        };
        assert_eq!(status, 201, "{body}");
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let valid = body["valid_for_ms"].as_u64().expect("valid_for_ms");
        let (id, digest) = (text("id"), text("digest"));
        assert!(id.is_some() && digest.is_some(), "{body}");
        self.session = Some(Session { id, digest, until: sent + nanos(valid) });
        self.refused(call, &json!({ "code": "opened" }));
        true
    }

    async fn end_session(&mut self, id: &str) -> bool {
        let call = self.asks(Op::EndSession, "", 0);
        let digest = self.session.as_ref().and_then(|session| session.digest.clone());
        self.shut_all("ended");
        match self.ask(&format!("/v1/sessions/{id}"), None, 2).await {
            Some((Answer { status: 200, .. }, _)) => {
                let session = digest.expect("it was opened");
                self.notes.log.push(now(), Event::SessionEndAcknowledged { call, session });
            }
            Some((Answer { status, body }, _)) => {
                assert!(status == 409 && body["code"] == "session-lost", "{status} {body}");
                self.refused(call, &body);
            }
            None => self.lost(call),
        }
        true
    }
}

/// What a heartbeat's answer says of the leases that the session has.
fn digest(held: &[Held]) -> String {
    let of = |held: &Held| {
        let hash = Sha256::digest(format!("{}\0{}", held.key, held.token));
        u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"))
    };
    format!("{:016x}", held.iter().map(of).fold(0, |all, one| all ^ one))
}
