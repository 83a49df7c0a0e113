//! Many leases and many events: the page stays small and quick.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::MissedTickBehavior};

use super::shown::Page;
use crate::support::{
    clock::sleep_ms,
    harness::{Connection, Server, Stream},
};

/// The most that a browser reads in all, in bytes.
const MOST: f64 = 200.0 * 1024.0;
/// How long a first sight and a filter may take, in milliseconds, and how much of the coordinator's CPU time ten pages may
/// take. A debug build on a busy machine has more of each.
const USUAL: (f64, f64, f64) = (3_000.0, 2_000.0, 1.0);
/// The same for an optimised program, which `make bench-page` names, on a machine of its own.
const OPTIMISED: (f64, f64, f64) = (200.0, 100.0, 0.05);

/// How many connections send heartbeats, and the time between two of one connection at the steady rate.
const CONNECTIONS: usize = 16;
const PACE: Duration = Duration::from_millis(2);

/// Types a prefix, and waits until the list shows one row. The time, in milliseconds.
const TYPE: &str = "new Promise((tell) => {
    const field = document.querySelector('input[name=prefix]');
    const list = document.querySelector('#leases tbody');
    const began = performance.now();
    const look = () => {
        const rows = list.querySelectorAll('tr:not(.nothing)');
        if (rows.length !== 1 || !rows[0].textContent.includes('k/9/0777')) return;
        watcher.disconnect();
        tell(performance.now() - began);
    };
    const watcher = new MutationObserver(look);
    watcher.observe(list, { childList: true, subtree: true });
    field.value = 'k/9/0777';
    field.dispatchEvent(new Event('input', { bubbles: true }));
})";

/// Adds leases that are held, and returns the key and the lease id of each.
async fn held(server: &Server, count: usize) -> Vec<(String, String)> {
    let mut connection = Connection::open(server.addr).await;
    let mut held = Vec::with_capacity(count);
    for part in 0..count / 500 {
        let (group, first) = (part % 10, part / 10 * 500);
        let keys: Vec<_> = (first..first + 500).map(|n| format!("k/{group}/{n:04}")).collect();
        let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 500 });
        let granted = connection.post("/v1/acquire-any", &body).await.ok();
        let grants = granted["grants"].as_array().expect("grants");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        held.extend(grants.iter().map(|grant| (text(&grant["key"]), text(&grant["lease_id"]))));
    }
    assert_eq!(held.len(), count);
    held
}

/// Two hundred changes a second, as long as it is polled.
async fn churn(server: &Server) -> Infallible {
    let mut connection = Connection::open(server.addr).await;
    let mut due = tokio::time::interval(Duration::from_millis(10));
    loop {
        for n in 0..50 {
            due.tick().await;
            let body = json!({ "key": format!("k/0/x{n}"), "owner": "w", "ttl_ms": 600_000 });
            let grant = connection.post("/v1/acquire", &body).await.ok();
            let proof = json!({ "key": grant["key"], "lease_id": grant["lease_id"] });
            connection.post("/v1/release", &proof).await.ok();
        }
    }
}

#[tokio::test]
async fn a_page_over_many_leases_and_events_stays_small_and_quick() {
    let server = Server::start();
    held(&server, sized("PAGE_LEASES", 10_000)).await;
    let looks = async {
        let mut page = Page::open(&server, "").await;
        page.shows("#latest", "live").await;
        sleep_ms(4_000).await;
        assert_eq!(page.count("#latest tbody tr").await, 40.0);
        let elements = page.count("*").await;
        assert!(elements < 3_000.0, "{elements} elements");
        // A browser that runs, and that has nothing of the page in its cache.
        let mut sight = f64::MAX;
        for _ in 0..3 {
            let url = format!("http://{}/", server.addr);
            let tab = page.browser.open_apart(&url, "").await;
            let painted =
                "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null";
            page.browser.until(&tab, &format!("({painted}) !== null")).await;
            let took = page.browser.evaluate(&tab, painted).await;
            sight = sight.min(took.as_f64().expect("a number"));
            page.browser.close(tab).await;
        }
        let read = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]\
                    .filter(({ name }) => !name.includes('/v1/')).reduce((sum, one) => sum + one.decodedBodySize, 0)";
        let read = page.number(read).await;
        page.go("#/leases").await;
        page.until("document.querySelectorAll('#leases tbody tr:not(.nothing)').length === 100")
            .await;
        let mut filter = f64::MAX;
        for _ in 0..3 {
            filter = filter.min(page.number(TYPE).await);
            page.fill("input[name=prefix]", "").await;
            page.until(
                "document.querySelectorAll('#leases tbody tr:not(.nothing)').length === 100",
            )
            .await;
        }
        println!("first sight {sight} ms, filter {filter} ms, {read} bytes, {elements} elements");
        assert!(sight < limits().0, "the first sight took {sight} ms");
        assert!(filter < limits().1, "a filter took {filter} ms");
        assert!(read > 50_000.0 && read <= MOST, "{read} bytes");
        page.is_clean().await;
    };
    tokio::select! {
        () = looks => {}
        never = churn(&server) => match never {},
    }
}

/// Asks what an open page asks, as often: docs/page.md has the table. Half of the pages show leases, half the overview.
fn as_page(server: &Arc<Server>, number: usize) -> Vec<JoinHandle<()>> {
    let asks = async |server: Arc<Server>, path: &'static str, every_ms: u64| {
        let mut connection = Connection::open(server.addr).await;
        let mut due = tokio::time::interval(Duration::from_millis(every_ms));
        loop {
            due.tick().await;
            assert_eq!(connection.call("GET", path, &[], b"").await.status, 200);
        }
    };
    let view = match number % 2 {
        0 => ("/v1/leases?limit=100&state=held%2Coffered%2Ccooling%2Cfencing", 1_000),
        _ => ("/v1/status/series?step=5s", 5_000),
    };
    let reads = server.clone();
    let stream = tokio::spawn(async move {
        let mut stream = Stream::open(&reads, "pace_ms=250").await;
        while stream.next().await.is_some() {}
    });
    let asked = [("/v1/status", 2_000), view];
    let asked = asked.map(|(path, every_ms)| tokio::spawn(asks(server.clone(), path, every_ms)));
    asked.into_iter().chain([stream]).collect()
}

/// What ten open pages cost the coordinator, beside changes and heartbeats.
///
/// The CPU time of a heartbeat depends on how many arrive together. So the pages are measured beside heartbeats at a
/// steady rate, with and without pages in turns, and compared with what the coordinator uses when it has as many
/// heartbeats as it can take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_pages_leave_the_coordinator_to_heartbeats() {
    let server = Arc::new(Server::start());
    let held: Arc<[_]> = held(&server, sized("PAGE_LEASES", 10_000)).await.into();
    let beats = Arc::new(AtomicUsize::new(0));
    let paced = Arc::new(AtomicBool::new(false));
    for first in 0..CONNECTIONS {
        let (server, held, beats, paced) =
            (server.clone(), held.clone(), beats.clone(), paced.clone());
        tokio::spawn(async move {
            let mut connection = Connection::open(server.addr).await;
            let mut due = tokio::time::interval(PACE);
            due.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for (key, lease_id) in held.iter().skip(first).step_by(CONNECTIONS).cycle() {
                if paced.load(Ordering::Relaxed) {
                    due.tick().await;
                }
                let proof = json!({ "key": key, "lease_id": lease_id });
                connection.post("/v1/heartbeat", &proof).await.ok();
                beats.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let changes = server.clone();
    tokio::spawn(async move { churn(&changes).await });
    let window = sized("PAGE_WINDOW_MS", 1_000) as u64;
    // The coordinator's CPU time per second, and heartbeats per second.
    let measure = async || {
        let of = || (cpu_time(server.pid()), beats.load(Ordering::Relaxed), Instant::now());
        let before = of();
        sleep_ms(window).await;
        let after = of();
        let seconds = (after.2 - before.2).as_secs_f64();
        ((after.0 - before.0).as_secs_f64() / seconds, (after.1 - before.1) as f64 / seconds)
    };
    measure().await;
    let (busy, most) = measure().await;
    paced.store(true, Ordering::Relaxed);
    let mut taken = Vec::new();
    for _ in 0..sized("PAGE_ROUNDS", 1) {
        sleep_ms(window / 4).await;
        let before = measure().await;
        let pages: Vec<_> = (0..10).flat_map(|number| as_page(&server, number)).collect();
        sleep_ms(window / 4).await;
        let with = measure().await;
        assert!(server.metric("tenure_event_subscribers ").await >= 10.0);
        assert!(pages.iter().all(|page| !page.is_finished()));
        pages.iter().for_each(JoinHandle::abort);
        sleep_ms(window / 4).await;
        let after = measure().await;
        taken.push(with.0 - f64::midpoint(before.0, after.0));
        println!(
            "CPU per second: {:.0} ms with ten pages at {:.0} heartbeats/s, {:.0} and {:.0} ms without at {:.0} and {:.0}/s",
            1e3 * with.0,
            with.1,
            1e3 * before.0,
            1e3 * after.0,
            before.1,
            after.1
        );
    }
    taken.sort_by(f64::total_cmp);
    let taken = taken[taken.len() / 2];
    let share = taken / busy;
    println!(
        "ten pages take {:.0} ms per second, {:.1} % of the {:.0} ms at {most:.0} heartbeats/s",
        1e3 * taken,
        100.0 * share,
        1e3 * busy
    );
    assert!(share < limits().2, "ten pages take {share} of the coordinator's CPU time");
}

/// The CPU time of all threads of a process so far.
fn cpu_time(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let nanos = tasks.flatten().filter_map(|task| {
        let shown = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        shown.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn limits() -> (f64, f64, f64) {
    if std::env::var_os("TENURE_PROGRAM").is_some() { OPTIMISED } else { USUAL }
}

/// A size, which `make bench-page` raises.
fn sized(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}
