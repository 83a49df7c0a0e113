//! Those who wait for the keys, and keep what they are granted.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::clock::{ms, sleep_ms};
use crate::support::http;

/// Long enough for a node's death, and a heartbeat after it.
const TTL_MS: u64 = 30_000;
/// How long one call waits in the queue.
const WAIT_MS: u64 = 120_000;
const HEARTBEAT_MS: u64 = 1_000;

/// A grant that a waiter was told.
#[derive(Clone, Debug)]
pub struct Told {
    pub token: u64,
    lease_id: String,
}

#[derive(Debug, Default)]
struct Book {
    grants: BTreeMap<String, Told>,
    lost: Vec<String>,
}

/// All waiters. They ask a node until it dies, and then the other one.
pub struct Waiters {
    book: Arc<Mutex<Book>>,
    /// The node that is asked first.
    first: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn client() -> reqwest::Client {
    http::builder().build().expect("a client")
}

impl Waiters {
    pub fn start(urls: Vec<String>) -> Self {
        let (book, first) = (Arc::<Mutex<Book>>::default(), Arc::<AtomicUsize>::default());
        let mut waiters = Self { book, first, tasks: Vec::new() };
        let keep = keep(urls, waiters.book.clone(), waiters.first.clone());
        waiters.tasks.push(tokio::spawn(keep));
        waiters
    }

    /// Somebody waits for each of the keys.
    pub fn wait_for(&mut self, keys: impl Iterator<Item = String>, urls: &[String]) {
        let http = client();
        for (number, key) in keys.enumerate() {
            let (http, urls) = (http.clone(), urls.to_vec());
            let (book, first) = (self.book.clone(), self.first.clone());
            self.tasks.push(tokio::spawn(async move {
                let body = json!({
                    "key": key, "owner": "next", "ttl_ms": TTL_MS, "wait_ms": WAIT_MS,
                    "request_id": format!("next-{number}"),
                });
                loop {
                    let gone = first.load(Ordering::SeqCst) > 0;
                    let node = if gone { urls.len() - 1 } else { number % urls.len() };
                    if let Some(told) = ask(&http, &urls[node], &body).await {
                        lock(&book).grants.insert(key, told);
                        return;
                    }
                    sleep_ms(100).await;
                }
            }));
        }
    }

    /// The node with the number 0 is gone for good.
    pub fn leave_first(&self) {
        self.first.store(1, Ordering::SeqCst);
    }

    /// What they were granted.
    pub fn told(&self) -> BTreeMap<String, Told> {
        let book = lock(&self.book);
        assert!(book.lost.is_empty(), "{:?}", book.lost);
        book.grants.clone()
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn ask(http: &reqwest::Client, url: &str, body: &Value) -> Option<Told> {
    let answer = http.post(format!("{url}/v1/acquire")).json(body).send().await.ok()?;
    if answer.status() != 200 {
        return None;
    }
    let grant: Value = answer.json().await.ok()?;
    let lease_id = grant["lease_id"].as_str()?.to_owned();
    Some(Told { token: grant["token"].as_u64()?, lease_id })
}

/// Heartbeats for all that was granted.
async fn keep(urls: Vec<String>, book: Arc<Mutex<Book>>, first: Arc<AtomicUsize>) {
    let http = client();
    loop {
        sleep_ms(HEARTBEAT_MS).await;
        let leases: Vec<_> = lock(&book)
            .grants
            .iter()
            .map(|(key, told)| json!({ "key": key, "lease_id": told.lease_id }))
            .collect();
        if leases.is_empty() {
            continue;
        }
        let node = first.load(Ordering::SeqCst).min(urls.len() - 1);
        let url = format!("{}/v1/heartbeats", urls[node]);
        let body = json!({ "leases": leases });
        let Ok(answer) = http.post(url).json(&body).timeout(ms(10_000)).send().await else {
            continue;
        };
        let Ok(answer) = answer.json::<Value>().await else { continue };
        for verdict in answer["results"].as_array().into_iter().flatten() {
            if verdict["code"] == "lease-lost" {
                let key = verdict["key"].as_str().unwrap_or_default();
                let known = known(&http, &urls, key).await;
                lock(&book).lost.push(format!("node {node}: {verdict}; {known}"));
            }
        }
    }
}

/// What the nodes that answer know of a key.
async fn known(http: &reqwest::Client, urls: &[String], key: &str) -> String {
    let mut known = Vec::new();
    for url in urls {
        for path in ["/v1/leases?prefix=", "/v1/events?format=json&after=0&prefix="] {
            if let Ok(answer) = http.get(format!("{url}{path}{key}")).send().await {
                known.push(answer.text().await.unwrap_or_default());
            }
        }
    }
    known.join("; ")
}
