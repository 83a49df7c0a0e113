//! All holders lose their connections at once and connect again, as after a switch that was restarted.
//!
//! Shown, in plain text, and by TLS with a token: within one ttl, each has a connection again and has renewed its lease;
//! none is lost, and probes are answered throughout. By TLS, nobody has a ticket in the first storm, as after a
//! coordinator's restart; in the others, everybody has.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};

use super::{
    line::{Dial, Line},
    size,
};

use crate::{
    access::cast::{all_of, principal, write},
    support::{
        clock::soon,
        harness::{Connection, Grant, Server, percent},
        tls::Certificates,
    },
};

/// What a lease lasts without a heartbeat.
const TTL: Duration = Duration::from_secs(30);
/// The longest time in which a probe is answered. Its connection is accepted after those that came before it, on two
/// cores that the clients use as well. Orchestrators give up after some failures of 1 s each, three as a rule. By TLS,
/// the coordinator ends handshakes that take as long as this.
const PROBE: Duration = Duration::from_secs(3);
/// Who holds the leases where there is an access file, and the token.
const HOLDER: &str = "holder";

/// Holders, and how they reach the coordinator.
struct Crowd {
    dial: Dial,
    held: Vec<Grant>,
    /// How often one of them had to try again.
    again: Arc<AtomicU64>,
}

impl Crowd {
    /// Grants of so many keys, in few calls.
    async fn acquire(dial: Dial, count: usize) -> Self {
        // Both ends of each connection are on this machine, and each process needs a file for it.
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("more files");
        let keys: Vec<_> = (0..count).map(|n| format!("held/{n}")).collect();
        let ttl_ms = TTL.as_millis();
        let any = json!({ "keys": keys, "owner": HOLDER, "ttl_ms": ttl_ms, "count": count });
        let mut connection = dial.open().await.expect("a connection");
        let any = any.to_string();
        let granted =
            connection.call("POST", "/v1/acquire-any", &dial.headers(), any.as_bytes()).await;
        let granted = granted.ok();
        let held: Vec<Grant> =
            granted["grants"].as_array().expect("grants").iter().map(Grant::of).collect();
        assert_eq!(held.len(), count);
        Self { dial, held, again: Arc::default() }
    }

    /// All holders come back at once. Returns how long it took until the last one was back, and their connections.
    async fn storm(&self) -> (Duration, Vec<Box<dyn Line>>) {
        let begun = Instant::now();
        let mut holders = JoinSet::new();
        for held in &self.held {
            let (dial, held, again) = (self.dial.clone(), held.clone(), self.again.clone());
            holders.spawn(async move { come_back(&dial, &held, &again).await });
        }
        let connections = soon("the return of all", holders.join_all()).await;
        (begun.elapsed(), connections)
    }

    /// Storms of holders. Returns how long the first one took, the longest of the others, and the longest probe.
    async fn storms(&self) -> [Duration; 3] {
        let (first, mut connections) = self.storm().await;
        let (mut worst, mut longest) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..size(5, 2) {
            // Neither process may have twice as many files.
            drop(connections);
            let probing = probe(self.dial.clone());
            let (took, again) = self.storm().await;
            (worst, connections) = (worst.max(took), again);
            longest = longest.max(probing.await.expect("no probe fails"));
        }
        println!(
            "reconnects: {} at a time, the last after {first:?} in the first storm and {worst:?} in the others, {} \
             tries again; probes at most {longest:?}",
            self.held.len(),
            self.again.load(Relaxed)
        );
        [first, worst, longest]
    }

    /// Each has its tenure still.
    async fn lost_nothing(&self) {
        let mut connection = self.dial.open().await.expect("a connection");
        for held in &self.held {
            let path = format!("/v1/leases/{}", percent(&held.key));
            let lease = connection.call("GET", &path, &self.dial.headers(), b"").await.ok();
            assert_eq!(lease["token"], held.token, "{lease}");
        }
    }
}

/// Connects, and renews the lease. Returns the connection, which the holder keeps.
async fn come_back(dial: &Dial, held: &Grant, again: &AtomicU64) -> Box<dyn Line> {
    loop {
        match renew(dial, held).await {
            Ok(line) => return line,
            // The coordinator ends handshakes that take too long. Clients do not all try again at the same moment.
            Err(why) => {
                assert!(dial.is_secure(), "{why}");
                let tries = again.fetch_add(1, Relaxed);
                tokio::time::sleep(Duration::from_millis(50 + tries * 37 % 450)).await;
            }
        }
    }
}

async fn renew(dial: &Dial, held: &Grant) -> io::Result<Box<dyn Line>> {
    let mut line = dial.connect().await?;
    let (status, said) = dial.call(&mut *line, "/v1/heartbeat", &held.proof()).await?;
    assert_eq!(status, 200, "{said}");
    Ok(line)
}

/// Probes for a second or longer. Returns the longest time that one took. In plain text, each has a connection of its
/// own, as an orchestrator's probes do; with TLS, they share one.
fn probe(dial: Dial) -> JoinHandle<Duration> {
    tokio::spawn(async move {
        let mut connection = dial.open().await.expect("a connection");
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            let begun = Instant::now();
            if !dial.is_secure() {
                connection = dial.open().await.expect("a connection");
            }
            connection.call("GET", "/livez", &[], b"").await.ok();
            longest = longest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        longest
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_reconnects_within_one_ttl_loses_no_lease() {
    let server = Server::with(&["limits.shed_lag=20ms"]);
    let crowd = Crowd::acquire(Dial::plain(server.addr), size(10_000, 500)).await;
    let [first, worst, longest] = crowd.storms().await;
    assert!(first.max(worst) < TTL, "the last holder was back after {:?}", first.max(worst));
    assert!(longest < PROBE, "a probe took {longest:?}");
    crowd.lost_nothing().await;
}

/// The handshakes that began with a ticket.
async fn resumed(connection: &mut Connection<Box<dyn Line>>, dial: &Dial) -> usize {
    let reply = connection.call("GET", "/metrics", &dial.headers(), b"").await;
    let series = "tenure_tls_handshakes_total{outcome=\"resumed\"} ";
    let text = reply.text();
    let value = text.lines().find_map(|line| line.strip_prefix(series));
    value.map_or(0, |value| value.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_tls_reconnects_within_one_ttl_loses_no_lease() {
    let (certificates, count) = (Certificates::make(), size(10_000, 500));
    let file = |name: &str| certificates.path(name).display().to_string();
    write(&certificates.path("access.toml"), &[principal(HOLDER, &all_of(""))]);
    let server = Server::with(&[
        "limits.shed_lag=20ms",
        &format!("auth.file={}", file("access.toml")),
        &format!("server.tls_cert={}", file("server.pem")),
        &format!("server.tls_key={}", file("server.key")),
    ]);
    let dial = Dial::secure(server.addr, &certificates, HOLDER, 2 * count);
    let crowd = Crowd::acquire(dial, count).await;
    let [first, worst, longest] = crowd.storms().await;
    assert!(first.max(worst) < TTL, "the last holder was back after {:?}", first.max(worst));
    assert!(longest < PROBE, "a probe took {longest:?}");
    crowd.lost_nothing().await;
    let mut connection = crowd.dial.open().await.expect("a connection");
    let resumed = resumed(&mut connection, &crowd.dial).await;
    assert!(resumed > count, "tickets save work: {resumed}");
}
