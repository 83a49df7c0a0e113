//! Why a program's lease was given back: events and the history say it. Why a program was stopped: the agent says it.

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    support::harness::{Server, kinds},
    work::{
        agent::{Agent, Place},
        process::{PATIENCE, within},
    },
};

/// The reason of the first tenure's end, once it is over.
async fn reason(server: &Server, key: &str) -> Value {
    let over = async || kinds(&server.events_of(key).await).len() >= 2;
    assert!(within(PATIENCE, over).await, "the lease on {key} was given back");
    let events = server.events_of(key).await;
    assert_eq!(kinds(&events)[..2], ["granted", "released"], "{events:?}");
    events[1]["data"]["reason"].clone()
}

fn start(server: &Server, place: &Place, args: &str, line: &str) -> Agent {
    place.agent(server.addr, args, line)
}

#[tokio::test]
async fn run_says_how_its_program_failed() {
    let (server, place) = (Server::start(), Place::new());
    for (key, line, wanted) in [
        ("code", "exit 9", Some("the program failed: exit code 9")),
        ("signal", "kill -9 $$", Some("the program failed: signal 9")),
        ("fine", "exit 0", None),
    ] {
        start(&server, &place, &format!("run --key {key}"), line).over().await;
        assert_eq!(reason(&server, key).await.as_str(), wanted, "{key}");
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{}", server.addr), "run", "--key", "none"]);
    place
        .start({
            command.args(["--", "/no/such/program"]);
            command
        })
        .over()
        .await;
    assert_eq!(reason(&server, "none").await, "the program failed: exit code 127");
}

#[tokio::test]
async fn work_says_how_its_program_failed() {
    let (server, place) = (Server::start(), Place::new());
    let args = "work --pool default --ttl 2s --grace 300ms --keys a --restart never";
    let _agent = start(&server, &place, args, "exit 9");
    assert_eq!(reason(&server, "a").await, "the program failed: exit code 9");
}

#[tokio::test]
async fn cron_says_how_its_program_failed() {
    let (server, place) = (Server::start(), Place::new());
    let args = "cron --key k --every 1s --ttl 2s --grace 300ms";
    let _agent = start(&server, &place, args, "exit 9");
    let failed = async || {
        let events = server.events_of("k").await;
        events.iter().any(|event| event["data"]["reason"] == "the program failed: exit code 9")
    };
    assert!(within(PATIENCE, failed).await, "{:?}", server.events_of("k").await);
}

#[tokio::test]
async fn guard_says_why_it_gives_the_lease_back() {
    let (server, place) = (Server::start(), Place::new());
    for (key, more, wanted) in [
        ("activate", ["--activate", "exit 9"], "the activation failed"),
        ("fence", ["--fence", "exit 9"], "the fence failed"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--server", &format!("http://{}", server.addr), "guard", "--key", key]);
        command.args(["--owner", "g"]);
        command.args(["-r", "300ms", "-f", "4", "-c", "1", "--healthcheck", "true"]).args(more);
        if more[0] != "--activate" {
            command.args(["--activate", "true"]);
        }
        command.args(["--deactivate", "true"]).env_remove("NOTIFY_SOCKET");
        let _agent = place.start(command);
        assert_eq!(reason(&server, key).await, wanted);
    }
}

/// Whether a line begins with a time of RFC 3339 and then has these words.
fn is_timed(line: &str, words: &str) -> bool {
    let Some((time, rest)) = line.split_once(" tenure: ") else { return false };
    humantime::parse_rfc3339(time).is_ok() && rest.contains(words)
}

#[tokio::test]
async fn a_program_that_outlives_every_coordinator_is_stopped_with_a_reason() {
    const WHY: &str = "no coordinator confirmed the lease in time";
    let server = Server::start();
    for (args, json) in [
        ("run --key a --ttl 2s --grace 300ms", false),
        ("work --pool default --keys b --ttl 2s --grace 300ms", false),
        ("work --pool default --keys c --ttl 2s --grace 300ms --output json", true),
    ] {
        let place = Place::new();
        let mut agent =
            start(&server, &place, args, "echo $$ > $D/pid; while :; do sleep 0.05; done");
        place.pid("pid").await;
        let said = agent.said();
        server.signal(Signal::STOP);
        let told = async || {
            let said = said.lock().expect("no panic");
            said.iter().any(|line| {
                let event: Value = serde_json::from_str(line).unwrap_or_default();
                let time = event["time"].as_str().unwrap_or_default();
                let is_event = humantime::parse_rfc3339(time).is_ok()
                    && event["why"].as_str().is_some_and(|why| why.contains(WHY));
                if json { is_event } else { is_timed(line, WHY) }
            })
        };
        let told = within(PATIENCE, told).await;
        server.signal(Signal::CONT);
        assert!(told, "{args}: {:?}", said.lock());
    }
}
