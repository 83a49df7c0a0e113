//! The store on NATS as a subject: a server of its own for each test.

use std::sync::{Arc, Mutex};

use async_nats::{HeaderMap, jetstream};
use tenure::{
    clock::SystemClock,
    lease::{Key, Nonce, Revision},
    store::{
        Fresh, Gate, LeaseStore, Witness,
        nats::{NatsStore, Options},
    },
    telemetry::Metrics,
};

use crate::stores::{
    conformance,
    faulty::{Faults, Faulty},
    lab::{commit, found, grant, key},
    subject::{Damage, Subject},
};

use crate::support::nats_server::Server;

const BUCKET: &str = "suite";
/// What a message of a version that this program does not know begins with.
const NEWER: u8 = 9;

pub struct Nats {
    server: Server,
    /// A handle that outlives the others, to learn by it where a key is kept.
    any: Mutex<Option<Arc<NatsStore>>>,
}

impl Nats {
    async fn again(&self, witness: Option<Witness>) -> Arc<NatsStore> {
        let mut options = Options::new(self.server.url(), BUCKET);
        options.replicas = 1;
        let fresh = Fresh { identity: Nonce(3), secret: [9; 32], created_ms: 5_000 };
        let metrics = Arc::new(Metrics::register("nats"));
        let store =
            NatsStore::open(options, fresh, witness, Arc::new(SystemClock::new()), metrics).await;
        let store = store.unwrap_or_else(|why| panic!("{why}"));
        self.any.lock().expect("no panic").get_or_insert_with(|| store.clone());
        store
    }

    async fn context(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(self.server.url()).await.expect("it is there"))
    }

    /// Stream and subject of a key that is held.
    async fn place(&self, key: &Key) -> (String, String) {
        let store: Arc<dyn LeaseStore> =
            self.any.lock().expect("no panic").clone().expect("it was opened");
        let there = found(&store, key).await.expect("a record");
        match store.gate(key, &there) {
            Some(Gate::Nats { stream, subject, .. }) => (stream, subject),
            other => panic!("{key:?}: {other:?}"),
        }
    }
}

impl Subject for Nats {
    async fn start() -> Self {
        Self { server: Server::start(), any: Mutex::default() }
    }

    async fn open_with(&self, witness: Option<Witness>) -> Arc<dyn LeaseStore> {
        self.again(witness).await
    }

    fn several(&self) -> bool {
        true
    }

    /// As `nats kv purge` does it.
    async fn delete_by_hand(&self, key: &Key) -> bool {
        let (_, subject) = self.place(key).await;
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "PURGE");
        headers.insert("Nats-Rollup", "sub");
        let context = self.context().await;
        let sent = context.publish_with_headers(subject, headers, "".into()).await;
        sent.expect("it is sent").await.expect("it is stored");
        true
    }

    async fn spoil(&self, key: &Key, damage: Damage) -> bool {
        let (stream, subject) = self.place(key).await;
        let context = self.context().await;
        let stream = context.get_stream(stream).await.expect("the stream");
        let last = stream.get_last_raw_message_by_subject(&subject).await.expect("a message");
        let mut bytes = last.payload.to_vec();
        match damage {
            Damage::Rot => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
            Damage::Newer => {
                bytes[0] = NEWER;
                let body = bytes.len() - 4;
                let sum = crc32fast::hash(&bytes[..body]);
                bytes[body..].copy_from_slice(&sum.to_le_bytes());
            }
        }
        let sent = context.publish(subject, bytes.into()).await;
        sent.expect("it is sent").await.expect("it is stored");
        true
    }

    /// Writes one key more often than the bucket remembers.
    async fn forget_history(&self, store: &Arc<dyn LeaseStore>) -> bool {
        let key = key("forget/often");
        let mut expected = Revision::ABSENT;
        for seq in 1..=100 {
            expected = commit(store, grant(&key, expected, seq)).await;
        }
        true
    }

    async fn out_of_reach(&self, away: bool) -> bool {
        if away {
            self.server.pause();
        } else {
            self.server.resume();
        }
        true
    }
}

/// A wrapper around the store on NATS that only delays.
struct Delayed(Nats);

impl Subject for Delayed {
    async fn start() -> Self {
        Self(Nats::start().await)
    }

    async fn open_with(&self, witness: Option<Witness>) -> Arc<dyn LeaseStore> {
        let faults = Faults::delays(std::time::Duration::from_millis(8));
        Arc::new(Faulty::new(
            self.0.again(witness).await,
            faults,
            crate::stores::lab::seed("delays"),
        ))
    }

    fn several(&self) -> bool {
        true
    }
}

conformance!(nats, Nats);
conformance!(nats_with_delays, Delayed);
