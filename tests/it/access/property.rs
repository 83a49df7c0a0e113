//! Random principals and random calls, against a model of rights.
//!
//! Every caller knows every public fact: keys, owners, tokens, digests, and every lease id, session id and request id
//! that another one was told. `SEED` and `STEPS` repeat a run.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tenure::clock::Chance;

use super::{
    cast::{Guarded, acting_as, all_of, principal},
    rights::{Rights, may},
    world::World,
};
use crate::support::{clock::eventually, dice::Dice, harness::Connection, seed::seed};

const RIGHTS: [&str; 10] = ["a", "a/", "ab/", "b/", "b/a/", "c", "=a/1", "=b/1", "=b/a", "=ab/1"];
const PATTERNS: [&str; 5] = ["w", "w*", "x-*", "y", "*"];

/// The pools whose members are seen by whoever reads all their keys.
const POLICIES: &str = r#"
[[policy]]
prefix = "a/"
pool = "pool-a"

[[policy]]
prefix = "b/"
pool = "pool-b"
"#;

fn some_of(dice: &mut Chance) -> Vec<&'static str> {
    RIGHTS.into_iter().filter(|_| dice.index(3) == 0).collect()
}

fn cast(dice: &mut Chance) -> Vec<Rights> {
    let principal = |at: usize| Rights {
        name: format!("p{at}"),
        hold: some_of(dice),
        read: some_of(dice),
        check: some_of(dice),
        owner: PATTERNS[dice.index(PATTERNS.len())],
    };
    // The first two may do the same: only who they are tells them apart.
    let mut all: Vec<Rights> = (0..6).map(principal).collect();
    (all[0].hold, all[0].owner) = (vec!["a", "b/", "c"], "*");
    (all[1].hold, all[1].owner) = (all[0].hold.clone(), "*");
    all
}

fn written(who: &Rights) -> String {
    let rights = |verb: &str, rights: &[&str]| {
        let one = |right: &&str| match right.strip_prefix('=') {
            Some(key) => format!(r#"{{ verb = "{verb}", key = "{key}" }}"#),
            None => format!(r#"{{ verb = "{verb}", prefix = "{right}" }}"#),
        };
        rights.iter().map(one).collect::<Vec<_>>()
    };
    let all = [rights("hold", &who.hold), rights("read", &who.read), rights("check", &who.check)];
    let mut may = all.concat();
    may.push(r#"{ verb = "observe" }"#.to_owned());
    acting_as(&who.name, &may.join(", "), who.owner)
}

/// What a stream says that is open throughout.
type Heard = Arc<Mutex<String>>;

/// Subscribes to all events; `None` for a principal that may read nothing.
async fn subscribe(guarded: &Guarded, who: &Rights) -> Option<Heard> {
    let mut connection = Connection::open(guarded.server.addr).await;
    let token = format!("Bearer {}", who.name);
    connection.send("GET", "/v1/events", &[("Authorization", &token)], b"").await;
    let (status, _) = connection.head().await.expect("a head");
    assert_eq!(status, if who.read.is_empty() { 403 } else { 200 });
    let heard = (status == 200).then(Heard::default)?;
    let hears = heard.clone();
    tokio::spawn(async move {
        while let Ok(Some(chunk)) = connection.chunk().await {
            hears.lock().expect("no panic").push_str(&String::from_utf8_lossy(&chunk));
        }
    });
    Some(heard)
}

/// The stream has said all that the principal may read, and nothing else.
async fn compare(heard: &Heard, who: &Rights, events: &[Value]) -> Result<(), String> {
    let is_readable = |event: &&Value| may(&who.read, event["subject"].as_str().expect("a key"));
    let expected: Vec<&str> =
        events.iter().filter(is_readable).map(|it| it["id"].as_str().expect("an id")).collect();
    let ids = || {
        let heard = heard.lock().expect("no panic");
        let ids = heard.lines().filter_map(|line| line.strip_prefix("id: "));
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    eventually("the stream has its last event", async || ids().len() >= expected.len()).await;
    let ids = ids();
    if ids == expected { Ok(()) } else { Err(format!("{} hears {ids:?}", who.name)) }
}

/// Runs one seed. `Err`: where the coordinator and the model differ.
pub async fn run(seed: u64, steps: usize, env: &[(&str, &str)]) -> Result<(), String> {
    let mut dice = Chance::new(seed);
    let cast = cast(&mut dice);
    let mut files: Vec<String> = cast.iter().map(written).collect();
    files.push(principal("all", &all_of("")));
    let guarded = Guarded::configured(&files, POLICIES, env);
    let mut streams = Vec::new();
    for who in &cast {
        streams.push(subscribe(&guarded, who).await);
    }
    let mut world = World::new(guarded, cast).await;
    for step in 0..steps {
        let done = world.step(&mut dice).await;
        done.map_err(|how| format!("seed {seed}, step {step}: {how}"))?;
    }
    let events = world.history("all").await;
    for (heard, who) in streams.iter().zip(&world.cast) {
        if let Some(heard) = heard {
            compare(heard, who, &events).await.map_err(|how| format!("seed {seed}: {how}"))?;
        }
    }
    let done = world.carried_out;
    assert!(done > steps / 50, "seed {seed}: only {done} calls were carried out");
    Ok(())
}

#[tokio::test]
async fn nobody_gets_what_is_anothers_whatever_they_know() {
    let steps = std::env::var("STEPS").ok().and_then(|it| it.parse().ok()).unwrap_or(1_500);
    run(seed("access"), steps, &[]).await.unwrap();
}
