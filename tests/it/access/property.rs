//! Random principals and random calls, against a model of rights.
//!
//! Every caller knows every public fact: keys, owners, tokens, digests, and every lease id and request id that another
//! one was told. `SEED` and `STEPS` repeat a run.

use serde_json::{Value, json};
use tenure::clock::Chance;

use super::cast::{Guarded, acting_as};
use crate::support::{
    dice::Dice,
    harness::{Connection, Reply},
    seed::seed,
};

const KEYS: [&str; 6] = ["a/1", "a/2", "ab/1", "b/1", "b/a/1", "c"];
const PREFIXES: [&str; 6] = ["a", "a/", "ab/", "b/", "b/a/", "c"];
const OWNERS: [&str; 4] = ["w", "w-1", "x-1", "y"];
const PATTERNS: [&str; 5] = ["w", "w*", "x-*", "y", "*"];

/// The model: what a principal may do, and who holds what.
#[derive(Clone)]
struct Principal {
    name: String,
    hold: Vec<&'static str>,
    read: Vec<&'static str>,
    owner: &'static str,
}

#[derive(Clone)]
struct Held {
    by: usize,
    owner: &'static str,
    lease_id: String,
}

impl Principal {
    fn may(prefixes: &[&str], key: &str) -> bool {
        prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    fn acts_as(&self, owner: &str) -> bool {
        self.owner.strip_suffix('*').map_or(self.owner == owner, |start| owner.starts_with(start))
    }
}

/// What an acquire comes to.
fn acquired(
    who: &Principal,
    at: usize,
    held: Option<&Held>,
    key: &str,
    owner: &str,
    reclaim: bool,
) -> u16 {
    if !Principal::may(&who.hold, key) || !who.acts_as(owner) {
        return 403;
    }
    match held {
        None => 200,
        Some(held) if held.by == at && held.owner == owner && reclaim => 200,
        Some(_) => 409,
    }
}

/// What a call comes to that shows a lease id.
fn shown(who: &Principal, at: usize, held: Option<&Held>, key: &str, lease_id: &str) -> bool {
    Principal::may(&who.hold, key)
        && held.is_some_and(|held| held.by == at && held.lease_id == lease_id)
}

/// The keys that a list shows.
fn listed(who: &Principal, known: &[&'static str]) -> Vec<String> {
    let mut keys: Vec<_> = known.iter().filter(|key| Principal::may(&who.read, key)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|key| (*key).to_owned()).collect()
}

fn some_of(dice: &mut Chance) -> Vec<&'static str> {
    PREFIXES.into_iter().filter(|_| dice.index(3) == 0).collect()
}

fn cast(dice: &mut Chance) -> Vec<Principal> {
    let principal = |at: usize| Principal {
        name: format!("p{at}"),
        hold: some_of(dice),
        read: some_of(dice),
        owner: PATTERNS[dice.index(PATTERNS.len())],
    };
    // The first two may do the same: only who they are tells them apart.
    let mut all: Vec<Principal> = (0..6).map(principal).collect();
    (all[0].hold, all[0].owner) = (vec!["a", "b/", "c"], "*");
    (all[1].hold, all[1].owner) = (all[0].hold.clone(), "*");
    all
}

fn written(who: &Principal) -> String {
    let rights = |verb: &str, prefixes: &[&str]| {
        let one = |prefix: &&str| format!(r#"{{ verb = "{verb}", prefix = "{prefix}" }}"#);
        prefixes.iter().map(one).collect::<Vec<_>>()
    };
    let mut may = [rights("hold", &who.hold), rights("read", &who.read)].concat();
    may.push(r#"{ verb = "observe" }"#.to_owned());
    acting_as(&who.name, &may.join(", "), who.owner)
}

/// Runs one seed. `Err`: where the coordinator and the model differ.
pub async fn run(seed: u64, steps: usize, env: &[(&str, &str)]) -> Result<(), String> {
    let mut dice = Chance::new(seed);
    let cast = cast(&mut dice);
    let files: Vec<String> = cast.iter().map(written).collect();
    let guarded = Guarded::start_with(&files, env);
    let mut connection = Connection::open(guarded.server.addr).await;
    let mut held: Vec<Option<Held>> = vec![None; KEYS.len()];
    let mut told: Vec<(usize, String)> = Vec::new();
    let mut known: Vec<&'static str> = Vec::new();
    let mut carried_out = 0;
    for step in 0..steps {
        let at = dice.index(cast.len());
        let (who, on) = (&cast[at], dice.index(KEYS.len()));
        let (key, owner) = (KEYS[on], OWNERS[dice.index(OWNERS.len())]);
        let mut ask = async |path: &str, body: &Value| -> Reply {
            let method = if body.is_null() { "GET" } else { "POST" };
            super::cast::call(&mut connection, &who.name, method, path, body).await
        };
        let differs = |what: &str, reply: &Reply, expected: &dyn std::fmt::Debug| {
            Err(format!(
                "seed {seed}, step {step}: {what} of {key} for {owner} by {}: {} {}, and not {expected:?}",
                who.name,
                reply.status,
                reply.text()
            ))
        };
        match dice.index(10) {
            0..4 => {
                let reclaim = dice.index(2) == 0;
                // Everybody uses the same few request ids, and the same body.
                let request = format!("r{}", dice.index(3));
                let mut body =
                    json!({ "key": key, "owner": owner, "ttl_ms": 600_000, "reclaim": reclaim });
                let repeats = dice.index(3) == 0;
                if repeats {
                    body["request_id"] = request.into();
                }
                let expected = acquired(who, at, held[on].as_ref(), key, owner, reclaim);
                let reply = ask("/v1/acquire", &body).await;
                // A principal may repeat its own request: the model leaves those out, whatever comes of them.
                let own = repeats && [200, 409, 422].contains(&reply.status) && expected != 403;
                if reply.status != expected && !own {
                    return differs("acquire", &reply, &expected);
                }
                if reply.status == 200 {
                    let grant = reply.json();
                    let lease_id = grant["lease_id"].as_str().expect("lease_id").to_owned();
                    if told.iter().any(|(to, id)| *id == lease_id && *to != at) {
                        return differs("acquire", &reply, &"another lease id");
                    }
                    if !known.contains(&key) {
                        known.push(key);
                    }
                    told.push((at, lease_id.clone()));
                    held[on] = Some(Held { by: at, owner, lease_id });
                    carried_out += 1;
                }
            }
            path @ 4..8 if !told.is_empty() => {
                let lease_id = match &held[on] {
                    Some(held) if dice.index(2) == 0 => held.lease_id.clone(),
                    _ => told[dice.index(told.len())].1.clone(),
                };
                let expected = shown(who, at, held[on].as_ref(), key, &lease_id);
                let body = json!({ "key": key, "lease_id": lease_id });
                let path =
                    ["/v1/heartbeat", "/v1/heartbeat", "/v1/release", "/v1/transfer"][path - 4];
                let reply = ask(path, &body).await;
                let done = reply.status == 200 && reply.json()["released"] != false;
                if done != expected {
                    return differs(path, &reply, &expected);
                }
                if done {
                    carried_out += 1;
                    if path != "/v1/heartbeat" {
                        held[on] = None;
                    }
                }
            }
            8 => {
                let (mut keys, mut after) = (Vec::new(), String::new());
                loop {
                    let reply = ask(&format!("/v1/leases?limit=2{after}"), &Value::Null).await;
                    if who.read.is_empty() {
                        if reply.status != 403 {
                            return differs("list", &reply, &403);
                        }
                        break;
                    }
                    let page = reply.ok();
                    let leases = page["leases"].as_array().expect("leases").clone();
                    let more = leases.iter().map(|it| it["key"].as_str().expect("key").to_owned());
                    keys.extend(more);
                    let Some(next) = page["next"].as_str() else { break };
                    let visible = Principal::may(&who.read, next);
                    if leases.len() < 2 || !visible {
                        return differs("list", &reply, &"full pages that name nothing else");
                    }
                    after = format!("&after={next}");
                }
                if keys != listed(who, &known) {
                    return Err(format!("seed {seed}, step {step}: {} lists {keys:?}", who.name));
                }
            }
            _ => {
                let reply = ask(&format!("/v1/leases/{key}"), &Value::Null).await;
                let visible = Principal::may(&who.read, key);
                if visible == [401, 403].contains(&reply.status) {
                    return differs("get", &reply, &visible);
                }
            }
        }
    }
    assert!(carried_out > steps / 50, "seed {seed}: only {carried_out} calls were carried out");
    Ok(())
}

#[tokio::test]
async fn nobody_gets_what_is_anothers_whatever_they_know() {
    let steps = std::env::var("STEPS").ok().and_then(|it| it.parse().ok()).unwrap_or(1_500);
    run(seed("access"), steps, &[]).await.unwrap();
}
