//! A worker that keeps leases by their own heartbeats or by a session, asks any node at any time, and writes down what it
//! believes.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tenure::clock::Chance;
use tokio::sync::watch;

use crate::{
    history::{Event, Notes, Op},
    support::{
        clock::{ms, now, sleep_ms},
        dice::Dice as _,
        http,
    },
    upgrade::sessions::Session,
};

/// How long a lease lasts without a heartbeat.
pub const TTL_MS: u64 = 10_000;
/// How many keys there are for all workers together.
pub const KEYS: u64 = 80;
/// How many leases a worker wants to have.
const WANTS: usize = 5;
/// In one of so many rounds it gives a lease back.
const GIVES_BACK: u64 = 4;
/// How often all nodes are asked for the answer to one call.
const ROUNDS: usize = 3;

/// A lease that a worker believes in.
#[derive(Clone, Debug)]
pub struct Held {
    pub key: String,
    pub token: u64,
    lease_id: String,
}

/// What a node answered, and when that was asked for.
pub struct Answer {
    pub status: u16,
    pub body: Value,
    sent: u64,
}

impl Answer {
    /// Until when the caller may believe what it is told.
    pub fn until(&self) -> u64 {
        until(self.sent, &self.body)
    }
}

fn until(sent: u64, body: &Value) -> u64 {
    let valid = body["valid_for_ms"].as_u64().unwrap_or_else(|| panic!("no valid_for_ms: {body}"));
    sent + valid * 1_000_000
}

pub struct Worker {
    pub name: String,
    pub notes: Notes,
    pub chance: Chance,
    pub held: BTreeMap<String, Held>,
    /// `None`: it keeps each lease by itself.
    pub session: Option<Session>,
    nodes: Vec<String>,
    http: reqwest::Client,
}

impl Worker {
    pub fn new(
        name: String,
        nodes: &[String],
        seed: u64,
        notes: Notes,
        under_session: bool,
    ) -> Self {
        let http = http::builder().timeout(ms(2_000)).connect_timeout(ms(400));
        Self {
            chance: Chance::of(seed, &name),
            name,
            notes,
            held: BTreeMap::new(),
            session: under_session.then(Session::default),
            nodes: nodes.to_vec(),
            http: http.build().expect("a client"),
        }
    }

    /// Works until it is told to stop. What it holds then runs out.
    pub async fn work(mut self, mut stopped: watch::Receiver<bool>) {
        sleep_ms(self.chance.below(TTL_MS / 4)).await;
        while !*stopped.borrow() {
            let began = now().0;
            match self.session {
                Some(_) => self.beat_session().await,
                None => self.beat_all().await,
            }
            if !self.held.is_empty() && self.chance.below(GIVES_BACK) == 0 {
                let nth = self.chance.index(self.held.len());
                let held = self.held.values().nth(nth).cloned().expect("one of them");
                self.give_back(held).await;
            }
            self.take_what_it_lacks().await;
            let rest = ms(TTL_MS / 4).saturating_sub(Duration::from_nanos(now().0 - began));
            let _ = tokio::time::timeout(rest, stopped.changed()).await;
        }
    }

    pub fn asks(&self, op: Op, key: &str) -> u64 {
        self.notes.asks(now().0, &self.name, op, key, None)
    }

    pub fn refused(&self, call: u64, body: &Value) {
        self.notes.refused(now().0, call, body);
    }

    pub fn lost(&self, call: u64) {
        self.notes.lost(now().0, call);
    }

    /// Asks any node, and the others in turn while one does not answer or cannot say. Without a body, it is a DELETE.
    pub async fn ask(&mut self, path: &str, body: Option<&Value>) -> Option<Answer> {
        let first = self.chance.index(self.nodes.len());
        for attempt in 0..ROUNDS * self.nodes.len() {
            let url = format!("{}{path}", self.nodes[(first + attempt) % self.nodes.len()]);
            let sent = now().0;
            let request = match body {
                Some(body) => self.http.post(url).json(body),
                None => self.http.delete(url),
            };
            if let Ok(answer) = request.send().await {
                let status = answer.status().as_u16();
                let body: Value = answer.json().await.unwrap_or_default();
                assert!(
                    status < 500 || [502, 503, 504].contains(&status),
                    "{path}: {status} {body}"
                );
                let again = [429, 502, 503, 504].contains(&status)
                    || body["code"] == "request-in-flight"
                    || body.is_null();
                if !again {
                    return Some(Answer { status, body, sent });
                }
            }
            sleep_ms(50 + self.chance.below(100)).await;
        }
        None
    }

    /// Keeps its leases: with one call for all, or one for each.
    async fn beat_all(&mut self) {
        let held: Vec<Held> = self.held.values().cloned().collect();
        if held.len() > 1 && self.chance.below(2) == 0 {
            return self.beat_batch(&held).await;
        }
        for held in held {
            let call = self.asks(Op::Heartbeat, &held.key);
            let body = json!({ "key": held.key, "lease_id": held.lease_id });
            match self.ask("/v1/heartbeat", Some(&body)).await {
                Some(Answer { status, body, sent }) => {
                    self.verdict(call, &held, status, &body, sent)
                }
                None => self.lost(call),
            }
        }
    }

    async fn beat_batch(&mut self, held: &[Held]) {
        let calls: Vec<u64> = held.iter().map(|held| self.asks(Op::Heartbeat, &held.key)).collect();
        let proof = |held: &Held| json!({ "key": held.key, "lease_id": held.lease_id });
        let leases: Vec<_> = held.iter().map(proof).collect();
        let Some(answer) = self.ask("/v1/heartbeats", Some(&json!({ "leases": leases }))).await
        else {
            return calls.into_iter().for_each(|call| self.lost(call));
        };
        let Answer { status, body, sent } = answer;
        assert_eq!(status, 200, "{body}");
        let verdicts = body["results"].as_array().expect("results");
        assert_eq!(verdicts.len(), held.len(), "{body}");
        for ((call, held), verdict) in calls.into_iter().zip(held).zip(verdicts) {
            let status = verdict["status"].as_u64().and_then(|status| u16::try_from(status).ok());
            match status.expect("a status") {
                // Its home node is being replaced. The next heartbeat comes in time.
                429 | 502 | 503 | 504 => self.lost(call),
                status => self.verdict(call, held, status, verdict, sent),
            }
        }
    }

    /// Takes note of the answer to one lease's heartbeat.
    fn verdict(&mut self, call: u64, held: &Held, status: u16, body: &Value, sent: u64) {
        match (status, body["code"].as_str()) {
            (200, _) => {
                assert_eq!(body["token"], held.token, "{held:?}: {body}");
                self.told(call, held, until(sent, body), false);
            }
            (409, Some("lease-lost")) => {
                let reason = body["reason"].as_str().unwrap_or("?");
                self.shut(&held.key, &format!("lost: {reason}"));
                self.refused(call, body);
            }
            _ => panic!("{held:?}: {status} {body}"),
        }
    }

    /// It was told that it holds a key until then.
    pub fn told(&self, call: u64, held: &Held, until: u64, grant: bool) {
        let session = self.session.as_ref().and_then(|session| session.digest.clone());
        let (call, worker, key, token) =
            (Some(call), self.name.clone(), held.key.clone(), held.token);
        let told = Event::Told { call, worker, key, token, until, grant, session };
        self.notes.log.push(now().0, told);
    }

    /// It believes in this lease no more.
    pub fn shut(&mut self, key: &str, why: &str) {
        if let Some(held) = self.held.remove(key) {
            self.notes.shut(now().0, &self.name, key, held.token, why);
        }
    }

    async fn give_back(&mut self, held: Held) {
        let call = self.asks(Op::Release, &held.key);
        self.shut(&held.key, "released");
        let body = json!({ "key": held.key, "lease_id": held.lease_id });
        match self.ask("/v1/release", Some(&body)).await {
            Some(Answer { status: 200, .. }) => {
                self.notes.released(now().0, call, &held.key, held.token);
            }
            Some(Answer { status, body, .. }) => {
                // An earlier try, whose answer was lost, released it.
                let gone = status == 409 && body["code"] == "not-holder";
                assert!(gone, "{held:?}: {status} {body}");
                self.refused(call, &body);
            }
            None => self.lost(call),
        }
    }

    async fn take_what_it_lacks(&mut self) {
        let lacks = WANTS.saturating_sub(self.held.len());
        let may = self.session.as_ref().is_none_or(|session| session.id.is_some());
        if lacks == 0 || !may {
            return;
        }
        let candidates = if self.chance.below(2) == 0 { 1 } else { 3 * lacks };
        let mut keys: Vec<String> =
            (0..candidates).map(|_| format!("work/{:02}", self.chance.below(KEYS))).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !self.held.contains_key(key));
        let Some(first) = keys.first().cloned() else { return };
        let mut body = json!({ "owner": self.name, "wait_ms": self.chance.below(300) });
        match self.session.as_ref().and_then(|session| session.id.clone()) {
            Some(id) => body["session"] = json!(id),
            None => body["ttl_ms"] = json!(TTL_MS),
        }
        let (path, op, key) = if candidates == 1 {
            body["key"] = json!(first);
            ("/v1/acquire", Op::Acquire, &*first)
        } else {
            (body["keys"], body["count"]) = (json!(keys), json!(lacks));
            ("/v1/acquire-any", Op::AcquireAny, "")
        };
        let call = self.asks(op, key);
        // The same request id everywhere: however often it is asked, it is granted once.
        body["request_id"] = json!(format!("{}-{call}", self.name));
        let Some(Answer { status, body, sent }) = self.ask(path, Some(&body)).await else {
            return self.lost(call);
        };
        match status {
            200 if op == Op::Acquire => self.granted(call, &body, sent),
            200 => {
                let grants = body["grants"].as_array().expect("grants");
                grants.iter().for_each(|grant| self.granted(call, grant, sent));
                if grants.is_empty() {
                    self.refused(call, &json!({ "code": "none-free" }));
                }
            }
            409 | 423 => self.refused(call, &body),
            _ => panic!("{path}: {status} {body}"),
        }
    }

    fn granted(&mut self, call: u64, grant: &Value, sent: u64) {
        let text =
            |name: &str| grant[name].as_str().unwrap_or_else(|| panic!("{grant}")).to_owned();
        let token = grant["token"].as_u64().expect("a token");
        let held = Held { key: text("key"), token, lease_id: text("lease_id") };
        self.told(call, &held, until(sent, grant), true);
        self.held.insert(held.key.clone(), held);
    }
}
