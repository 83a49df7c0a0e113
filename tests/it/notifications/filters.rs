//! Which changes a plugin is told of, and that a reload changes it.

use rustix::process::Signal;
use serde_json::json;

use crate::{
    notifications::kit::{kind, recorder, told, until_notifying},
    support::harness::{Server, eventually},
};

fn names(dir: &std::path::Path, name: &str) -> Vec<String> {
    let events = told(dir, name);
    let word = |event| format!("{} {}", event_key(event), kind(event));
    events.iter().map(word).collect()
}

fn event_key(event: &serde_json::Value) -> &str {
    event["subject"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn kinds_and_prefix_choose_and_a_plugin_may_both_fence_and_be_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = format!(
        "{}{}[[policy]]\nprefix = \"f/\"\nfence = [\"ends\"]\nfence_on_release = true\n",
        recorder(dir.path(), "grants", "on = [\"granted\"]\nprefix = \"a/\""),
        recorder(dir.path(), "ends", "on = [\"released\", \"revoked\", \"fenced\"]"),
    );
    let server = Server::configured(&config);
    until_notifying(&server, "grants").await;
    until_notifying(&server, "ends").await;
    for key in ["a/1", "b/1", "f/1"] {
        let grant = server.acquire(key, "w", 60_000).await;
        server.release(&grant).await;
    }
    server.acquire("a/2", "w", 60_000).await;
    let order = json!({ "key": "a/2", "reason": "move", "immediately": true });
    server.post("/v1/admin/revoke", &order).await.ok();
    eventually("the grants", async || names(dir.path(), "grants").len() == 2).await;
    assert_eq!(names(dir.path(), "grants"), ["a/1 granted", "a/2 granted"]);
    // The plugin's own fence orders have no type among changes but `fencing`, and no cursor.
    let changes = || {
        let mut events = told(dir.path(), "ends");
        events.retain(|event| event["id"].is_string());
        events.iter().map(|event| format!("{} {}", event_key(event), kind(event))).collect()
    };
    eventually("the ends", async || {
        let ends: Vec<String> = changes();
        ends.len() >= 5
    })
    .await;
    let mut ends: Vec<String> = changes();
    ends.sort();
    let all = ["a/1 released", "a/2 revoked", "b/1 released", "f/1 fenced", "f/1 released"];
    assert_eq!(ends, all);
    let fences = "tenure_fence_duration_seconds_count{plugin=\"ends\",outcome=\"confirmed\"}";
    assert!(server.metric(fences).await >= 1.0);
}

#[tokio::test]
async fn a_hangup_applies_other_subscriptions() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured("");
    let hang_up = async |more: &str, times: f64| {
        server.configure(&recorder(dir.path(), "hook", more));
        server.signal(Signal::HUP);
        let applied = "tenure_config_reloads_total{outcome=\"applied\"}";
        eventually(applied, async || (server.metric(applied).await - times).abs() < 0.1).await;
    };
    let turn = async |key: &str| {
        let grant = server.acquire(key, "w", 60_000).await;
        server.release(&grant).await;
    };
    turn("before").await;
    hang_up("on = [\"granted\"]", 1.0).await;
    until_notifying(&server, "hook").await;
    turn("a").await;
    eventually("a grant", async || names(dir.path(), "hook") == ["a granted"]).await;
    hang_up("on = [\"released\"]", 2.0).await;
    turn("b").await;
    eventually("a release", async || names(dir.path(), "hook").len() == 2).await;
    assert_eq!(names(dir.path(), "hook"), ["a granted", "b released"]);
    hang_up("", 3.0).await;
    turn("c").await;
    // It goes on where it stopped.
    hang_up("on = [\"granted\"]\nprefix = \"c\"", 4.0).await;
    eventually("a grant", async || names(dir.path(), "hook").len() == 3).await;
    assert_eq!(names(dir.path(), "hook")[2], "c granted");
}

#[tokio::test]
async fn bad_settings_are_named_by_their_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tenure.toml");
    for (more, says) in [
        ("on = [\"gone\"]", "plugin.on: must be a list of kinds of changes: granted, released"),
        ("on = \"granted\"", "plugin.on: must be a list of kinds"),
        ("on = [\"granted\", \"granted\"]", "plugin.on: names \"granted\" twice"),
        ("prefix = \"a/\"", "plugin.prefix: needs on"),
        ("on = [\"granted\"]\nprefix = 7", "plugin.prefix: must be text in quotes"),
    ] {
        std::fs::write(&file, recorder(dir.path(), "hook", more)).expect("a file");
        let program = env!("CARGO_BIN_EXE_tenure");
        let mut command = std::process::Command::new(program);
        command.args(["config", "check", "--config"]).arg(&file);
        let output = command.output().expect("it runs");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(says), "{says}\nin {said}");
    }
}
