//! Stores, records and waiting.

use std::{sync::Arc, time::Duration};

use async_nats::jetstream;
use tenure::{
    clock::SystemClock,
    lease::{Nonce, Revision},
    store::{
        Fresh, Health, LeaseStore, Witness, Write, WriteOutcome,
        nats::{NatsOpenError, NatsStore, Options},
    },
    telemetry::Metrics,
};

use crate::support::records;
pub(crate) use crate::support::{
    clock::eventually,
    records::{held, key},
};

pub(crate) const BUCKET: &str = "leases";
pub(crate) const STREAM: &str = "KV_leases";

/// As is usual, but for the copies.
pub(crate) fn usual(url: &str) -> Options {
    Options { replicas: 1, ..Options::new(url, BUCKET) }
}

/// With time for a disk that syncs slowly: a test that wants its writes committed is not about that.
pub(crate) fn options(url: &str) -> Options {
    Options { request_timeout: Duration::from_secs(15), ..usual(url) }
}

pub(crate) fn fresh(identity: u128) -> Fresh {
    Fresh { identity: Nonce(identity), secret: [7; 32], created_ms: 5_000 }
}

pub(crate) async fn open_with(
    options: Options,
    fresh: Fresh,
    witness: Option<Witness>,
) -> Result<Arc<NatsStore>, NatsOpenError> {
    let _ = tracing_subscriber::fmt().with_test_writer().with_env_filter("tenure=debug").try_init();
    let metrics = Arc::new(Metrics::register("nats"));
    NatsStore::open(options, fresh, witness, Arc::new(SystemClock::new()), metrics).await
}

pub(crate) async fn open(url: &str) -> Arc<NatsStore> {
    open_with(options(url), fresh(3), None).await.unwrap_or_else(|why| panic!("{why}"))
}

/// A client of one's own, beside the store.
pub(crate) async fn context(url: &str) -> jetstream::Context {
    let servers: Vec<async_nats::ServerAddr> =
        url.split(',').map(|server| server.parse().expect("an address")).collect();
    jetstream::new(async_nats::connect(servers).await.expect("the server runs"))
}

pub(crate) fn grant(name: &str, expected: Revision, owner: &str, seq: u64) -> Write {
    records::grant(&key(name), expected, owner, seq)
}

#[track_caller]
pub(crate) fn committed(outcome: WriteOutcome) -> Revision {
    match outcome {
        WriteOutcome::Committed(revision) => revision,
        other => panic!("{other:?}"),
    }
}

/// Writes a key `times` over; the last revision.
pub(crate) async fn overwrite(
    store: &NatsStore,
    name: &str,
    mut expected: Revision,
    seqs: std::ops::RangeInclusive<u64>,
) -> Revision {
    for seq in seqs {
        expected = committed(store.compare_and_set(grant(name, expected, "w", seq)).await);
    }
    expected
}

pub(crate) async fn ready(store: &NatsStore) {
    eventually("the store is ready", || async { store.health() == Health::Ready }).await;
}

pub(crate) async fn frozen(store: &NatsStore) {
    eventually("it is frozen", || async { matches!(store.health(), Health::Frozen(_)) }).await;
}
