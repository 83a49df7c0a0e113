//! A worker that is stopped for longer than its lease lasts.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::harness::{Server, hold};

use crate::support::clock::{ms, sleep_ms};

/// A child that ends with the test.
struct Worker(Child);

impl Worker {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_finds_its_lease_invalid_before_it_can_do_anything_else() {
    let server = Server::start().await;
    let program =
        Path::new(env!("CARGO_BIN_EXE_tenure")).with_file_name("examples/stopping_worker");
    assert!(
        program.is_file(),
        "{} is missing; `cargo build --examples --features testing`",
        program.display()
    );
    for (stop_after, pause_ms) in [(5, 1500), (80, 1100), (30, 4000)] {
        let key = format!("k{stop_after}");
        let mut command = Command::new(&program);
        command.args([&server.node.url, &key, "1000", &stop_after.to_string()]);
        let child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut worker = Worker(child);
        let mut said = BufReader::new(worker.0.stdout.take().expect("a pipe")).lines();
        let mut until = |last: &str| -> Vec<String> {
            let mut lines = Vec::new();
            for line in said.by_ref().map_while(Result::ok) {
                let found = line.starts_with(last);
                lines.push(line);
                if found {
                    break;
                }
            }
            lines
        };
        let before = tokio::task::block_in_place(|| until("stopping"));
        assert_eq!(before.len(), stop_after, "{before:?}");
        sleep_ms(pause_ms).await;
        // Somebody else holds it by now, or nobody.
        if pause_ms > 2000 {
            let other = hold(&key, 60_000).owner("next").wait(ms(5000));
            let next = server.client().hold(other).await.expect("a grant");
            assert!(next.valid());
        }
        worker.signal(Signal::CONT);
        let after = tokio::task::block_in_place(|| until("lost"));
        assert_eq!(after, ["lost expired"]);
        assert!(worker.0.wait().expect("it ends").success());
    }
}
