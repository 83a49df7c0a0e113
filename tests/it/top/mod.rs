//! `tenure top` on a terminal, against a real coordinator. `cli::status` has `top --once`.

mod screen;
mod terminal;

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use self::terminal::{Start, Terminal};
use crate::support::{
    clock::within,
    harness::{Server, eventually},
};

/// A plugin whose fences fail, for the keys below `f/`.
const FAILING: &str = r#"
[[plugin]]
name = "power"
kind = "exec"
command = ["/bin/sh", "-c", "exit 3"]
retries = 0

[[policy]]
prefix = "f/"
pool = "fenced"
fence = ["power"]
"#;

/// A server with three failed fences among many leases.
async fn failing() -> Server {
    let server = Server::configured(FAILING);
    let keys: Vec<_> = (0..500).map(|n| format!("k/{n}")).collect();
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 500 });
    server.post("/v1/acquire-any", &body).await.ok();
    for key in ["f/1", "f/2", "f/3"] {
        server.acquire(key, "old", 300).await;
    }
    eventually("the fences failed", async || {
        server.get("/v1/status").await.ok()["store"]["keys"]["fences_failed"] == 3
    })
    .await;
    server
}

#[tokio::test]
async fn three_failed_fences_are_visible_at_once_and_lead_to_their_history() {
    let server = failing().await;
    let mut top = Terminal::start(&server);
    let found = within(Duration::from_secs(10), async || {
        let lines = top.lines();
        let is_told = |key: &&str| {
            lines
                .iter()
                .any(|line| line.starts_with("CRITICAL  fence-failed") && line.contains(key))
        };
        ["f/1", "f/2", "f/3"].iter().all(is_told)
    });
    assert!(found.await, "{:?}", top.lines());
    top.press("a");
    top.has("tenure fence-retry").await;
    top.press("\r");
    top.shows("history of f/1").await;
    top.has("old").await;
    top.has("fence-failed   f/1").await;
    top.press("\u{1b}");
    top.shows("what needs a person").await;
    top.press("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test]
async fn what_changes_is_counted_and_told_as_it_happens() {
    let server = Server::start();
    let mut top = Terminal::start(&server);
    top.shows("ok: nothing needs a person").await;
    top.has("nothing changed in this window").await;
    for _ in 0..3 {
        let grant = server.acquire("jobs/1", "w", 60_000).await;
        server.release(&grant).await;
    }
    top.shows("> jobs/1").await;
    top.has("granted 3, released 3").await;
    top.has("released       jobs/1").await;
    top.press("\t");
    top.shows("  OWNER").await;
    top.shows("> w ").await;
    server.acquire("jobs/2", "w", 60_000).await;
    top.press("\r");
    top.shows("> jobs/2").await;
    top.press("?");
    top.has(" keys ").await;
    top.press("\u{3}");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test]
async fn a_terminal_that_changes_its_size_is_drawn_anew() {
    let server = Server::start();
    let before = "stty rows 24 cols 80\n\
                  (until [ -e go ]; do sleep 0.1; done; stty -F /dev/tty rows 40 cols 120) &";
    let mut top = Terminal::with(&server, Start { before, ..Start::default() });
    let foot = |lines: &[String], row: usize| lines[row - 1].contains("q quit");
    eventually("24 rows", async || foot(&top.lines(), 24)).await;
    top.touch("go");
    eventually("40 rows", async || {
        let lines = top.lines();
        foot(&lines, 40) && !foot(&lines, 24)
    })
    .await;
    top.press("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test]
async fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let server = Server::start();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut top = Terminal::start(&server);
        top.shows("tenure top").await;
        top.signal(signal);
        assert_eq!(top.ends().await, 0, "{signal:?}");
    }
}

#[tokio::test]
async fn after_a_panic_the_terminal_is_as_before_and_the_message_is_visible() {
    let server = Server::start();
    let mut top = Terminal::start(&server);
    top.shows("tenure top").await;
    // F12, in tests alone.
    top.press("\u{1b}[24~");
    assert_eq!(top.ends().await, 101);
    let said = top.said();
    let (_, after) = said.split_once("\u{1b}[?1049l").expect("it left the screen");
    assert!(after.contains("F12 was pressed"), "{after}");
}

#[tokio::test]
async fn colours_are_left_out_where_they_are_not_wanted() {
    let server = failing().await;
    // Red, as crossterm writes it.
    let red = "38;5;1;";
    for (environment, options, has_colours) in [
        (&[][..], "", true),
        (&[("NO_COLOR", "1")][..], "", false),
        (&[][..], "--color never", false),
    ] {
        let before = "stty rows 24 cols 80";
        let mut top = Terminal::with(&server, Start { before, options, environment });
        top.shows("CRITICAL").await;
        top.press("q");
        assert_eq!(top.ends().await, 0);
        assert_eq!(top.said().contains(red), has_colours, "{environment:?} {options}");
    }
}

#[tokio::test]
async fn a_terminal_that_does_not_tell_its_size_has_the_usual_one() {
    let server = Server::start();
    let mut top =
        Terminal::with(&server, Start { before: "stty rows 0 cols 0", ..Start::default() });
    eventually("24 rows", async || top.lines()[23].contains("q quit")).await;
    top.press("q");
    assert_eq!(top.ends().await, 0);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_told_and_found_again() {
    let server = Server::start();
    server.acquire("k", "w", 600_000).await;
    let mut top = Terminal::start(&server);
    top.shows("> k").await;
    server.signal(Signal::STOP);
    top.shows("NO ANSWER").await;
    assert!(top.lines().iter().any(|line| line.starts_with("> k")), "what was known stays");
    server.signal(Signal::CONT);
    eventually("it answers", async || {
        !top.lines().iter().any(|line| line.starts_with("NO ANSWER"))
    })
    .await;
    server.acquire("k2", "w", 60_000).await;
    top.has("granted        k2").await;
    top.press("q");
    assert_eq!(top.ends().await, 0);
}
