//! How much the store adds to the bare client. Run it with `--release -- --ignored --nocapture bench`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_nats::HeaderMap;
use futures_util::future::join_all;
use tenure::{
    clock::{Clock, SystemClock},
    lease::Revision,
    store::{LeaseStore, Outcome},
};

use crate::{
    harness::{committed, context, grant, open},
    server::{Server, Sync},
};

const IN_FLIGHT: u64 = 64;
const SPAN: Duration = Duration::from_secs(3);

/// Counts what 64 tasks do in a while, per second.
async fn rate<F: Future<Output = ()> + Send + 'static>(
    task: impl Fn(u64, Arc<SystemClock>, Arc<AtomicU64>) -> F,
) -> f64 {
    let (clock, count) = (Arc::new(SystemClock::new()), Arc::new(AtomicU64::new(0)));
    let tasks =
        (0..IN_FLIGHT).map(|n| tokio::spawn(task(n, Arc::clone(&clock), Arc::clone(&count))));
    for task in join_all(tasks).await {
        task.unwrap();
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let count = count.load(Relaxed) as f64;
    count / SPAN.as_secs_f64()
}

#[tokio::test]
#[ignore = "a measurement"]
async fn bench_compare_and_set() {
    for sync in [Sync::Always, Sync::Default] {
        let server = Server::start_with(sync, "");
        let store = open(&server.url()).await;
        let context = context(&server.url()).await;
        let seed = committed(store.compare_and_set(grant("seed", Revision::ABSENT, "w", 1)).await);
        let stream = context.get_stream("KV_leases").await.unwrap();
        let payload = stream.get_raw_message(seed.0).await.unwrap().payload;
        for round in 0..3 {
            let bare = rate(|n, clock, count| {
                let (context, payload) = (context.clone(), payload.clone());
                async move {
                    let end = clock.now() + SPAN;
                    let mut last = 0;
                    while clock.now() < end {
                        let mut headers = HeaderMap::new();
                        headers.insert("Nats-Expected-Last-Subject-Sequence", last.to_string());
                        let subject = format!("$KV.leases.app.b{round}.{n}");
                        let sent = context.publish_with_headers(subject, headers, payload.clone());
                        last = sent.await.unwrap().await.unwrap().sequence;
                        count.fetch_add(1, Relaxed);
                    }
                }
            })
            .await;
            let ours = rate(|n, clock, count| {
                let store = Arc::clone(&store);
                async move {
                    let end = clock.now() + SPAN;
                    let (mut last, mut seq) = (Revision::ABSENT, 0);
                    while clock.now() < end {
                        seq += 1;
                        let write = grant(&format!("b{round}/{n}"), last, "w", seq);
                        let Outcome::Committed(next) = store.compare_and_set(write).await else {
                            panic!("not committed");
                        };
                        last = next;
                        count.fetch_add(1, Relaxed);
                    }
                }
            })
            .await;
            println!(
                "sync {sync:?}: bare client {bare:.0}/s, store {ours:.0}/s, {IN_FLIGHT} in flight"
            );
        }
    }
}
