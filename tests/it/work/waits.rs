//! Waiting for a lease over faults of the way: a restart of the coordinator, answers of a gateway, connections that are cut
//! or fall silent. Each way in waits until it has the lease, or until the time that it was given is over.

use std::{net::SocketAddr, process::Command};

use rustix::process::Signal;
use serde_json::json;
use tenure::clock::boottime_ms;

use crate::{
    support::{
        harness::process::Server,
        node::Node,
        ports::free_port,
        proxy::{Fate, HttpProxy, Proxy, Way},
    },
    work::{
        agent::{Agent, Place, lease},
        process::{PATIENCE, ms, within},
    },
};

/// The ways to wait for a key, and whether a program follows.
const WAYS_IN: [(&str, bool); 6] = [
    ("run --key k1 --ttl 6s", true),
    ("run --any k2 --ttl 6s", true),
    ("lock k3 --ttl 6s", true),
    ("acquire k4 --ttl 6s", false),
    ("acquire --any k5 --ttl 6s", false),
    ("acquire --all k6 --ttl 6s", false),
];

/// The key of a way.
fn key_of(args: &str) -> &str {
    let is_key = |word: &&str| word.len() == 2 && word.starts_with('k');
    args.split_whitespace().find(is_key).expect("a key")
}

fn waiter(place: &Place, server: SocketAddr, args: &str, wait: &str, program: bool) -> Agent {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{server}")]).args(args.split_whitespace());
    command.args(["--wait", wait]);
    if program {
        command.args(["--", "/bin/true"]);
    }
    place.start(command)
}

async fn waits(server: SocketAddr, key: &str) {
    let waits = within(PATIENCE, async || lease(server, key).await["waiters"] == 1).await;
    assert!(waits, "{}", lease(server, key).await);
}

/// A coordinator on a port that it has again after a restart.
fn coordinator(place: &Place) -> Node {
    let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let data = format!("store.embedded.data_dir={}", place.path("data").display());
    Node::at(listen, "the coordinator", &[data], &[])
}

#[tokio::test]
async fn a_restart_of_the_only_coordinator_is_waited_for() {
    for how in [Signal::TERM, Signal::KILL] {
        for wait in ["forever", "60s"] {
            let place = Place::new();
            let mut node = coordinator(&place);
            node.start().await;
            let addr = node.url.trim_start_matches("http://").parse().expect("an address");
            let mut held = Vec::new();
            for (args, _) in WAYS_IN {
                let body = json!({ "key": key_of(args), "owner": "other", "ttl_ms": 60_000 });
                let (status, grant) = node.post("/v1/acquire", &body).await;
                assert_eq!(status, 200, "{grant}");
                held.push(json!({ "key": key_of(args), "lease_id": grant["lease_id"] }));
            }
            let mut agents =
                WAYS_IN.map(|(args, program)| waiter(&place, addr, args, wait, program));
            for (args, _) in WAYS_IN {
                waits(addr, key_of(args)).await;
            }
            node.signal(how);
            node.wait();
            tokio::time::sleep(ms(300)).await;
            for (agent, (args, _)) in agents.iter_mut().zip(WAYS_IN) {
                assert!(!agent.has_ended(), "{args} --wait {wait}: {how:?}");
            }
            node.start().await;
            for ((args, _), held) in WAYS_IN.iter().zip(&held) {
                waits(addr, key_of(args)).await;
                assert_eq!(node.post("/v1/release", held).await.0, 200);
            }
            for (agent, (args, _)) in agents.into_iter().zip(WAYS_IN) {
                let over = agent.over().await;
                assert_eq!(over.code(), 0, "{args} --wait {wait}: {how:?}: {}", over.stderr);
            }
        }
    }
}

#[tokio::test]
async fn answers_of_a_gateway_and_cut_connections_are_asked_for_again_under_one_id() {
    for fault in [
        Fate::Answer(502, "bad-gateway"),
        Fate::Answer(503, "unavailable"),
        Fate::Answer(504, "time-out"),
        Fate::LoseReply,
    ] {
        let (server, place) = (Server::start(), Place::new());
        let proxy = HttpProxy::to(server.addr).await;
        let addr = proxy.url().trim_start_matches("http://").parse().expect("an address");
        for (args, program) in WAYS_IN {
            let mut left = 2;
            let fault = fault.clone();
            proxy.rule(move |_, path| match path.contains("acquire") && left > 0 {
                true => {
                    left -= 1;
                    fault.clone()
                }
                false => Fate::Pass,
            });
            let before = boottime_ms();
            let over = waiter(&place, addr, args, "forever", program).over().await;
            assert_eq!(over.code(), 0, "{args}: {}", over.stderr);
            // A lost grant is told under the same id. Under another one, it would last for its ttl.
            assert!(boottime_ms() - before < 5_000, "{args}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_falls_silent_keeps_nobody_from_a_free_lease() {
    let (server, place) = (Server::start(), Place::new());
    let proxy = Proxy::to(server.addr).await;
    let mut held = Vec::new();
    for (args, _) in WAYS_IN {
        held.push(server.acquire(key_of(args), "other", 60_000).await);
    }
    let agents =
        WAYS_IN.map(|(args, program)| waiter(&place, proxy.addr, args, "forever", program));
    for (args, _) in WAYS_IN {
        waits(server.addr, key_of(args)).await;
    }
    proxy.stick();
    for grant in &held {
        server.post("/v1/release", &grant.proof()).await.ok();
    }
    let before = boottime_ms();
    for (agent, (args, _)) in agents.into_iter().zip(WAYS_IN) {
        let over = agent.over().await;
        let took = boottime_ms() - before;
        assert_eq!(over.code(), 0, "{args}: {}", over.stderr);
        // The grant that went into the silent connection lasts for 6 s, and a look comes each 10 s.
        assert!(took < 17_000, "{args} took {took} ms");
    }
}

#[tokio::test]
async fn guard_and_work_take_a_free_lease_over_new_connections() {
    let (server, place) = (Server::start(), Place::new());
    let proxy = Proxy::to(server.addr).await;
    let url = format!("http://{}", proxy.addr);
    let mut held = Vec::new();
    for key in ["k1", "k2"] {
        held.push(server.acquire(key, "other", 60_000).await);
    }
    let start = |args: &str, rest: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--server", &url]).args(args.split_whitespace()).args(rest);
        command.env_remove("NOTIFY_SOCKET");
        place.start(command)
    };
    let scripts = ["--healthcheck", "true", "--activate", "true", "--deactivate", "true"];
    let _guard = start("guard --key k1 --owner g -r 1s -f 4 -c 1", &scripts);
    let mut worker = start(
        "work --pool default --keys k2 --owner w --ttl 6s --grace 1s",
        &["--", "/bin/sleep", "60"],
    );
    waits(server.addr, "k1").await;
    let said = worker.said();
    let idle = async || said.lock().expect("no panic").iter().any(|line| line.contains("waiting"));
    assert!(within(PATIENCE, idle).await, "{:?}", said.lock());
    proxy.stick();
    for grant in &held {
        server.post("/v1/release", &grant.proof()).await.ok();
    }
    let before = boottime_ms();
    for (key, owner) in [("k1", "g"), ("k2", "w")] {
        // A grant that went into the silent connection has ended by then.
        let kept = async || {
            boottime_ms() - before > 8_000 && lease(server.addr, key).await["owner"] == owner
        };
        assert!(within(ms(17_000), kept).await, "{}", lease(server.addr, key).await);
    }
}

#[tokio::test]
async fn a_time_that_a_person_gave_is_kept_to_the_second() {
    let (server, place) = (Server::start(), Place::new());
    let proxy = Proxy::to(server.addr).await;
    for (args, _) in WAYS_IN {
        server.acquire(key_of(args), "other", 60_000).await;
    }
    for way in [Way::Open, Way::Silent, Way::Broken] {
        proxy.set(way);
        let begun: Vec<_> = WAYS_IN
            .map(|(args, program)| {
                (args, boottime_ms(), waiter(&place, proxy.addr, args, "3s", program))
            })
            .into_iter()
            .collect();
        for (args, before, agent) in begun {
            let over = agent.over().await;
            let took = boottime_ms() - before;
            assert!([69, 73].contains(&over.code()), "{args}: {}", over.stderr);
            // Two seconds more are for what may have been granted, and one for a slow machine.
            assert!(
                (2_900..6_500).contains(&took),
                "{args} over {way:?}: {took} ms: {}",
                over.stderr
            );
        }
    }
}

#[tokio::test]
async fn an_earlier_tenure_of_the_same_owner_is_waited_for() {
    let (server, place) = (Server::start(), Place::new());
    for args in ["run --key k", "lock k"] {
        server.acquire("k", "web-0", 2_000).await;
        let args = format!("{args} --owner web-0");
        let before = boottime_ms();
        let over = waiter(&place, server.addr, &args, "forever", true).over().await;
        assert_eq!(over.code(), 0, "{args}: {}", over.stderr);
        assert!(over.stderr.contains("earlier one of this owner, web-0"), "{}", over.stderr);
        assert!(boottime_ms() - before > 1_000, "{args}");
        let refused = server.acquire("k", "web-0", 60_000).await;
        let over = waiter(&place, server.addr, &args, "0s", true).over().await;
        assert_eq!(over.code(), 73, "without a wait: {}", over.stderr);
        server.post("/v1/release", &refused.proof()).await.ok();
    }
}

#[tokio::test]
async fn the_advice_to_an_owner_that_holds_it_already_can_be_followed() {
    let (server, place) = (Server::start(), Place::new());
    server.acquire("k1", "web-0", 60_000).await;
    for (args, program, advice) in [
        ("run --key k1 --owner web-0", true, "--wait"),
        ("lock k1 --owner web-0", true, "--wait"),
        ("acquire k1 --owner web-0", false, "--reclaim"),
    ] {
        let over = waiter(&place, server.addr, args, "0s", program).over().await;
        assert_eq!(over.code(), 73, "{args}: {}", over.stderr);
        assert!(over.stderr.contains(advice), "{args}: {}", over.stderr);
        assert!(!over.stderr.contains("reclaim: true"), "{args}: {}", over.stderr);
    }
}
