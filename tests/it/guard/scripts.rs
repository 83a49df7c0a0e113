//! What scripts see, what happens when they fail, and what is said of it.

use std::{fs, os::unix::net::UnixDatagram, process::Command, time::Duration};

use rustix::process::Signal;

use crate::{
    guard::stage::{PROGRAM, Stage},
    support::{clock::wait_for, process::Process},
};

const TIMES: [&str; 6] = ["-r", "300ms", "-f", "4", "-c", "1"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&TIMES, more].concat()
}

#[test]
fn scripts_know_the_key_the_token_and_the_state() {
    let stage = Stage::new();
    let say = r#"echo "$0 $1 $TENURE_KEY $TENURE_OWNER $TENURE_STATE ${TENURE_TOKEN:-none} $TENURE_TTL_MS $TENURE_SERVER" >>"$DIR/env""#;
    let activate = format!(
        r#"{say}; cat "$TENURE_LEASE_FILE" >"$DIR/lease"; stat -c %a "$TENURE_LEASE_FILE" >"$DIR/mode""#
    );
    let options =
        ["--healthcheck", say, "--activate", &activate, "--deactivate", say, "--fence", say];
    let agent = stage.agent("w1", &with(&options));
    let read = |name: &str| fs::read_to_string(stage.path(name)).unwrap_or_default();
    wait_for("a check while active", || read("env").contains("healthcheck active"));
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().status.code(), Some(0));
    let env = read("env");
    let mut lines: Vec<_> = env.lines().collect();
    lines.dedup();
    let server = stage.url();
    let line = |name: &str, state: &str, token: &str| {
        format!("{name} {state} service w1 {state} {token} 1200 {server}")
    };
    assert_eq!(lines[0], line("deactivate", "standby", "none"));
    assert_eq!(lines[1], line("healthcheck", "standby", "none"));
    assert_eq!(lines[2], line("healthcheck", "standby", "1"));
    assert_eq!(lines[3], line("fence", "standby", "1"));
    assert_eq!(lines[4], line("activate", "active", "1"));
    assert_eq!(lines[5], line("healthcheck", "active", "1"));
    assert_eq!(*lines.last().unwrap(), line("deactivate", "standby", "1"));
    let lease: serde_json::Value = serde_json::from_str(&read("lease")).expect("JSON");
    assert_eq!((&lease["key"], &lease["token"]), (&"service".into(), &1.into()));
    assert!(lease["deadline_boottime_ms"].as_u64().is_some() && lease["lease_id"].is_string());
    assert_eq!(read("mode").trim(), "600");
}

#[test]
fn a_deactivation_that_fails_is_repeated_loudly_and_nothing_is_given_back() {
    let stage = Stage::new();
    // An agent may deactivate the service several times before its first activation.
    let off = r#"grep -qs ' on ' "$DIR/log" || exit 0; echo tried >>"$DIR/tries"; exit 1"#;
    let watch = format!(
        "exec {PROGRAM} --server {} watch service >{}",
        stage.url(),
        stage.path("events").display()
    );
    let _watch = Process::start("watch", Command::new("sh").args(["-c", &watch]));
    let events = || fs::read_to_string(stage.path("events")).unwrap_or_default();
    // Four seconds are left for the tries.
    let agent = stage.agent("w1", &["-r", "1s", "-f", "4", "-c", "1", "--deactivate", off]);
    stage.wait_active(&["w1"]);
    agent.signal(Signal::TERM);
    let ended = agent.wait();
    let said = ended.said;
    assert_eq!(ended.status.code(), Some(74), "{said}");
    assert!(said.contains("ALARM: the service is not deactivated"), "{said}");
    assert!(said.contains("ALARM: the lease has ended"), "{said}");
    let tries = fs::read_to_string(stage.path("tries")).unwrap().lines().count();
    assert!(tries > 3, "{tries}, the last by the guardian");
    wait_for("the tenure's end", || events().contains("expired"));
    // A tenure of before may have left too little time for the activation.
    let events = events();
    let last = events.rfind("granted").expect("a grant");
    assert!(!events[last..].contains("released"), "{events}");
}

#[test]
fn an_activation_that_fails_is_undone_and_tried_again_later() {
    let stage = Stage::new();
    let on =
        r#"[ -e "$DIR/works" ] || { echo no >>"$DIR/refused"; exit 3; }; echo yes >"$DIR/yes""#;
    let off = r#"echo off >>"$DIR/offs""#;
    let agent = stage.agent("w1", &with(&["--activate", on, "--deactivate", off]));
    let lines =
        |name: &str| fs::read_to_string(stage.path(name)).unwrap_or_default().lines().count();
    wait_for("the deactivation", || lines("offs") == 2);
    assert_eq!(lines("refused"), 1);
    stage.touch("works");
    wait_for("the next try", || lines("yes") == 1);
    let said = agent.said();
    assert!(
        said.contains("does not compete for the lease for 1s 200ms: the activation failed"),
        "{said}"
    );
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().status.code(), Some(0));
    assert_eq!(lines("offs"), 3);
}

#[test]
fn a_check_that_hangs_is_killed_with_all_that_it_started() {
    let stage = Stage::new();
    let check = r#"echo $$ >>"$DIR/pids"; sleep 61 & echo $! >>"$DIR/pids"; wait"#;
    let agent =
        stage.agent("w1", &with(&["--healthcheck", check, "--healthcheck-timeout", "200ms"]));
    let pids = || fs::read_to_string(stage.path("pids")).unwrap_or_default();
    wait_for("four checks", || pids().lines().count() >= 8);
    agent.signal(Signal::TERM);
    let ended = agent.wait();
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.said.contains("took too long and was killed"), "{}", ended.said);
    assert!(!ended.said.contains("has the lease"), "an unhealthy standby does not campaign");
    let alive = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains(") Z")
    };
    wait_for("their end", || !pids().lines().any(alive));
}

#[test]
fn what_an_activation_starts_lives_until_its_deactivation() {
    let stage = Stage::new();
    let on = r#"(trap '' HUP; while :; do sleep 0.05; : >"$DIR/beat"; done) & echo $! >"$DIR/pid""#;
    let off = r#"[ ! -e "$DIR/pid" ] || { kill "$(cat "$DIR/pid")"; rm "$DIR/pid"; }"#;
    let agent = stage.agent("w1", &with(&["--activate", on, "--deactivate", off]));
    wait_for("a beat", || stage.path("beat").exists());
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        stage.remove("beat");
        wait_for("the service to go on", || stage.path("beat").exists());
    }
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().status.code(), Some(0));
    stage.remove("beat");
    std::thread::sleep(Duration::from_millis(200));
    assert!(!stage.path("beat").exists());
}

#[test]
fn every_round_runs_the_scripts_in_every_round() {
    let stage = Stage::new();
    let [on, off] = ["on", "off"].map(|what| format!(r#"echo {what} >>"$DIR/runs""#));
    let agent =
        stage.agent("w1", &with(&["--activate", &on, "--deactivate", &off, "--every-round"]));
    let runs = |what: &str| {
        let text = fs::read_to_string(stage.path("runs")).unwrap_or_default();
        text.lines().filter(|line| *line == what).count()
    };
    wait_for("several activations", || runs("on") >= 4);
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().status.code(), Some(0));
}

#[test]
fn times_that_do_not_fit_end_with_64_before_anything_is_run() {
    let stage = Stage::new();
    let agent = stage.agent("w1", &with(&["--deactivate-timeout", "700ms"]));
    let ended = agent.wait();
    assert_eq!(ended.status.code(), Some(64));
    assert!(ended.said.contains("raise --ttl"), "{}", ended.said);
    assert!(stage.log().is_empty());
}

#[test]
fn the_service_manager_hears_of_it() {
    let stage = Stage::new();
    let socket = UnixDatagram::bind(stage.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let mut command = stage.command("w1", &TIMES);
    command.env("NOTIFY_SOCKET", stage.path("notify"));
    command.env("WATCHDOG_USEC", "400000").env_remove("WATCHDOG_PID");
    let agent = Process::start("agent w1", &mut command);
    let mut heard = Vec::new();
    let mut hear = |until: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = socket.recv(&mut buffer).expect("a message before the time-out");
            let text = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
            heard.push(text);
            if heard.last().is_some_and(|last| last == until) {
                return heard.clone();
            }
        }
    };
    let before = hear("READY=1");
    assert!(before.contains(&"STATUS=standby".to_owned()), "the first round is done: {before:?}");
    hear("STATUS=active");
    let before = hear("WATCHDOG=1").len();
    hear("WATCHDOG=1");
    agent.signal(Signal::TERM);
    let all = hear("STOPPING=1");
    assert!(all.len() > before);
    assert_eq!(agent.wait().status.code(), Some(0));
}
