//! When `WorkerPool::run` returns, none of the member's tasks runs any more, however the member ended. The tasks here take
//! a while to be dropped, as a task does that flushes a file or joins a thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tenure::client::{Client, ClientError, Done, Lease, Preparation, WorkerPool};

use crate::client::harness::{Server, eventually, soon};
use crate::support::clock::ms;

/// Counts what exists.
#[derive(Clone, Default)]
struct Existing(Arc<AtomicUsize>);

impl Existing {
    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }

    fn another(&self) -> SlowToGo {
        self.0.fetch_add(1, SeqCst);
        SlowToGo(self.clone())
    }
}

struct SlowToGo(Existing);

impl Drop for SlowToGo {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(300));
        (self.0).0.fetch_sub(1, SeqCst);
    }
}

const KEYS: usize = 4;

fn member(client: &Client, name: &str) -> WorkerPool {
    let keys = (0..KEYS).map(|n| format!("p/{n}"));
    WorkerPool::new(client.clone(), "p").owner(name).keys(keys).ttl(ms(60_000))
}

/// A member whose tasks never end by themselves.
async fn stubborn(
    pool: WorkerPool,
    existing: &Existing,
) -> tokio::task::JoinHandle<Result<(), ClientError>> {
    let counted = existing.clone();
    let running = tokio::spawn(pool.run(move |_: Arc<Lease>| {
        let exists = counted.another();
        async move {
            let _exists = exists;
            std::future::pending::<Result<Done, String>>().await
        }
    }));
    eventually("it has all", async || existing.count() == KEYS).await;
    running
}

const POLICY: &str = "[[policy]]\nprefix = \"p/\"\npool = \"p\"\nhandover_timeout = \"1s\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_member_leaves_no_task() {
    let config = POLICY.replace("pool =", "rejoin_window = \"1m\"\npool =");
    let server = Server::configured(&config).await;
    let (client, older, newer) = (server.client(), Existing::default(), Existing::default());
    let running = stubborn(member(&client, "w"), &older).await;
    let other = stubborn(member(&client, "w"), &newer).await;
    let ended = soon("the end of the first", running).await.expect("no panic");
    assert_eq!(older.count(), 0, "tasks of the member whose run returned");
    assert!(matches!(ended, Err(ClientError::Replaced { .. })), "{ended:?}");
    other.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_drained_leaves_no_task() {
    let server = Server::configured(POLICY).await;
    let existing = Existing::default();
    let pool = member(&server.client(), "w");
    let leaving = pool.drain_handle();
    let running = stubborn(pool, &existing).await;
    leaving.drain();
    soon("the drain", running).await.expect("no panic").expect("a good end");
    assert_eq!(existing.count(), 0, "tasks of the member whose run returned");
}

/// A key of the member moves to another pool, so the server refuses its next call for good, while its tasks run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_call_is_refused_leaves_no_task() {
    let server = Server::configured(POLICY).await;
    let existing = Existing::default();
    let pool = member(&server.client(), "w").keys((0..=KEYS).map(|n| format!("p/{n}")));
    let elsewhere = server.hold(&format!("p/{KEYS}"), 60_000).await;
    let running = stubborn(pool, &existing).await;
    server.reconfigure(&format!("{POLICY}[[policy]]\nprefix = \"p/0\"\npool = \"q\"\n")).await;
    let ended = running.await.expect("no panic");
    assert!(matches!(ended, Err(ClientError::Refused(_))), "{ended:?}");
    assert_eq!(existing.count(), 0, "tasks of the member whose run returned");
    drop(elsewhere);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_leaves_has_no_preparation_left() {
    let config = POLICY.replace("pool =", "balance = true\nwarmup_timeout = \"1m\"\npool =");
    let server = Server::configured(&config).await;
    let (client, existing, prepared) = (server.client(), Existing::default(), Existing::default());
    let first = stubborn(member(&client, "w1"), &existing).await;
    let counted = prepared.clone();
    let second = member(&client, "w2").prepare(move |_: Preparation| {
        let exists = counted.another();
        async move {
            let _exists = exists;
            std::future::pending().await
        }
    });
    let leaving = second.drain_handle();
    let running = tokio::spawn(second.run(async |_: Arc<Lease>| Ok::<_, String>(Done)));
    eventually("it prepares", async || prepared.count() > 0).await;
    leaving.drain();
    soon("the drain", running).await.expect("no panic").expect("a good end");
    assert_eq!(prepared.count(), 0, "preparations of the member whose run returned");
    first.abort();
}
