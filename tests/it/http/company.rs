//! Programs that a coordinator starts end with it.

use std::{path::Path, time::Instant};

use serde_json::json;

use crate::support::{
    harness::{Server, eventually, ms},
    processes::{children, command, kill, lives},
};

/// Writes its number and that of a child of its own, which has cleared its environment, and stays.
fn script(file: &Path) -> String {
    format!(
        "trap '' TERM HUP; echo $$ >> {0}; env -i /bin/sleep 1000 & echo $! >> {0}; wait; sleep 1000",
        file.display()
    )
}

fn numbers(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

fn guardian(server: &Server) -> u32 {
    let children = children(server.pid());
    children.into_iter().find(|&child| command(child).contains("guardian")).expect("a guardian")
}

#[tokio::test]
async fn a_fence_program_and_an_exec_check_end_with_a_coordinator_that_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (fence, check) = (dir.path().join("fence"), dir.path().join("check"));
    let server = Server::configured(&format!(
        "[limits]\nexec_checks = true\n\
         [[plugin]]\nname = \"cut\"\nkind = \"exec\"\ntimeout = \"1h\"\n\
         command = [\"/bin/sh\", \"-c\", \"\"\"{}\"\"\"]\n\
         [[policy]]\nprefix = \"f/\"\nfence = [\"cut\"]\nfence_timeout = \"1h\"\n",
        script(&fence)
    ));
    server.acquire("f/k", "w", 300).await;
    let exec = json!({ "type": "exec", "command": ["/bin/sh", "-c", script(&check)],
        "interval_ms": 100, "timeout_ms": 60_000, "fail_after": 1 });
    server.session("w", 60_000, json!({ "checks": [exec] })).await;
    eventually("all four run", async || {
        [&fence, &check].iter().all(|file| numbers(file).len() == 2)
    })
    .await;
    let all = [numbers(&fence), numbers(&check)].concat();
    assert!(all.iter().all(|&pid| lives(pid)), "{all:?}");
    let killed = Instant::now();
    let stopped = server.kill();
    eventually("none of them is left", async || !all.iter().any(|&pid| lives(pid))).await;
    assert!(killed.elapsed() < ms(2000), "{:?}", killed.elapsed());

    // Its successor begins anew, and a stop in good order leaves nothing either.
    let server = stopped.restart();
    eventually("the fence runs again", async || numbers(&fence).len() == 4).await;
    server.signal(rustix::process::Signal::TERM);
    let ended = server.wait();
    assert!(ended.status.success(), "{}", ended.said);
    let all = numbers(&fence);
    eventually("none of them is left", async || !all.iter().any(|&pid| lives(pid))).await;
}

#[tokio::test]
async fn a_guardian_that_is_killed_is_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("check");
    let server = Server::with(&["limits.exec_checks=true"]);
    let exec = json!({ "type": "exec", "command": ["/bin/sh", "-c", script(&file)],
        "interval_ms": 100, "timeout_ms": 60_000, "fail_after": 100 });
    server.session("w", 60_000, json!({ "checks": [exec] })).await;
    eventually("it runs", async || numbers(&file).len() == 2).await;
    kill(guardian(&server));
    eventually("what it guarded is gone", async || !numbers(&file).iter().any(|&pid| lives(pid)))
        .await;
    eventually("it runs again", async || numbers(&file).iter().any(|&pid| lives(pid))).await;
    let all = numbers(&file);
    server.kill();
    eventually("none of them is left", async || !all.iter().any(|&pid| lives(pid))).await;
}

#[tokio::test]
async fn what_an_ended_program_left_lives_on_when_the_guardian_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (left, check) = (dir.path().join("left"), dir.path().join("check"));
    let server = Server::configured(&format!(
        "[limits]\nexec_checks = true\n\
         [[plugin]]\nname = \"cut\"\nkind = \"exec\"\n\
         command = [\"/bin/sh\", \"-c\", \"/bin/sleep 1000 & echo $! > {}\"]\n\
         [[policy]]\nprefix = \"f/\"\nfence = [\"cut\"]\n",
        left.display()
    ));
    server.acquire("f/k", "w", 300).await;
    eventually("the fence has ended", async || server.lease("f/k").await["state"] == "free").await;
    let exec = json!({ "type": "exec", "command": ["/bin/sh", "-c", script(&check)],
        "interval_ms": 100, "timeout_ms": 60_000, "fail_after": 100 });
    server.session("w", 60_000, json!({ "checks": [exec] })).await;
    eventually("the check runs", async || numbers(&check).len() == 2).await;
    kill(guardian(&server));
    let first = numbers(&check);
    eventually("the check is gone", async || !first.iter().any(|&pid| lives(pid))).await;
    let [left] = numbers(&left)[..] else { panic!("one process was left") };
    assert!(lives(left), "it was killed with the guardian");
    kill(left);
    server.kill();
}
