//! Sessions of several nodes: any node takes a heartbeat, a dead one costs no session, and the leases of a
//! session end with it, whoever dies meanwhile.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::nodes::{
    events::all_events,
    on_both_stores,
    pair::{DEATH_MS, ENVIRONMENT, Grant, Pair},
};

use crate::support::{
    clock::{ms, now, sleep_ms, within},
    node::Node,
};

on_both_stores!(
    any_node_takes_a_sessions_calls,
    a_session_of_a_dead_node_lives_on,
    an_heir_runs_no_program_that_it_does_not_allow,
    a_session_of_a_node_that_leaves_is_adopted_at_once,
    a_session_of_a_node_that_slept_is_one_nodes,
    a_session_that_nobody_keeps_ends_with_its_leases,
    who_dies_in_mid_sweep_is_succeeded,
    also_where_the_leases_name_an_earlier_home,
    a_lock_delay_is_the_same_at_every_node,
    who_waits_under_a_session_is_served_by_any_node,
    dead_sessions_are_forgotten,
);

/// How long a record may take to go: until then, and the looks before it.
const RETENTION_MS: u64 = 40_000;

/// A session that somebody has.
pub struct Session {
    pub id: String,
    pub owner: String,
}

impl Session {
    pub async fn open(node: &Node, owner: &str, ttl_ms: u64, lock_delay_ms: u64) -> Self {
        let body = json!({ "owner": owner, "ttl_ms": ttl_ms, "behavior": "release",
                           "lock_delay_ms": lock_delay_ms });
        let (status, session) = node.post("/v1/sessions", &body).await;
        assert_eq!(status, 201, "{session}");
        let id = session["id"].as_str().expect("an id").to_owned();
        Self { id, owner: owner.to_owned() }
    }

    pub fn asks(&self, key: &str) -> Value {
        json!({ "key": key, "owner": self.owner, "session": self.id })
    }

    pub async fn acquire(&self, node: &Node, key: &str) -> Grant {
        let (status, grant) = node.post("/v1/acquire", &self.asks(key)).await;
        assert_eq!(status, 200, "{key}: {grant}");
        Grant::of(&grant)
    }

    pub async fn beat(&self, node: &Node) -> (u16, Value) {
        node.try_post(&format!("/v1/sessions/{}/heartbeat", self.id), &json!({})).await
    }

    /// Beats until one is answered with 200 or the session is lost.
    pub async fn beat_until_answered(&self, node: &Node) -> (u16, Value) {
        let mut last = (0, Value::Null);
        within(ms(DEATH_MS), async || {
            last = self.beat(node).await;
            assert!([200, 409, 429, 503].contains(&last.0), "{last:?}");
            last.0 == 200 || last.0 == 409
        })
        .await;
        last
    }

    pub async fn close(&self, node: &Node) -> (u16, Value) {
        node.delete(&format!("/v1/sessions/{}", self.id)).await
    }
}

fn leases(beat: &Value) -> u64 {
    beat["leases"]["count"].as_u64().unwrap_or_else(|| panic!("{beat}"))
}

async fn state(node: &Node, key: &str) -> String {
    let lease = node.get(&format!("/v1/leases/{key}")).await;
    lease["state"].as_str().unwrap_or_else(|| panic!("{lease}")).to_owned()
}

async fn any_node_takes_a_sessions_calls(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let session = Session::open(a, "w1", 20_000, 0).await;
    let here = session.acquire(a, "k/1").await;
    let there = session.acquire(b, "k/2").await;
    assert_eq!((&here.node, &there.node), (&a.url, &a.url), "granted by the session's home");
    for node in [a, b] {
        let mut beat = Value::Null;
        let counted = within(ms(5_000), async || {
            beat = session.beat(node).await.1;
            leases(&beat) == 2
        });
        assert!(counted.await, "{beat}");
        assert!(beat["valid_for_ms"].as_u64().expect("a window") > 15_000);
    }
    assert_eq!(session.beat(a).await.1["leases"], session.beat(b).await.1["leases"]);
    let (status, refused) = b.post("/v1/heartbeat", &there.proof()).await;
    assert_eq!((status, &refused["code"]), (409, &json!("kept-by-session")), "{refused}");
    let (status, closed) = session.close(b).await;
    assert_eq!((status, &closed["destroyed"]), (200, &json!(true)), "{closed}");
    for key in ["k/1", "k/2"] {
        for node in [a, b] {
            assert!(within(ms(5_000), async || state(node, key).await == "free").await);
        }
    }
    let (status, lost) = session.beat(b).await;
    assert_eq!((status, &lost["code"]), (409, &json!("session-lost")), "{lost}");
}

/// With what it keeps, and with what an administrator took out of it.
async fn a_session_of_a_dead_node_lives_on(mut pair: Pair) {
    let session = Session::open(&pair.a, "w1", 20_000, 0).await;
    let mut grants = Vec::new();
    for n in 0..12 {
        grants.push(session.acquire(&pair.a, &format!("k/{n}")).await);
    }
    let revoke = json!({ "key": "k/3", "reason": "test" });
    assert_eq!(pair.b.post("/v1/admin/revoke", &revoke).await.0, 200);
    let told = json!([{ "type": "revoked", "key": "k/3", "token": grants[3].token }]);
    assert_eq!(session.beat(&pair.b).await.1["notices"], told);
    pair.a.kill();
    let (status, beat) = session.beat_until_answered(&pair.b).await;
    assert_eq!((status, &beat["notices"]), (200, &told), "{beat}");
    // What the dead node did not come to log is known a moment later.
    let known = within(ms(5_000), async || leases(&session.beat(&pair.b).await.1) == 12);
    assert!(known.await, "{beat}");
    let counted = async |count: f64| {
        let held = async || pair.b.metric("tenure_leases_held{pool=\"default\"}").await;
        assert!(within(ms(5_000), async || held().await == count).await, "{}", held().await);
        // A node's record says so at its next renewal.
        let says = async || pair.b.get("/v1/nodes").await["nodes"][0]["leases"].as_f64();
        assert!(
            within(ms(5_000), async || says().await == Some(count)).await,
            "{:?}",
            says().await
        );
    };
    // An order adopts the lease that it ends. The others have no actor.
    counted(12.0).await;
    for grant in &grants {
        let check = json!({ "key": grant.key, "token": grant.token });
        assert_eq!(pair.b.post("/v1/check", &check).await.1["current"], true, "{}", grant.key);
    }
    // The order stands, and ends the one.
    let ended = within(ms(40_000), async || {
        assert_eq!(session.beat_until_answered(&pair.b).await.0, 200);
        state(&pair.b, "k/3").await == "free"
    });
    assert!(ended.await, "{}", pair.b.get("/v1/leases/k/3").await);
    assert!(within(ms(5_000), async || leases(&session.beat(&pair.b).await.1) == 11).await);

    // Its old home, another incarnation, passes on what it is asked, and takes it over in its turn.
    pair.a.start().await;
    assert_eq!(session.beat_until_answered(&pair.a).await.0, 200);
    pair.b.kill();
    let (status, beat) = session.beat_until_answered(&pair.a).await;
    assert_eq!((status, leases(&beat)), (200, 11), "{beat}");
    assert_eq!(beat["notices"], json!([]));
    let held = async || pair.a.metric("tenure_leases_held{pool=\"default\"}").await;
    assert!(within(ms(5_000), async || held().await == 11.0).await, "{}", held().await);
    let ended = session.close(&pair.a).await;
    assert_eq!(ended.1["destroyed"], true, "{ended:?}");
    for grant in &grants {
        let free = within(ms(DEATH_MS), async || state(&pair.a, &grant.key).await == "free");
        assert!(free.await, "{}", grant.key);
    }
    assert!(within(ms(5_000), async || held().await == 0.0).await, "{}", held().await);
}

async fn an_heir_runs_no_program_that_it_does_not_allow(pair: Pair) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ran");
    let sets = [pair.sets.as_slice(), &["limits.exec_checks=true".to_owned()]].concat();
    let mut first = Node::new("c", &sets, &ENVIRONMENT).configured(&pair.settings());
    first.start().await;
    let script = format!("echo ran >> {}", file.display());
    let check = json!({ "type": "exec", "command": ["/bin/sh", "-c", script], "interval_ms": 100,
        "timeout_ms": 5000, "fail_after": 3 });
    let body = json!({ "owner": "w", "ttl_ms": 20_000, "checks": [check] });
    let (status, session) = first.post("/v1/sessions", &body).await;
    assert_eq!(status, 201, "{session}");
    assert!(within(ms(DEATH_MS), async || file.exists()).await, "it runs where it may");
    first.kill();
    sleep_ms(200).await;
    std::fs::remove_file(&file).expect("it is there");
    let beat = format!("/v1/sessions/{}/heartbeat", session["id"].as_str().expect("an id"));
    let mut last = (0, Value::Null);
    let adopted_and_lost = within(ms(2 * DEATH_MS), async || {
        last = pair.b.try_post(&beat, &json!({})).await;
        last.0 == 409
    });
    assert!(adopted_and_lost.await, "{last:?}");
    assert_eq!(last.1["reason"], "revoked", "{last:?}");
    assert!(!file.exists(), "an heir ran the program");
}

async fn a_session_of_a_node_that_leaves_is_adopted_at_once(mut pair: Pair) {
    let session = Session::open(&pair.a, "w1", 8_000, 0).await;
    let grant = session.acquire(&pair.a, "rolled").await;
    pair.a.stop().await;
    let stopped = now();
    let (status, beat) = session.beat_until_answered(&pair.b).await;
    assert_eq!(status, 200, "{beat}");
    assert!(now() < stopped + ms(3_000), "nobody waits for the record of a node that left");
    // What was granted a moment before may be heard of a moment after.
    let counted = within(ms(5_000), async || leases(&session.beat(&pair.b).await.1) == 1);
    assert!(counted.await, "{}", session.beat(&pair.b).await.1);
    let check = json!({ "key": "rolled", "token": grant.token });
    assert_eq!(pair.b.post("/v1/check", &check).await.1["current"], true);
}

async fn a_session_of_a_node_that_slept_is_one_nodes(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let session = Session::open(a, "w1", 20_000, 0).await;
    let grant = session.acquire(a, "slept").await;
    a.signal(Signal::STOP);
    assert_eq!(session.beat_until_answered(b).await.0, 200, "adopted");
    let second = session.acquire(b, "later").await;
    a.signal(Signal::CONT);
    let (status, beat) = session.beat_until_answered(a).await;
    assert_eq!(status, 200, "{beat}");
    let both = within(ms(5_000), async || leases(&session.beat(a).await.1) == 2);
    assert!(both.await, "what it answers is what the home knows");
    assert_eq!(second.node, b.url);
    assert!(session.close(a).await.1["destroyed"] == true);
    for key in [&grant.key, &second.key] {
        assert!(within(ms(DEATH_MS), async || state(a, key).await == "free").await, "{key}");
    }
}

/// Not before all that its home may have promised has run out.
async fn a_session_that_nobody_keeps_ends_with_its_leases(mut pair: Pair) {
    let session = Session::open(&pair.a, "w1", 3_000, 0).await;
    let mut grants = Vec::new();
    for n in 0..5 {
        grants.push(session.acquire(&pair.b, &format!("left/{n}")).await);
    }
    let sent = now();
    let (status, beat) = session.beat(&pair.a).await;
    assert_eq!(status, 200, "{beat}");
    let until = sent + ms(beat["valid_for_ms"].as_u64().expect("a window"));
    pair.a.kill();
    for grant in &grants {
        let rival = json!({ "key": grant.key, "owner": "w2", "ttl_ms": 60_000, "wait_ms": 4_500 });
        let mut taken = Value::Null;
        let served = within(ms(DEATH_MS), async || {
            let (status, answer) = pair.b.post("/v1/acquire", &rival).await;
            taken = answer;
            status == 200
        });
        assert!(served.await, "{taken}");
        assert!(now() > until, "two owners at a time");
        assert!(Grant::of(&taken).token > grant.token);
    }
    assert_ended_once(&pair.b, &grants, 3).await;
    let (status, lost) = session.beat(&pair.b).await;
    assert_eq!((status, &lost["reason"]), (409, &json!("expired")), "{lost}");
}

/// Of each key the changes count 1, 2, 3…, and one is the end with its session.
async fn assert_ended_once(node: &Node, grants: &[Grant], each: usize) {
    let events = all_events(node, grants.len() * each).await;
    let mut seen: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for event in &events {
        let (seq, ends) = seen.entry(event["subject"].as_str().expect("a key")).or_default();
        *seq += 1;
        assert_eq!(event["data"]["seq"], *seq, "{event}");
        let kind = event["type"].as_str().expect("a type");
        *ends += u64::from(kind == "io.tenure.lease.session-ended");
    }
    for grant in grants {
        assert_eq!(seen.get(grant.key.as_str()).map(|(_, ends)| *ends), Some(1), "{}", grant.key);
    }
}

async fn who_dies_in_mid_sweep_is_succeeded(mut pair: Pair) {
    let session = Session::open(&pair.a, "w1", 60_000, 0).await;
    let mut grants = Vec::new();
    for n in 0..150 {
        grants.push(session.acquire(&pair.a, &format!("many/{n:03}")).await);
    }
    let closed = session.close(&pair.a).await;
    pair.a.kill();
    assert_eq!(closed.1["destroyed"], true, "{closed:?}");
    let mut held = Value::Null;
    let ended = within(ms(2 * DEATH_MS), async || {
        held = pair.b.get("/v1/leases?prefix=many/&state=held&limit=1000").await;
        held["leases"].as_array().is_some_and(Vec::is_empty)
    });
    assert!(ended.await, "{held}");
    assert_ended_once(&pair.b, &grants, 2).await;
}

/// The leases of an adopted session name the home before: they are found by the session's tombstone.
async fn also_where_the_leases_name_an_earlier_home(mut pair: Pair) {
    let session = Session::open(&pair.a, "w1", 60_000, 0).await;
    let mut grants = Vec::new();
    for n in 0..150 {
        grants.push(session.acquire(&pair.a, &format!("many/{n:03}")).await);
    }
    pair.a.kill();
    assert_eq!(session.beat_until_answered(&pair.b).await.0, 200);
    pair.a.start().await;
    assert_eq!(session.beat_until_answered(&pair.a).await.0, 200, "passed on");
    // Its actors of the leases have found the session alive.
    sleep_ms(1_500).await;
    let closed = session.close(&pair.b).await;
    pair.b.kill();
    assert_eq!(closed.1["destroyed"], true, "{closed:?}");
    let mut held = Value::Null;
    let ended = within(ms(2 * DEATH_MS), async || {
        held = pair.a.get("/v1/leases?prefix=many/&state=held&limit=1000").await;
        held["leases"].as_array().is_some_and(Vec::is_empty)
    });
    assert!(ended.await, "{held}");
    assert_ended_once(&pair.a, &grants, 2).await;
}

async fn a_lock_delay_is_the_same_at_every_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let session = Session::open(a, "w1", 20_000, 6_000).await;
    session.acquire(a, "shut").await;
    let sent = now();
    assert_eq!(session.close(b).await.1["destroyed"], true);
    for node in [a, b] {
        assert!(within(ms(3_000), async || state(node, "shut").await == "cooling").await);
    }
    let closed = now();
    let rival = json!({ "key": "shut", "owner": "w2", "ttl_ms": 5_000 });
    for node in [b, a] {
        let asked = now();
        let (status, problem) = node.post("/v1/acquire", &rival).await;
        let answered = now();
        assert_eq!((status, &problem["code"]), (423, &json!("cooling")), "{problem}");
        let left = ms(problem["retry_after_ms"].as_u64().expect("how long yet"));
        // Another node knows the home's clock as of a reading of its record, which is up to a quarter of
        // the record's time to live old.
        assert!(asked + left <= closed + ms(6_700), "{left:?} of 6 s too long");
        assert!(answered + left + ms(100) >= sent + ms(6_000), "{left:?} of 6 s too short");
    }
    let granted = within(ms(9_000), async || b.post("/v1/acquire", &rival).await.0 == 200);
    assert!(granted.await);
    assert!(now() + ms(100) >= sent + ms(6_000), "the lock-delay was cut short");
}

async fn who_waits_under_a_session_is_served_by_any_node(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let first = Session::open(a, "w1", 20_000, 0).await;
    let second = Session::open(a, "w2", 20_000, 0).await;
    let held = first.acquire(a, "queue").await;
    let mut asks = second.asks("queue");
    asks["wait_ms"] = json!(4_000);
    let release = async {
        sleep_ms(2_500).await;
        first.close(b).await
    };
    let ((status, grant), _) = tokio::join!(b.post("/v1/acquire", &asks), release);
    assert_eq!(status, 200, "{grant}");
    assert!(Grant::of(&grant).token > held.token);
}

/// Every node, and the store.
async fn dead_sessions_are_forgotten(pair: Pair) {
    let Pair { a, b, .. } = &pair;
    let keys = async |node: &Node| {
        // A list takes what is gone out of what the node knows.
        node.get("/v1/sessions").await;
        node.metric("tenure_store_keys").await
    };
    let mut sessions = Vec::new();
    for n in 0..12 {
        let session = Session::open(if n % 2 == 0 { a } else { b }, "w1", 1_000, 0).await;
        session.acquire(a, &format!("once/{}", n % 4)).await;
        if n % 3 != 0 {
            assert_eq!(session.close(b).await.1["destroyed"], true);
        }
        let free = async || state(a, &format!("once/{}", n % 4)).await == "free";
        assert!(within(ms(DEATH_MS), free).await);
        sessions.push(session);
    }
    let token = Session::open(a, "w2", 60_000, 0).await.acquire(b, "once/0").await.token;
    // Four keys, and the one that lives.
    let forgotten = within(ms(RETENTION_MS), async || keys(a).await <= 5.0 && keys(b).await <= 5.0);
    if !forgotten.await {
        for session in &sessions {
            println!("{}", session.beat(b).await.1["reason"]);
        }
        panic!("{} and {}", keys(a).await, keys(b).await);
    }
    for session in &sessions {
        let (status, lost) = session.beat(b).await;
        assert_eq!((status, &lost["reason"]), (409, &json!("unknown-lease")), "{lost}");
    }
    assert_eq!(a.get("/v1/leases/once/0").await["token"], token);
}

/// The embedded store has one node: what it does not finish, its next run does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_that_a_kill_cut_short_is_finished_by_the_next_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let sets = [format!("store.embedded.data_dir={}", dir.path().join("data").display())];
    let mut node = Node::new("one", &sets, &ENVIRONMENT);
    node.start().await;
    for round in 0..3 {
        let session = Session::open(&node, "w1", 60_000, 0).await;
        let keeps = Session::open(&node, "w2", 60_000, 0).await;
        let prefix = format!("many/{round}/");
        let mut grants = Vec::new();
        for n in 0..300 {
            grants.push(session.acquire(&node, &format!("{prefix}{n:03}")).await);
        }
        keeps.acquire(&node, &format!("kept/{round}")).await;
        assert_eq!(session.close(&node).await.1["destroyed"], true);
        node.kill();
        node.start().await;
        let listed = format!("/v1/leases?prefix={prefix}&state=held&limit=1000");
        let ended = within(ms(DEATH_MS), async || {
            node.get(&listed).await["leases"].as_array().is_some_and(Vec::is_empty)
        });
        assert!(ended.await, "round {round}");
        let (status, beat) = keeps.beat(&node).await;
        assert_eq!((status, leases(&beat)), (200, 1), "{beat}");
        assert_eq!(keeps.close(&node).await.1["destroyed"], true);
    }
    let keys = async |node: &Node| node.metric("tenure_store_keys").await;
    let forgotten = within(ms(RETENTION_MS), async || keys(&node).await <= 903.0);
    assert!(forgotten.await, "{}", keys(&node).await);
    node.kill();
    node.start().await;
    assert!(keys(&node).await <= 903.0, "what was forgotten does not come back");
}
