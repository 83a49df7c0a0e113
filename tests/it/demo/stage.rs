//! A demo as a process, with what it says.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::clock::eventually;

pub const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

/// A running demo; it ends with this value.
pub struct Demo {
    child: Child,
    keys: Option<ChildStdin>,
    said: Arc<Mutex<Vec<u8>>>,
    /// Where it may put its data.
    pub temporary: tempfile::TempDir,
}

impl Demo {
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(program)
            .args(arguments)
            .env("TMPDIR", temporary.path())
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|why| panic!("{program}: {why}"));
        let (keys, out) = (child.stdin.take(), child.stdout.take());
        let said = Arc::<Mutex<Vec<u8>>>::default();
        let (mut out, heard) = (out.expect("stdout is piped"), said.clone());
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut part) {
                heard.lock().expect("no panic").extend_from_slice(&part[..length]);
            }
        });
        Self { child, keys, said, temporary }
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("no panic")).into_owned()
    }

    /// Waits until it has said this.
    pub async fn says(&self, part: &str) {
        eventually(&format!("the demo says {part:?}"), async || self.said().contains(part)).await;
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        let pipe = self.keys.as_mut().expect("the keys have not ended");
        pipe.write_all(keys.as_bytes()).and_then(|()| pipe.flush()).expect("it reads keys");
    }

    /// Ends the keys.
    pub fn end_of_keys(&mut self) {
        self.keys = None;
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end, and for the rest of what it says.
    pub async fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the demo ends", async || {
            status = self.child.try_wait().expect("a status");
            status.is_some()
        })
        .await;
        let mut heard = 0;
        eventually("its last words", async || {
            let before = std::mem::replace(&mut heard, self.said().len());
            heard == before
        })
        .await;
        status.expect("it ended")
    }

    /// The entries of the directory for its data.
    pub fn litter(&self) -> Vec<String> {
        entries(self.temporary.path())
    }
}

fn entries(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path().display().to_string()).collect()
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the demo said:\n{}\n---", self.said());
        }
    }
}
