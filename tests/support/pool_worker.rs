//! A member of a pool, as a program outside would be: one task keeps its session and hands over what it is asked
//! for, another one asks for its fair share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::support::http;
use serde_json::{Value, json};

/// How often a worker sends its heartbeat.
const BEAT: Duration = Duration::from_millis(100);

/// What a worker prepares for.
#[derive(Default)]
struct Warm {
    /// How long that takes; `None` if it never answers.
    takes: Option<Duration>,
    /// When it was first asked to prepare for each key and token, and when it said that it is prepared.
    asked: BTreeMap<(String, u64), (Instant, Option<Instant>)>,
    /// The keys that it waits for.
    waits: BTreeSet<(String, u64)>,
}

/// What a worker has: token and lease id by key.
type Held = BTreeMap<String, (u64, String)>;

pub struct Worker {
    pub owner: String,
    id: String,
    url: String,
    http: reqwest::Client,
    held: Arc<Mutex<Held>>,
    replaced: Arc<AtomicBool>,
    loads: Arc<Mutex<BTreeMap<String, f64>>>,
    warm: Arc<Mutex<Warm>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[derive(Clone)]
struct Hand {
    owner: String,
    id: String,
    url: String,
    http: reqwest::Client,
    held: Arc<Mutex<Held>>,
    replaced: Arc<AtomicBool>,
    loads: Arc<Mutex<BTreeMap<String, f64>>>,
    warm: Arc<Mutex<Warm>>,
}

impl Worker {
    /// Joins the pool, and takes nothing yet.
    pub async fn join(url: &str, pool: &str, owner: &str, weight: u32, ttl_ms: u64) -> Self {
        let body = json!({ "owner": owner, "ttl_ms": ttl_ms, "pool": pool, "weight": weight });
        Self::join_with(url, owner, &body).await
    }

    /// Joins as this request says.
    pub async fn join_with(url: &str, owner: &str, body: &Value) -> Self {
        let http = http::builder().build().expect("a client");
        let answer = http.post(format!("{url}/v1/sessions")).json(body).send().await;
        let made: Value = answer.expect("an answer").json().await.expect("JSON");
        let text = |name: &str| made[name].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        let mut worker = Self {
            owner: owner.to_owned(),
            id: text("id"),
            url: url.to_owned(),
            http,
            held: Arc::default(),
            replaced: Arc::default(),
            loads: Arc::default(),
            warm: Arc::default(),
            tasks: Vec::new(),
        };
        worker.tasks.push(tokio::spawn(worker.hand().keep()));
        worker
    }

    fn hand(&self) -> Hand {
        let Self { owner, id, url, http, held, replaced, loads, warm, .. } = self;
        Hand {
            owner: owner.clone(),
            id: id.clone(),
            url: url.clone(),
            http: http.clone(),
            held: held.clone(),
            replaced: replaced.clone(),
            loads: loads.clone(),
            warm: warm.clone(),
        }
    }

    /// Takes its share of these keys from now on.
    pub fn work(&mut self, keys: Vec<String>) {
        self.tasks.push(tokio::spawn(self.hand().take(json!({ "keys": keys }))));
    }

    pub fn held(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends its session without a drain. Returns the keys that it had.
    pub async fn stop(self) -> Vec<String> {
        let url = format!("{}/v1/sessions/{}", self.url, self.id);
        self.http.delete(url).send().await.expect("an answer");
        self.keys()
    }

    pub fn keys(&self) -> Vec<String> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// From now on its heartbeats report the loads of those of these keys that it holds.
    pub fn report(&self, loads: &BTreeMap<String, f64>) {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner).clone_from(loads);
    }

    /// From now on it prepares for each key that it is to have, which takes this long.
    pub fn warms(&self, takes: Duration) {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner).takes = Some(takes);
    }

    /// The keys that it is prepared for: when it was asked, and when it said that it is prepared.
    pub fn preparations(&self) -> Vec<(String, Instant, Instant)> {
        let warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let done = warm.asked.iter();
        done.filter_map(|((key, _), (asked, done))| Some((key.clone(), *asked, (*done)?))).collect()
    }

    /// Whether it was told that a newer session of its owner took its place.
    /// Replaces its labels.
    pub async fn label(&self, labels: Value) {
        let url = format!("{}/v1/sessions/{}/heartbeat", self.url, self.id);
        let body = json!({ "labels": labels });
        let answer = self.http.post(url).json(&body).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
    }

    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    pub async fn drain(&self) -> Value {
        let url = format!("{}/v1/sessions/{}/drain", self.url, self.id);
        self.http.post(url).send().await.expect("an answer").json().await.expect("JSON")
    }
}

impl Hand {
    async fn post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let sent = self.http.post(format!("{}{path}", self.url)).json(body).send().await.ok()?;
        Some((sent.status().as_u16(), sent.json().await.ok()?))
    }

    async fn keep(self) {
        let path = format!("/v1/sessions/{}/heartbeat", self.id);
        loop {
            if let Some((200, alive)) = self.post(&path, &self.beat()).await {
                for notice in alive["notices"].as_array().expect("notices") {
                    match notice["type"].as_str().expect("a type") {
                        "handover-requested" => {
                            self.hand_over(notice["key"].as_str().expect("a key")).await;
                        }
                        "replaced" => self.replaced.store(true, Ordering::Release),
                        "draining" => self.hand_everything_over().await,
                        "handover-prepare" => self.prepare(notice),
                        _ => {}
                    }
                }
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    fn beat(&self) -> Value {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        loads.retain(|key, _| held.contains_key(key));
        let warm = &mut *self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let (takes, now) = (warm.takes.unwrap_or(Duration::MAX), Instant::now());
        let mut prepared = Vec::new();
        for ((key, token), (asked, done)) in &mut warm.asked {
            if now - *asked >= takes && warm.waits.contains(&(key.clone(), *token)) {
                done.get_or_insert(now);
                prepared.push(key.clone());
            }
        }
        if prepared.is_empty() {
            return json!({ "loads": loads });
        }
        json!({ "loads": loads, "prepared": prepared })
    }

    /// Notes what it is to prepare for, and waits for the key.
    fn prepare(&self, notice: &Value) {
        let warm = &mut *self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let key = notice["key"].as_str().expect("a key").to_owned();
        let tenure = (key.clone(), notice["token"].as_u64().expect("a token"));
        warm.asked.entry(tenure.clone()).or_insert_with(|| (Instant::now(), None));
        if warm.takes.is_none() || !warm.waits.insert(tenure) {
            return;
        }
        let hand = self.clone();
        tokio::spawn(async move {
            let body =
                json!({ "key": key, "owner": hand.owner, "session": hand.id, "wait_ms": 30_000 });
            if let Some((200, grant)) = hand.post("/v1/acquire", &body).await {
                let token = grant["token"].as_u64().expect("a token");
                let lease_id = grant["lease_id"].as_str().expect("an id").to_owned();
                let mut held = hand.held.lock().unwrap_or_else(PoisonError::into_inner);
                held.insert(key, (token, lease_id));
            }
        });
    }

    async fn hand_everything_over(&self) {
        let keys: Vec<String> =
            self.held.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        for key in keys {
            self.hand_over(&key).await;
        }
    }

    async fn hand_over(&self, key: &str) {
        let found = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let Some((_, lease_id)) = found else { return };
        let body =
            json!({ "key": key, "lease_id": lease_id, "value": format!("from {}", self.owner) });
        if let Some((200, _)) = self.post("/v1/transfer", &body).await {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        }
    }

    async fn take(self, what: Value) {
        let mut body =
            json!({ "owner": self.owner, "session": self.id, "count": "fair", "wait_ms": 5_000 });
        let fields = what.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(fields);
        loop {
            match self.post("/v1/acquire-any", &body).await {
                Some((200, grants)) => {
                    let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                    for grant in grants["grants"].as_array().expect("grants") {
                        let text = |name: &str| grant[name].as_str().expect("a text").to_owned();
                        let token = grant["token"].as_u64().expect("a token");
                        held.insert(text("key"), (token, text("lease_id")));
                    }
                }
                Some((409, none)) if none["code"] == "none-available" => {
                    assert!(none["share"].is_u64() && none["held_by_session"].is_u64(), "{none}");
                }
                _ => tokio::time::sleep(BEAT).await,
            }
        }
    }
}

/// A pool as the node at this URL sees it: by owner, what each has and is to have.
pub async fn pool(url: &str, name: &str) -> (Value, BTreeMap<String, (u64, u64)>) {
    let answer =
        http::client().get(format!("{url}/v1/pools/{name}")).send().await.expect("an answer");
    let pool: Value = answer.json().await.expect("JSON");
    let number = |member: &Value, name: &str| member[name].as_u64().expect("a number");
    let members = pool["members"].as_array().unwrap_or_else(|| panic!("{pool}")).iter();
    let by_owner = members.map(|member| {
        let owner = member["owner"].as_str().expect("an owner").to_owned();
        (owner, (number(member, "held"), number(member, "share")))
    });
    let by_owner = by_owner.collect();
    (pool, by_owner)
}
