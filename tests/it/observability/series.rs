//! Which series there are: few, known from the start, without a key in them.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use tenure::telemetry::{MetricKind, TABLE};

use crate::observability::{
    node::{Node, PATIENCE},
    scrape::{Scrape, Series},
    workload,
};

/// The most series that a node may have with default settings.
const BUDGET: usize = 500;
/// What is counted after an answer is counted well within this.
const SOON: Duration = Duration::from_secs(10);
/// The names that a label may have; `le` and `version` are those of the form itself.
const LABELS: [&str; 14] = [
    "pool", "store", "op", "outcome", "reason", "plugin", "kind", "class", "limit", "version",
    "le", "why", "file", "setting",
];

/// The metric that a sample belongs to.
fn metric<'a>(scrape: &Scrape, series: &'a Series) -> &'a str {
    let name = series.name.as_str();
    let histogram = |base: &&str| scrape.types.get(*base).is_some_and(|kind| kind == "histogram");
    ["_bucket", "_sum", "_count"]
        .iter()
        .filter_map(|end| name.strip_suffix(end))
        .find(histogram)
        .unwrap_or(name)
}

#[tokio::test]
async fn ten_thousand_keys_make_no_series_and_leave_no_trace_in_a_label() {
    let node = Node::start(&["telemetry.log=warn"]).await;
    let before = node.scrape().await.series.len();
    let trace = workload::run(&node).await;
    let mut secrets: BTreeSet<String> = trace.lease_ids.iter().cloned().collect();
    for batch in 0..10 {
        let keys: Vec<String> = (0..1000).map(|n| format!("load/{batch}/{n}")).collect();
        let owner = format!("loader-{batch}");
        let any = json!({"keys": keys, "owner": owner, "ttl_ms": 60_000, "count": 1000});
        let grants = node.call("/v1/acquire-any", any).await;
        let grants = grants["grants"].as_array().expect("grants");
        assert_eq!(grants.len(), 1000);
        secrets.extend(grants.iter().filter_map(|g| g["lease_id"].as_str().map(str::to_owned)));
    }
    let scrape =
        node.scrape_until("10 000 keys", |s| s.sum("tenure_leases_held", &[]) >= 1e4).await;
    println!("series: {before} on a fresh node, {} after the load", scrape.series.len());
    assert!(scrape.sum("tenure_store_keys", &[]) >= 10_000.0);
    assert_eq!(scrape.series.len(), before, "a workload adds no series");
    assert!(scrape.series.len() <= BUDGET, "{} series", scrape.series.len());
    let own = ["orders/", "batch/", "load/", "worker-", "loader-", "shard"];
    for series in &scrape.series {
        for (name, value) in &series.labels {
            assert!(LABELS.contains(&name.as_str()), "{name} in {series:?}");
            assert!(!own.iter().any(|part| value.contains(part)), "{series:?}");
            assert!(!secrets.contains(value), "{series:?}");
        }
    }
    let text = node.metrics().await;
    assert!(!secrets.iter().any(|secret| text.contains(secret)), "a lease id is in /metrics");
}

#[tokio::test]
async fn a_fresh_node_has_every_metric_of_the_table_and_its_counters_at_zero() {
    let node = Node::start(&[]).await;
    let scrape = node.scrape().await;
    // Plugins have their series from their own start; this node has none, and tests/it/plugins looks at them.
    for metric in TABLE.iter().filter(|metric| !metric.labels.contains(&"plugin")) {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        assert_eq!(
            scrape.types.get(metric.name).map(String::as_str),
            Some(kind),
            "{}",
            metric.name
        );
        assert_eq!(scrape.help[metric.name], metric.help, "{}", metric.name);
        let name = match metric.kind {
            MetricKind::Histogram(_) => format!("{}_count", metric.name),
            _ => metric.name.to_owned(),
        };
        assert!(scrape.of(&name).next().is_some(), "{name} has a series");
        for series in scrape.of(&name) {
            let labels: Vec<&str> = series.labels.keys().map(String::as_str).collect();
            let mut expected = metric.labels.to_vec();
            expected.sort_unstable();
            assert_eq!(labels, expected, "{name}");
            if !matches!(metric.kind, MetricKind::Gauge) {
                assert!(series.value.abs() < f64::EPSILON, "{series:?}");
            }
        }
    }
    assert!((scrape.sum("tenure_store_ready", &[]) - 1.0).abs() < f64::EPSILON);
    assert!((scrape.sum("tenure_build_info", &[]) - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn a_scrape_has_nothing_that_is_not_in_the_table() {
    let node = Node::start(&[]).await;
    let _trace = workload::run(&node).await;
    let scrape = node.scrape().await;
    for series in &scrape.series {
        let name = metric(&scrape, series);
        let known = TABLE.iter().any(|metric| metric.name == name);
        assert!(known || name.starts_with("process_"), "{name} is not in the table");
        assert!(!scrape.help[name].is_empty(), "{name} has a help text");
    }
    assert!(scrape.types.values().all(|kind| kind != "summary"));
}

#[tokio::test]
async fn histograms_have_the_buckets_of_the_table_and_they_add_up() {
    let node = Node::start(&[]).await;
    let _trace = workload::run(&node).await;
    let scrape = node.scrape().await;
    for metric in TABLE {
        let MetricKind::Histogram(bounds) = metric.kind else { continue };
        let (bucket, count) = (format!("{}_bucket", metric.name), format!("{}_count", metric.name));
        for total in scrape.of(&count) {
            let fits = |series: &&Series| {
                total.labels.iter().all(|(name, value)| series.labels.get(name) == Some(value))
            };
            let buckets: Vec<&Series> = scrape.of(&bucket).filter(fits).collect();
            let le = |series: &&Series| series.labels["le"].parse::<f64>().expect("a bound");
            let found: Vec<f64> = buckets.iter().map(le).collect();
            let expected: Vec<f64> = bounds.iter().copied().chain([f64::INFINITY]).collect();
            assert_eq!(found, expected, "{}", metric.name);
            assert!(buckets.is_sorted_by(|a, b| a.value <= b.value), "{buckets:?}");
            let last = buckets.last().expect("+Inf");
            assert!((last.value - total.value).abs() < f64::EPSILON, "{last:?} {total:?}");
        }
    }
}

#[tokio::test]
async fn the_workload_is_counted_as_it_was() {
    let node = Node::start(&[]).await;
    let trace = workload::run(&node).await;
    // Ends are counted when they are published, which is after their answer.
    let ended = |s: &Scrape| s.sum("tenure_lease_ended_total", &[("reason", "released")]) >= 11.0;
    let scrape = node.scrape_until("all ends", ended).await;
    let expect = |name: &str, labels: &[(&str, &str)], value: f64| {
        let found = scrape.sum(name, labels);
        assert!((found - value).abs() < f64::EPSILON, "{name} {labels:?} is {found}, not {value}");
    };
    let granted = trace.lease_ids.len() as f64;
    expect("tenure_lease_acquisitions_total", &[("outcome", "granted")], granted);
    expect("tenure_lease_acquisitions_total", &[("outcome", "held")], 1.0);
    expect("tenure_lease_acquisitions_total", &[("outcome", "error")], 1.0);
    expect("tenure_lease_acquire_duration_seconds_count", &[], granted);
    expect("tenure_lease_heartbeats_total", &[("outcome", "alive")], 22.0);
    expect("tenure_lease_heartbeats_total", &[("outcome", "revived")], 1.0);
    expect("tenure_lease_heartbeats_total", &[("outcome", "lost")], 1.0);
    let ends = [("released", 11.0), ("expired", 2.0), ("revoked", 1.0), ("reclaimed", 1.0)];
    for (reason, times) in ends {
        expect("tenure_lease_ended_total", &[("reason", reason)], times);
    }
    expect("tenure_lease_ended_total", &[("reason", "transferred")], 1.0);
    expect("tenure_lease_transfers_total", &[], 1.0);
    expect("tenure_lease_expiry_lateness_seconds_count", &[], 2.0);
    // Shards 1, 2 and 4, and half of the batch.
    expect("tenure_leases_held", &[], 13.0);
    expect("tenure_lease_waiters", &[], 0.0);
    expect("tenure_event_subscribers", &[], 1.0);
    // As many beginnings (one of them a revival) and ends, and two orders about a pin.
    expect("tenure_events_published_total", &[], granted + 1.0 + 16.0 + 2.0);
    expect("tenure_lease_hold_duration_seconds_count", &[], 16.0);
    for name in [
        "tenure_lease_vacancy_duration_seconds_count",
        "tenure_heartbeat_margin_ratio_count",
        "tenure_actors",
        "tenure_store_synced_writes_total",
        "tenure_store_sync_duration_seconds_count",
        "tenure_store_keys",
        "tenure_store_live_bytes",
        "tenure_store_log_bytes",
    ] {
        assert!(scrape.sum(name, &[]) > 0.0, "{name} was fed");
    }
    let request = |op, outcome| {
        let labels = [("op", op), ("outcome", outcome)];
        scrape.sum("tenure_store_request_duration_seconds_count", &labels)
    };
    assert!(request("compare_and_set", "committed") > 0.0 && request("read", "ok") > 0.0);
}

#[tokio::test]
async fn heartbeats_cost_no_write() {
    let node = Node::start(&[]).await;
    let grant = node.call("/v1/acquire", json!({"key": "k", "owner": "o", "ttl_ms": 60_000})).await;
    let writes = |scrape: &Scrape| scrape.sum("tenure_store_synced_writes_total", &[]);
    let before = node.scrape_until("the write of the grant", |scrape| writes(scrape) > 0.0).await;
    for _ in 0..50 {
        node.call("/v1/heartbeat", json!({"key": "k", "lease_id": grant["lease_id"]})).await;
    }
    let after = node.scrape().await;
    assert!((writes(&after) - writes(&before)).abs() < f64::EPSILON);
    let alive = after.sum("tenure_lease_heartbeats_total", &[("outcome", "alive")]);
    assert!((alive - 50.0).abs() < f64::EPSILON, "{alive}");
}

#[tokio::test]
async fn a_subscriber_that_is_cut_off_is_counted() {
    let node = Node::start(&["events.buffer=16"]).await;
    let mut stream = node.stream("/v1/events").await;
    let keys: Vec<String> = (0..2000).map(|n| format!("k{n}")).collect();
    let any = json!({"keys": keys, "owner": "o", "ttl_ms": 60_000, "count": 2000});
    node.call("/v1/acquire-any", any).await;
    let reading = async {
        let mut text = String::new();
        while let Ok(Some(chunk)) = stream.chunk().await {
            text += &String::from_utf8_lossy(&chunk);
        }
        text
    };
    let text = tokio::time::timeout(PATIENCE, reading).await.expect("the stream ends");
    assert!(text.contains("event: reset"), "the subscriber is told");
    let dropped = "tenure_event_subscribers_dropped_total";
    let scrape = node.scrape_until("a drop", |scrape| scrape.sum(dropped, &[]) >= 1.0).await;
    assert!((scrape.sum(dropped, &[]) - 1.0).abs() < f64::EPSILON);
    let gone = |scrape: &Scrape| scrape.sum("tenure_event_subscribers", &[]) < 0.5;
    node.scrape_until("no subscriber", gone).await;
}

#[tokio::test]
async fn an_actor_that_dies_is_counted_by_reason_and_its_successor_timed() {
    let node = Node::start(&[]).await;
    node.call("/v1/acquire", json!({"key": "k", "owner": "o", "ttl_ms": 60_000})).await;
    let restarts = |scrape: &Scrape, reason| {
        scrape.sum("tenure_actor_restarts_total", &[("kind", "lease"), ("reason", reason)])
    };
    for death in 1..=3 {
        node.call("/v1/testing/panic", json!({"key": "k"})).await;
        let counted = |scrape: &Scrape| restarts(scrape, "panic") >= f64::from(death);
        node.scrape_until("a restart", counted).await;
    }
    // The successor counts itself when it runs, a moment after the restart.
    for (name, count) in [
        ("tenure_actor_restart_duration_seconds_count", 3.0),
        ("tenure_actors", 1.0),
        ("tenure_leases_held", 1.0),
    ] {
        let such = |scrape: &Scrape| (scrape.sum(name, &[]) - count).abs() < f64::EPSILON;
        node.scrape_until(name, such).await;
    }
    assert!(restarts(&node.scrape().await, "stop").abs() < f64::EPSILON);
}

#[tokio::test]
async fn a_caller_that_waited_for_any_of_several_keys_waits_no_longer_when_it_has_one() {
    let node = Node::start(&[]).await;
    let keys: Vec<String> = (0..10).map(|n| format!("k{n}")).collect();
    let any = json!({"keys": keys, "owner": "o", "ttl_ms": 60_000, "count": 10});
    let grants = node.call("/v1/acquire-any", any).await;
    let first = grants["grants"][0].clone();
    let waiting = json!({"keys": keys, "owner": "p", "ttl_ms": 60_000, "wait_ms": 60_000});
    let waiters = |scrape: &Scrape| scrape.sum("tenure_lease_waiters", &[]);
    let release = async {
        node.scrape_until("a caller waits", |scrape| waiters(scrape) > 0.5).await;
        let release = json!({"key": first["key"], "lease_id": first["lease_id"]});
        node.call("/v1/release", release).await;
    };
    tokio::join!(node.call("/v1/acquire-any", waiting), release);
    let none = node.scrape_until("nobody waits", |scrape| waiters(scrape) < 0.5);
    tokio::time::timeout(SOON, none).await.expect("well before the wait would have run out");
}

#[tokio::test]
async fn a_caller_that_hung_up_waits_no_longer() {
    let node = Node::start(&[]).await;
    node.call("/v1/acquire", json!({"key": "k", "owner": "o", "ttl_ms": 60_000})).await;
    let waiters = |scrape: &Scrape| scrape.sum("tenure_lease_waiters", &[]);
    let waiting = json!({"key": "k", "owner": "p", "ttl_ms": 60_000, "wait_ms": 60_000});
    tokio::select! {
        _ = node.call("/v1/acquire", waiting) => panic!("the key is held"),
        _ = node.scrape_until("a caller waits", |scrape| waiters(scrape) > 0.5) => {}
    }
    let none = node.scrape_until("nobody waits", |scrape| waiters(scrape) < 0.5);
    tokio::time::timeout(SOON, none).await.expect("well before the wait would have run out");
}

#[tokio::test]
async fn a_vacancy_that_outlasts_the_actor_is_counted() {
    let node = Node::start(&["node.passivate_after=1s"]).await;
    let acquire = json!({"key": "k", "owner": "o", "ttl_ms": 60_000});
    let grant = node.call("/v1/acquire", acquire.clone()).await;
    node.call("/v1/release", json!({"key": "k", "lease_id": grant["lease_id"]})).await;
    let actors = |scrape: &Scrape| scrape.sum("tenure_actors", &[]);
    node.scrape_until("the actor left memory", |scrape| actors(scrape) < 0.5).await;
    node.call("/v1/acquire", acquire).await;
    let scrape = node.scrape().await;
    let counted = scrape.sum("tenure_lease_vacancy_duration_seconds_count", &[]);
    assert!((counted - 1.0).abs() < f64::EPSILON, "{counted} vacancies");
}

#[tokio::test]
async fn an_offer_that_is_withdrawn_is_no_tenure_that_ended() {
    let node = Node::start(&[]).await;
    let grant = node.call("/v1/acquire", json!({"key": "k", "owner": "o", "ttl_ms": 60_000})).await;
    let transfer = json!({"key": "k", "lease_id": grant["lease_id"], "to": "p"});
    node.call("/v1/transfer", transfer).await;
    node.call("/v1/admin/revoke", json!({"key": "k", "reason": "a test"})).await;
    let published = |scrape: &Scrape| scrape.sum("tenure_events_published_total", &[]) >= 3.0;
    let scrape = node.scrape_until("three events", published).await;
    let held = scrape.sum("tenure_leases_held", &[]);
    assert!(held.abs() < f64::EPSILON, "{held} leases are held");
    let ended = scrape.sum("tenure_lease_ended_total", &[]);
    assert!((ended - 1.0).abs() < f64::EPSILON, "{ended} tenures ended");
}
