//! Agents whose principal a coordinator does not know, or no longer.

use std::{process::Command, time::Instant};

use serde_json::Value;

use crate::{
    access::cast::{Guarded, all_of, digest, principal},
    work::{
        agent::{Agent, Place},
        process::{PATIENCE, lives, ms, within},
    },
};

/// `tenure ARGS --token-file $D/token -- sh -c LINE`, with this token.
fn start(place: &Place, guarded: &Guarded, token: &str, args: &str) -> Agent {
    std::fs::write(place.path("token"), token).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{}", guarded.server.addr), "--token-file"]);
    command.arg(place.path("token")).args(args.split_whitespace());
    command.args(["--", "/bin/sh", "-c", "echo $$ > $D/pid; exec sleep 60"]);
    place.start(command)
}

fn cast() -> [String; 2] {
    [principal("boss", &all_of("")), principal("one", &all_of(""))]
}

/// The lease of the key, as the boss sees it.
async fn lease(guarded: &Guarded) -> Value {
    guarded.get("boss", "/v1/leases/k").await.ok()
}

#[tokio::test]
async fn an_agent_that_is_no_longer_known_says_so_at_once_and_stops_its_program_at_the_deadline() {
    for args in [
        "run --key k --ttl 3s --grace 300ms",
        "work --pool default --keys k --ttl 3s --grace 300ms",
    ] {
        let (guarded, place) = (Guarded::start(&cast(), &[]), Place::new());
        let mut agent = start(&place, &guarded, "one", args);
        let said = agent.said();
        let pid = place.pid("pid").await;
        let token = lease(&guarded).await["token"].clone();
        guarded.reload(&cast()[..1]).await;
        let begun = Instant::now();
        let denied =
            || said.lock().expect("no panic").iter().any(|line| line.contains("was denied"));
        assert!(within(PATIENCE, async || denied()).await, "{args}: {said:?}");
        // The guarantee stands until its deadline: what was told last is a second old at most, of the three.
        assert!(lives(pid) && !agent.has_ended(), "{args}: {said:?}");
        assert_eq!(lease(&guarded).await["state"], "held", "{args}");
        assert!(within(PATIENCE, async || !lives(pid)).await, "{args}: {said:?}");
        assert!(begun.elapsed() < ms(10_000), "{args}: the agent stopped it: {said:?}");
        assert_eq!(lease(&guarded).await["token"], token, "{args}");
        drop(agent);
    }
}

#[tokio::test]
async fn an_agent_reads_its_token_again_and_keeps_its_lease() {
    let (guarded, place) = (Guarded::start(&cast(), &[]), Place::new());
    let mut agent = start(&place, &guarded, "one", "run --key k --ttl 2s");
    let said = agent.said();
    let pid = place.pid("pid").await;
    std::fs::write(place.path("token"), "two").expect("written");
    let [boss, one] = cast();
    guarded.reload(&[boss, one.replace(&digest("one"), &digest("two"))]).await;
    tokio::time::sleep(ms(4000)).await;
    assert!(lives(pid), "{said:?}");
    assert_eq!(lease(&guarded).await["token"], 1);
    assert!(!said.lock().expect("no panic").iter().any(|line| line.contains("denied")), "{said:?}");
}

#[tokio::test]
async fn an_agent_that_was_never_known_ends_with_the_code_for_a_missing_permission() {
    let (guarded, place) = (Guarded::start(&cast(), &[]), Place::new());
    for args in ["run --key k", "work --pool default --keys k"] {
        let over = start(&place, &guarded, "other", args).over().await;
        assert_eq!(over.code(), 77, "{args}: {}", over.stderr);
        assert!(over.stderr.contains("unauthenticated"), "{args}: {}", over.stderr);
        assert!(place.read("pid").is_empty());
    }
}
