//! kill -9 under load, again and again: nothing that was acknowledged is missing afterwards.
//!
//! `CYCLES` (default 100) and `SEED` come from the environment; a failure prints both.

#![allow(
    clippy::disallowed_methods,
    reason = "the checker stands outside and reads the clock that its clients would read"
)]

mod checker;
#[path = "../http/harness/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "shared with the tests of the API, which use more of it"
)]
mod harness;
mod history;
mod worker;

use std::cell::RefCell;

use harness::{Connection, Server, ms};
use history::History;
use serde_json::Value;
use worker::Worker;

/// Connections that make the load.
const WORKERS: usize = 16;
/// A log that is compacted every few cycles, and holds several.
const SETTINGS: [&str; 3] = [
    "store.embedded.segment_size=256KiB",
    "store.embedded.min_log_size=4MiB",
    "telemetry.log=warn",
];

/// A small generator (SplitMix64), so that a seed replays the choices.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Choices that this seed replays.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Evenly from 0 to below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// What the store shows right after a start: every lease, between two looks at the changes.
async fn look(server: &Server, history: &RefCell<History>, after: &mut Option<String>) {
    let mut connection = Connection::open(server.addr).await;
    let beginning = match after.take() {
        Some(cursor) => cursor,
        None => server.cursor_of_the_beginning().await,
    };
    let cursor = read_on(&mut connection, history, beginning, false).await;
    let list = connection.call("GET", "/v1/leases?limit=1000", &[], b"").await.ok();
    *after = Some(read_on(&mut connection, history, cursor, true).await);
    let leases = list["leases"].as_array().expect("leases");
    history.borrow_mut().restarted(server.started, leases);
}

/// The changes after a cursor, to the last.
async fn read_on(
    connection: &mut Connection,
    history: &RefCell<History>,
    mut cursor: String,
    after_the_list: bool,
) -> String {
    loop {
        let path = format!("/v1/events?format=json&after={cursor}");
        let page: Value = connection.call("GET", &path, &[], b"").await.ok();
        assert_eq!(page["reset"], false, "the log holds more than a cycle");
        cursor = page["next"].as_str().expect("a cursor").to_owned();
        let events = page["events"].as_array().expect("events");
        if events.is_empty() {
            return cursor;
        }
        history.borrow_mut().read(events, after_the_list);
    }
}

async fn run(cycles: u64, seed: u64) -> String {
    let mut chance = Chance::new(seed);
    let history = RefCell::new(History::default());
    let mut workers: Vec<_> =
        (0..WORKERS).map(|n| Worker::new(n, seed ^ (n as u64 + 1) << 32)).collect();
    let mut server = Server::with(&SETTINGS);
    let mut after = None;
    for cycle in 0..cycles {
        look(&server, &history, &mut after).await;
        // Now and then long enough for leases of before to run out.
        let span = if cycle % 5 == 4 { 700 } else { 150 + chance.below(150) };
        let load = workers.iter_mut().map(|worker| worker.work(&server, &history));
        let load = futures_util::future::join_all(load);
        let kill = async {
            tokio::time::sleep(ms(span)).await;
            server.signal("KILL");
        };
        tokio::join!(load, kill);
        history.borrow_mut().check(cycle);
        server = server.kill().restart();
    }
    look(&server, &history, &mut after).await;
    history.into_inner().summary()
}

#[tokio::test]
async fn nothing_that_was_acknowledged_is_missing_after_kill_9() {
    let cycles = from_environment("CYCLES").unwrap_or(100);
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = from_environment("SEED")
        .unwrap_or_else(|| nanos.map_or(1, |span| u64::from(span.subsec_nanos())));
    println!("SEED={seed} CYCLES={cycles}");
    let summary = run(cycles, seed).await;
    println!("{cycles} cycles passed, 0 failed: {summary}");
}
