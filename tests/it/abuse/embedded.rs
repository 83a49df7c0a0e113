//! Two hundred thousand callers, each of its own, in a coordinator that another program embeds: no socket
//! bounds their number there.

use std::time::{Duration, Instant};

use tenure::{
    lease::{Heartbeat, Key, Owner, Release},
    manager::{AcquireOne, Tenure},
    settings::Settings,
};
use tokio::task::JoinSet;

use super::{
    probe::{Rounds, Tails, span},
    rounds, size,
};

use crate::support::harness::eventually;

/// Of memory that one waiting call may take, its task included.
const BYTES: u64 = 4 << 10;
const KEYS: usize = 20;

fn one(key: &str, owner: &str, ttl_ms: u64) -> AcquireOne {
    AcquireOne::new(Key::new(key).expect("a key"), Owner::new(owner).expect("an owner"), ttl_ms)
}

/// The 99th percentile of acquire, heartbeat and release of a caller that waits for nobody.
async fn p99(tenure: &Tenure, span: Duration) -> Duration {
    let begun = Instant::now();
    let mut took = Vec::new();
    while begun.elapsed() < span {
        let at = Instant::now();
        let grant = tenure.acquire(&one("mine", "w", 60_000), tenure.now()).await.expect("a grant");
        took.push(at.elapsed());
        let at = Instant::now();
        let beat = Heartbeat::new(grant.lease_id);
        tenure.heartbeat("mine", beat, tenure.now()).await.expect("it is mine");
        took.push(at.elapsed());
        let at = Instant::now();
        let release = Release::new(grant.lease_id);
        assert!(tenure.release("mine", release, tenure.now()).await.expect("it was mine"));
        took.push(at.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    took.sort();
    took[took.len() * 99 / 100]
}

async fn tails(tenure: &Tenure, twin: &Tenure, span: Duration) -> Tails {
    let (own, twin) = tokio::join!(p99(tenure, span), p99(twin, span));
    Tails { own, twin }
}

async fn start(dir: &tempfile::TempDir) -> Tenure {
    let mut settings = Settings::default();
    settings.store.embedded.data_dir = dir.path().to_owned();
    Tenure::start(settings).await.expect("it starts")
}

async fn waiters(tenure: &Tenure, key: usize) -> usize {
    let key = Key::new(&format!("held/{key}")).expect("a key");
    tenure.view(&key).await.expect("a view").waiters
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_wait_delay_nobody_and_leave_nothing() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let (tenure, twin) = (start(&dirs[0]).await, start(&dirs[1]).await);
    let each = size(10_000, 1_000);
    for key in 0..KEYS {
        let held = one(&format!("held/{key}"), "holder", 86_400_000);
        tenure.acquire(&held, tenure.now()).await.expect("a grant");
    }
    let mut rounds_of = Rounds::of("waiters of an embedding program", std::process::id());
    tails(&tenure, &twin, span() / 4).await;
    for _ in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&tenure, &twin, span()).await;
        let mut parked = JoinSet::new();
        for at in 0..each * KEYS {
            let manager = tenure.manager();
            parked.spawn(async move {
                let key = format!("held/{}", at % KEYS);
                let wait = AcquireOne { wait_ms: 600_000, ..one(&key, "late", 1000) };
                manager.acquire(&wait, manager.now()).await.is_ok()
            });
        }
        for key in [0, KEYS - 1] {
            eventually("all wait", async || waiters(&tenure, key).await == each).await;
        }
        let busy = tails(&tenure, &twin, span()).await;
        rounds_of.round(quiet, busy);
        parked.abort_all();
        while parked.join_next().await.is_some() {}
        for key in [0, KEYS - 1] {
            eventually("nobody waits any more", async || waiters(&tenure, key).await == 0).await;
        }
    }
    println!("waiters of an embedding program: {} at a time", each * KEYS);
    rounds_of.verdict(each * KEYS, BYTES);
    tenure.stop().await;
    twin.stop().await;
}
