//! The log: one line for each change of ownership, nothing secret, and never more than it may be.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::observability::{
    node::{Node, eventually},
    workload,
};

/// The changes that the event log has, as the lines should tell them.
async fn changes(node: &Node) -> Vec<Value> {
    let (_, text) = node.get("/v1/events?format=json&after=0").await;
    let page: Value = serde_json::from_str(&text).expect("JSON");
    page["events"].as_array().expect("events").clone()
}

#[tokio::test]
async fn json_logs_have_exactly_one_line_for_each_change_of_ownership() {
    let node = Node::start(&["telemetry.log_format=json"]).await;
    let _trace = workload::run(&node).await;
    let events = changes(&node).await;
    let lines = || -> Vec<Value> {
        let parsed = node.log().into_iter().filter_map(|line| serde_json::from_str(&line).ok());
        parsed.filter(|line: &Value| line["seq"].is_u64()).collect()
    };
    eventually("every change is logged", async || lines().len() >= events.len()).await;
    let lines = lines();
    assert_eq!(lines.len(), events.len());
    for event in &events {
        let data = &event["data"];
        let same: Vec<&Value> = lines
            .iter()
            .filter(|line| line["key"] == data["key"] && line["seq"] == data["seq"])
            .collect();
        assert_eq!(same.len(), 1, "one line for {event}");
        let line = same[0];
        assert_eq!(line["token"], data["token"], "{line}");
        let present = |value: &Value| value.as_str().map(str::to_owned);
        assert_eq!(present(&line["owner"]), present(&data["owner"]), "{line}");
        assert_eq!(present(&line["previous"]), present(&data["previous"]["owner"]), "{line}");
        assert_eq!(present(&line["reason"]), present(&data["reason"]), "{line}");
        let kind = event["type"].as_str().and_then(|kind| kind.rsplit('.').next());
        assert_eq!(line["message"].as_str(), kind, "{line}");
        let alarming = matches!(kind, Some("expired" | "revoked"));
        assert_eq!(line["level"], if alarming { "WARN" } else { "INFO" }, "{line}");
        assert!(line["timestamp"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn json_logs_are_json_to_the_last_line() {
    let node = Node::start(&["telemetry.log_format=json"]).await;
    let _trace = workload::run(&node).await;
    for line in node.log() {
        let known = line.starts_with("listening on ");
        assert!(known || serde_json::from_str::<Value>(&line).is_ok(), "{line}");
    }
}

#[tokio::test]
async fn text_logs_have_exactly_one_line_for_each_change_of_ownership() {
    let node = Node::start(&["telemetry.log_format=text"]).await;
    let _trace = workload::run(&node).await;
    let events = changes(&node).await;
    let lines = || -> Vec<String> {
        node.log().into_iter().filter(|line| line.contains(" seq=")).collect()
    };
    eventually("every change is logged", async || lines().len() >= events.len()).await;
    let lines = lines();
    assert_eq!(lines.len(), events.len());
    for event in &events {
        let data = &event["data"];
        let key = data["key"].as_str().expect("a key");
        let parts = [
            format!("key={key:?} "),
            format!("seq={} ", data["seq"]),
            format!("token={}", data["token"]),
        ];
        let same: Vec<&String> =
            lines.iter().filter(|line| parts.iter().all(|part| line.contains(part))).collect();
        assert_eq!(same.len(), 1, "one line for {event}: {same:?}");
        if let Some(owner) = data["owner"].as_str() {
            assert!(same[0].contains(&format!("owner=\"{owner}\"")), "{}", same[0]);
        }
    }
}

#[tokio::test]
async fn no_line_of_any_level_tells_a_lease_id() {
    for format in ["json", "text"] {
        let form = format!("telemetry.log_format={format}");
        let node = Node::start(&["telemetry.log=trace", &form]).await;
        let trace = workload::run(&node).await;
        let events = changes(&node).await.len();
        let changes = |lines: &[String]| {
            lines.iter().filter(|line| line.contains("seq=") || line.contains("\"seq\":")).count()
        };
        eventually("every change is logged", async || changes(&node.log()) >= events).await;
        let log = node.log();
        assert!(log.iter().any(|line| line.contains("TRACE")), "the level is trace");
        let secrets: BTreeSet<&str> = trace.lease_ids.iter().map(String::as_str).collect();
        assert!(secrets.len() > 20);
        for line in &log {
            let told = secrets.iter().find(|secret| line.contains(**secret));
            assert_eq!(told, None, "{line}");
        }
    }
}

#[tokio::test]
async fn a_burst_of_changes_is_cut_to_the_rate_and_the_log_says_how_many_lines_are_missing() {
    let node = Node::start(&["telemetry.ownership_lines_per_second=5"]).await;
    let keys: Vec<String> = (0..500).map(|n| format!("k{n}")).collect();
    let any = json!({"keys": keys, "owner": "o", "ttl_ms": 60_000, "count": 500});
    node.call("/v1/acquire-any", any).await;
    let published = "tenure_events_published_total";
    node.scrape_until("500 changes", |scrape| scrape.sum(published, &[]) >= 500.0).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    // The window of the burst is closed by the next change at the latest.
    node.call("/v1/acquire", json!({"key": "last", "owner": "o", "ttl_ms": 60_000})).await;
    node.log_line(|line| line.contains("key=\"last\" ")).await;
    let log = node.log();
    let written = log.iter().filter(|line| line.contains(" seq=")).count();
    let told: usize = log
        .iter()
        .filter(|line| line.contains("left out"))
        .map(|line| {
            let (_, rest) = line.split_once("lines=").expect("a number of lines");
            rest.split_whitespace().next().expect("a number").parse::<usize>().expect("a number")
        })
        .sum();
    assert!(told >= 400, "{told} lines left out");
    assert_eq!(written + told, 501, "each change is written, or counted as missing");
    let counted = node.scrape().await.sum("tenure_log_lines_suppressed_total", &[]);
    assert!((counted - told as f64).abs() < f64::EPSILON, "{counted} counted, {told} told");
}
