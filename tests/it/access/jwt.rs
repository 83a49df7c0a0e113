//! Callers that show a JWT of an issuer whose public keys are in a file.

use serde_json::{Value, json};
use tenure::{
    client::Client,
    clock::{Clock as _, SystemClock},
};

use super::{
    cast::{Guarded, all_of, call, principal, write},
    signer::{Signer, jwks},
};
use crate::support::{
    clock::{eventually, soon},
    harness::{Connection, Grant},
};

const ISSUER: &str = "https://k8s.example";
const SUB: &str = "system:serviceaccount:prod:shards";
/// By how many seconds the clocks of issuer and coordinator may differ.
const LEEWAY: u64 = 30;

fn now() -> u64 {
    SystemClock::new().wall_ms() / 1000
}

/// The issuer, a service account that holds keys below `shards/`, and an administrator with a token.
fn file() -> Vec<String> {
    let issuer =
        format!("[[jwt]]\nissuer = \"{ISSUER}\"\nkeys = \"jwks.json\"\naudience = \"tenure\"\n");
    vec![issuer, shards(), principal("admin", &all_of(""))]
}

fn shards() -> String {
    let may = r#"{ verb = ["hold", "read", "check"], prefix = "shards/" }"#;
    let jwt = format!("jwt = [{{ issuer = \"{ISSUER}\", sub = \"{SUB}\" }}]");
    format!("[[principal]]\nname = \"shards\"\n{jwt}\nowner = \"*\"\nmay = [{may}]\n")
}

/// A coordinator that knows this key by the name `k`.
fn guarded_by(signer: &Signer) -> Guarded {
    Guarded::start_beside(&keys_of(signer), &file(), "", &[])
}

fn keys_of(signer: &Signer) -> [(&'static str, String); 1] {
    [("jwks.json", jwks(&[signer.jwk("k")]))]
}

/// Claims that are valid until this second, and for the leeway after it.
fn until(exp: u64) -> Value {
    json!({ "iss": ISSUER, "sub": SUB, "aud": ["tenure"], "exp": exp, "iat": now() - 600 })
}

fn acquire(key: &str, wait_ms: u64) -> Value {
    json!({ "key": key, "owner": "w", "ttl_ms": 600_000, "wait_ms": wait_ms })
}

/// A JWT that is valid for an hour, and for somebody else.
pub async fn status_for_another_audience(env: &[(&str, &str)]) -> u16 {
    let signer = Signer::ed25519();
    let guarded = Guarded::start_beside(&keys_of(&signer), &file(), "", env);
    let mut claims = until(now() + 3600);
    claims["aud"] = json!(["elsewhere"]);
    guarded.post(&signer.jwt("k", &claims), "/v1/acquire", &acquire("shards/1", 0)).await.status
}

#[tokio::test]
async fn a_jwt_holds_leases_within_the_rights_of_its_principal() {
    let signers = [Signer::rsa(), Signer::p256(), Signer::ed25519()];
    let keys: Vec<_> = signers.iter().map(|signer| signer.jwk(signer.alg())).collect();
    let guarded = Guarded::start_beside(&[("jwks.json", jwks(&keys))], &file(), "", &[]);
    for signer in &signers {
        let mut claims = until(now() + 3600);
        // As long as a JWT may be, or nearly.
        claims["pad"] = json!("x".repeat(5_300));
        let jwt = signer.jwt(signer.alg(), &claims);
        let key = format!("shards/{}", signer.alg());
        let held = Grant::of(&guarded.post(&jwt, "/v1/acquire", &acquire(&key, 0)).await.ok());
        for _ in 0..3 {
            guarded.post(&jwt, "/v1/heartbeat", &held.proof()).await.ok();
        }
        guarded.post(&jwt, "/v1/acquire", &acquire("jobs/1", 0)).await.problem(403, "forbidden");
        let revoke = json!({ "key": key, "reason": "r" });
        guarded.post(&jwt, "/v1/admin/revoke", &revoke).await.problem(403, "forbidden");
        // Another JWT of the same subject is the same principal.
        let next = signer.jwt(signer.alg(), &until(now() + 7200));
        guarded.post(&next, "/v1/heartbeat", &held.proof()).await.ok();
        assert!(!guarded.server.said().contains(&jwt[..40]), "no JWT is logged");
    }
    let lease = guarded.get("admin", "/v1/leases/shards/RS256").await.ok();
    assert_eq!(lease["state"], "held", "{lease}");
}

#[tokio::test]
async fn what_is_wrong_with_a_jwt_is_not_told() {
    let (signer, forger) = (Signer::p256(), Signer::p256());
    let guarded = guarded_by(&signer);
    let call = async |token: &str| {
        let answer = guarded.post(token, "/v1/acquire", &acquire("shards/1", 0)).await;
        answer.problem(401, "unauthenticated")
    };
    let told = call("garbage").await;
    let with = |claim: &str, value: Value| {
        let mut claims = until(now() + 3600);
        claims[claim] = value;
        claims
    };
    let good = until(now() + 3600);
    for claims in [
        with("aud", json!("other")),
        with("iss", json!("https://other.example")),
        with("sub", json!("system:serviceaccount:prod:other")),
        with("exp", json!(now() - LEEWAY)),
        with("exp", json!((now() + 3600).to_string())),
        with("exp", json!(now() + 25 * 3600)),
        with("nbf", json!(now() + 600)),
        with("nbf", json!("0")),
    ] {
        assert_eq!(call(&signer.jwt("k", &claims)).await, told, "{claims}");
    }
    let unsigned = format!("{}.", signer.jwt("k", &good).rsplit_once('.').expect("a dot").0);
    for jwt in [forger.jwt("k", &good), signer.jwt("other", &good), unsigned] {
        assert_eq!(call(&jwt).await, told);
    }
    guarded.post(&signer.jwt("k", &good), "/v1/acquire", &acquire("shards/1", 0)).await.ok();
    assert_eq!(status_for_another_audience(&[]).await, 401);
}

#[tokio::test]
async fn waits_and_streams_end_with_the_jwt_and_its_principal_goes_on() {
    let signer = Signer::ed25519();
    let guarded = guarded_by(&signer);
    let (busy, mine) = (acquire("shards/busy", 0), acquire("shards/mine", 0));
    guarded.post("admin", "/v1/acquire", &busy).await.ok();
    // It ends in 12 s, because of the leeway.
    let exp = now() + 12 - LEEWAY;
    let jwt = signer.jwt("k", &until(exp));
    let kept = &mut Connection::open(guarded.server.addr).await;
    let held = Grant::of(&call(kept, &jwt, "POST", "/v1/acquire", &mine).await.ok());
    let shown = format!("Bearer {jwt}");
    let open = async |method: &str, path: &str, body: String| {
        let mut connection = Connection::open(guarded.server.addr).await;
        let headers = [("Authorization", shown.as_str())];
        connection.send(method, path, &headers, body.as_bytes()).await;
        connection
    };
    let mut wait = open("POST", "/v1/acquire", acquire("shards/busy", 60_000).to_string()).await;
    let mut poll = open("GET", "/v1/events?format=json&wait_ms=30000", String::new()).await;
    let mut stream = open("GET", "/v1/events", String::new()).await;
    assert_eq!(stream.head().await.expect("a head").0, 200);
    eventually("the call waits", async || {
        guarded.get("admin", "/v1/leases/shards/busy").await.ok()["waiters"] == 1
    })
    .await;
    soon("an answer", wait.receive()).await.problem(401, "unauthenticated");
    assert!(now() >= exp + LEEWAY, "not before it ends");
    soon("an answer", poll.receive()).await.problem(401, "unauthenticated");
    while let Ok(Some(_)) = soon("the end of the stream", stream.chunk()).await {}
    guarded.post(&jwt, "/v1/heartbeat", &held.proof()).await.problem(401, "unauthenticated");
    let beat = call(kept, &jwt, "POST", "/v1/heartbeat", &held.proof()).await;
    beat.problem(401, "unauthenticated");
    // Whoever has a new JWT goes on with its lease.
    let renewed = signer.jwt("k", &until(now() + 3600));
    guarded.post(&renewed, "/v1/heartbeat", &held.proof()).await.ok();
}

#[tokio::test]
async fn keys_and_principals_that_a_reload_removes_count_no_longer() {
    let (old, new) = (Signer::ed25519(), Signer::ed25519());
    let guarded = guarded_by(&old);
    let keys = guarded.file.with_file_name("jwks.json");
    let (by_old, by_new) = (old.jwt("k", &until(now() + 3600)), new.jwt("n", &until(now() + 3600)));
    let held = guarded.post(&by_old, "/v1/acquire", &acquire("shards/1", 0)).await.ok();
    let proof = Grant::of(&held).proof();
    let beat = async |jwt: &str| guarded.post(jwt, "/v1/heartbeat", &proof).await;
    beat(&by_new).await.problem(401, "unauthenticated");
    // Both keys are known, then the new one alone.
    write(&keys, &[jwks(&[old.jwk("k"), new.jwk("n")])]);
    guarded.reload(&file()).await;
    beat(&by_old).await.ok();
    beat(&by_new).await.ok();
    let mut stream = Connection::open(guarded.server.addr).await;
    let shown = format!("Bearer {by_old}");
    stream.send("GET", "/v1/events", &[("Authorization", shown.as_str())], b"").await;
    assert_eq!(stream.head().await.expect("a head").0, 200);
    write(&keys, &[jwks(&[new.jwk("n")])]);
    guarded.reload(&file()).await;
    beat(&by_old).await.problem(401, "unauthenticated");
    beat(&by_new).await.ok();
    while let Ok(Some(_)) = soon("the end of the stream", stream.chunk()).await {}
    // A file that is no JWKS changes nothing.
    write(&keys, &["{}".to_owned()]);
    guarded.server.signal(rustix::process::Signal::HUP);
    eventually("the fault is told", async || guarded.server.said().contains("the rights stay"))
        .await;
    assert!(guarded.server.said().contains("jwt.keys"), "{}", guarded.server.said());
    beat(&by_new).await.ok();
    // The principal is gone, and its JWT was verified before.
    write(&keys, &[jwks(&[new.jwk("n")])]);
    let without: Vec<String> = file().into_iter().filter(|part| *part != shards()).collect();
    guarded.reload(&without).await;
    beat(&by_new).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_client_goes_on_with_the_jwt_that_its_file_has_by_then() {
    let signer = Signer::ed25519();
    let guarded = guarded_by(&signer);
    let exp = now() + 10 - LEEWAY;
    let (short, long) = (signer.jwt("k", &until(exp)), signer.jwt("k", &until(now() + 3600)));
    let held = guarded.post(&long, "/v1/acquire", &acquire("shards/1", 0)).await.ok();
    let token = held["token"].as_u64().expect("a token");
    let dir = tempfile::tempdir().expect("a directory");
    let projected = dir.path().join("token");
    write(&projected, &[short]);
    let url = format!("http://{}", guarded.server.addr);
    let client = Client::builder(&url).token_file(&projected).build().expect("a client");
    assert!(client.check("shards/1", token).await.expect("an answer").current);
    // The next one is there before the first one ends, as Kubernetes does it.
    write(&projected, &[long]);
    eventually("the first JWT has ended", async || now() > exp + LEEWAY).await;
    assert!(client.check("shards/1", token).await.expect("an answer").current);
}
