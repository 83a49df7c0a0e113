//! A `tenure run` or `tenure work` as a child process.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::http;
use crate::work::process::{PATIENCE, ms, number_in, signal};

/// A place for what programs write, which they find as `$D`.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub async fn pid(&self, name: &str) -> u32 {
        number_in(&self.path(name)).await
    }

    /// `tenure ARGS -- sh -c LINE`.
    pub fn agent(&self, server: SocketAddr, args: &str, line: &str) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--server", &format!("http://{server}")]).args(args.split_whitespace());
        command.args(["--", "/bin/sh", "-c", line]);
        self.start(command)
    }

    /// A command line of its own.
    pub fn start(&self, mut command: Command) -> Agent {
        command.env("D", self.0.path()).env_remove("TENURE_OWNER");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Agent { child: Some(command.spawn().expect("the program starts")), said: None }
    }
}

pub struct Agent {
    child: Option<Child>,
    /// What it says on standard error, where that is listened to while it runs.
    said: Option<Said>,
}

/// Lines, as they come.
pub type Said = Arc<Mutex<Vec<String>>>;

/// How an agent ended, and what it said.
pub struct Over {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Over {
    /// The code, after a check that nothing else is meant.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}: {}", self.status, self.stderr))
    }
}

impl Agent {
    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it was not waited for")
    }

    pub fn pid(&mut self) -> u32 {
        self.child().id()
    }

    pub fn signal(&mut self, kind: Signal) {
        signal(self.pid(), kind);
    }

    pub fn say(&mut self, text: &str) {
        let mut stdin = self.child().stdin.take().expect("it listens");
        stdin.write_all(text.as_bytes()).expect("it reads");
    }

    /// Listens to what it says on standard error.
    pub fn said(&mut self) -> Said {
        if self.said.is_none() {
            let stderr = self.child().stderr.take().expect("a pipe");
            let said = Said::default();
            self.said = Some(said.clone());
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    said.lock().expect("no panic").push(line);
                }
            });
        }
        self.said.clone().expect("just set")
    }

    pub fn has_ended(&mut self) -> bool {
        self.child().try_wait().expect("it is our child").is_some()
    }

    /// Waits for its end.
    pub async fn over(mut self) -> Over {
        let end = tenure::clock::boottime_ms() + 2 * PATIENCE.as_millis() as u64;
        while !self.has_ended() {
            assert!(tenure::clock::boottime_ms() < end, "it does not end");
            tokio::time::sleep(ms(10)).await;
        }
        let mut child = self.child.take().expect("it was not waited for");
        let status = child.wait().expect("it is our child");
        let (mut stdout, mut stderr) = (String::new(), String::new());
        child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("text");
        match self.said.take() {
            Some(said) => stderr = said.lock().expect("no panic").join("\n"),
            None => {
                child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
            }
        }
        Over { status, stdout, stderr }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a server knows of a key.
pub async fn lease(server: SocketAddr, key: &str) -> Value {
    let answer = http::client()
        .get(format!("http://{server}/v1/leases/{key}"))
        .send()
        .await
        .expect("an answer");
    answer.json().await.unwrap_or_default()
}

pub async fn post(server: SocketAddr, path: &str, body: &Value) -> Value {
    let client = http::client();
    let answer = client.post(format!("http://{server}/v1/{path}")).json(body).send().await;
    answer.expect("an answer").json().await.unwrap_or_default()
}
