//! `tenure work`.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::harness::process::Server;

use crate::work::{
    agent::{Agent, Place, lease, post},
    process::{PATIENCE, lives, ms, within},
};

/// Writes its number and its token to a file named by its key, and ends when it is told to.
const WORKER: &str = "trap 'exit 0' TERM; echo \"$$ $TENURE_TOKEN $TENURE_VALUE\" > $D/$TENURE_KEY; \
                      while :; do sleep 0.05; done";

fn work(place: &Place, server: &Server, args: &str, line: &str) -> Agent {
    let args = format!("work --pool default --ttl 2s --grace 300ms {args}");
    place.agent(server.addr, &args, line)
}

/// The number, the token and the value that the program of a key wrote, when it did.
fn written(place: &Place, key: &str) -> Option<(u32, u64, String)> {
    let text = place.read(key);
    let mut words = text.strip_suffix('\n')?.splitn(3, ' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.to_owned()))
}

async fn runs(place: &Place, keys: &[&str]) {
    let all = || keys.iter().all(|key| written(place, key).is_some_and(|(pid, ..)| lives(pid)));
    let found = || keys.iter().map(|key| written(place, key)).collect::<Vec<_>>();
    assert!(within(PATIENCE, async || all()).await, "{:?}", found());
}

#[tokio::test]
async fn it_runs_one_program_for_each_lease_and_drains() {
    let (server, place) = (Server::start(), Place::new());
    let mut agent = work(&place, &server, "--keys a,b,c --owner w", WORKER);
    runs(&place, &["a", "b", "c"]).await;
    let pids: Vec<u32> =
        ["a", "b", "c"].map(|key| written(&place, key).expect("it runs").0).to_vec();
    agent.signal(Signal::TERM);
    let over = agent.over().await;
    assert_eq!(over.code(), 0, "{}", over.stderr);
    assert!(pids.iter().all(|&pid| !lives(pid)));
    for key in ["a", "b", "c"] {
        assert_eq!(lease(server.addr, key).await["state"], "free", "{key}");
        assert!(over.stderr.contains(&format!("{key}: started token=")), "{}", over.stderr);
        assert!(over.stderr.contains(&format!("{key}: handed over")), "{}", over.stderr);
    }
}

/// Each program leaves a value, and writes down who ran it.
const REMEMBERS: &str = "trap 'printf %s \"after $TENURE_TOKEN\" > $TENURE_VALUE_FILE; exit 0' TERM; \
                         echo \"$$ $TENURE_TOKEN $TENURE_VALUE\" > $D/$TENURE_KEY; \
                         echo \"$TENURE_OWNER\" >> $D/$TENURE_KEY.owners; while :; do sleep 0.05; done";

#[tokio::test]
async fn a_rolling_restart_of_named_agents_moves_no_key() {
    let policy =
        "[[policy]]\nprefix = \"\"\npool = \"default\"\nbalance = true\nrejoin_window = \"1m\"\n";
    let (server, place) = (Server::configured(policy), Place::new());
    let keys: Vec<String> = (0..12).map(|n| format!("k{n:02}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let start = |owner: &str| {
        let args = format!("--keys {} --owner {owner}", keys.join(","));
        work(&place, &server, &args, REMEMBERS)
    };
    let owners = ["w0", "w1", "w2"];
    let mut agents: Vec<Agent> = owners.iter().map(|owner| start(owner)).collect();
    runs(&place, &keys).await;
    let of = async || {
        let mut of = Vec::new();
        for key in &keys {
            of.push(lease(server.addr, key).await["owner"].clone());
        }
        of
    };
    let shares = |of: &[Value]| owners.map(|owner| of.iter().filter(|it| **it == owner).count());
    let mut before = of().await;
    let even = within(PATIENCE, async || {
        before = of().await;
        shares(&before) == [4; 3]
    });
    assert!(even.await, "{before:?}");
    // A key that moved a moment ago has a program that has not written yet.
    runs(&place, &keys).await;
    let tokens: Vec<u64> =
        keys.iter().map(|key| written(&place, key).expect("it runs").1).collect();
    for owner in owners {
        let mut agent = agents.remove(0);
        agent.signal(Signal::TERM);
        let over = agent.over().await;
        assert_eq!(over.code(), 0, "{}", over.stderr);
        assert_eq!(over.stderr.matches(": kept").count(), 4, "{}", over.stderr);
        agents.push(start(owner));
        runs(&place, &keys).await;
    }
    assert_eq!(of().await, before);
    for (key, first) in keys.iter().zip(tokens) {
        let (_, token, value) = written(&place, key).expect("it runs");
        assert!(token > first, "{key}");
        assert_eq!(value, format!("after {first}"), "{key}");
    }
}

#[tokio::test]
async fn a_named_agent_that_is_told_to_drain_keeps_nothing() {
    let policy = "[[policy]]\nprefix = \"\"\npool = \"default\"\nrejoin_window = \"1m\"\n";
    let (server, place) = (Server::configured(policy), Place::new());
    let mut agent = work(&place, &server, "--keys a,b --owner w --drain", WORKER);
    runs(&place, &["a", "b"]).await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 0);
    for key in ["a", "b"] {
        assert_eq!(lease(server.addr, key).await["state"], "free", "{key}");
    }
}

#[tokio::test]
async fn one_that_an_administrator_drains_hands_over_and_ends() {
    let policy = "[[policy]]\nprefix = \"\"\npool = \"default\"\nbalance = true\n";
    let (server, place) = (Server::configured(policy), Place::new());
    let agent = work(&place, &server, "--keys a,b --owner w", WORKER);
    runs(&place, &["a", "b"]).await;
    let drained = post(server.addr, "admin/drain", &json!({ "owner": "w" })).await;
    assert_eq!(drained["draining"], 1, "{drained}");
    let over = agent.over().await;
    assert_eq!(over.code(), 0, "{}", over.stderr);
    for key in ["a", "b"] {
        assert_eq!(lease(server.addr, key).await["state"], "free", "{key}");
        assert!(over.stderr.contains(&format!("{key}: handed over")), "{}", over.stderr);
    }
}

#[tokio::test]
async fn a_successor_reads_what_the_program_left() {
    let (server, place) = (Server::start(), Place::new());
    let line = "trap 'printf mark-5 > $TENURE_VALUE_FILE; exit 0' TERM; echo $TENURE_TOKEN > $D/first; \
                while :; do sleep 0.05; done";
    let mut first = work(&place, &server, "--keys a --owner w1", line);
    let before = u64::from(place.pid("first").await);
    let mut second = work(&place, &server, "--keys a --owner w2", WORKER);
    tokio::time::sleep(ms(300)).await;
    first.signal(Signal::TERM);
    assert_eq!(first.over().await.code(), 0);
    runs(&place, &["a"]).await;
    let (_, token, value) = written(&place, "a").expect("it runs");
    assert!(token > before, "{token} after {before}");
    assert_eq!(value, "mark-5");
    second.signal(Signal::TERM);
    assert_eq!(second.over().await.code(), 0);
}

#[tokio::test]
async fn a_second_signal_kills_programs_that_take_their_time() {
    let (server, place) = (Server::start(), Place::new());
    let line = "trap '' TERM; echo \"$$ 1 \" > $D/$TENURE_KEY; while :; do sleep 0.05; done";
    let args = "work --pool default --ttl 20s --grace 9s --keys a,b";
    let mut agent = place.agent(server.addr, args, line);
    runs(&place, &["a", "b"]).await;
    agent.signal(Signal::TERM);
    tokio::time::sleep(ms(500)).await;
    assert!(!agent.has_ended());
    let from = tenure::clock::boottime_ms();
    agent.signal(Signal::INT);
    assert_eq!(agent.over().await.code(), 0);
    assert!(tenure::clock::boottime_ms() - from < 4000);
}

#[tokio::test]
async fn a_program_is_started_again_or_not_as_the_policy_says() {
    let (server, place) = (Server::start(), Place::new());
    let line = "echo $$ >> $D/runs-$TENURE_KEY; exit 0";
    let mut always = work(&place, &server, "--keys a", line);
    assert!(within(PATIENCE, async || place.read("runs-a").lines().count() >= 3).await);
    always.signal(Signal::TERM);
    assert_eq!(always.over().await.code(), 0);
    let mut on_failure = work(&place, &server, "--keys b --restart on-failure", line);
    assert!(within(PATIENCE, async || place.read("runs-b").lines().count() == 1).await);
    tokio::time::sleep(ms(700)).await;
    assert_eq!(place.read("runs-b").lines().count(), 1);
    assert_eq!(lease(server.addr, "b").await["state"], "held", "it is done, and stays so");
    on_failure.signal(Signal::TERM);
    assert_eq!(on_failure.over().await.code(), 0);
}

#[tokio::test]
async fn a_program_that_fails_again_and_again_gives_its_key_back() {
    let (server, place) = (Server::start(), Place::new());
    let mut agent = work(&place, &server, "--keys a --output json", "echo x >> $D/tries; exit 1");
    assert!(within(PATIENCE, async || place.read("tries").lines().count() >= 5).await);
    // Another worker finds it free, or is next.
    let line = "echo $TENURE_TOKEN > $D/token";
    let other = place.agent(server.addr, "run --key a --wait 10s", line).over().await;
    assert_eq!(other.code(), 0, "{}", other.stderr);
    agent.signal(Signal::TERM);
    let over = agent.over().await;
    let events: Vec<Value> =
        over.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(
        events.iter().any(|event| event["what"] == "given back" && event["key"] == "a"),
        "{}",
        over.stderr
    );
}

#[tokio::test]
async fn a_revoked_key_stops_its_program_alone() {
    let (server, place) = (Server::start(), Place::new());
    let mut agent = work(&place, &server, "--keys a,b --capacity 2", WORKER);
    runs(&place, &["a", "b"]).await;
    let (first, other) = (written(&place, "a").expect("a").0, written(&place, "b").expect("b").0);
    post(server.addr, "admin/revoke", &json!({"key": "a", "reason": "test"})).await;
    assert!(within(PATIENCE, async || !lives(first)).await);
    assert!(lives(other));
    let again = || written(&place, "a").is_some_and(|(_, token, _)| token > 1);
    assert!(within(PATIENCE, async || again()).await, "the key comes back");
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 0);
}

#[tokio::test]
async fn without_its_coordinator_all_programs_end_in_time_and_come_back_with_it() {
    let (server, place) = (Server::start(), Place::new());
    let mut agent = work(&place, &server, "--keys a,b", WORKER);
    runs(&place, &["a", "b"]).await;
    let pids = ["a", "b"].map(|key| written(&place, key).expect("it runs").0);
    let from = tenure::clock::boottime_ms();
    server.signal(Signal::STOP);
    assert!(within(PATIENCE, async || pids.iter().all(|&pid| !lives(pid))).await);
    assert!(tenure::clock::boottime_ms() - from < 2000);
    server.signal(Signal::CONT);
    runs(&place, &["a", "b"]).await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 0);
}

#[tokio::test]
async fn when_the_agent_is_killed_all_its_programs_are_dead() {
    let (server, place) = (Server::start(), Place::new());
    let line = "trap '' TERM; echo \"$$ 1 \" > $D/$TENURE_KEY; while :; do sleep 0.05; done";
    let mut agent = work(&place, &server, "--keys a,b,c,d", line);
    runs(&place, &["a", "b", "c", "d"]).await;
    let pids = ["a", "b", "c", "d"].map(|key| written(&place, key).expect("it runs").0);
    agent.signal(Signal::KILL);
    assert!(within(ms(1500), async || pids.iter().all(|&pid| !lives(pid))).await);
}

#[tokio::test]
async fn keys_come_from_a_file_and_a_prefix_and_must_be_some() {
    let (server, place) = (Server::start(), Place::new());
    std::fs::write(place.path("keys"), "x1\n\n x2 \n").expect("a file");
    let from = format!("--keys-from {}", place.path("keys").display());
    let mut agent = work(&place, &server, &from, WORKER);
    runs(&place, &["x1", "x2"]).await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 0);
    for key in ["x1", "x2"] {
        std::fs::remove_file(place.path(key)).expect("it was written");
    }
    let mut agent = work(&place, &server, "--prefix x", WORKER);
    runs(&place, &["x1", "x2"]).await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 0);
    assert_eq!(work(&place, &server, "--prefix none", WORKER).over().await.code(), 64);
    assert_eq!(work(&place, &server, "--keys a --grace 900ms", WORKER).over().await.code(), 64);
}

/// The program of the key `shards/hot` uses a core.
const BURNS: &str = "trap 'exit 0' TERM; echo \"$$ $TENURE_TOKEN -\" > $D/${TENURE_KEY#shards/}; \
                     case $TENURE_KEY in shards/hot) while :; do :; done;; esac; while :; do sleep 0.05; done";

#[tokio::test]
async fn it_reports_the_cpu_time_of_each_program_as_the_load_of_its_key() {
    let policy = "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = \"load\"\n";
    let (server, place) = (Server::configured(policy), Place::new());
    let args = "work --pool shards --ttl 2s --grace 300ms --keys shards/hot,shards/idle --owner w \
                --load cpu --load-limit 8 --label gpu=true --zone a";
    let _agent = place.agent(server.addr, args, BURNS);
    runs(&place, &["hot", "idle"]).await;
    let mut shown = Value::Null;
    let reported = within(PATIENCE, async || {
        let pool = server.get("/v1/pools/shards").await.ok();
        shown = pool["members"][0].clone();
        // Until it is reported, each of the keys counts as 1.
        shown["load"].as_f64().is_some_and(|load| load > 0.1 && load < 1.5)
            && shown["load_limit"] == 8.0
    })
    .await;
    assert!(reported, "{shown}");
    assert_eq!(shown["labels"], json!({ "gpu": "true", "zone": "a" }));
}
