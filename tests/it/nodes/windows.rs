//! What holders of sessions may believe, while nodes sleep and die: no two of one key at a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::lease::Moment;

use crate::nodes::{on_both_stores, pair::Pair};

use crate::support::{
    clock::{ms, now, sleep_ms},
    node::Node,
};

on_both_stores!(no_two_sessions_hold_a_key_at_a_time);

const KEYS: u64 = 6;
const WORKERS: u64 = 8;
const TTL_MS: u64 = 1_500;
/// How long the workers work.
const SPAN_MS: u64 = 25_000;

/// A span in which a session's holder believed that it held a key.
#[derive(Clone, Copy, Debug)]
struct Window {
    token: u64,
    #[expect(dead_code, reason = "shown when two overlap")]
    worker: u64,
    from: Moment,
    until: Moment,
}

type Log = Arc<Mutex<BTreeMap<String, Vec<Window>>>>;

/// A holder that opens sessions, takes keys under them, and leaves them in all the ways there are.
struct Worker {
    number: u64,
    nodes: [Node; 2],
    log: Log,
    turns: u64,
    held: Vec<(String, Window)>,
}

impl Worker {
    fn node(&mut self) -> &Node {
        self.turns =
            self.turns.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.number + 1);
        &self.nodes[(self.turns >> 33) as usize % 2]
    }

    fn chance(&mut self, of: u64) -> u64 {
        self.node();
        (self.turns >> 40) % of
    }

    /// Every window of the session goes on until then; or ends now.
    fn window(&mut self, until: Moment) {
        for (_, window) in &mut self.held {
            window.until = window.until.max(until);
        }
    }

    fn note(&mut self, cut: Option<Moment>) {
        let mut log = self.log.lock().expect("no panic");
        for (key, mut window) in self.held.drain(..) {
            window.until = cut.map_or(window.until, |cut| window.until.min(cut));
            log.entry(key).or_default().push(window);
        }
    }

    async fn session(&mut self, end: Moment) {
        let owner = format!("w{}", self.number);
        let body =
            json!({ "owner": owner, "ttl_ms": TTL_MS, "behavior": "release", "lock_delay_ms": 0 });
        let (status, opened) = self.node().try_post("/v1/sessions", &body).await;
        if status != 201 {
            return sleep_ms(50).await;
        }
        let id = opened["id"].as_str().expect("an id").to_owned();
        let rounds = 5 + self.chance(20);
        for _ in 0..rounds {
            let sent = now();
            if now() > end {
                break;
            }
            let (status, answer) = if self.chance(3) == 0 {
                let key = format!("fought/{}", self.chance(KEYS));
                let asks = json!({ "key": key, "owner": owner, "session": id, "wait_ms": 300 });
                let (status, grant) = self.node().try_post("/v1/acquire", &asks).await;
                if status == 200 {
                    let token = grant["token"].as_u64().expect("a token");
                    let from = now();
                    let window = Window { token, worker: self.number, from, until: from };
                    self.held.push((key, window));
                }
                (status, grant)
            } else {
                let path = format!("/v1/sessions/{id}/heartbeat");
                self.node().try_post(&path, &json!({})).await
            };
            match (status, answer["code"].as_str()) {
                (200, _) => self.window(until(sent, &answer)),
                (409, Some("session-lost")) => return self.note(Some(now())),
                _ => {}
            }
            sleep_ms(40 + self.chance(200)).await;
        }
        if self.chance(2) == 0 {
            // From the moment before it is sent nothing is believed any more.
            let cut = now();
            self.note(Some(cut));
            let _ = self.close(&id).await;
        } else {
            // Left to run out.
            self.note(None);
        }
    }

    async fn close(&mut self, id: &str) -> u16 {
        let url = format!("{}/v1/sessions/{id}", self.node().url);
        let http =
            reqwest::Client::builder().no_proxy().timeout(ms(3_000)).build().expect("a client");
        http.delete(url).send().await.map_or(0, |answer| answer.status().as_u16())
    }
}

fn until(sent: Moment, answer: &Value) -> Moment {
    sent + ms(answer["valid_for_ms"].as_u64().unwrap_or_else(|| panic!("{answer}")))
}

async fn no_two_sessions_hold_a_key_at_a_time(mut pair: Pair) {
    let log = Log::default();
    let end = now() + ms(SPAN_MS);
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let nodes = [pair.a.remote(), pair.b.remote()];
            let log = log.clone();
            let mut worker = Worker { number, nodes, log, turns: number, held: Vec::new() };
            tokio::spawn(async move {
                while now() < end {
                    worker.session(end).await;
                }
            })
        })
        .collect();
    for round in 0..4 {
        sleep_ms(1_500).await;
        let victim = if round % 2 == 0 { &mut pair.a } else { &mut pair.b };
        if round < 2 {
            victim.kill();
            sleep_ms(2_500).await;
            victim.start().await;
        } else {
            victim.signal(Signal::STOP);
            sleep_ms(3_500).await;
            victim.signal(Signal::CONT);
        }
    }
    for worker in workers {
        worker.await.expect("a worker");
    }
    let log = log.lock().expect("no panic");
    let mut windows = 0;
    for (key, list) in log.iter() {
        let mut list = list.clone();
        list.sort_by_key(|window| window.token);
        windows += list.len();
        for pair in list.windows(2) {
            assert!(pair[0].token < pair[1].token, "{key}: a token twice: {pair:?}");
            assert!(pair[0].until <= pair[1].from, "{key}: two owners at a time: {pair:?}");
        }
    }
    println!("{windows} windows");
    assert!(windows > 30, "{windows} windows are no fight");
}
