//! A real coordinator as a child process, and a client that sees every byte.
//!
//! Guarantees: a child ends, by its own pid, when its [`Server`] is dropped, however the test ended;
//! what it said on stderr is shown when the test failed.

pub mod process;
pub mod session;
pub mod sse;
pub mod talk;
pub mod wire;

use std::{future::Future, time::Duration};

pub use process::Server;
use serde_json::{Value, json};
pub use session::{Session, session_body};
pub use sse::{Event, Stream};
pub use talk::Talk;
pub use wire::{Connection, Reply};

pub use crate::support::clock::{PATIENCE, eventually, ms, soon};

/// A grant, with what a test needs at hand.
#[derive(Clone, Debug)]
pub struct Grant {
    pub key: String,
    pub lease_id: String,
    pub token: u64,
    pub valid_for_ms: u64,
    pub lease: Value,
}

impl Grant {
    pub fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().expect(name).to_owned();
        Self {
            key: text("key"),
            lease_id: text("lease_id"),
            token: value["token"].as_u64().expect("token"),
            valid_for_ms: value["valid_for_ms"].as_u64().expect("valid_for_ms"),
            lease: value.clone(),
        }
    }

    /// What proves this tenure.
    pub fn proof(&self) -> Value {
        json!({ "key": self.key, "lease_id": self.lease_id })
    }

    /// The proof, and more fields.
    pub fn proof_and(&self, more: Value) -> Value {
        let mut body = self.proof();
        let fields = body.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        body
    }
}

impl Server {
    /// One request on a connection of its own.
    pub async fn call(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        Connection::open(self.addr).await.call(method, path, &[], body).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call("POST", path, body.to_string().as_bytes()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, b"").await
    }

    /// An acquire that is to be granted.
    pub async fn acquire(&self, key: &str, owner: &str, ttl_ms: u64) -> Grant {
        let body = json!({ "key": key, "owner": owner, "ttl_ms": ttl_ms });
        Grant::of(&self.post("/v1/acquire", &body).await.ok())
    }

    /// A release that is to end the tenure.
    pub async fn release(&self, grant: &Grant) {
        let reply = self.post("/v1/release", &grant.proof()).await;
        assert_eq!(reply.ok()["released"], true);
    }

    /// The public view of a key that is known.
    pub async fn lease(&self, key: &str) -> Value {
        self.get(&format!("/v1/leases/{}", percent(key))).await.ok()
    }

    /// A request whose caller is parked: sent, and not answered yet. Returns when the server counts
    /// as many waiters on the key.
    pub async fn park(&self, path: &str, body: &Value) -> Connection {
        let mut connection = Connection::open(self.addr).await;
        connection.send("POST", path, &[], body.to_string().as_bytes()).await;
        connection
    }

    /// Waits until the key has so many callers in its queue.
    pub async fn until_waiters(&self, key: &str, waiters: u64) {
        eventually(&format!("{key} has {waiters} waiters"), async || {
            self.lease(key).await["waiters"] == waiters
        })
        .await;
    }

    /// The events of one key since the store began, oldest first.
    pub async fn events_of(&self, key: &str) -> Vec<Value> {
        let mut events = self.history().await;
        events.retain(|event| event["subject"] == key);
        events
    }

    /// Every event since the store began. Asserts that nothing was left out.
    pub async fn history(&self) -> Vec<Value> {
        let mut events = Vec::new();
        let mut after = self.cursor_of_the_beginning().await;
        loop {
            let page = self.get(&format!("/v1/events?format=json&after={after}")).await.ok();
            assert_eq!(page["reset"], false, "the whole history is kept");
            let more = page["events"].as_array().expect("events");
            if more.is_empty() {
                return events;
            }
            events.extend(more.iter().cloned());
            after = page["next"].as_str().expect("next").to_owned();
        }
    }

    pub async fn cursor_of_the_beginning(&self) -> String {
        let info = self.get("/v1/info").await.ok();
        let store = info["store_id"].as_str().expect("store_id");
        format!("{}-0-0", &store[..8])
    }

    /// Acquires and releases a key until the store no longer keeps the events after this cursor.
    ///
    /// The store needs the smallest log, with a `segment_size` and a `min_log_size` of 64 KiB: a larger one keeps the
    /// events for too long.
    pub async fn until_compacted_away(&self, cursor: &str) {
        let value = "v".repeat(8 * 1024);
        let mut connection = Connection::open(self.addr).await;
        eventually("the events are compacted away", async || {
            for _ in 0..20 {
                let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "value": value });
                let grant = Grant::of(&connection.post("/v1/acquire", &body).await.ok());
                connection.post("/v1/release", &grant.proof()).await.ok();
            }
            let page = self.get(&format!("/v1/events?format=json&after={cursor}")).await.ok();
            page["reset"] == true
        })
        .await;
    }

    /// One value of the metrics; the sum of all series that start so.
    pub async fn metric(&self, series: &str) -> f64 {
        let reply = self.get("/metrics").await;
        let text = reply.text();
        let values = text.lines().filter(|line| line.starts_with(series));
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// Percent-encodes all but letters and digits.
pub fn percent(text: &str) -> String {
    let encode = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(encode).collect()
}

/// `seq` of the events of one key is 1, 2, 3….
pub fn assert_no_hole(events: &[Value]) {
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["data"]["seq"], at as u64 + 1, "a hole in the history: {event}");
    }
}

/// The short types of events.
pub fn kinds(events: &[Value]) -> Vec<String> {
    let short = |event: &Value| {
        let kind = event["type"].as_str().expect("type");
        kind.strip_prefix("io.tenure.lease.").expect(kind).to_owned()
    };
    events.iter().map(short).collect()
}
