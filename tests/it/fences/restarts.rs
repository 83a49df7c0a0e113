//! A session whose check fails, and the only node killed before the fences of its leases are confirmed.
//!
//! R8: the write that ends a tenure names its fences, so a successor runs them again, and skips none.

use std::{path::Path, time::SystemTime};

use serde_json::{Value, json};
use tenure::clock::Chance;
use tokio::task::JoinHandle;

use crate::fences::{
    judge::judge,
    plan::{Does, Planned, Rule},
    stand::Stand,
    waiters::Waiters,
};

use crate::support::clock::{ms, sleep_ms, within};
use crate::support::http;

/// Leases of each session.
const LEASES: usize = 4;
const SESSION_TTL_MS: u64 = 400;
const HEARTBEAT_MS: u64 = 100;
const CHECK_MS: u64 = 100;
/// How long a fence takes, at least.
const FENCE_MS: u64 = 300;
const PATIENCE_MS: u64 = 60_000;

fn settings(program: &Path, journal: &Path, gate: &Path) -> String {
    let script = format!(
        "sleep 0.{FENCE_MS}; exec {} confirms {} {}",
        program.display(),
        journal.display(),
        gate.display()
    );
    format!(
        "[[policy]]\nprefix = \"\"\nfence = [\"confirms\"]\n\n\
         [[plugin]]\nname = \"confirms\"\nkind = \"exec\"\ncommand = [\"/bin/sh\", \"-c\", {script:?}]\n"
    )
}

/// A worker whose keep-alive is well, whatever its check says.
fn keep_alive(url: &str, id: &str) -> JoinHandle<()> {
    let url = format!("{url}/v1/sessions/{id}/heartbeat");
    tokio::spawn(async move {
        let http = http::builder().build().expect("a client");
        loop {
            let _ = http.post(&url).json(&json!({})).timeout(ms(1_000)).send().await;
            sleep_ms(HEARTBEAT_MS).await;
        }
    })
}

pub async fn run(cycles: u64, seed: u64) {
    let mut chance = Chance::of(seed, "restarts");
    let mut stand = Stand::embedded_with(settings).await;
    stand.journal.open_gate();
    let url = stand.nodes[0].url.clone();
    let mut waiters = Waiters::start(vec![url.clone()]);
    let (mut plan, mut kills) = (Vec::new(), Vec::new());
    for cycle in 0..cycles {
        // A file, since a port that is given up may soon be another's.
        let check = tempfile::NamedTempFile::new().expect("a file");
        let id = open(&stand, check.path()).await;
        let heartbeats = keep_alive(&url, &id);
        let keys: Vec<_> = (0..LEASES).map(|n| format!("s/{cycle}/{n}")).collect();
        for key in &keys {
            let body = json!({ "key": key, "owner": "first", "session": id });
            let (status, answer) = stand.nodes[0].post("/v1/acquire", &body).await;
            assert_eq!(status, 200, "{answer}");
        }
        waiters.wait_for(keys.iter().cloned(), std::slice::from_ref(&url));
        drop(check);
        // Now and then before its end, most often after it and before the confirmation.
        if cycle % 5 > 0 {
            until_fencing(&stand, &keys[0]).await;
            sleep_ms(chance.next_u64() % (FENCE_MS + 100)).await;
        } else {
            sleep_ms(chance.next_u64() % (SESSION_TTL_MS + CHECK_MS + FENCE_MS)).await;
        }
        stand.nodes[0].kill();
        kills.push(SystemTime::now());
        stand.nodes[0].start().await;
        let granted = within(ms(PATIENCE_MS), async || {
            let told = waiters.told();
            keys.iter().all(|key| told.contains_key(key))
        });
        assert!(granted.await, "cycle {cycle}: a waiter is not granted its key");
        heartbeats.abort();
        plan.extend(keys.into_iter().map(|key| Planned {
            key,
            rule: Rule::Before,
            plugins: vec![("confirms", Does::Confirms)],
            wanted: true,
        }));
    }
    let events = stand.events(0).await;
    let seen = judge(&plan, &events, &stand.journal.lines());
    assert_eq!((seen.ends, seen.grants), (plan.len(), 2 * plan.len()));
    assert!(seen.late <= kills.len() * LEASES, "tries came after the confirmation: {seen:?}");
    let between = kills.iter().map(|kill| pending_at(&events, *kill)).filter(|n| *n > 0).count();
    println!("{cycles} cycles, in {between} of them fences were pending: {seen:?}");
    assert!(between as u64 * 3 > cycles, "the kills came too early or too late");
}

/// A session that lives while the file is there.
async fn open(stand: &Stand, check: &Path) -> String {
    let body = json!({
        "owner": "first", "ttl_ms": SESSION_TTL_MS, "behavior": "release", "lock_delay_ms": 0,
        "checks": [{
            "type": "exec", "command": ["/usr/bin/test", "-e", check], "interval_ms": CHECK_MS,
            "timeout_ms": 5_000,
            "fail_after": 1,
        }],
    });
    let (status, answer) = stand.nodes[0].post("/v1/sessions", &body).await;
    assert_eq!(status, 201, "{answer}");
    answer["id"].as_str().expect("an id").to_owned()
}

async fn until_fencing(stand: &Stand, key: &str) {
    let fencing = within(ms(PATIENCE_MS), async || {
        stand.nodes[0].get(&format!("/v1/leases/{key}")).await["state"] == "fencing"
    });
    assert!(fencing.await, "the check fails, and the session lives on");
}

/// How many tenures had ended at that moment whose fence was not confirmed.
fn pending_at(events: &[Value], moment: SystemTime) -> i64 {
    let before = events.iter().filter(|event| {
        let time = humantime::parse_rfc3339(event["time"].as_str().expect("a time"));
        time.expect("a time") < moment
    });
    let count = |event: &Value| match event["type"].as_str().and_then(|t| t.rsplit('.').next()) {
        Some("session-ended") => 1,
        Some("fenced") => -1,
        _ => 0,
    };
    before.map(count).sum()
}
