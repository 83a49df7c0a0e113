//! Many leases and many events: the page stays small and quick.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::shown::Page;
use crate::support::{
    chromium::Chromium,
    clock::sleep_ms,
    harness::{Connection, Server},
};

/// The most that a browser reads in all, in bytes.
const MOST: f64 = 200.0 * 1024.0;
/// How long a first sight and a filter may take, in milliseconds, and how much of a core ten pages may take from the
/// coordinator. A debug build on a busy machine has more of each.
const USUAL: (f64, f64, f64) = (3_000.0, 2_000.0, 1.0);
/// The same for an optimised program, which `make bench-page` names, on a machine of its own.
const OPTIMISED: (f64, f64, f64) = (200.0, 100.0, 0.05);

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
        let sight = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        let sight = page.number(sight).await;
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

/// What the pages that are open cost the coordinator, beside heartbeats and changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_pages_leave_the_coordinator_to_heartbeats() {
    let server = Arc::new(Server::start());
    let held: Arc<[_]> = held(&server, sized("PAGE_LEASES", 10_000)).await.into();
    let beats = Arc::new(AtomicUsize::new(0));
    for first in 0..8 {
        let (server, held, beats) = (server.clone(), held.clone(), beats.clone());
        tokio::spawn(async move {
            let mut connection = Connection::open(server.addr).await;
            for (key, lease_id) in held.iter().skip(first).step_by(8).cycle() {
                let proof = json!({ "key": key, "lease_id": lease_id });
                connection.post("/v1/heartbeat", &proof).await.ok();
                beats.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let changes = server.clone();
    tokio::spawn(async move { churn(&changes).await });
    let window = sized("PAGE_WINDOW_MS", 2_000) as u64;
    // Heartbeats and seconds of CPU, by the coordinator, per second.
    let measure = async || {
        let of = || (beats.load(Ordering::Relaxed), cpu_time(server.pid()), Instant::now());
        let before = of();
        sleep_ms(window).await;
        let after = of();
        let seconds = (after.2 - before.2).as_secs_f64();
        let cpu = (after.1 - before.1).as_secs_f64() / seconds;
        ((after.0 - before.0) as f64 / seconds, cpu)
    };
    let mut browser = Chromium::start(&[]);
    let url = format!("http://{}/", server.addr);
    let mut worst = f64::MIN;
    for _ in 0..sized("PAGE_ROUNDS", 1) {
        let without = measure().await;
        let mut tabs = Vec::new();
        for _ in 0..10 {
            tabs.push(browser.open_apart(&url, "").await);
        }
        for tab in &tabs {
            let live = "document.querySelector('#latest .chip')?.textContent === 'live'";
            browser.until(tab, live).await;
        }
        let with = measure().await;
        assert!(server.metric("tenure_event_subscribers ").await >= 10.0);
        for tab in tabs {
            browser.close(tab).await;
        }
        // What the heartbeats alone would have cost at the rate with the pages.
        let pages = with.1 - without.1 * with.0 / without.0;
        worst = worst.max(pages);
        println!(
            "without pages {:.0} heartbeats/s by {:.3} s of CPU per second; with ten pages {:.0} by {:.3}: the pages \
             take {:.1} % of a core",
            without.0,
            without.1,
            with.0,
            with.1,
            100.0 * pages
        );
    }
    assert!(worst < limits().2, "ten pages take {worst} of a core");
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
