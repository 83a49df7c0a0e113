//! What `run` and `work` say while nothing happens yet.

use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::json;
use tenure::clock::boottime_ms;

use crate::{
    support::{harness::process::Server, ports::free_port},
    work::{
        agent::{Agent, Place},
        process::{PATIENCE, within},
    },
};

/// Nobody listens there.
fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Stands until what it says on standard error has so many lines with these words; how long that took.
async fn says(agent: &mut Agent, words: &str, count: usize) -> u64 {
    let began = boottime_ms();
    let said = agent.said();
    let heard = within(PATIENCE, async || {
        said.lock().expect("no panic").iter().filter(|line| line.contains(words)).count() >= count
    });
    assert!(heard.await, "{words:?} is not in {:?}", said.lock());
    boottime_ms() - began
}

#[tokio::test]
async fn run_says_at_once_who_has_the_lease_and_again_every_ten_seconds() {
    let (server, place) = (Server::start(), Place::new());
    let grant = server.acquire("k", "other", 60_000).await;
    let mut agent = place.agent(server.addr, "run --key k --wait forever", "echo ran");
    let line = "tenure: waiting for k: held by other";
    assert!(says(&mut agent, line, 1).await < 5_000);
    let again = says(&mut agent, line, 2).await;
    assert!((8_000..20_000).contains(&again), "{again} ms");
    server.post("/v1/release", &grant.proof()).await.ok();
    let over = agent.over().await;
    assert_eq!((over.code(), over.stdout.as_str()), (0, "ran\n"));
}

#[tokio::test]
async fn run_says_that_it_cannot_reach_the_server_and_a_signal_ends_it_at_once() {
    let (nobody, place) = (nobody(), Place::new());
    for args in ["run --key k --wait forever", "run --any a,b --wait forever"] {
        let mut agent = place.agent(nobody, args, "true");
        says(&mut agent, &format!("tenure: cannot reach http://{nobody}: "), 1).await;
        says(&mut agent, "; trying again", 1).await;
        let told = boottime_ms();
        agent.signal(Signal::TERM);
        assert_eq!(agent.over().await.code(), 143);
        assert!(boottime_ms() - told < 1_000, "it took {} ms", boottime_ms() - told);
    }
}

#[tokio::test]
async fn work_says_that_it_cannot_reach_the_server_and_a_signal_ends_it_at_once() {
    let (nobody, place) = (nobody(), Place::new());
    let mut agent = place.agent(nobody, "work --pool p", "true");
    let line = format!("tenure: waiting: cannot reach http://{nobody}: ");
    assert!(says(&mut agent, &line, 1).await < 5_000);
    // Its pauses grow to seconds meanwhile.
    let again = says(&mut agent, &line, 2).await;
    assert!((8_000..25_000).contains(&again), "{again} ms");
    let told = boottime_ms();
    agent.signal(Signal::TERM);
    let over = agent.over().await;
    assert_eq!((over.code(), over.stdout.as_str()), (0, ""));
    assert!(boottime_ms() - told < 1_000, "it took {} ms", boottime_ms() - told);
}

#[tokio::test]
async fn work_says_that_there_is_no_key_for_it() {
    let server = Server::configured("[[policy]]\nprefix = \"s/\"\npool = \"s\"\n");
    let place = Place::new();
    let held = json!({ "key": "s/1", "owner": "other", "ttl_ms": 60_000 });
    server.post("/v1/acquire", &held).await.ok();
    let mut agent = place.agent(server.addr, "--output json work --pool s --keys s/1", "true");
    says(&mut agent, r#""what":"waiting","why":"no key of the pool is available yet"}"#, 1).await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 0);
}
