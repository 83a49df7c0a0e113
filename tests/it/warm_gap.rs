//! How long a key has no owner on a planned move after a preparation: as the history tells, and from the moment at which the
//! holder stops until the next one hears of its grant. `TENURE_WARM_ROUNDS` sets how many members come and leave, of 100 keys each.

#![allow(
    clippy::disallowed_methods,
    reason = "the members stand outside and read the clock that their programs would read"
)]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;
use tenure::client::{Client, Done, DrainHandle, Lease, WorkerPool};
use tokio::task::JoinHandle;

use crate::{
    nodes::pair::Pair,
    support::{
        clock::{ms, within},
        harness::Server,
        http,
        pool_worker::pool,
    },
};

const KEYS: usize = 100;
const SETTLE_MS: u64 = 120_000;
/// What may not be exceeded on a machine that is busy with other tests.
const BOUND: Duration = Duration::from_millis(500);

/// When each key was last given up, and how long each had no owner.
#[derive(Default)]
struct Gaps {
    since: HashMap<String, Instant>,
    all: Vec<Duration>,
}

struct Member {
    leaving: DrainHandle,
    runs: JoinHandle<()>,
}

fn start(url: &str, (name, owner): (&str, &str), gaps: &Arc<Mutex<Gaps>>) -> Member {
    let pool = WorkerPool::new(Client::new(url).expect("a client"), name)
        .owner(owner)
        .keys((0..KEYS).map(|at| format!("{name}/{at:03}")))
        .ttl(Duration::from_secs(10))
        .prepare(|_| tokio::time::sleep(ms(5)));
    let (leaving, gaps) = (pool.drain_handle(), gaps.clone());
    let work = move |lease: Arc<Lease>| {
        let gaps = gaps.clone();
        let since = gaps.lock().unwrap_or_else(PoisonError::into_inner).since.remove(lease.key());
        let now = Instant::now();
        since.into_iter().for_each(|since| {
            gaps.lock().unwrap_or_else(PoisonError::into_inner).all.push(now - since);
        });
        async move {
            lease.handover_requested().await;
            let mut gaps = gaps.lock().unwrap_or_else(PoisonError::into_inner);
            gaps.since.insert(lease.key().to_owned(), Instant::now());
            Ok::<_, std::io::Error>(Done)
        }
    };
    let runs = tokio::spawn(async move { pool.run(work).await.expect("it leaves in good order") });
    Member { leaving, runs }
}

async fn has_share(url: &str, name: &str, owner: &str) {
    let mut last = Value::Null;
    let settled = within(ms(SETTLE_MS), async || {
        let (seen, members) = pool(url, name).await;
        last = seen;
        let all: u64 = members.values().map(|(held, _)| held).sum();
        // Within the dead band nothing moves.
        let fits = |(held, share): &(u64, u64)| *held > 0 && held + share / 20 >= *share;
        let is_even = members.get(owner).is_some_and(fits);
        all == KEYS as u64 && is_even
    });
    assert!(settled.await, "{last:#}");
}

/// All events of the store.
async fn history(url: &str) -> Vec<Value> {
    let get = async |path: String| -> Value {
        let answer = http::client().get(format!("{url}{path}")).send().await.expect("an answer");
        answer.json().await.expect("JSON")
    };
    let info = get("/v1/info".to_owned()).await;
    let mut after = format!("{}-0-0", &info["store_id"].as_str().expect("an id")[..8]);
    let mut all = Vec::new();
    loop {
        let page = get(format!("/v1/events?format=json&after={after}")).await;
        let events = page["events"].as_array().expect("events");
        if events.is_empty() {
            return all;
        }
        all.extend(events.iter().cloned());
        after = page["next"].as_str().expect("a cursor").to_owned();
    }
}

/// For each key that was handed over, the milliseconds between the write that ended the tenure and the next grant, in
/// order; and how many of these were one write.
fn vacancies(history: &[Value]) -> (Vec<u64>, usize) {
    let (mut ended, mut all, mut in_one) = (HashMap::new(), Vec::new(), 0);
    for event in history {
        let key = event["subject"].as_str().expect("a key");
        let (id, time) = (event["id"].as_str().expect("an id"), &event["time"]);
        let time = humantime::parse_rfc3339(time.as_str().expect("a time")).expect("a time");
        // The last part of the id is the place in the write.
        let write = id.rsplit_once('-').expect("a cursor").0.to_owned();
        match event["type"].as_str().expect("a type") {
            "io.tenure.lease.transferred" => drop(ended.insert(key, (write, time))),
            "io.tenure.lease.granted" => {
                if let Some((end, since)) = ended.remove(key) {
                    in_one += usize::from(end == write);
                    let span = time.duration_since(since).unwrap_or_default();
                    all.push(u64::try_from(span.as_millis()).expect("short"));
                }
            }
            _ => {}
        }
    }
    all.sort_unstable();
    (all, in_one)
}

/// Members of a pool come and leave, one after the other, at these nodes in turn.
async fn measure(what: &str, name: &str, urls: &[String]) {
    let rounds = std::env::var("TENURE_WARM_ROUNDS").ok().and_then(|it| it.parse().ok());
    let gaps = Arc::<Mutex<Gaps>>::default();
    let mut member = start(&urls[0], (name, "m0"), &gaps);
    has_share(&urls[0], name, "m0").await;
    for round in 1..=rounds.unwrap_or(1) {
        let url = &urls[round % urls.len()];
        let next = start(url, (name, &format!("m{round}")), &gaps);
        has_share(url, name, &format!("m{round}")).await;
        member.leaving.drain();
        member.runs.await.expect("it ends");
        has_share(url, name, &format!("m{round}")).await;
        member = next;
    }
    member.runs.abort();
    let mut all = std::mem::take(&mut gaps.lock().unwrap_or_else(PoisonError::into_inner).all);
    all.sort_unstable();
    let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
    println!(
        "{what}: {} planned moves; without an owner p50 {:?}, p90 {:?}, p99 {:?}, longest {:?}",
        all.len(),
        at(50),
        at(90),
        at(99),
        at(100)
    );
    let (stored, in_one) = vacancies(&history(&urls[0]).await);
    let of = |percent: usize| stored[(stored.len() * percent / 100).min(stored.len() - 1)];
    println!(
        "{what}: by the history p50 {} ms, p90 {} ms, p99 {} ms, longest {} ms; {in_one} of {} in one write",
        of(50),
        of(90),
        of(99),
        of(100),
        stored.len()
    );
    assert!(all.len() >= KEYS, "each key moved");
    assert!(at(99) <= BOUND, "{:?}", at(99));
}

async fn on_one(what: &str, warmups: usize) {
    let server = Server::configured(&format!(
        "[[policy]]\nprefix = \"warm/\"\npool = \"warm\"\nbalance = true\nwarmup_timeout = \"30s\"\nwarmups = {warmups}\n",
    ));
    measure(what, "warm", &[format!("http://{}", server.addr)]).await;
    let series = "tenure_pool_warmups_total{pool=\"warm\",outcome=\"timed-out\"}";
    assert_eq!(server.metric(series).await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_one_coordinator() {
    on_one("one coordinator, 8 keys at a time", 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_one_coordinator_one_by_one() {
    on_one("one coordinator, one key at a time", 1).await;
}

async fn on_two(what: &str, name: &str) {
    let pair = Pair::nats().await;
    measure(what, name, &[pair.a.url.clone(), pair.b.url.clone()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_two_nodes_with_nats() {
    on_two("two nodes with NATS, 8 keys at a time", "warm").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_two_nodes_with_nats_one_by_one() {
    on_two("two nodes with NATS, one key at a time", "one").await;
}
