//! A plugin that fails, and one that missed what the store no longer keeps.

use rustix::process::Signal;

use crate::{
    notifications::kit::{has_all, judge, kind, recorder, told, until_notifying},
    support::{
        clock::now,
        harness::{Server, eventually, ms},
    },
};

#[tokio::test]
async fn a_plugin_that_fails_is_told_again_until_it_confirms() {
    let dir = tempfile::tempdir().expect("a directory");
    let fail = dir.path().join("hook.fail");
    std::fs::write(&fail, "").expect("a file");
    let on = "on = [\"granted\", \"released\"]";
    let server = Server::configured(&recorder(dir.path(), "hook", on));
    until_notifying(&server, "hook").await;
    for owner in ["v", "w"] {
        let grant = server.acquire("k", owner, 60_000).await;
        server.release(&grant).await;
    }
    let failed = "tenure_notification_duration_seconds_count{plugin=\"hook\",outcome=\"failed\"}";
    eventually("it failed", async || server.metric(failed).await > 2.0).await;
    let lag = "tenure_notification_lag_seconds{plugin=\"hook\"}";
    eventually("it is behind", async || server.metric(lag).await > 0.5).await;
    assert!(told(dir.path(), "hook").is_empty());
    let said = server.said();
    let line = said.lines().find(|line| line.contains("a notification failed"));
    let line = line.expect("people are told");
    assert!(line.contains("exit status 7") && line.contains("key=\"k\""), "{line}");
    // Others are served meanwhile.
    server.acquire("other", "w", 60_000).await;

    // What was not confirmed is told also after a crash.
    let server = server.kill().restart();
    std::fs::remove_file(&fail).expect("removed");
    let expected = server.history().await;
    eventually("all is told", async || has_all(&told(dir.path(), "hook"), &expected)).await;
    judge(&told(dir.path(), "hook"), &expected);
    let words = std::fs::read_to_string(dir.path().join("hook.words")).expect("words");
    // The order is that of each key: another key may come first.
    let first = words.lines().find(|line| line.split(' ').nth(1) == Some("k"));
    let granted = format!("granted k {} v ", expected[0]["data"]["token"]);
    assert_eq!(first, Some(granted.as_str()), "{words}");
    assert!(
        words.contains(&format!("released k {}  v\n", expected[0]["data"]["token"])),
        "{words}"
    );
}

#[tokio::test]
async fn a_plugin_that_fails_for_many_keys_does_not_fill_the_log() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("hook.fail"), "").expect("a file");
    let server = Server::configured(&recorder(dir.path(), "hook", "on = [\"granted\"]"));
    until_notifying(&server, "hook").await;
    for n in 0..40 {
        server.acquire(&format!("k{n}"), "w", 600_000).await;
    }
    // From now on all of them are in one page of changes, and are told at once.
    let server = server.kill().restart();
    let began = now();
    let failed = "tenure_notification_duration_seconds_count{plugin=\"hook\",outcome=\"failed\"}";
    eventually("it failed often", async || server.metric(failed).await > 60.0).await;
    eventually("it is said how many lines were left out", async || {
        server
            .said()
            .lines()
            .any(|line| line.contains("lines left out, which say") && line.contains("hook"))
    })
    .await;
    let said = server.said();
    let is_full =
        |line: &&str| line.contains("a notification failed") && line.contains("exit status 7");
    let full = said.lines().filter(is_full).count();
    let most = 5 + usize::try_from(now().since(began).as_secs() / 10).expect("a number");
    assert!((1..=most).contains(&full), "{full} lines, and at most {most}: {said}");
}

#[tokio::test]
async fn a_plugin_that_missed_what_is_no_longer_kept_is_told_a_reset() {
    let dir = tempfile::tempdir().expect("a directory");
    let small = "[store.embedded]\nsegment_size = \"64KiB\"\nmin_log_size = \"64KiB\"\n";
    let config = format!("{small}{}", recorder(dir.path(), "hook", "on = [\"granted\"]"));
    let server = Server::configured(&config);
    until_notifying(&server, "hook").await;
    server.acquire("first", "w", 60_000).await;
    eventually("it is told", async || told(dir.path(), "hook").len() == 1).await;
    let beginning = told(dir.path(), "hook")[0]["id"].as_str().expect("an id").to_owned();
    std::fs::write(dir.path().join("hook.fail"), "").expect("a file");
    // A stopped notifier does not read. The plugin is removed from the settings, and comes back.
    let reload = async |config: &str, times: f64| {
        server.configure(config);
        server.signal(Signal::HUP);
        let applied = "tenure_config_reloads_total{outcome=\"applied\"}";
        eventually(applied, async || (server.metric(applied).await - times).abs() < 0.1).await;
    };
    reload(small, 1.0).await;
    server.until_compacted_away(&beginning).await;
    std::fs::remove_file(dir.path().join("hook.fail")).expect("removed");
    reload(&config, 2.0).await;
    eventually("a reset", async || told(dir.path(), "hook").len() >= 2).await;
    let reset = told(dir.path(), "hook")[1].clone();
    assert_eq!(reset["type"], "io.tenure.reset", "{reset}");
    assert_eq!(reset["data"]["reason"], "no-longer-kept");
    assert_eq!(reset["data"]["cursor"], reset["id"]);
    let resets = "tenure_notification_resets_total{plugin=\"hook\"}";
    assert!((server.metric(resets).await - 1.0).abs() < 0.1);
    server.acquire("last", "w", 60_000).await;
    eventually("it goes on", async || {
        told(dir.path(), "hook").last().is_some_and(|event| event["subject"] == "last")
    })
    .await;
    assert_eq!(kind(told(dir.path(), "hook").last().expect("one")), "granted");
    // The reset was stored as told.
    tokio::time::sleep(ms(1_500)).await;
    let server = server.kill().restart();
    until_notifying(&server, "hook").await;
    server.acquire("again", "w", 60_000).await;
    eventually("it goes on", async || {
        told(dir.path(), "hook").last().is_some_and(|event| event["subject"] == "again")
    })
    .await;
    let resets = told(dir.path(), "hook").iter().filter(|e| e["type"] == "io.tenure.reset").count();
    assert_eq!(resets, 1);
}
