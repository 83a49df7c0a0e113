//! Workers that keep all their leases by one session.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    history::{Event, Op},
    support::{clock::now, dice::Dice as _},
    upgrade::worker::{Answer, Held, TTL_MS, Worker},
};

/// In one of so many rounds a worker ends its session.
const ENDS: u64 = 12;

/// A worker's session, while it has one.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Its secret.
    pub id: Option<String>,
    /// Its name for everybody.
    pub digest: Option<String>,
}

impl Worker {
    /// Keeps its session, and with it every lease; opens one, or ends it, in between.
    pub async fn beat_session(&mut self) {
        let Some(id) = self.session.as_ref().and_then(|session| session.id.clone()) else {
            return self.open_session().await;
        };
        if self.chance.below(ENDS) == 0 {
            return self.end_session(&id).await;
        }
        let call = self.asks(Op::BeatSession, "");
        let path = format!("/v1/sessions/{id}/heartbeat");
        let Some(answer) = self.ask(&path, Some(&json!({}))).await else {
            return self.lost(call);
        };
        if answer.status == 409 && answer.body["code"] == "session-lost" {
            self.shut_all("session-lost");
            return self.refused(call, &answer.body);
        }
        assert_eq!(answer.status, 200, "{}", answer.body);
        let held: Vec<Held> = self.held.values().cloned().collect();
        // Where the two differ, the answer to a grant was lost.
        let same = answer.body["leases"]["digest"] == json!(digest(&held));
        for held in &held {
            if same || self.is_current(held).await {
                self.told(call, held, answer.until(), false);
            } else {
                self.shut(&held.key, "not-current");
            }
        }
        if held.is_empty() {
            self.refused(call, &json!({ "code": "holds-nothing" }));
        }
    }

    async fn is_current(&mut self, held: &Held) -> bool {
        let call = self.asks(Op::Check, &held.key);
        let body = json!({ "key": held.key, "token": held.token });
        let Some(Answer { status, body, .. }) = self.ask("/v1/check", Some(&body)).await else {
            self.lost(call);
            return false;
        };
        let current = status == 200 && body["current"] == true;
        let why = if current { "current" } else { "not-current" };
        self.refused(call, &json!({ "code": why }));
        current
    }

    /// It believes in nothing that it held, and has no session.
    fn shut_all(&mut self, why: &str) {
        let keys: Vec<String> = self.held.keys().cloned().collect();
        keys.iter().for_each(|key| self.shut(key, why));
        self.session = Some(Session::default());
    }

    async fn open_session(&mut self) {
        let call = self.asks(Op::OpenSession, "");
        let body = json!({ "owner": self.name, "ttl_ms": TTL_MS });
        let Some(Answer { status, body, .. }) = self.ask("/v1/sessions", Some(&body)).await else {
            return self.lost(call);
        };
        assert_eq!(status, 201, "{body}");
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let (id, digest) = (text("id"), text("digest"));
        assert!(id.is_some() && digest.is_some(), "{body}");
        self.session = Some(Session { id, digest });
        self.refused(call, &json!({ "code": "opened" }));
    }

    async fn end_session(&mut self, id: &str) {
        let call = self.asks(Op::EndSession, "");
        let digest = self.session.as_ref().and_then(|session| session.digest.clone());
        // What its holder gives up, it gives up before it asks.
        self.shut_all("released");
        match self.ask(&format!("/v1/sessions/{id}"), None).await {
            Some(Answer { status: 200, .. }) => {
                let session = digest.expect("it was opened");
                self.notes.log.push(now().0, Event::SessionEndAcknowledged { call, session });
            }
            Some(Answer { status, body, .. }) => {
                assert!(status == 409 && body["code"] == "session-lost", "{status} {body}");
                self.refused(call, &body);
            }
            None => self.lost(call),
        }
    }
}

/// What a heartbeat's answer says of the leases that the session has.
fn digest(held: &[Held]) -> Value {
    let of = |held: &Held| {
        let hash = Sha256::digest(format!("{}\0{}", held.key, held.token));
        u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"))
    };
    json!(format!("{:016x}", held.iter().map(of).fold(0, |all, one| all ^ one)))
}
