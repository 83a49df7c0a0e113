//! Many leases and many events: the page stays small and quick.

use serde_json::json;

use super::shown::Page;
use crate::support::{
    clock::sleep_ms,
    harness::{Connection, Server},
};

const LEASES: usize = 10_000;
/// The most that a browser reads in all, in bytes.
const MOST: f64 = 200.0 * 1024.0;
/// How long a first sight and a filter may take, in milliseconds: a debug build on a busy machine has more time.
const SIGHT: f64 = if cfg!(debug_assertions) { 3_000.0 } else { 200.0 };
const FILTER: f64 = if cfg!(debug_assertions) { 2_000.0 } else { 100.0 };

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

#[tokio::test]
async fn a_page_over_many_leases_and_events_stays_small_and_quick() {
    let server = Server::start();
    let mut connection = Connection::open(server.addr).await;
    for part in 0..LEASES / 500 {
        let (group, first) = (part % 10, part / 10 * 500);
        let keys: Vec<_> = (first..first + 500).map(|n| format!("k/{group}/{n:04}")).collect();
        let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 500 });
        connection.post("/v1/acquire-any", &body).await.ok();
    }
    let churn = async || {
        let mut connection = Connection::open(server.addr).await;
        for n in 0u64.. {
            let body =
                json!({ "key": format!("k/0/x{}", n % 50), "owner": "w", "ttl_ms": 600_000 });
            let grant = connection.post("/v1/acquire", &body).await.ok();
            let proof = json!({ "key": grant["key"], "lease_id": grant["lease_id"] });
            connection.post("/v1/release", &proof).await.ok();
            sleep_ms(10).await;
        }
    };
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
        assert!(sight < SIGHT, "the first sight took {sight} ms");
        assert!(filter < FILTER, "a filter took {filter} ms");
        assert!(read > 50_000.0 && read <= MOST, "{read} bytes");
        page.is_clean().await;
    };
    tokio::select! {
        () = looks => {}
        () = churn() => unreachable!("it goes on"),
    }
}
