//! A coordinator in a process of its own.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

pub use crate::support::clock::{PATIENCE, eventually};
use serde_json::Value;

use crate::observability::scrape::Scrape;

/// A running node; it ends with this value.
pub struct Node {
    /// Where it answers, without a slash at the end.
    pub url: String,
    log: Arc<Mutex<Vec<String>>>,
    child: Child,
    client: reqwest::Client,
    _dir: tempfile::TempDir,
}

impl Node {
    /// Starts a node on a free port with fresh data and these settings (`section.key=value`).
    pub async fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(dir.path().join("data"));
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (stderr, lines) = (child.stderr.take().expect("a pipe"), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().expect("the log").push(line);
            }
        });
        let client = reqwest::Client::new();
        let mut node = Self { url: String::new(), log, child, client, _dir: dir };
        let line = node.log_line(|line| line.starts_with("listening on ")).await;
        node.url = line["listening on ".len()..].to_owned();
        eventually("ready", async || node.get("/readyz").await.0 == 200).await;
        node
    }

    /// Its port.
    pub fn port(&self) -> &str {
        self.url.rsplit(':').next().expect("a port")
    }

    /// What it logged so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().expect("the log").clone()
    }

    /// The first line that fits, as soon as there is one.
    pub async fn log_line(&self, fits: impl Fn(&str) -> bool) -> String {
        let mut found = None;
        eventually("logged", async || {
            found = self.log().into_iter().find(|line| fits(line));
            found.is_some()
        })
        .await;
        found.expect("just found")
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        let response = self.client.get(format!("{}{path}", self.url)).send().await;
        let response = response.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("a body"))
    }

    /// A response whose body does not end.
    pub async fn stream(&self, path: &str) -> reqwest::Response {
        let response = self.client.get(format!("{}{path}", self.url)).send().await;
        response.expect("an answer")
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.url)).json(body);
        let response = request.send().await.expect("an answer");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// A call that must succeed.
    pub async fn call(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.post(path, &body).await;
        assert_eq!(status, 200, "{path} {body} was answered {answer}");
        answer
    }

    /// A call that must be refused with this status.
    pub async fn refused(&self, path: &str, body: Value, expected: u16) -> Value {
        let (status, answer) = self.post(path, &body).await;
        assert_eq!(status, expected, "{path} {body} was answered {answer}");
        answer
    }

    /// The text of `/metrics`.
    pub async fn metrics(&self) -> String {
        let (status, text) = self.get("/metrics").await;
        assert_eq!(status, 200);
        text
    }

    /// `/metrics`, taken apart.
    pub async fn scrape(&self) -> Scrape {
        Scrape::parse(&self.metrics().await)
    }

    /// Waits until a scrape satisfies; what is counted after an answer is counted soon.
    pub async fn scrape_until(&self, what: &str, fits: impl Fn(&Scrape) -> bool) -> Scrape {
        let mut last = None;
        eventually(what, async || {
            let scrape = self.scrape().await;
            let fits = fits(&scrape);
            last = Some(scrape);
            fits
        })
        .await;
        last.expect("just taken")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
