//! Signals that were ignored when a command started, as `nohup` and a shell's `&` leave them, stay ignored: by the
//! command, its guardian and its program.

use std::process::Command;

use rustix::process::Signal;

use crate::{
    guard::stage::guardian_of,
    support::harness::process::Server,
    work::{
        agent::{Agent, Place, lease},
        process::{PATIENCE, lives, ms, signal, within},
    },
};

const IGNORED: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::QUIT];
const PROGRAM: &str = "echo $$ > $D/pid; exec sleep 300";

/// `tenure ARGS`, with ARGS split at spaces, as a shell starts it with the three signals ignored.
fn start(place: &Place, server: &Server, args: &str, line: Option<&str>) -> Agent {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tenure")]);
    command.args(["--server", &format!("http://{}", server.addr)]).args(args.split_whitespace());
    if let Some(line) = line {
        command.args(["--", "/bin/sh", "-c", line]);
    }
    place.start(command)
}

/// Sends the three signals to the processes, which must all go on.
async fn stay(what: &str, pids: &[u32]) {
    for kind in IGNORED {
        pids.iter().for_each(|pid| signal(*pid, kind));
        tokio::time::sleep(ms(300)).await;
        let gone: Vec<_> = pids.iter().filter(|pid| !lives(**pid)).collect();
        assert!(gone.is_empty(), "{what}: {kind:?} ended {gone:?} of {pids:?}");
    }
}

#[tokio::test]
async fn a_program_its_guardian_and_its_agent_go_on() {
    for args in [
        "run --key k",
        "lock k",
        "run --any k",
        "work --pool default --keys k",
        "cron --key k --every 200ms",
    ] {
        let (server, place) = (Server::start(), Place::new());
        let mut agent = start(&place, &server, args, Some(PROGRAM));
        let program = place.pid("pid").await;
        let guardian = guardian_of(agent.pid()).expect("a guardian");
        stay(args, &[program, guardian, agent.pid()]).await;
        assert_eq!(lease(server.addr, "k").await["state"], "held", "{args}");
        agent.signal(Signal::TERM);
        agent.over().await;
        assert!(!lives(program), "{args}: SIGTERM ends it");
    }
}

#[tokio::test]
async fn a_command_that_waits_goes_on() {
    let (server, place) = (Server::start(), Place::new());
    server.acquire("k", "other", 60_000).await;
    for (args, line) in [
        ("run --key k --wait forever", Some("true")),
        ("lock k --wait forever", Some("true")),
        ("acquire k --wait forever", None),
        ("watch k --until-free", None),
        ("cron --key k --every 1d", Some("true")),
        ("guard --key k --owner g --healthcheck true --activate true --deactivate true", None),
        ("mcp", None),
    ] {
        let mut agent = start(&place, &server, args, line);
        let listens = within(PATIENCE, async || {
            let status = std::fs::read_to_string(format!("/proc/{}/cmdline", agent.pid()));
            status.is_ok_and(|line| line.contains("\0--server\0"))
        });
        assert!(listens.await, "{args} starts");
        tokio::time::sleep(ms(500)).await;
        stay(args, &[agent.pid()]).await;
        agent.signal(Signal::TERM);
        agent.over().await;
    }
}

#[tokio::test]
async fn a_coordinator_goes_on_and_reads_its_settings_at_sighup() {
    let place = Place::new();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tenure")]);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(place.path("data"));
    let mut coordinator = place.start(command);
    let said = coordinator.said();
    let says = async |words: &str| {
        within(PATIENCE, async || said.lock().expect("no panic").iter().any(|l| l.contains(words)))
            .await
    };
    assert!(says("listening on").await, "{said:?}");
    stay("serve", &[coordinator.pid()]).await;
    assert!(says("SIGHUP").await, "{said:?}");
    coordinator.signal(Signal::TERM);
    assert_eq!(coordinator.over().await.code(), 0);
}
