//! A process of workers. Each takes leases, keeps them, gives some back, goes to the next node when its own
//! does not answer, does protected work under what it holds, and writes down what it believes.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tenure::clock::Chance;
use tokio::sync::watch;

use crate::support::http;
use crate::{
    clock::{ms, nanos, now, sleep_ms},
    counter::Way,
    crew::Orders,
    history::{Event, Log, Notes, Op},
    sessions::Session,
};

/// Beyond what a call waits for by itself, the time in which a cluster without faults answers.
const BOUND_MS: u64 = 15_000;
/// How many leases one request asks for, of three times as many keys: a store on a busy machine has more to do
/// than it can, otherwise, when all workers begin.
const AT_A_TIME: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) key: String,
    pub(crate) token: u64,
    lease_id: String,
    /// The end of what its holder was told.
    pub(crate) until: u64,
}

pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) orders: Orders,
    http: reqwest::Client,
    /// Its node.
    at: usize,
    pub(crate) chance: Chance,
    pub(crate) held: BTreeMap<String, Held>,
    pub(crate) session: Option<Session>,
    pub(crate) counter: Way,
    pub(crate) notes: Notes,
}

/// An answer that says something about the lease, not about the node.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// The process: works until SIGTERM.
pub fn main(orders: &str) {
    let orders: Orders = serde_json::from_str(orders).expect("orders");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (stop, stopped) = watch::channel(false);
        let notes = Notes::new(Log::create(&orders.history), orders.number << 40);
        let mut all = Vec::new();
        for number in 0..orders.workers {
            let worker = Worker::new(number, orders.clone(), notes.clone());
            all.push(tokio::spawn(worker.work(stopped.clone())));
        }
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .expect("a handler");
        let told = tokio::spawn(async move {
            term.recv().await;
            stop.send_replace(true);
            std::future::pending::<()>().await;
        });
        for worker in all {
            worker.await.expect("no worker panicked");
        }
        told.abort();
    });
}

impl Worker {
    /// Whether it has what it takes leases with.
    fn may_take(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.id.is_some())
    }

    fn new(number: usize, orders: Orders, notes: Notes) -> Self {
        let name = format!("w{}-{number:02}", orders.number);
        // A node that does not answer in a quarter of a ttl has to be left in time for the others.
        let patience = ms((orders.ttl_ms / 4).clamp(500, 2_000));
        let http = http::builder().timeout(patience);
        let http = http.connect_timeout(ms(400)).build().expect("a client");
        let chance = Chance::of(orders.seed, &name);
        let counter = Way::to(orders.counter);
        let session = (number < orders.with_sessions).then(Session::default);
        let at = number % orders.nodes.len();
        Self { name, orders, http, at, chance, held: BTreeMap::new(), session, counter, notes }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.chance.next_u64() % bound
    }

    fn third(&self) -> u64 {
        self.orders.ttl_ms / 3
    }

    /// Works until it is told to stop; then lets everything run out.
    async fn work(mut self, mut stopped: watch::Receiver<bool>) {
        // Workers that started together do not beat together.
        sleep_ms(self.below(self.orders.ttl_ms / 3)).await;
        while !*stopped.borrow() {
            let began = now();
            let all_answered = match self.session {
                Some(_) => self.beat_session().await,
                None => self.beat().await,
            };
            if all_answered {
                self.look_for_work().await;
                self.do_protected_work().await;
                let rest = ms(self.third()).saturating_sub(Duration::from_nanos(now() - began));
                let _ = tokio::time::timeout(rest, stopped.changed()).await;
            } else {
                sleep_ms(300 + self.below(300)).await;
            }
        }
    }

    /// Notes that a call is about to be sent. `wait_ms` is how long it may wait by its own wish.
    pub(crate) fn asks(&self, op: Op, key: &str, wait_ms: u64) -> u64 {
        let answer_by = Some(now() + nanos(wait_ms + BOUND_MS));
        self.notes.asks(now(), &self.name, op, key, answer_by)
    }

    pub(crate) fn refused(&self, call: u64, body: &Value) {
        self.notes.refused(now(), call, body);
    }

    pub(crate) fn lost(&self, call: u64) {
        self.notes.lost(now(), call);
    }

    /// One request to one node: its answer, unless it does not answer or cannot say.
    /// Without a body, it is a DELETE.
    async fn send(&self, node: usize, path: &str, body: Option<&Value>) -> Option<Answer> {
        let url = format!("{}{path}", self.orders.nodes[node % self.orders.nodes.len()]);
        let request = match body {
            Some(body) => self.http.post(url).json(body),
            None => self.http.delete(url),
        };
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let body: Value = response.json().await.ok()?;
        assert!(status < 600 && status != 500, "{path}: {status} {body}");
        let busy = status == 409 && body["code"] == "request-in-flight";
        (![502, 503, 504, 429].contains(&status) && !busy).then_some(Answer { status, body })
    }

    /// Asks its node, and the others in turn when that does not answer or cannot say. With the answer, when
    /// what was answered was sent.
    pub(crate) async fn ask(
        &mut self,
        path: &str,
        body: Option<&Value>,
        rounds: usize,
    ) -> Option<(Answer, u64)> {
        let nodes = self.orders.nodes.len();
        for attempt in 0..rounds * nodes {
            let sent = now();
            if let Some(answer) = self.send(self.at, path, body).await {
                return Some((answer, sent));
            }
            self.at = (self.at + 1) % nodes;
            if attempt % nodes == nodes - 1 {
                sleep_ms(100).await;
            }
        }
        None
    }

    /// Keeps its leases. Those that one node cannot speak for are asked about at the next, at once. Whether
    /// all were answered for.
    async fn beat(&mut self) -> bool {
        let nodes = self.orders.nodes.len();
        let asks = |held: &Held| (self.asks(Op::Heartbeat, &held.key, 0), held.clone());
        let mut due: Vec<(u64, Held)> = self.held.values().map(asks).collect();
        for attempt in 0..nodes {
            if due.is_empty() {
                return true;
            }
            let proof =
                |(_, held): &(u64, Held)| json!({ "key": held.key, "lease_id": held.lease_id });
            let leases: Vec<_> = due.iter().map(proof).collect();
            let sent = now();
            let node = self.at + attempt;
            let body = json!({ "leases": leases });
            let answer = self.send(node, "/v1/heartbeats", Some(&body)).await;
            let Some(Answer { status, body }) = answer else {
                if attempt == 0 {
                    self.at = (self.at + 1) % nodes;
                }
                continue;
            };
            assert_eq!(status, 200, "{body}");
            let verdicts = body["results"].as_array().expect("results");
            assert_eq!(verdicts.len(), due.len());
            let verdicts = due.into_iter().zip(verdicts);
            due = verdicts.filter_map(|(asked, v)| self.verdict(asked, v, sent)).collect();
        }
        for (call, _) in &due {
            self.lost(*call);
        }
        due.is_empty()
    }

    /// Takes note of a verdict; returns the lease when there is none.
    fn verdict(&mut self, asked: (u64, Held), verdict: &Value, sent: u64) -> Option<(u64, Held)> {
        let (call, held) = asked;
        assert_eq!(verdict["key"], held.key);
        match verdict["status"].as_u64() {
            Some(200) => {
                assert_eq!(verdict["token"], held.token, "{held:?}: {verdict}");
                let valid = verdict["valid_for_ms"].as_u64().expect("valid_for_ms");
                self.told(Some(call), &held.key, held.token, sent + nanos(valid), false);
                None
            }
            Some(409) if verdict["code"] == "lease-lost" => {
                let reason = verdict["reason"].as_str().unwrap_or("?");
                self.shut(&held.key, &format!("lost: {reason}"));
                self.refused(call, verdict);
                None
            }
            Some(409 | 429 | 502 | 503 | 504) => Some((call, held)),
            _ => panic!("{held:?}: {verdict}"),
        }
    }

    /// It was told that it holds a key.
    pub(crate) fn told(
        &mut self,
        call: Option<u64>,
        key: &str,
        token: u64,
        until: u64,
        grant: bool,
    ) {
        if let Some(held) = self.held.get_mut(key) {
            held.until = held.until.max(until);
        }
        let session = self.session.as_ref().and_then(|session| session.digest.clone());
        let (worker, key) = (self.name.clone(), key.to_owned());
        self.notes.log.push(now(), Event::Told { call, worker, key, token, until, grant, session });
    }

    /// It believes in this lease no more.
    pub(crate) fn shut(&mut self, key: &str, why: &str) {
        self.shut_at(now(), key, why);
    }

    fn shut_at(&mut self, t: u64, key: &str, why: &str) {
        let Some(held) = self.held.remove(key) else { return };
        self.notes.shut(t, &self.name, &held.key, held.token, why);
    }

    /// Gives a lease back now and then, and takes what it lacks.
    async fn look_for_work(&mut self) {
        if !self.held.is_empty() && self.below(self.orders.gives_back) == 0 {
            let nth = self.below(self.held.len() as u64) as usize;
            let held = self.held.values().nth(nth).cloned().expect("one of them");
            // What it holds by itself it may forget: it believes in it to the end, and the next one has it then.
            if self.session.is_none() && self.below(4) == 0 {
                self.shut_at(held.until, &held.key, "forgotten");
            } else {
                self.give_back(held).await;
            }
        }
        for _ in 0..self.orders.tries {
            let lacks = self.orders.wants.saturating_sub(self.held.len());
            if lacks == 0 || !self.may_take() {
                return;
            }
            self.take(lacks.min(AT_A_TIME)).await;
        }
    }

    async fn give_back(&mut self, held: Held) {
        let call = self.asks(Op::Release, &held.key, 0);
        self.shut(&held.key, "released");
        let body = json!({ "key": held.key, "lease_id": held.lease_id });
        // One that stays in doubt runs out by itself.
        match self.ask("/v1/release", Some(&body), 2).await {
            Some((Answer { status: 200, .. }, _)) => {
                self.notes.released(now(), call, &held.key, held.token);
            }
            Some((Answer { status, body }, _)) => {
                let gone = status == 409 && body["code"] == "not-holder";
                assert!(gone, "{held:?}: {status} {body}");
                self.refused(call, &body);
            }
            None => self.lost(call),
        }
    }

    async fn take(&mut self, lacks: usize) {
        let one = self.below(3) > 0;
        let candidates = if one { 1 } else { 3 * lacks };
        let mut keys: Vec<String> = (0..candidates)
            .map(|_| format!("work/{:03}", self.below(self.orders.keys as u64)))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !self.held.contains_key(key));
        let Some(first) = keys.first().cloned() else { return };
        let mut body = json!({ "owner": self.name });
        match self.session.as_ref().and_then(|session| session.id.clone()) {
            Some(id) => body["session"] = json!(id),
            None => body["ttl_ms"] = json!(self.orders.ttl_ms),
        }
        let mut wait_ms = 0;
        if self.below(2) == 0 {
            // Long enough to meet an end now and then, and answered in time.
            wait_ms = 100 + self.below(300);
            body["wait_ms"] = json!(wait_ms);
        }
        let (path, op) = if one {
            body["key"] = json!(first);
            ("/v1/acquire", Op::Acquire)
        } else {
            body["keys"] = json!(keys);
            body["count"] = json!(lacks);
            ("/v1/acquire-any", Op::AcquireAny)
        };
        let call = self.asks(op, if one { &first } else { "" }, wait_ms);
        // The same request id everywhere: however often it is asked, it is granted once.
        body["request_id"] = json!(format!("{}-{call}", self.name));
        let Some((Answer { status, body }, sent)) = self.ask(path, Some(&body), 2).await else {
            return self.lost(call);
        };
        match status {
            200 if one => self.granted(call, &body, sent),
            200 => {
                let grants = body["grants"].as_array().expect("grants");
                for grant in grants {
                    self.granted(call, grant, sent);
                }
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
        let token = grant["token"].as_u64().expect("token");
        let valid = grant["valid_for_ms"].as_u64().expect("valid_for_ms");
        // A grant counts as a heartbeat of its session, which may be known to last longer.
        let of_session = self.session.as_ref().map_or(0, |session| session.until);
        let until = of_session.max(sent + nanos(valid));
        let (key, lease_id) = (text("key"), text("lease_id"));
        let held = Held { key: key.clone(), token, lease_id, until };
        self.held.insert(key.clone(), held);
        self.told(Some(call), &key, token, until, true);
    }
}
