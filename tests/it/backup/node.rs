//! The program under test, on a store that outlives it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rustix::process::Signal;
use serde_json::{Value, json};

pub use crate::support::clock::eventually;
use crate::support::http;
use crate::support::node;

/// A store, as settings, and a directory for files.
pub struct Place {
    pub dir: tempfile::TempDir,
    /// `section.key=value`.
    pub settings: Vec<String>,
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// What was printed by a command that succeeded, as JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A command that was refused, with words that say why and what to do.
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "", "nothing is printed as data");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is missing in {}", self.err);
        }
    }
}

impl Place {
    pub fn new(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = format!("node.witness={}", dir.path().join("witness.json").display());
        let settings = settings.iter().map(|&setting| setting.to_owned());
        Self { settings: settings.chain([witness]).collect(), dir }
    }

    pub fn embedded() -> Self {
        let mut place = Self::new(&[]);
        place.settings.push(format!("store.embedded.data_dir={}", place.data().display()));
        place
    }

    /// The directory of the embedded store.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(arguments).current_dir(self.dir.path());
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command
    }

    /// Runs a command to its end.
    pub fn tenure(&self, arguments: &[&str]) -> Said {
        let Output { status, stdout, stderr } =
            self.command(arguments).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Said { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// Starts a coordinator, and waits until it is ready.
    pub async fn serve(&self) -> Node {
        let node = self.start();
        eventually("ready", async || node.text("/readyz").await.0 == 200).await;
        node
    }

    /// Starts a coordinator, and waits until it listens.
    pub fn start(&self) -> Node {
        let mut process =
            node::Node::at(SocketAddr::from(([127, 0, 0, 1], 0)), "the node", &self.settings, &[]);
        process.listens().unwrap_or_else(|ended| panic!("it does not serve: {ended:?}"));
        Node { url: process.url.clone(), process, client: http::client() }
    }
}

/// A running coordinator; killed with this value.
pub struct Node {
    pub url: String,
    process: node::Node,
    client: reqwest::Client,
}

impl Node {
    /// Ends it as an operator does.
    pub async fn stop(mut self) {
        self.process.stop().await;
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Status and body; 0 while it cannot be reached.
    pub async fn text(&self, path: &str) -> (u16, String) {
        match self.client.get(format!("{}{path}", self.url)).send().await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.expect("a body")),
            Err(_) => (0, String::new()),
        }
    }

    /// An answer, perhaps after the node asked to try again.
    pub async fn get(&self, path: &str) -> Value {
        let mut last = String::new();
        eventually(path, async || {
            let (status, text) = self.text(path).await;
            assert!(status == 200 || status == 503, "{path}: {status} {text}");
            last = text;
            status == 200
        })
        .await;
        serde_json::from_str(&last).expect("JSON")
    }

    /// A call that is refused with this status, perhaps after the node asked to try again.
    pub async fn refused(&self, path: &str, body: Value, status: u16) {
        eventually(path, async || {
            let (found, answer) = self.post(path, &body).await;
            assert!(found == status || found == 503, "{path} {body}: {found} {answer}");
            found == status
        })
        .await;
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.url)).json(body);
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// A call that succeeds, perhaps after the node asked to try again.
    pub async fn call(&self, path: &str, body: Value) -> Value {
        let mut last = Value::Null;
        eventually(path, async || {
            let (status, answer) = self.post(path, &body).await;
            assert!(status == 200 || answer["retryable"] == true, "{path} {body}: {answer}");
            last = answer;
            status == 200
        })
        .await;
        last
    }

    pub async fn acquire(&self, key: &str, owner: &str, value: &str) -> Value {
        let body = json!({"key": key, "owner": owner, "ttl_ms": 600_000, "value": value});
        self.call("/v1/acquire", body).await
    }

    /// A grant that was given back at once; its token.
    pub async fn acquire_and_release(&self, key: &str) -> u64 {
        let grant = self.acquire(key, "passer-by", "").await;
        let proof = json!({"key": key, "lease_id": grant["lease_id"]});
        self.call("/v1/release", proof).await;
        grant["token"].as_u64().expect("a token")
    }
}

pub fn exists(path: &str) -> bool {
    Path::new(path).exists()
}
