//! What is charged is what it costs: places in queues, what was looked at, new keys, and signatures that are verified.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]

use std::{fs, time::Duration};

use serde_json::{Value, json};

use super::{
    cast::{Guarded, all_of, call, principal},
    signer::{Signer, jwks},
};
use crate::{
    stream::rights::open,
    support::harness::{Connection, Grant, eventually},
};

pub fn limited(name: &str, prefix: &str, limit: &str) -> String {
    let may = format!(r#"{{ verb = ["hold", "read"], prefix = "{prefix}" }}"#);
    format!("{}limit = {{ {limit} }}\n", principal(name, &may))
}

fn all(name: &str) -> String {
    principal(name, &all_of(""))
}

/// The CPU time of all threads of a process. It counts what was done, however busy the machine is.
pub fn cpu_time(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("Linux");
    let of_task = |task: std::io::Result<fs::DirEntry>| {
        let shown = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        shown.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of_task).sum())
}

/// Keys `{prefix}0` and so on, all held by a principal with every right.
pub async fn hold_all(guarded: &Guarded, token: &str, prefix: &str, count: usize) -> Vec<String> {
    let keys: Vec<String> = (0..count).map(|at| format!("{prefix}{at}")).collect();
    for keys in keys.chunks(1000) {
        let any = json!({ "keys": keys, "count": keys.len(), "owner": "mate", "ttl_ms": 600_000 });
        let taken = guarded.post(token, "/v1/acquire-any", &any).await.ok();
        assert_eq!(taken["grants"].as_array().map(Vec::len), Some(keys.len()));
    }
    keys
}

fn waits_at(keys: &[String], wait_ms: u64) -> Value {
    json!({ "keys": keys, "owner": "w", "ttl_ms": 1_000, "wait_ms": wait_ms })
}

/// The answer to a call that may wait, beside one of another principal that waits at 250 keys. The limit is two places.
pub async fn waits_beside(env: &[(&str, &str)]) -> Value {
    let settings = "[limits]\nwaiting_places = 500\n";
    let principals =
        [limited("greedy", "g/", "waits = 2"), limited("other", "o/", "rate = 1000"), all("mate")];
    let guarded = Guarded::configured(&principals, settings, env);
    let keys = hold_all(&guarded, "mate", "g/", 250).await;
    hold_all(&guarded, "mate", "o/", 1).await;
    let wait = |at: usize| {
        let (keys, addr) = (keys.clone(), guarded.server.addr);
        tokio::spawn(async move {
            let mut body = waits_at(&keys, 3_000);
            body["owner"] = json!(format!("w{at}"));
            let mut connection = Connection::open(addr).await;
            call(&mut connection, "greedy", "POST", "/v1/acquire-any", &body).await
        })
    };
    let waiting = [wait(0), wait(1)];
    tokio::time::sleep(Duration::from_millis(700)).await;
    let body = json!({ "key": "o/0", "owner": "w", "ttl_ms": 1_000, "wait_ms": 300 });
    let other = guarded.post("other", "/v1/acquire", &body).await;
    for waiting in waiting {
        let reply = waiting.await.expect("it does not panic");
        if env.is_empty() {
            let problem = reply.problem(429, "limit-reached");
            let detail = problem["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("wait at 250 keys") && detail.contains("`waits`"), "{detail}");
        }
    }
    other.json()
}

#[tokio::test]
async fn a_call_that_waits_costs_a_place_for_each_of_its_keys() {
    assert_eq!(waits_beside(&[]).await["code"], "held");
}

#[tokio::test]
async fn a_call_that_waits_at_many_keys_for_one_place_is_noticed() {
    // The calls take two places of 500, but a principal that is counted like this may wait at any number of keys.
    let env = [("TENURE_TEST_BROKEN_ACCESS", "WaitsCountCalls")];
    assert_eq!(waits_beside(&env).await["code"], "held");
    let broken = Guarded::configured(
        &[limited("greedy", "g/", "waits = 2"), all("mate")],
        "[limits]\nwaiting_places = 500\n",
        &env,
    );
    let keys = hold_all(&broken, "mate", "g/", 250).await;
    let reply = broken.post("greedy", "/v1/acquire-any", &waits_at(&keys, 100)).await;
    reply.problem(409, "none-available");
}

#[tokio::test]
async fn one_principal_has_at_most_half_of_the_places_to_wait_at() {
    let settings = "[limits]\nwaiting_places = 100\n";
    let principals = [limited("greedy", "g/", "rate = 10000"), all("mate")];
    let guarded = Guarded::configured(&principals, settings, &[]);
    let keys = hold_all(&guarded, "mate", "g/", 60).await;
    let refused = guarded.post("greedy", "/v1/acquire-any", &waits_at(&keys, 1_000)).await;
    let problem = refused.problem(429, "limit-reached");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("at 50 at a time") && detail.contains("waiting_places"), "{detail}");
    let reply = guarded.post("greedy", "/v1/acquire-any", &waits_at(&keys[..50], 100)).await;
    reply.problem(409, "none-available");
    let metrics = guarded.get("mate", "/metrics").await.text();
    assert!(metrics.contains("tenure_limited_total{limit=\"waiting_places\"} 1"));
}

/// For how many milliseconds a principal with a rate of 10 is refused after this call.
async fn pause_after(guarded: &Guarded, path: &str) -> (Value, u64) {
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let answer = guarded.get("narrow", path).await.ok();
    let mut pause = 0;
    for _ in 0..15 {
        let next = guarded.get("narrow", "/v1/leases?limit=1").await;
        if next.status == 429 {
            pause = next.json()["retry_after_ms"].as_u64().expect("a pause");
            break;
        }
    }
    eventually("it is served again", async || {
        guarded.get("narrow", "/v1/leases?limit=1").await.status == 200
    })
    .await;
    (answer, pause)
}

/// A coordinator with 3000 leases, and with a reader that has a rate of 10.
async fn with_a_reader(env: &[(&str, &str)]) -> Guarded {
    let reader = principal("narrow", r#"{ verb = "read", prefix = "" }"#);
    let principals = [format!("{reader}limit = {{ rate = 10 }}\n"), all("mate")];
    let guarded = Guarded::configured(&principals, "", env);
    hold_all(&guarded, "mate", "k/", 3_000).await;
    guarded
}

#[tokio::test]
async fn looks_that_cost_nothing_are_noticed() {
    let guarded = with_a_reader(&[("TENURE_TEST_BROKEN_ACCESS", "LooksAreFree")]).await;
    let (_, pause) = pause_after(&guarded, "/v1/leases?owner=nobody&limit=1").await;
    assert!(pause < 1_000, "{pause} ms");
}

#[tokio::test]
async fn what_was_looked_at_is_charged_and_not_what_came_out() {
    let guarded = with_a_reader(&[]).await;
    for path in ["/v1/leases?owner=nobody&limit=1", "/v1/leases?state=cooling&limit=1"] {
        let (answer, pause) = pause_after(&guarded, path).await;
        assert_eq!(answer["leases"], json!([]));
        // 30 calls, less those of the second that there is at once.
        assert!(pause >= 1_000, "{path}: {pause} ms");
    }
    let (answer, pause) = pause_after(&guarded, "/v1/leases?limit=10").await;
    assert_eq!(answer["leases"].as_array().map(Vec::len), Some(10));
    assert!(pause < 1_000, "a short list costs little: {pause} ms");
    let after = guarded.server_cursor("mate").await;
    let path = format!("/v1/events?format=json&owner=nobody&after={after}");
    let (answer, pause) = pause_after(&guarded, &path).await;
    assert_eq!((&answer["events"], &answer["more"]), (&json!([]), &json!(false)));
    assert!(pause >= 1_000, "{pause} ms");
}

#[tokio::test]
async fn a_page_of_events_looks_at_a_bounded_number_of_changes_and_says_that_there_is_more() {
    let reader = principal("narrow", r#"{ verb = "read", prefix = "v/" }"#);
    let guarded = Guarded::start(&[reader, all("mate")], &[]);
    hold_all(&guarded, "mate", "k/", 8_000).await;
    hold_all(&guarded, "mate", "v/", 1).await;
    let mut after = guarded.server_cursor("mate").await;
    let mut pages = Vec::new();
    loop {
        // A wait does not make the page longer.
        let path = format!("/v1/events?format=json&wait_ms=2000&after={after}");
        let page = guarded.get("narrow", &path).await.ok();
        let events = page["events"].as_array().map_or(0, Vec::len);
        pages.push((events, page["more"] == true));
        assert_ne!(page["next"], json!(after), "each page goes on");
        after = page["next"].as_str().expect("a cursor").to_owned();
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(pages, [(0, true), (1, false)], "nothing is cut off");
    // The library goes on by itself.
    let client =
        tenure::client::Client::builder(&format!("http://{}", guarded.server.addr)).token("narrow");
    let client = client.build().expect("a client");
    let filter = tenure::client::EventFilter {
        after: Some(guarded.server_cursor("mate").await),
        ..Default::default()
    };
    let past = client.past_events(&filter).await.expect("events");
    assert_eq!(past.events.len(), 1);
}

#[tokio::test]
async fn a_principal_has_as_many_new_keys_per_hour_as_it_may() {
    let principals = [limited("maker", "", "new_keys = 3"), all("mate")];
    let settings = "[[policy]]\nprefix = \"p/\"\npermits = 2\n";
    let guarded = Guarded::configured(&principals, settings, &[]);
    hold_all(&guarded, "mate", "old/", 3).await;
    let acquire = |key: &str| json!({ "key": key, "owner": "w", "ttl_ms": 60_000 });
    let post = async |path: &str, body: &Value| guarded.post("maker", path, body).await;
    let refused = |reply: &crate::support::harness::Reply| {
        let problem = reply.problem(429, "limit-reached");
        let detail = problem["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.contains("`new_keys`: at most 3 new keys per hour"), "{detail}");
        let after = problem["retry_after_ms"].as_u64().expect("a pause");
        assert!((3_400_000..=3_660_000).contains(&after), "{after}");
    };
    let held = Grant::of(&post("/v1/acquire", &acquire("new/1")).await.ok());
    // A key of before, and its own again, are not new. A call that is refused takes nothing.
    post("/v1/acquire", &acquire("old/0")).await.problem(409, "held");
    post("/v1/release", &held.proof()).await.ok();
    post("/v1/acquire", &acquire("new/1")).await.ok();
    let any =
        json!({ "keys": ["new/2", "new/3", "new/4"], "count": 3, "owner": "w", "ttl_ms": 60_000 });
    let taken = post("/v1/acquire-any", &any).await.ok();
    assert_eq!(taken["grants"].as_array().map(Vec::len), Some(2), "{taken}");
    refused(&post("/v1/acquire", &acquire("new/5")).await);
    refused(&post("/v1/acquire", &acquire("p/1")).await);
    let list = json!({ "keys": [{ "key": "new/6" }], "owner": "w", "ttl_ms": 60_000 });
    refused(&post("/v1/acquire-all", &list).await);
    let mut any = json!({ "keys": ["new/7", "new/8"], "count": 1, "owner": "w", "ttl_ms": 60_000 });
    refused(&post("/v1/acquire-any", &any).await);
    // A queue would grant them at once.
    any["wait_ms"] = json!(2_000);
    refused(&post("/v1/acquire-any", &any).await);
    let mut list = json!({ "keys": [{ "key": "p/2" }], "owner": "w", "ttl_ms": 60_000 });
    list["wait_ms"] = json!(2_000);
    refused(&post("/v1/acquire-all", &list).await);
    any["keys"] = json!(["new/7", "old/1"]);
    any["wait_ms"] = json!(300);
    // The other key is waited for, and the answer says why this one was left out.
    let began = std::time::Instant::now();
    refused(&post("/v1/acquire-any", &any).await);
    assert!(began.elapsed() >= Duration::from_millis(300));
    for key in ["new/5", "new/6", "new/7", "p/1%231", "p/2%231"] {
        guarded.get("mate", &format!("/v1/leases/{key}")).await.problem(404, "unknown-key");
    }
    // Others go on, and what it has goes on.
    guarded.post("mate", "/v1/acquire", &acquire("new/5")).await.ok();
    post("/v1/acquire", &acquire("new/5")).await.problem(409, "held");
    let metrics = guarded.get("mate", "/metrics").await.text();
    let counted =
        metrics.lines().find(|line| line.starts_with("tenure_limited_total{limit=\"new_keys\"}"));
    assert!(counted.is_some_and(|line| !line.ends_with(" 0")), "{counted:?}");
}

const ISSUER: &str = "https://k8s.example";

pub fn issuer() -> String {
    format!("[[jwt]]\nissuer = \"{ISSUER}\"\nkeys = \"jwks.json\"\naudience = \"tenure\"\n")
}

fn shards() -> String {
    format!(
        "[[principal]]\nname = \"shards\"\njwt = {{ issuer = \"{ISSUER}\", sub = \"shards\" }}\nowner = \"*\"\n\
         may = [{{ verb = [\"hold\", \"read\"], prefix = \"\" }}]\n"
    )
}

pub fn keys() -> (Vec<Signer>, String) {
    let signers: Vec<Signer> = (0..4).map(|_| Signer::p256()).collect();
    let keys: Vec<Value> =
        signers.iter().enumerate().map(|(at, signer)| signer.jwk(&at.to_string())).collect();
    (signers, jwks(&keys))
}

pub fn claims(number: u64) -> Value {
    use tenure::clock::{Clock as _, SystemClock};
    let now = SystemClock::new().wall_ms() / 1000;
    json!({ "iss": ISSUER, "sub": "shards", "aud": "tenure", "exp": now + 3600, "number": number })
}

/// JWTs of a stranger: each is another one, and looks right but for its signature.
pub fn forged(stranger: &Signer, number: u64) -> String {
    stranger.jwt("0", &claims(number))
}

async fn status(connection: &mut Connection, token: &str) -> u16 {
    call(connection, token, "GET", "/v1/leases?limit=1", &Value::Null).await.status
}

/// While a stranger shows forged JWTs, its address has no verification left.
async fn without_verifications(env: &[(&str, &str)]) -> f64 {
    let (signers, jwks) = keys();
    let principals = [issuer(), shards(), all("mate")];
    let guarded = Guarded::start_beside(&[("jwks.json", jwks)], &principals, "", env);
    let addr = guarded.server.addr;
    let stranger = Signer::p256();
    let mut holder = Connection::open(addr).await;
    let known = signers[1].jwt("1", &claims(0));
    assert_eq!(status(&mut holder, &known).await, 200);
    let flood: Vec<String> = (0..400).map(|number| forged(&stranger, number)).collect();
    let mut connection = Connection::open(addr).await;
    for jwt in &flood {
        assert_eq!(status(&mut connection, jwt).await, 401);
    }
    // What is good is still served: one that is known, anywhere; a new one on the holder's own connection, and one on a
    // new connection.
    assert_eq!(status(&mut Connection::open(addr).await, &known).await, 200);
    assert_eq!(status(&mut holder, &signers[2].jwt("2", &claims(1))).await, 200);
    assert_eq!(
        status(&mut Connection::open(addr).await, &signers[3].jwt("3", &claims(2))).await,
        200
    );
    let metrics = guarded.get("mate", "/metrics").await.text();
    let name = "tenure_limited_total{limit=\"forgeries\"}";
    let line = metrics.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0.0)
}

#[tokio::test]
async fn forged_jwts_are_refused_without_being_verified_and_holders_at_the_same_address_go_on() {
    let refused = without_verifications(&[]).await;
    // 20 at once, 20 per second, and one of the connection.
    assert!(refused >= 200.0, "{refused}");
}

#[tokio::test]
async fn verifications_without_a_bound_are_noticed() {
    let env = [("TENURE_TEST_BROKEN_ACCESS", "VerificationsWithoutBound")];
    assert!(without_verifications(&env).await < 1.0);
}

async fn cost_of_forged(guarded: &Guarded, count: u64) -> Duration {
    let stranger = Signer::p256();
    let flood: Vec<String> = (0..count).map(|number| forged(&stranger, number)).collect();
    cost_of(guarded, &flood).await
}

/// What the server takes for these tokens, all refused.
async fn cost_of(guarded: &Guarded, tokens: &[String]) -> Duration {
    let mut connection = Connection::open(guarded.server.addr).await;
    let before = cpu_time(guarded.server.pid());
    for token in tokens {
        assert_eq!(status(&mut connection, token).await, 401);
    }
    (cpu_time(guarded.server.pid()) - before) / u32::try_from(tokens.len()).expect("few")
}

/// Counted in CPU time, so a busy machine changes little.
#[tokio::test]
async fn a_refusal_costs_at_most_five_times_a_wrong_token() {
    let (_, jwks) = keys();
    let principals = [issuer(), shards(), limited("slow", "", "rate = 1")];
    let guarded = Guarded::start_beside(&[("jwks.json", jwks)], &principals, "", &[]);
    let wrong: Vec<String> = (0..2_000).map(|at| format!("tnr_{at:051}")).collect();
    let wrong = cost_of(&guarded, &wrong).await;
    let forged = cost_of_forged(&guarded, 2_000).await;
    assert!(forged <= 5 * wrong, "a forged JWT: {forged:?}, a wrong token: {wrong:?}");
    let batch = format!(r#""leases":[{}]"#, vec![r#"{"key":"k","lease_id":"0"}"#; 500].join(","));
    let kinds: [(&str, String); 4] = [
        ("cancel", r#""op":"cancel","params":{"call":7}"#.to_owned()),
        ("an unknown operation", r#""op":"fly""#.to_owned()),
        ("a heartbeat", r#""op":"heartbeat","body":{"key":"k","lease_id":"0"}"#.to_owned()),
        ("a batch of 13 KB", format!(r#""op":"heartbeats","body":{{{batch}}}"#)),
    ];
    for (kind, rest) in kinds {
        let mut talk = open(&guarded, "slow").await;
        // Long messages are refused at a slower pace.
        let count = if rest.len() > 1024 { 100 } else { 1_000 };
        let (before, began, mut served) =
            (cpu_time(guarded.server.pid()), std::time::Instant::now(), 0);
        for id in 1..=count {
            talk.send_text(format!(r#"{{"id":{id},{rest}}}"#)).await;
            let answer = talk.message().await.expect("an answer");
            served += u64::from(answer["status"] != 429);
        }
        // One call each second is allowed, and some at once.
        assert!(served <= 3 + began.elapsed().as_secs(), "{kind}: {served} served");
        let cost = (cpu_time(guarded.server.pid()) - before) / count;
        assert!(cost <= 5 * wrong, "{kind}: {cost:?}, a wrong token: {wrong:?}");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
}
