//! What holders of sessions may believe, while nodes sleep and die: no two of one key at a time.

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::{clock::Chance, lease::Moment};

use crate::support::http;
use crate::{
    history::{Event, Needs, Notes, Op, check},
    nodes::{on_both_stores, pair::Pair},
    support::{
        clock::{ms, now, sleep_ms},
        dice::Dice as _,
        node::Node,
    },
};

on_both_stores!(no_two_sessions_hold_a_key_at_a_time);

const KEYS: u64 = 6;
const WORKERS: u64 = 8;
const TTL_MS: u64 = 1_500;
/// How long the workers work.
const SPAN_MS: u64 = 25_000;

/// A holder that opens sessions, takes keys under them, and leaves them in all the ways there are.
struct Worker {
    name: String,
    nodes: [Node; 2],
    notes: Notes,
    chance: Chance,
    /// Under its session: keys and tokens.
    held: Vec<(String, u64)>,
}

impl Worker {
    /// A call to either node, and its number.
    async fn call(&mut self, op: Op, key: &str, path: &str, body: &Value) -> (u64, u16, Value) {
        let call = self.notes.asks(now().0, &self.name, op, key, None);
        let (status, answer) = self.nodes[self.chance.index(2)].try_post(path, body).await;
        match status {
            0 => self.notes.lost(now().0, call),
            200 | 201 => {}
            _ => self.notes.refused(now().0, call, &answer),
        }
        (call, status, answer)
    }

    /// It believes in what it holds until then; `grant`: in the last one for the first time.
    fn told(&self, call: u64, until: Moment, grant: bool) {
        for (place, (key, token)) in self.held.iter().enumerate() {
            let (worker, key, grant) =
                (self.name.clone(), key.clone(), grant && place + 1 == self.held.len());
            let (call, token, until, session) = (Some(call), *token, until.0, None);
            let told = Event::Told { call, worker, key, token, until, grant, session };
            self.notes.log.push(now().0, told);
        }
    }

    fn shut(&mut self, why: &str) {
        for (key, token) in self.held.drain(..) {
            self.notes.shut(now().0, &self.name, &key, token, why);
        }
    }

    async fn session(&mut self, end: Moment) {
        let asks = json!({
            "owner": self.name, "ttl_ms": TTL_MS, "behavior": "release", "lock_delay_ms": 0
        });
        let (_, status, opened) = self.call(Op::OpenSession, "", "/v1/sessions", &asks).await;
        if status != 201 {
            return sleep_ms(50).await;
        }
        let id = opened["id"].as_str().expect("an id").to_owned();
        for _ in 0..self.chance.between(5, 24) {
            let sent = now();
            if sent > end {
                break;
            }
            let grant = self.chance.below(3) == 0;
            let (call, status, answer) = if grant {
                let key = format!("fought/{}", self.chance.below(KEYS));
                let asks = json!({ "key": key, "owner": self.name, "session": id, "wait_ms": 300 });
                let answered = self.call(Op::Acquire, &key, "/v1/acquire", &asks).await;
                if answered.1 == 200 {
                    let token = answered.2["token"].as_u64().expect("a token");
                    // A second grant of what it holds is the same tenure.
                    self.held.retain(|held| held.0 != key);
                    self.held.push((key, token));
                }
                answered
            } else {
                let path = format!("/v1/sessions/{id}/heartbeat");
                self.call(Op::BeatSession, "", &path, &json!({})).await
            };
            match (status, answer["code"].as_str()) {
                (200, _) => self.told(call, until(sent, &answer), grant),
                (409, Some("session-lost")) => return self.shut("the session is lost"),
                _ => {}
            }
            sleep_ms(self.chance.between(40, 239)).await;
        }
        if self.chance.below(2) == 0 {
            // From the moment before it is sent nothing is believed any more.
            self.shut("it ends the session");
            let url = format!("{}/v1/sessions/{id}", self.nodes[self.chance.index(2)].url);
            let http = http::builder().timeout(ms(3_000)).build().expect("a client");
            let _ = http.delete(url).send().await;
        } else {
            // Left to run out.
            self.held.clear();
        }
    }
}

fn until(sent: Moment, answer: &Value) -> Moment {
    sent + ms(answer["valid_for_ms"].as_u64().unwrap_or_else(|| panic!("{answer}")))
}

async fn no_two_sessions_hold_a_key_at_a_time(mut pair: Pair) {
    let notes = Notes::default();
    let end = now() + ms(SPAN_MS);
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let nodes = [pair.a.remote(), pair.b.remote()];
            let mut worker = Worker {
                name: format!("w{number}"),
                nodes,
                notes: notes.clone(),
                chance: Chance::new(number),
                held: Vec::new(),
            };
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
    let report = check(&notes.log.lines());
    assert!(report.violations.is_empty(), "{report}");
    println!("{}", report.counts);
    report.demand(&Needs { grants: 15, ..Needs::default() }).expect("a fight");
}
