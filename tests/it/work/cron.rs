//! `tenure cron`: one run for each slot, over several hosts.

use std::{collections::BTreeSet, net::SocketAddr, process::Command};

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::clock::{Clock as _, SystemClock, rfc3339};

use crate::support::{harness::process::Server, node::Node};

use crate::work::{
    agent::{Agent, Place, lease, post},
    process::{PATIENCE, lives, ms, within},
};

const WALL_OFFSET: &str = "TENURE_TEST_WALL_OFFSET";
/// Writes the slot when it begins, and when it ends.
const WRITES: &str =
    "echo begin $TENURE_SLOT >> $D/log; sleep 0.1; echo end $TENURE_SLOT >> $D/log";

/// A host whose clock is set by a file.
fn host(place: &Place, server: SocketAddr, args: &[&str], line: &str, offset: &str) -> Agent {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{server}"), "cron", "--key", "k"]).args(args);
    command.args(["--ttl", "2s", "--grace", "300ms", "--", "/bin/sh", "-c", line]);
    command.env(WALL_OFFSET, place.path(offset));
    place.start(command)
}

/// The slots of the lines that begin with this word.
fn slots(place: &Place, word: &str) -> Vec<String> {
    let log = place.read("log");
    let of_word = |line: &str| line.strip_prefix(word).map(|slot| slot.trim().to_owned());
    log.lines().filter_map(of_word).collect()
}

async fn so_many(place: &Place, count: usize) -> Vec<String> {
    let come = within(PATIENCE, async || slots(place, "begin").len() >= count).await;
    assert!(come, "{}", place.read("log"));
    slots(place, "begin")
}

/// What the value of the key says.
async fn last_run(server: SocketAddr) -> Value {
    let view = lease(server, "k").await;
    serde_json::from_str(view["value"].as_str().unwrap_or("null")).expect("JSON")
}

fn wall_now() -> String {
    rfc3339(SystemClock::new().wall_ms())
}

/// The offset that makes a clock show this moment now.
fn offset_to(moment: &str) -> String {
    let then = humantime::parse_rfc3339(moment).expect("a moment");
    let then = then.duration_since(std::time::UNIX_EPOCH).expect("later").as_millis() as i64;
    (then - SystemClock::new().wall_ms() as i64).to_string()
}

#[tokio::test]
async fn each_slot_runs_once_over_three_hosts_and_runs_do_not_overlap() {
    let (server, place) = (Server::start(), Place::new());
    let start = || place.agent(server.addr, "cron --key k --every 500ms", WRITES);
    let mut hosts = [start(), start(), start()];
    so_many(&place, 8).await;
    hosts.iter_mut().for_each(|host| host.signal(Signal::TERM));
    for host in hosts {
        assert_eq!(host.over().await.code(), 143);
    }
    let (begun, log) = (slots(&place, "begin"), place.read("log"));
    assert!(begun.is_sorted(), "{log}");
    assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), begun.len(), "twice: {log}");
    // The signal may have ended the last one.
    let lines: Vec<_> = log.lines().collect();
    for pair in lines.chunks_exact(2) {
        assert_eq!(pair[0].strip_prefix("begin"), pair[1].strip_prefix("end"), "{log}");
    }
    assert_eq!(lease(server.addr, "k").await["state"], "free");
}

#[tokio::test]
async fn the_slot_of_a_host_that_died_is_not_begun_again() {
    let (server, place) = (Server::start(), Place::new());
    let line = "echo begin $TENURE_SLOT >> $D/log; echo $TENURE_LAST_RUN >> $D/last; \
                test -e $D/second || { touch $D/second; echo $$ > $D/pid; sleep 60; }";
    let mut first = host(&place, server.addr, &["--every", "1s"], line, "none");
    let program = place.pid("pid").await;
    let _second = host(&place, server.addr, &["--every", "1s"], line, "none");
    first.signal(Signal::KILL);
    assert!(within(PATIENCE, async || !lives(program)).await, "the program goes on");
    let begun = so_many(&place, 3).await;
    assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), begun.len(), "{begun:?}");
    let last = place.read("last");
    let told: Value = serde_json::from_str(last.lines().nth(1).expect("a run")).expect("JSON");
    assert_eq!((&told["slot"], &told["outcome"]), (&begun[0].as_str().into(), &"running".into()));
}

#[tokio::test]
async fn missed_slots_follow_the_rule() {
    for (rule, expected) in [("last", 1), ("skip", 0), ("all", 5)] {
        let place = Place::new();
        let wall = place.path("wall");
        std::fs::write(&wall, offset_to("2026-05-01T11:59:59Z")).expect("written");
        let environment = [(WALL_OFFSET, wall.to_str().expect("UTF-8"))];
        let server = Server::configured_in("", &environment);
        let args = ["--schedule", "0 * * * *", "--missed", rule];
        let mut first = host(&place, server.addr, &args, WRITES, "wall");
        assert_eq!(so_many(&place, 1).await, ["2026-05-01T12:00:00.000Z"], "{rule}");
        assert!(within(PATIENCE, async || last_run(server.addr).await["exit"] == 0).await);
        first.signal(Signal::TERM);
        first.over().await;
        // All hosts were down at the slots from 13:00 to 17:00.
        std::fs::write(&wall, offset_to("2026-05-01T17:30:00Z")).expect("written");
        tokio::time::sleep(ms(200)).await;
        let _second = host(&place, server.addr, &args, WRITES, "wall");
        let missed = so_many(&place, 1 + expected).await.split_off(1);
        tokio::time::sleep(ms(500)).await;
        assert_eq!(slots(&place, "begin").len(), 1 + expected, "{rule}: {}", place.read("log"));
        let hours =
            ["13", "14", "15", "16", "17"].map(|hour| format!("2026-05-01T{hour}:00:00.000Z"));
        assert_eq!(missed, hours[5 - expected..], "{rule}");
    }
}

#[tokio::test]
async fn a_host_whose_clock_is_wrong_begins_no_slot_early_and_none_twice() {
    let (server, place) = (Server::start(), Place::new());
    std::fs::write(place.path("ahead"), "3600000").expect("written");
    std::fs::write(place.path("behind"), "-3600000").expect("written");
    let line = "echo begin $TENURE_SLOT >> $D/log; date -u +%FT%T.%3NZ >> $D/real";
    let args = ["--every", "1s"];
    let mut hosts: Vec<_> = ["ahead", "behind", "none"]
        .map(|offset| host(&place, server.addr, &args, line, offset))
        .into();
    so_many(&place, 2).await;
    // Only hosts with wrong clocks are left.
    hosts.pop();
    let begun = so_many(&place, 7).await;
    assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), begun.len(), "{begun:?}");
    for (slot, real) in begun.iter().zip(place.read("real").lines()) {
        assert!(slot.as_str() <= real, "{slot} was begun at {real}");
    }
    assert!(
        begun.last().is_some_and(|last| *last > rfc3339(SystemClock::new().wall_ms() - 60_000))
    );
    assert!(begun.iter().all(|slot| *slot <= wall_now()));
}

#[tokio::test]
async fn a_time_that_is_left_out_runs_when_the_clock_is_set_forward() {
    let place = Place::new();
    let wall = place.path("wall");
    std::fs::write(&wall, offset_to("2026-03-29T00:59:58Z")).expect("written");
    let environment = [(WALL_OFFSET, wall.to_str().expect("UTF-8"))];
    let server = Server::configured_in("", &environment);
    let args = ["--schedule", "30 2 * * *", "--timezone", "Europe/Berlin"];
    let hosts = ["wall", "wall"].map(|offset| host(&place, server.addr, &args, WRITES, offset));
    assert_eq!(so_many(&place, 1).await, ["2026-03-29T01:00:00.000Z"]);
    // The whole day, and the next slot.
    drop(hosts);
    std::fs::write(&wall, offset_to("2026-03-30T00:29:59Z")).expect("written");
    tokio::time::sleep(ms(200)).await;
    let _hosts = ["wall", "wall"].map(|offset| host(&place, server.addr, &args, WRITES, offset));
    let both = ["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"];
    assert_eq!(so_many(&place, 2).await, both);
}

#[tokio::test]
async fn the_value_says_how_the_last_run_ended_and_the_next_run_gets_what_it_left() {
    let (server, place) = (Server::start(), Place::new());
    let line = "echo begin $TENURE_SLOT >> $D/log; echo \"$TENURE_VALUE\" >> $D/got; \
                echo $TENURE_LAST_RUN >> $D/last; printf left > $TENURE_VALUE_FILE; exit 3";
    let mut agent = host(&place, server.addr, &["--every", "3s", "--owner", "h"], line, "none");
    so_many(&place, 2).await;
    // A signal to the agent would end a program that still runs.
    let second_ended = within(PATIENCE, async || {
        let slot = &slots(&place, "begin")[1];
        last_run(server.addr).await["slot"].as_str() >= Some(slot.as_str())
    });
    assert!(second_ended.await, "the second run does not end");
    agent.signal(Signal::TERM);
    agent.over().await;
    let last = last_run(server.addr).await;
    let begun = slots(&place, "begin");
    let expected = json!(["h", 3, "failed", "left", begun[begun.len() - 1]]);
    let fields = ["owner", "exit", "outcome", "result", "slot"];
    assert_eq!(json!(fields.map(|field| &last[field])), expected);
    assert_eq!(place.read("got").lines().take(2).collect::<Vec<_>>(), ["", "left"]);
    let told: Value =
        serde_json::from_str(place.read("last").lines().nth(1).expect("two")).expect("JSON");
    assert_eq!((&told["exit"], &told["slot"]), (&3.into(), &begun[0].as_str().into()));
}

#[tokio::test]
async fn a_program_that_cannot_be_started_fails_and_the_next_slot_comes() {
    let (server, place) = (Server::start(), Place::new());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{}", server.addr)]);
    command.args(["cron", "--key", "k", "--every", "200ms", "--", "/no/such/program"]);
    let mut agent = place.start(command);
    let said = agent.said();
    let ended = || {
        said.lock().expect("no panic").iter().filter(|line| line.contains("ended with 127")).count()
    };
    assert!(within(PATIENCE, async || ended() >= 2).await, "{said:?}");
    assert!(within(PATIENCE, async || last_run(server.addr).await["exit"] == 127).await);
    agent.signal(Signal::INT);
    assert_eq!(agent.over().await.code(), 130);
}

#[tokio::test]
async fn a_standby_waits_for_the_lock_delay_of_a_host_that_died() {
    let place = Place::new();
    let server = Server::configured("[[policy]]\nprefix = \"k\"\nlock_delay = \"2s\"\n");
    let line =
        "echo begin $TENURE_SLOT >> $D/log; test -e $D/pid || { echo $$ > $D/pid; sleep 60; }";
    let mut first = host(&place, server.addr, &["--every", "1s"], line, "none");
    place.pid("pid").await;
    let mut second = host(&place, server.addr, &["--every", "1s"], line, "none");
    tokio::time::sleep(ms(300)).await;
    first.signal(Signal::KILL);
    let begun = so_many(&place, 3).await;
    assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), begun.len(), "{begun:?}");
    assert!(!second.has_ended());
}

#[tokio::test]
async fn what_cannot_be_left_to_the_next_run_leaves_what_was_there() {
    let (server, place) = (Server::start(), Place::new());
    let line = "echo begin $TENURE_SLOT >> $D/log; echo \"$TENURE_VALUE\" >> $D/got; \
                case $(wc -l < $D/log) in \
                1) printf one > $TENURE_VALUE_FILE;; \
                2) head -c 16300 /dev/zero | tr '\\0' x > $TENURE_VALUE_FILE;; \
                3) mkfifo $TENURE_VALUE_FILE;; \
                4) printf '\\377' > $TENURE_VALUE_FILE;; \
                5) printf two > $TENURE_VALUE_FILE;; esac";
    let mut agent = host(&place, server.addr, &["--every", "300ms"], line, "none");
    let said = agent.said();
    so_many(&place, 6).await;
    assert!(within(PATIENCE, async || place.read("got").lines().count() >= 6).await);
    let got = place.read("got");
    assert_eq!(got.lines().take(6).collect::<Vec<_>>(), ["", "one", "one", "one", "one", "two"]);
    let said = said.lock().expect("no panic").join("\n");
    for why in ["too long", "is no file", "not UTF-8"] {
        assert!(said.contains(why), "{why}: {said}");
    }
}

#[tokio::test]
async fn faulty_schedules_and_foreign_values_are_refused() {
    let (server, place) = (Server::start(), Place::new());
    for (args, named) in [
        ("--every 10ms", "--every must be at least 100ms"),
        ("--schedule @daily", "--schedule has 1 fields"),
        ("--schedule @daily --every 1s", "cannot be used with"),
    ] {
        let over = place.agent(server.addr, &format!("cron --key k {args}"), "true").over().await;
        assert_eq!(over.code(), 64, "{args}: {}", over.stderr);
        assert!(over.stderr.contains(named), "{args}: {}", over.stderr);
    }
    let body = json!({ "key": "k", "owner": "o", "ttl_ms": 1000, "value": "offset 7" });
    post(server.addr, "acquire", &body).await;
    let over = place.agent(server.addr, "cron --key k --every 1s", "true").over().await;
    assert_eq!(over.code(), 64);
    assert!(over.stderr.contains("not that of a schedule"), "{}", over.stderr);
}

#[tokio::test]
async fn a_key_with_permits_is_refused_at_the_start() {
    let (server, place) =
        (Server::configured("[[policy]]\nprefix = \"gpus/\"\npermits = 2\n"), Place::new());
    let over = place.agent(server.addr, "cron --key gpus/x --every 10h", "true").over().await;
    assert_eq!(over.code(), 64, "{}", over.stderr);
    assert!(over.stderr.contains("such as gpus/x#1"), "{}", over.stderr);
}

#[tokio::test]
async fn without_a_server_it_tries_again_and_the_slots_go_on() {
    let place = Place::new();
    let data = format!("store.embedded.data_dir={}", place.path("data").display());
    let mut node = Node::new("a", &[data], &[]);
    node.start().await;
    let address = node.url.strip_prefix("http://").and_then(|it| it.parse().ok()).expect("ours");
    let mut agent =
        place.agent(address, "cron --key k --every 200ms --ttl 2s --grace 300ms", WRITES);
    let said = agent.said();
    so_many(&place, 1).await;
    node.kill();
    let heard = || said.lock().expect("no panic").iter().any(|line| line.contains("trying again"));
    assert!(within(PATIENCE, async || heard()).await, "{said:?}");
    let before = slots(&place, "begin").len();
    node.start().await;
    let begun = so_many(&place, before + 2).await;
    assert_eq!(begun.iter().collect::<BTreeSet<_>>().len(), begun.len(), "{begun:?}");
}
