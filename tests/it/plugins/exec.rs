//! Programs.

use std::{fs, path::Path, time::Duration};

use tenure::{
    actor::FenceOutcome,
    plugin::{FailureKind, FencePlugin},
};

use crate::plugins::kit::*;

fn shell(script: &str) -> std::sync::Arc<dyn FencePlugin> {
    built(&format!("kind = \"exec\"\ncommand = [\"/bin/sh\", \"-c\", {}]\n", quoted(script)))
}

/// Whether a process is there; one that is dead and not yet reaped is.
fn there(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// Whether a process does anything yet.
fn runs(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    status.is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

#[tokio::test]
async fn a_program_reads_the_order_from_its_environment_and_its_input() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let script = format!("cat > {0}/in; env | sort > {0}/env; echo $0 $# $1", dir.path().display());
    let plugin = built(&format!(
        "kind = \"exec\"\ncommand = [\"/bin/sh\", \"-c\", {}, \"$(touch {})\"]\n\
         environment = {{ SITE = \"north ; x\" }}\n",
        quoted(&script),
        out.display()
    ));
    assert_eq!(plugin.fence(order("jobs/ü 7", 42)).await, Ok(()));
    assert!(!out.exists(), "arguments are no shell's");
    let input = fs::read_to_string(dir.path().join("in")).expect("the input");
    let input: serde_json::Value = serde_json::from_str(&input).expect("one JSON object");
    let expected = serde_json::json!({
        "key": "jobs/ü 7", "token": 42, "owner": "worker \"1\"; $(rm)", "reason": "expired",
        "session": "000000000000000000000000000000ab", "pool": "batch", "attempt": 2,
    });
    assert_eq!(input, expected);
    let environment = fs::read_to_string(dir.path().join("env")).expect("the environment");
    for line in [
        "TENURE_KEY=jobs/ü 7",
        "TENURE_TOKEN=42",
        "TENURE_OWNER=worker \"1\"; $(rm)",
        "TENURE_REASON=expired",
        "TENURE_SESSION=000000000000000000000000000000ab",
        "TENURE_POOL=batch",
        "TENURE_ATTEMPT=2",
        "SITE=north ; x",
    ] {
        assert!(environment.lines().any(|found| found == line), "{line} in {environment}");
    }
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!environment.contains("CARGO_"), "nothing else is handed on: {environment}");
}

#[tokio::test]
async fn a_program_that_fails_says_why_at_the_end_of_its_complaint() {
    let error = shell("echo no power >&2; exit 3").fence(order("k", 1)).await.unwrap_err();
    assert_eq!((error.kind, error.detail.as_str()), (FailureKind::Exit(3), "no power"));
    assert!(!error.permanent);
    let long = shell("i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1");
    let why = long.fence(order("k", 1)).await.unwrap_err().detail;
    assert!(why.ends_with("line 19999") && why.len() < 1200, "{why}");
    let killed = shell("kill -9 $$").fence(order("k", 1)).await.unwrap_err();
    assert_eq!(killed.kind, FailureKind::Killed(9));
    let missing = built("kind = \"exec\"\ncommand = [\"/nowhere/fence\"]\n");
    let error = missing.fence(order("k", 1)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::CannotStart);
    assert!(error.detail.starts_with("/nowhere/fence cannot be started: "), "{error}");
}

#[tokio::test]
async fn a_program_that_leaves_something_running_has_confirmed_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    // It holds standard error open, and does not read its input.
    let plugin = shell(&format!("sleep 60 & echo $! > {}; exit 0", file.display()));
    let fenced = tokio::time::timeout(Duration::from_secs(10), plugin.fence(order("k", 1))).await;
    assert_eq!(fenced, Ok(Ok(())));
    let pid = fs::read_to_string(file).expect("a number").trim().to_owned();
    assert!(runs(&pid), "what it left is its own affair");
    let pid = rustix::process::Pid::from_raw(pid.parse().expect("a number")).expect("above 0");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
}

/// A program whose child and grandchild ignore every signal that can be ignored.
fn stubborn(dir: &Path) -> String {
    format!(
        "trap '' TERM INT HUP; echo $$ > {0}/a; \
         (trap '' TERM; echo $(exec sh -c 'echo $PPID') > {0}/b; sleep 600 & echo $! > {0}/c; wait) & wait",
        dir.display()
    )
}

#[test]
fn when_its_time_is_over_a_program_dies_with_its_children_and_theirs() {
    system(async {
        let dir = tempfile::tempdir().expect("a directory");
        let plugin = shell(&stubborn(dir.path()));
        let (plugins, _) =
            plugins(vec![("p".into(), plugin, limits(Duration::from_millis(700), 0, 1))]);
        let outcome = ask(&plugins, "p", PATIENCE).await;
        let why = String::from("after 1 try: timed out");
        assert_eq!(outcome, FenceOutcome::Failed(why));
        let pids = ["a", "b", "c"]
            .map(|name| fs::read_to_string(dir.path().join(name)).expect("a number"));
        let pids = pids.each_ref().map(|pid| pid.trim());
        eventually("all three are dead", async || !pids.iter().any(|pid| runs(pid))).await;
        eventually("the program is reaped", async || !there(pids[0])).await;
    });
}

#[test]
fn a_program_dies_when_its_plugin_is_taken_away_and_when_its_actor_dies() {
    system(async {
        for way in ["close", "kill", "drop"] {
            let dir = tempfile::tempdir().expect("a directory");
            let plugin = shell(&stubborn(dir.path()));
            let (plugins, _) = plugins(vec![("p".into(), plugin, limits(PATIENCE, 0, 1))]);
            let asker = plugins.clone();
            let asked = tokio::task::spawn_local(async move { ask(&asker, "p", PATIENCE).await });
            let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
            eventually("it runs", async || read("c").ends_with('\n')).await;
            let pids = ["a", "b", "c"].map(|name| read(name).trim().to_owned());
            assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
            match way {
                "close" => plugins.close(PATIENCE).await,
                "kill" => plugins.kill("p"),
                _ => plugins.replace(Vec::new()),
            }
            assert_eq!(asked.await.expect("an outcome"), FenceOutcome::Interrupted);
            eventually("all three are dead", async || !pids.iter().any(|pid| runs(pid))).await;
        }
    });
}
