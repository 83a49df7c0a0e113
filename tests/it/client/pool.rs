//! Workers that take leases of a pool, and run a task for each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tenure::client::{Client, ClientError, Done, DrainHandle, Ended, Lease, Loss, WorkerPool};
use tokio::task::JoinHandle;

use crate::client::harness::{Server, eventually, soon};

use crate::support::clock::{ms, now, sleep_ms};

/// Which worker is at which key, and how often a key was worked on.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    at_work: HashMap<String, (String, u64)>,
    values: HashMap<String, Vec<Option<String>>>,
    ends: Vec<(String, Ended)>,
}

impl Board {
    fn with<T>(&self, look: impl FnOnce(&mut Entries) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(&self, worker: &str, lease: &Lease) {
        self.with(|entries| {
            let mine = (worker.to_owned(), lease.token());
            let before = entries.at_work.insert(lease.key().to_owned(), mine);
            assert_eq!(before, None, "two at work on {}", lease.key());
            let values = entries.values.entry(lease.key().to_owned()).or_default();
            values.push(lease.value().map(str::to_owned));
        });
    }

    fn end(&self, lease: &Lease) {
        self.with(|entries| entries.at_work.remove(lease.key()));
    }

    fn at_work(&self, worker: &str) -> usize {
        self.with(|entries| entries.at_work.values().filter(|(who, _)| who == worker).count())
    }
}

/// Whoever drops it, by an end or a loss, is at work no longer.
struct AtWork(Board, Arc<Lease>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.end(&self.1);
    }
}

const KEYS: usize = 8;

fn keys() -> Vec<String> {
    (0..KEYS).map(|n| format!("p/{n}")).collect()
}

fn member(client: &Client, name: &str) -> WorkerPool {
    WorkerPool::new(client.clone(), "p").owner(name).keys(keys()).ttl(ms(1500))
}

/// A worker that works until it is asked for its lease.
fn start(
    client: &Client,
    name: &'static str,
    capacity: usize,
    board: &Board,
) -> (DrainHandle, JoinHandle<()>) {
    let (seen, board) = (board.clone(), board.clone());
    let pool = member(client, name).capacity(capacity).on_end(move |key, ended| {
        seen.with(|entries| entries.ends.push((key.to_owned(), ended.clone())));
    });
    let handle = pool.drain_handle();
    let running = tokio::spawn(async move {
        let work = move |lease: Arc<Lease>| {
            let board = board.clone();
            async move {
                board.begin(name, &lease);
                let _at_work = AtWork(board.clone(), lease.clone());
                lease.handover_requested().await;
                Ok::<_, String>(format!("left by {name}"))
            }
        };
        pool.run(work).await.expect("it ends well");
    });
    (handle, running)
}

const STILL: &str = "[[policy]]\nprefix = \"p/\"\npool = \"p\"\n";
const BALANCED: &str = concat!(
    "[[policy]]\nprefix = \"p/\"\npool = \"p\"\n",
    "balance = true\nhandover_timeout = \"2s\"\n",
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_member_hands_everything_over_with_its_values() {
    let server = Server::configured(STILL).await;
    let (client, board) = (server.client(), Board::default());
    let (first, running) = start(&client, "w1", KEYS, &board);
    eventually("it has all", async || board.at_work("w1") == KEYS).await;
    let (second, other) = start(&client, "w2", KEYS, &board);
    sleep_ms(500).await;
    first.drain();
    soon("the drain", running).await.unwrap();
    assert_eq!(board.at_work("w1"), 0);
    eventually("the other has all", async || board.at_work("w2") == KEYS).await;
    let left = board.with(|entries| entries.values.clone());
    for (key, values) in left {
        assert_eq!(values.last().unwrap().as_deref(), Some("left by w1"), "{key}");
    }
    assert!(board.with(|entries| entries.ends.iter().all(|(_, ended)| *ended == Ended::Done)));
    second.drain();
    soon("the drain", other).await.unwrap();
    for key in keys() {
        server.until_state(&key, "free").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_balanced_pool_share_it_and_a_dead_one_is_replaced() {
    let server = Server::configured(BALANCED).await;
    let (client, board) = (server.client(), Board::default());
    let (_first, one) = start(&client, "w1", KEYS, &board);
    eventually("it has all", async || board.at_work("w1") == KEYS).await;
    let (second, two) = start(&client, "w2", KEYS, &board);
    let shares = async |own: usize, other: usize| {
        eventually("all is shared", async || {
            (board.at_work("w1"), board.at_work("w2")) == (own, other)
        })
        .await;
    };
    shares(4, 4).await;
    // As good as a kill: nothing is said to the server, but for the guards' best effort.
    one.abort();
    shares(0, 8).await;
    second.drain();
    soon("the drain", two).await.unwrap();
    let ends = board.with(|entries| entries.ends.clone());
    assert!(ends.iter().all(|(_, ended)| *ended == Ended::Done), "{ends:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_ignores_the_request_is_revoked_and_dropped() {
    let server = Server::configured(BALANCED).await;
    let (client, board) = (server.client(), Board::default());
    let (seen, at_work) = (board.clone(), board.clone());
    let stubborn = member(&client, "w1").on_end(move |key, ended| {
        seen.with(|entries| entries.ends.push((key.to_owned(), ended.clone())));
    });
    let running = tokio::spawn(stubborn.run(move |lease: Arc<Lease>| {
        let board = at_work.clone();
        async move {
            board.begin("w1", &lease);
            let _at_work = AtWork(board.clone(), lease.clone());
            std::future::pending::<Result<Done, String>>().await
        }
    }));
    eventually("it has all", async || board.at_work("w1") == KEYS).await;
    let (second, other) = start(&client, "w2", KEYS, &board);
    eventually("the other has its share", async || board.at_work("w2") == 4).await;
    assert_eq!(board.at_work("w1"), 4);
    let ends = board.with(|entries| entries.ends.clone());
    let revoked = Ended::Lost(tenure::client::Loss::Revoked);
    assert!(ends.len() == 4 && ends.iter().all(|(_, ended)| *ended == revoked), "{ends:?}");
    second.drain();
    soon("the drain", other).await.unwrap();
    running.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_takes_no_more_than_its_capacity() {
    let server = Server::configured(STILL).await;
    let (client, board) = (server.client(), Board::default());
    let (handle, running) = start(&client, "w1", 3, &board);
    eventually("it has its fill", async || board.at_work("w1") == 3).await;
    sleep_ms(1000).await;
    assert_eq!(board.at_work("w1"), 3);
    handle.drain();
    soon("the drain", running).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_end_with_a_lost_session_and_begin_anew_under_another() {
    let mut server = Server::configured(STILL).await;
    let (client, board) = (server.client(), Board::default());
    let (handle, running) = start(&client, "w1", KEYS, &board);
    eventually("it has all", async || board.at_work("w1") == KEYS).await;
    server.node.kill();
    let start = now();
    eventually("nobody works", async || board.at_work("w1") == 0).await;
    assert!(now().since(start) < ms(2500), "{:?}", now().since(start));
    server.node.start().await;
    eventually("it has all again", async || board.at_work("w1") == KEYS).await;
    handle.drain();
    soon("the drain", running).await.unwrap();
    let lost = |entries: &mut Entries| {
        entries.ends.iter().filter(|(_, ended)| matches!(ended, Ended::Lost(_))).count()
    };
    assert_eq!(board.with(lost), KEYS);
}

/// Two processes run under one owner by mistake. The older one stops, and does not take the keys back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_owner_comes_back_elsewhere_ends() {
    let server =
        Server::configured(&STILL.replace("pool =", "rejoin_window = \"1m\"\npool =")).await;
    let (client, older, newer) = (server.client(), Board::default(), Board::default());
    let (seen, at_work) = (older.clone(), older.clone());
    let first = member(&client, "w").ttl(ms(60_000)).on_end(move |key, ended| {
        seen.with(|entries| entries.ends.push((key.to_owned(), ended.clone())));
    });
    let running = tokio::spawn(first.run(move |lease: Arc<Lease>| {
        let board = at_work.clone();
        async move {
            board.begin("w", &lease);
            let _at_work = AtWork(board.clone(), lease.clone());
            std::future::pending::<Result<Done, String>>().await
        }
    }));
    eventually("it has all", async || older.at_work("w") == KEYS).await;
    let (second, other) = start(&client, "w", KEYS, &newer);
    let ended = soon("the end of the first", running).await.expect("no panic");
    assert!(matches!(ended, Err(ClientError::Replaced { owner }) if owner == "w"));
    let ends = older.with(|entries| entries.ends.clone());
    let replaced = Ended::Lost(Loss::Replaced);
    assert!(ends.len() == KEYS && ends.iter().all(|(_, ended)| *ended == replaced), "{ends:?}");
    assert_eq!(older.at_work("w"), 0, "its tasks did not wait for the end of their promises");
    eventually("the second has all", async || newer.at_work("w") == KEYS).await;
    second.drain();
    soon("the drain", other).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_panics_or_fails_gives_its_lease_back_and_rests() {
    let server = Server::configured(STILL).await;
    let board = Board::default();
    let (seen, starts) = (board.clone(), board.clone());
    let client = server.client();
    let pool = member(&client, "w1").keys(["p/0", "p/1"]).on_end(move |key, ended| {
        seen.with(|entries| entries.ends.push((key.to_owned(), ended.clone())));
    });
    let handle = pool.drain_handle();
    let started = now();
    let running = tokio::spawn(pool.run(move |lease: Arc<Lease>| {
        let starts = starts.clone();
        async move {
            starts.begin("w1", &lease);
            starts.end(&lease);
            assert_ne!(lease.key(), "p/0", "on purpose");
            Err::<Done, _>("no luck")
        }
    }));
    let worked = |key: &str| board.with(|entries| entries.values.get(key).map_or(0, Vec::len));
    eventually("each had three tries", async || worked("p/0") >= 3 && worked("p/1") >= 3).await;
    // One second after the first, two after the second.
    let passed = now().since(started);
    assert!(passed >= ms(2900), "{passed:?}");
    handle.drain();
    soon("the drain", running).await.unwrap().unwrap();
    let ends = board.with(|entries| entries.ends.clone());
    let of = |key: &str| ends.iter().find(|(k, _)| k == key).expect("an end").1.clone();
    assert_eq!(of("p/1"), Ended::Failed("no luck".into()));
    let Ended::Failed(why) = of("p/0") else { panic!("{ends:?}") };
    assert!(why.starts_with("panicked: ") && why.contains("on purpose"), "{why}");
    for (key, said) in [("p/0", why.lines().next().unwrap_or_default()), ("p/1", "no luck")] {
        let history = client.history(key, None).await.expect("the history").events;
        let is_end =
            |event: &&Value| event["type"].as_str().is_some_and(|it| it.ends_with("released"));
        let ends: Vec<_> = history.iter().filter(is_end).collect();
        let told =
            |end: &&&Value| end["data"]["reason"].as_str().is_some_and(|it| it.starts_with(said));
        // The drain ends a tenure, too.
        assert!(ends.iter().filter(told).count() >= 3, "{ends:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_labels_of_a_member_change_while_it_runs() {
    let server = Server::configured(STILL).await;
    let client = server.client();
    let pool = member(&client, "w1").label("gpu", "true").zone("a");
    let (labels, leaving) = (pool.labels(), pool.drain_handle());
    let running = tokio::spawn(pool.run(async |lease: Arc<Lease>| {
        lease.handover_requested().await;
        Ok::<_, String>(Done)
    }));
    let shows = async |wanted: &[(&str, &str)]| {
        let members = client.pool("p").await.expect("the pool").members;
        let labels = members.first().map(|member| &member.labels);
        let wanted = wanted.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        labels == Some(&wanted.collect())
    };
    eventually("it has its labels", async || shows(&[("gpu", "true"), ("zone", "a")]).await).await;
    labels.replace([("zone", "b")]);
    eventually("they are replaced", async || shows(&[("zone", "b")]).await).await;
    // The server refuses this name, and the earlier labels hold.
    labels.replace([("no name", "b")]);
    sleep_ms(500).await;
    assert!(shows(&[("zone", "b")]).await);
    labels.replace([("disk", "ssd")]);
    eventually("a later change counts", async || shows(&[("disk", "ssd")]).await).await;
    leaving.drain();
    running.await.expect("no panic").expect("it ends well");
}
