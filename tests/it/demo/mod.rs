//! `tenure demo`: the story that it tells, and the keys of `--keep`.

mod stage;

use rustix::process::Signal;
use serde_json::Value;

use self::stage::{Demo, TENURE};
use crate::support::{
    clock::{PATIENCE, eventually, now, sleep_ms},
    http,
};

const WORKER_1: &str = "&owner=worker-1";
const WORKER_3: &str = "&owner=worker-3";

/// The number before a word.
fn before(line: &str, word: &str) -> u64 {
    let (head, _) = line.split_once(word).unwrap_or_else(|| panic!("{word:?} is not in {line:?}"));
    let number = head.trim_end().rsplit(' ').next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("no number before {word:?} in {line:?}"))
}

fn line<'a>(said: &'a str, begin: &str) -> &'a str {
    let mut lines = said.lines();
    lines
        .find(|line| line.trim_start().starts_with(begin))
        .unwrap_or_else(|| panic!("no {begin:?}"))
}

/// The table that checks tokens counts each update, and the other one does not.
fn tables_differ(said: &str) {
    let (with, without) = (line(said, "with tokens "), line(said, "without tokens "));
    assert_eq!(before(with, "updates written"), before(with, "counted"), "{with}");
    assert!(before(with, "late ones refused") > 0, "{with}");
    let lost = before(without, "lost");
    assert!(lost > 0, "{without}");
    let rest = before(without, "updates written") - before(without, "counted");
    assert_eq!(rest, lost, "{without}");
}

#[tokio::test]
async fn the_late_write_of_a_paused_worker_is_refused_by_its_token_and_lands_without() {
    let began = now();
    let mut demo = Demo::start(TENURE, &["demo"]);
    assert!(demo.ends().await.success());
    assert!(now().since(began) < PATIENCE, "it has a bound");
    let said = demo.said();
    // In this order.
    let parts = [
        "see the leases at http://127.0.0.1:",
        "KILLED    worker-4, which held 4 shards",
        "PAUSED    worker-6, between a check of its ",
        "WOKEN     worker-6",
        "worker-4 died holding 4 shards:",
        "worker-6 checked its ",
        "a table that checks tokens",
    ];
    let mut rest = said.as_str();
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("no {part:?}, in this order")).1;
    }
    let shards = before(line(&said, "worker-6 checked its"), "leases, and was paused");
    assert!((4..=5).contains(&shards), "its share of 32, of seven workers: {shards}");
    let rows: Vec<&str> = rest.lines().filter(|line| line.contains("refused: token ")).collect();
    assert_eq!(rows.len() as u64, shards, "{rows:?}");
    assert!(rows.iter().all(|row| before(row, "lost") > 0), "{rows:?}");
    tables_differ(rest);
    assert!(said.lines().all(|line| line.chars().count() <= 80), "80 columns");
    assert!(!said.contains('\x1b'), "no colours in a pipe");
    assert_eq!(demo.litter(), [""; 0]);
}

/// What the coordinator of a demo answers.
async fn get(demo: &Demo, path: &str) -> String {
    let said = demo.said();
    let url = said.split_once("see the leases at ").and_then(|(_, rest)| rest.split_once("/ "));
    let url = format!("{}{path}", url.expect("its URL").0);
    let answer = http::client().get(&url).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{url}: {}", answer.status());
    answer.text().await.expect("a text")
}

/// How many leases are held that fit this query.
async fn held(demo: &Demo, query: &str) -> usize {
    let leases = get(demo, &format!("/v1/leases?state=held{query}")).await;
    let leases: Value = serde_json::from_str(&leases).expect("JSON");
    leases["leases"].as_array().expect("leases").len()
}

#[tokio::test]
async fn keys_kill_pause_resume_and_add_workers_while_the_page_is_open() {
    let mut demo = Demo::start(TENURE, &["demo", "--keep"]);
    demo.says("k 3 kills worker-3").await;
    eventually("six workers share", async || held(&demo, "").await == 32).await;
    assert!(held(&demo, WORKER_3).await > 0);
    assert!(get(&demo, "/").await.contains("<html"), "the page is there");
    demo.press("p 3\n");
    demo.says("PAUSED    worker-3").await;
    demo.press("p 3\n");
    demo.says("worker-3 is paused already").await;
    eventually("others take over", async || {
        held(&demo, WORKER_3).await == 0 && held(&demo, "").await == 32
    })
    .await;
    // Each new owner has written by then.
    sleep_ms(2000).await;
    demo.press("r 3\n");
    demo.says("WOKEN     worker-3").await;
    demo.says("late: refused (token ").await;
    eventually("it works again", async || held(&demo, WORKER_3).await > 0).await;

    demo.press("k 1\n");
    demo.says("KILLED    worker-1").await;
    eventually("its leases are over", async || held(&demo, WORKER_1).await == 0).await;
    demo.press("k 1\nr 2\n");
    demo.says("there is no worker-1").await;
    demo.says("worker-2 is not paused").await;
    demo.press("aa");
    demo.says("ADDED     worker-1").await;
    demo.says("ADDED     worker-7").await;
    eventually("they work", async || {
        held(&demo, WORKER_1).await > 0 && held(&demo, "&owner=worker-7").await > 0
    })
    .await;
    demo.press("q");
    assert!(demo.ends().await.success());
    tables_differ(&demo.said());
    assert_eq!(demo.litter(), [""; 0]);
}

#[tokio::test]
async fn it_ends_with_its_keys_and_by_a_signal_and_leaves_nothing() {
    for end in [None, Some(Signal::TERM), Some(Signal::INT)] {
        let mut demo = Demo::start(TENURE, &["demo", "--keep"]);
        demo.says("granted ").await;
        match end {
            None => demo.end_of_keys(),
            Some(signal) => demo.signal(signal),
        }
        assert!(demo.ends().await.success(), "{end:?}");
        assert!(demo.said().contains("  with tokens "), "{end:?}");
        assert_eq!(demo.litter(), [""; 0], "{end:?}");
    }
}

#[tokio::test]
async fn on_a_terminal_one_key_after_the_other_works_and_the_terminal_is_as_before() {
    let shell = format!("{TENURE} demo --keep; stty -a");
    let mut demo = Demo::start("script", &["-qefc", &shell, "/dev/null"]);
    demo.says("tenure demo: 6 workers, 32 shards").await;
    demo.says("worker-6").await;
    demo.press("k");
    // The letter is shown until its digit comes.
    demo.says("q ends > k").await;
    demo.press("2");
    // The picture has room for the latest lines only, and grants may push the line of the kill out of it.
    demo.says("worker-2  \x1b[31mdead  \x1b[0m").await;
    demo.press("q");
    assert!(demo.ends().await.success());
    let said = demo.said();
    let (_, settings) = said.rsplit_once("with tokens ").expect("the summary");
    for mode in [" icanon", " echo "] {
        assert!(settings.contains(mode), "{mode} in {settings}");
    }
}
