//! Well-behaved clients, and what they measure.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::task::JoinSet;

use super::is_full;

use crate::support::harness::{Connection, Grant, Server};

/// How many there are.
const CLIENTS: usize = 8;
/// What each does, it does once in so long, whether or not it was answered in time.
const PACE: Duration = Duration::from_millis(10);
/// Below this a percentile says more about the machine than about the server.
const FLOOR: Duration = Duration::from_millis(1);

/// How long one measurement takes.
pub fn span() -> Duration {
    Duration::from_secs(if is_full() { 6 } else { 2 })
}

/// What well-behaved clients saw at two servers in the same span.
#[derive(Clone, Copy, Debug)]
pub struct Tails {
    /// The 99th percentile at the one that is abused, in its busy spans.
    pub own: Duration,
    /// That at a twin, which nobody abuses. What the machine does, it does to both.
    pub twin: Duration,
}

/// Both, at once.
pub async fn tails(server: &Server, twin: &Server, span: Duration) -> Tails {
    let (own, twin) = tokio::join!(p99(server, span), p99(twin, span));
    Tails { own, twin }
}

/// The 99th percentile of acquire, heartbeat and release of clients who abuse nothing. A call that was to
/// begin while the one before was still under way counts from when it was to begin.
async fn p99(server: &Server, span: Duration) -> Duration {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let addr = server.addr;
        clients.spawn(async move {
            let mut connection = Connection::open(addr).await;
            let mut took = Vec::new();
            let begun = Instant::now() + PACE * u32::try_from(client).expect("few") / 8;
            let (mut at, mut turn) = (begun, 0);
            while begun.elapsed() < span {
                let key = format!("well-behaved/{client}/{}", turn % 16);
                let body = json!({ "key": key, "owner": "w", "ttl_ms": 60_000, "reclaim": true });
                pause(at).await;
                let grant = Grant::of(&connection.post("/v1/acquire", &body).await.ok());
                took.push(at.elapsed());
                for path in ["/v1/heartbeat", "/v1/release"] {
                    at += PACE;
                    pause(at).await;
                    connection.post(path, &grant.proof()).await.ok();
                    took.push(at.elapsed());
                }
                at += PACE;
                turn += 1;
            }
            took
        });
    }
    let mut took: Vec<Duration> = clients.join_all().await.concat();
    took.sort();
    took[took.len() * 99 / 100]
}

async fn pause(until: Instant) {
    tokio::time::sleep_until(until.into()).await;
}

/// What the rounds of one kind of abuse showed.
#[derive(Debug)]
pub struct Rounds {
    what: &'static str,
    server: u32,
    quiet_rss: Vec<u64>,
    busy_rss: Vec<u64>,
    ratios: Vec<f64>,
}

impl Rounds {
    pub fn of(what: &'static str, server: u32) -> Self {
        let (quiet_rss, busy_rss, ratios) = (Vec::new(), Vec::new(), Vec::new());
        Self { what, server, quiet_rss, busy_rss, ratios }
    }

    /// Before the abuse of a round.
    pub fn quiet(&mut self) {
        self.quiet_rss.push(rss(self.server));
    }

    /// A quiet span and a busy one.
    pub fn round(&mut self, quiet: Tails, busy: Tails) {
        self.busy_rss.push(rss(self.server));
        let usual = quiet.own.max(busy.twin).max(FLOOR);
        let ratio = busy.own.max(FLOOR).as_secs_f64() / usual.as_secs_f64();
        self.ratios.push(ratio);
        let (before, now) = (self.quiet_rss.last().unwrap_or(&0), rss(self.server));
        println!(
            "{}: p99 {:?} quiet, {:?} busy, {:?} at its twin: times {ratio:.2}; RSS {} MiB quiet, {} MiB busy",
            self.what,
            quiet.own,
            busy.own,
            busy.twin,
            before >> 20,
            now >> 20
        );
    }

    /// The claims. `abusers` may have so many bytes each, and together a little more.
    pub fn verdict(&self, abusers: usize, bytes_each: u64) {
        // The machine does other things, too: of an even number the lower one in the middle.
        let mut ratios = self.ratios.clone();
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[(ratios.len() - 1) / 2];
        let end = rss(self.server);
        let first = *self.busy_rss.first().expect("a round");
        let most = *self.busy_rss.iter().max().expect("a round");
        let grew = most.saturating_sub(*self.quiet_rss.first().expect("a round"));
        let each = grew / abusers as u64;
        println!(
            "{}: {abusers} abusers; median p99 ratio {ratio:.2}; at most {} MiB more, {each} bytes each; RSS at the end {} MiB",
            self.what,
            grew >> 20,
            end >> 20
        );
        assert!(ratio <= 2.0, "{}: the p99 of others grew {:?} times", self.what, self.ratios);
        let bound = bytes_each * abusers as u64 + SLACK;
        assert!(grew <= bound, "{}: {grew} bytes more, {bound} allowed", self.what);
        // What the first round took is reused by the others.
        assert!(
            most <= first + first / 4 + SLACK,
            "{}: memory grows from round to round: {:?}",
            self.what,
            self.busy_rss
        );
    }
}

/// What an allocator keeps, and what the well-behaved clients' own keys, history and events take.
const SLACK: u64 = 64 << 20;

/// Resident memory of a process, in bytes.
pub fn rss(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number") * 4096
}
