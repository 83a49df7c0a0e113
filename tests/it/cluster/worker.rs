//! A worker: takes leases, keeps them with one request, gives some back, goes to the next node when
//! its own does not answer, and notes what it believes.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tenure::{clock::Chance, lease::Moment};
use tokio::sync::watch;

use crate::cluster::ledger::{Lease, Ledger};

use crate::support::clock::{ms, now, sleep_ms};

/// How many leases one request asks for, of three times as many keys: a store on a busy machine has
/// more to do than it can, otherwise, when all workers begin.
const AT_A_TIME: usize = 3;

/// What every worker knows.
#[derive(Clone, Debug)]
pub struct World {
    pub nodes: Vec<String>,
    pub keys: usize,
    pub ttl_ms: u64,
    /// How many leases a worker wants to have.
    pub wants: usize,
    /// One in so many rounds, a worker gives a lease back.
    pub gives_back: u64,
    pub ledger: Ledger,
    pub stop: watch::Receiver<bool>,
}

#[derive(Clone, Debug)]
struct Held {
    lease: Lease,
    lease_id: String,
}

pub struct Worker {
    name: String,
    world: World,
    http: reqwest::Client,
    /// Its node.
    at: usize,
    chance: Chance,
    held: BTreeMap<String, Held>,
    calls: u64,
}

/// An answer that says something about the lease, not about the node.
struct Answer {
    status: u16,
    body: Value,
}

impl Worker {
    pub fn new(number: usize, seed: u64, world: World) -> Self {
        let name = format!("w{number:02}");
        // A node that does not answer in a quarter of a ttl has to be left in time for the others.
        let patience = ms((world.ttl_ms / 4).clamp(500, 2_000));
        let http = reqwest::Client::builder().no_proxy().timeout(patience);
        let http = http.connect_timeout(ms(500)).build().expect("a client");
        let at = number % world.nodes.len();
        let chance = Chance::of(seed, &name);
        Self { name, world, http, at, chance, held: BTreeMap::new(), calls: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance.next_u64() % bound
    }

    /// Works until it is told to stop; then lets everything run out.
    pub async fn work(mut self) {
        let third = self.world.ttl_ms / 3;
        // Workers that started together do not beat together.
        sleep_ms(self.below(third)).await;
        while !*self.world.stop.borrow() {
            let began = now();
            let all_answered = self.beat().await;
            if all_answered {
                self.look_for_work().await;
                let rest = ms(third).saturating_sub(now().since(began));
                tokio::time::sleep(rest).await;
            } else {
                sleep_ms(100 + self.below(100)).await;
            }
        }
    }

    /// One request to one node: its answer, unless it does not answer or cannot say.
    async fn post(&self, node: usize, path: &str, body: &Value) -> Option<Answer> {
        let url = format!("{}{path}", self.world.nodes[node % self.world.nodes.len()]);
        let response = self.http.post(url).json(body).send().await.ok()?;
        let status = response.status().as_u16();
        let body: Value = response.json().await.ok()?;
        assert!(status < 600 && status != 500, "{path}: {status} {body}");
        let busy = status == 409 && body["code"] == "request-in-flight";
        (![502, 503, 504, 429].contains(&status) && !busy).then_some(Answer { status, body })
    }

    /// Asks its node, and the others in turn when that does not answer or cannot say.
    async fn ask(&mut self, path: &str, body: &Value, rounds: usize) -> Option<(Answer, Moment)> {
        let nodes = self.world.nodes.len();
        for attempt in 0..rounds * nodes {
            let sent = now();
            if let Some(answer) = self.post(self.at, path, body).await {
                return Some((answer, sent));
            }
            self.at = (self.at + 1) % nodes;
            if attempt % nodes == nodes - 1 {
                sleep_ms(100).await;
            }
        }
        None
    }

    /// Keeps its leases. Those that one node cannot speak for are asked about at the next, at once.
    /// Whether all were answered for.
    async fn beat(&mut self) -> bool {
        let nodes = self.world.nodes.len();
        let mut due: Vec<Held> = self.held.values().cloned().collect();
        for attempt in 0..nodes {
            if due.is_empty() {
                return true;
            }
            let leases: Vec<_> = due
                .iter()
                .map(|held| json!({ "key": held.lease.key, "lease_id": held.lease_id }))
                .collect();
            let sent = now();
            let node = self.at + attempt;
            let answer = self.post(node, "/v1/heartbeats", &json!({ "leases": leases })).await;
            let Some(Answer { status, body }) = answer else {
                if attempt == 0 {
                    self.at = (self.at + 1) % nodes;
                }
                continue;
            };
            assert_eq!(status, 200, "{body}");
            let told = now();
            let verdicts = body["results"].as_array().expect("results");
            assert_eq!(verdicts.len(), due.len());
            let verdicts = due.into_iter().zip(verdicts);
            due = verdicts.filter_map(|(held, v)| self.verdict(held, v, sent, told)).collect();
        }
        due.is_empty()
    }

    /// Takes note of a verdict; returns the lease when there is none.
    fn verdict(&mut self, held: Held, verdict: &Value, sent: Moment, told: Moment) -> Option<Held> {
        let lease = &held.lease;
        assert_eq!(verdict["key"], lease.key);
        match verdict["status"].as_u64() {
            Some(200) => {
                assert_eq!(verdict["token"], lease.token, "{lease:?}: {verdict}");
                let valid = verdict["valid_for_ms"].as_u64().expect("valid_for_ms");
                self.world.ledger.kept(lease, told, sent + Duration::from_millis(valid));
                None
            }
            Some(409) if verdict["code"] == "lease-lost" => {
                self.world.ledger.lost(lease, told, verdict["reason"].as_str().unwrap_or("?"));
                self.held.remove(&lease.key);
                None
            }
            Some(409 | 429 | 502 | 503 | 504) => Some(held),
            _ => panic!("{lease:?}: {verdict}"),
        }
    }

    /// Gives a lease back now and then, and takes what it lacks.
    async fn look_for_work(&mut self) {
        let gives_back = self.world.gives_back;
        if !self.held.is_empty() && self.below(gives_back) == 0 {
            let nth = self.below(self.held.len() as u64) as usize;
            let held = self.held.values().nth(nth).cloned().expect("one of them");
            if self.below(3) == 0 {
                // It dies of neglect, and the next one has it as soon as it may.
                self.held.remove(&held.lease.key);
                self.world.ledger.abandoned(&held.lease);
            } else {
                self.give_back(held).await;
            }
        }
        let lacks = self.world.wants.saturating_sub(self.held.len());
        if lacks > 0 {
            self.take(lacks.min(AT_A_TIME)).await;
        }
    }

    async fn give_back(&mut self, held: Held) {
        self.held.remove(&held.lease.key);
        self.world.ledger.gives_back(&held.lease, now());
        let body = json!({ "key": held.lease.key, "lease_id": held.lease_id });
        // One that stays in doubt runs out by itself.
        if let Some((Answer { status, body }, _)) = self.ask("/v1/release", &body, 2).await {
            let gone = status == 200 || (status == 409 && body["code"] == "not-holder");
            assert!(gone, "{held:?}: {status} {body}");
        }
    }

    async fn take(&mut self, lacks: usize) {
        self.calls += 1;
        let request_id = format!("{}-{}", self.name, self.calls);
        let one = self.below(4) == 0;
        let candidates = if one { 1 } else { 3 * lacks };
        let mut keys: Vec<String> = (0..candidates)
            .map(|_| format!("work/{:03}", self.below(self.world.keys as u64)))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !self.held.contains_key(key));
        let Some(first) = keys.first() else { return };
        let mut body =
            json!({ "owner": self.name, "ttl_ms": self.world.ttl_ms, "request_id": request_id });
        if self.below(2) == 0 {
            // Long enough to meet an end now and then, and answered in time.
            body["wait_ms"] = json!(100 + self.below(300));
        }
        let path = if one {
            body["key"] = json!(first);
            "/v1/acquire"
        } else {
            body["keys"] = json!(keys);
            body["count"] = json!(lacks);
            "/v1/acquire-any"
        };
        // The same request id everywhere: however often it is asked, it is granted once.
        let Some((Answer { status, body }, sent)) = self.ask(path, &body, 2).await else { return };
        let told = now();
        match status {
            200 if one => self.granted(&body, sent, told),
            200 => {
                for grant in body["grants"].as_array().expect("grants") {
                    self.granted(grant, sent, told);
                }
            }
            409 | 423 => {}
            _ => panic!("{path}: {status} {body}"),
        }
    }

    fn granted(&mut self, grant: &Value, sent: Moment, told: Moment) {
        let text =
            |name: &str| grant[name].as_str().unwrap_or_else(|| panic!("{grant}")).to_owned();
        let token = grant["token"].as_u64().expect("token");
        let lease = Lease { key: text("key"), token, owner: self.name.clone() };
        let valid = grant["valid_for_ms"].as_u64().expect("valid_for_ms");
        self.world.ledger.granted(&lease, told, sent + Duration::from_millis(valid));
        let held = Held { lease_id: text("lease_id"), lease };
        self.held.insert(held.lease.key.clone(), held);
    }
}
