//! One principal is at all its limits at once, and a stranger beside it shows forged JWTs. Another principal, which has
//! nothing in common with it, sends heartbeats.
//!
//! Shown: its heartbeats take at most twice as long as alone, and at most four times in the short form, whose server is a
//! debug build. They are measured in turns, quiet and busy, so that both kinds of turns see the same machine. The turn in
//! the middle counts. What the server does for the greedy principal is counted in CPU time.
//!
//! `make abuse` sets `ABUSE=full`: longer turns, and the 99th percentile. Without it, the 90th percentile, which 200
//! heartbeats of a busy machine tell reliably.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};
use tokio_tungstenite::tungstenite::Message;

use super::{
    cast::{Guarded, all_of, call, principal},
    costs::{claims, cpu_time, forged, hold_all, issuer, keys, limited},
    signer::Signer,
};
use crate::support::harness::{Connection, Grant, Talk};

const GREEDY: &str = "rate = 50, held = 100, sessions = 10, waits = 200, streams = 6, connections = 40, new_keys = 100";
/// Below this, a time says more about the machine than about the server.
const FLOOR: Duration = Duration::from_millis(1);
/// The pause between two attempts of each greedy task: far more attempts than the limits allow, and no more than a
/// machine of two cores can send beside the server.
const PACE: Duration = Duration::from_millis(5);

fn is_full() -> bool {
    std::env::var_os("ABUSE").is_some_and(|how| how == "full")
}

/// How many turns there are, how long one is, and which part of the heartbeats may take longer than what is compared.
fn measure() -> (usize, Duration, f64) {
    if is_full() { (9, Duration::from_secs(5), 0.01) } else { (5, Duration::from_secs(1), 0.1) }
}

/// How long the slower heartbeats of one turn took.
async fn heartbeats(connection: &mut Connection, held: &Grant) -> Duration {
    let (_, span, part) = measure();
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < span {
        let asked = Instant::now();
        let reply = call(connection, "calm", "POST", "/v1/heartbeat", &held.proof()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        took.push(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    took.sort();
    let slower = (took.len() as f64 * part) as usize;
    took[took.len() - 1 - slower.min(took.len() - 1)].max(FLOOR)
}

/// What the greedy principal does, each task until it is aborted.
struct Greedy {
    addr: std::net::SocketAddr,
    keys: Vec<String>,
    refused: AtomicU64,
}

impl Greedy {
    async fn calls(self: Arc<Self>, method: &'static str, path: &'static str, body: Value) {
        loop {
            let mut connection = Connection::open(self.addr).await;
            for _ in 0..200 {
                let reply = call(&mut connection, "greedy", method, path, &body).await;
                self.refused.fetch_add(u64::from(reply.status == 429), Relaxed);
                tokio::time::sleep(PACE).await;
                if reply.header("connection") == Some("close") {
                    break;
                }
            }
        }
    }

    async fn waits(self: Arc<Self>) {
        let body = json!({ "keys": self.keys, "owner": "w", "ttl_ms": 1_000, "wait_ms": 2_000 });
        self.clone().calls("POST", "/v1/acquire-any", body).await;
    }

    /// A body, or a message of a stream, of which the end does not come.
    async fn unfinished(self: Arc<Self>) {
        loop {
            let mut stream = TcpStream::connect(self.addr).await.expect("it accepts");
            let head = "POST /v1/acquire-any HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer greedy\r\n\
                        content-type: application/json\r\ncontent-length: 1048576\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&vec![b' '; 1_000_000]).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    async fn stream(self: Arc<Self>, message: fn(u64) -> Message) {
        loop {
            let shown = [("Authorization", "Bearer greedy")];
            if let Ok(mut talk) = Talk::open_with(self.addr, &shown).await {
                for id in 1..=2_000 {
                    if talk.try_send(message(id)).await.is_err() {
                        break;
                    }
                    if id % 20 == 0 {
                        tokio::time::sleep(PACE).await;
                    }
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }

    async fn stranger(self: Arc<Self>) {
        let stranger = Signer::p256();
        let flood: Vec<String> = (0..2_000).map(|number| forged(&stranger, number)).collect();
        loop {
            let mut connection = Connection::open(self.addr).await;
            for jwt in &flood {
                let path = "/v1/leases";
                let status = call(&mut connection, jwt, "GET", path, &Value::Null).await.status;
                assert_eq!(status, 401);
                tokio::time::sleep(PACE).await;
            }
        }
    }
}

fn text(id: u64, rest: &str) -> Message {
    Message::text(format!(r#"{{"id":{id},{rest}}}"#))
}

/// Everything at once.
fn greedy(guarded: &Guarded, keys: Vec<String>) -> (Arc<Greedy>, JoinSet<()>) {
    let refused = AtomicU64::new(0);
    let greedy = Arc::new(Greedy { addr: guarded.server.addr, keys, refused });
    let mut tasks = JoinSet::new();
    let of = || greedy.clone();
    for _ in 0..4 {
        tasks.spawn(of().waits());
        tasks.spawn(of().unfinished());
    }
    for path in ["/v1/leases?owner=nobody", "/v1/leases?state=cooling", "/v1/sessions", "/v1/pools"]
    {
        tasks.spawn(of().calls("GET", path, Value::Null));
    }
    tasks.spawn(of().stranger());
    for message in [
        (|id| text(id, r#""op":"cancel","params":{"call":7}"#)) as fn(u64) -> Message,
        |id| text(id, r#""op":"heartbeat","more":1"#),
        |id| {
            text(id, &format!(r#""op":"heartbeats","body":{{"leases":[{}]}}"#, "1,".repeat(5_000)))
        },
        |_| Message::Ping(vec![1].into()),
        |id| text(id, r#""op":"events","params":{"after":""}"#),
    ] {
        tasks.spawn(of().stream(message));
    }
    (greedy, tasks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_principal_at_all_its_limits_leaves_the_heartbeats_of_others_alone() {
    show().await;
}

/// What this file shows.
pub async fn show() {
    let settings = "[limits]\nwaiting_places = 1000\nbody_bytes = \"8MiB\"\n";
    let (signers, jwks) = keys();
    let principals = [
        issuer(),
        limited("greedy", "g/", GREEDY),
        principal("calm", r#"{ verb = "hold", prefix = "c/" }"#),
        principal("mate", &all_of("")),
    ];
    drop((signers, claims(0)));
    let guarded = Guarded::start_beside(&[("jwks.json", jwks)], &principals, settings, &[]);
    let keys = hold_all(&guarded, "mate", "g/", 5_000).await;
    let body = json!({ "key": "c/1", "owner": "w", "ttl_ms": 600_000 });
    let held = Grant::of(&guarded.post("calm", "/v1/acquire", &body).await.ok());
    let mut calm = Connection::open(guarded.server.addr).await;
    heartbeats(&mut calm, &held).await;
    let (turns, span, _) = measure();
    let (mut ratios, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        let quiet = heartbeats(&mut calm, &held).await;
        let (greedy, mut tasks) = greedy(&guarded, keys[..150].to_vec());
        // What it has at once is used up.
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let before = cpu_time(guarded.server.pid());
        let busy = heartbeats(&mut calm, &held).await;
        let share = (cpu_time(guarded.server.pid()) - before).as_secs_f64() / span.as_secs_f64();
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        assert!(greedy.refused.load(Relaxed) > 20, "it is at its limits");
        ratios.push(busy.as_secs_f64() / quiet.as_secs_f64());
        shares.push(share);
        println!("alone {quiet:?}, beside it {busy:?}, {:.0} % of a core", 100.0 * share);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    ratios.sort_by(f64::total_cmp);
    shares.sort_by(f64::total_cmp);
    let (ratio, share) = (ratios[turns / 2], shares[turns / 2]);
    // In a debug build, the generator of the load takes a large part of the two cores.
    let (bound, most) = if is_full() { (2.0, 0.5) } else { (4.0, 0.8) };
    assert!(ratio <= bound, "heartbeats take {ratio:.1} times as long: {ratios:?}");
    assert!(share <= most, "the server works for it: {share:.2} of a core, {shares:?}");
}
