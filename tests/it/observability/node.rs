//! A coordinator whose metrics and log are looked at.

use std::net::SocketAddr;

use serde_json::Value;

pub use crate::support::clock::{PATIENCE, eventually};
use crate::support::http;
use crate::{observability::scrape::Scrape, support::node};

/// A running node; it ends with this value.
pub struct Node {
    /// Where it answers, without a slash at the end.
    pub url: String,
    process: node::Node,
    client: reqwest::Client,
    _dir: tempfile::TempDir,
}

impl Node {
    /// Starts a node on a free port with fresh data and these settings (`section.key=value`).
    pub async fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = format!("store.embedded.data_dir={}", dir.path().join("data").display());
        let sets: Vec<String> =
            [data].into_iter().chain(settings.iter().map(|&set| set.to_owned())).collect();
        let mut process =
            node::Node::at(SocketAddr::from(([127, 0, 0, 1], 0)), "the node", &sets, &[]);
        process.listens().unwrap_or_else(|ended| panic!("{ended:?}"));
        process.ready().await;
        Self { url: process.url.clone(), process, client: http::client(), _dir: dir }
    }

    /// Its port.
    pub fn port(&self) -> &str {
        self.url.rsplit(':').next().expect("a port")
    }

    /// What it logged so far.
    pub fn log(&self) -> Vec<String> {
        self.process.said().lines().map(str::to_owned).collect()
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

    /// The status of a DELETE.
    pub async fn delete(&self, path: &str) -> u16 {
        let response = self.client.delete(format!("{}{path}", self.url)).send().await;
        response.expect("an answer").status().as_u16()
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

    /// The id of a new session.
    pub async fn open_session(&self, body: &Value) -> String {
        let (status, answer) = self.post("/v1/sessions", body).await;
        assert_eq!(status, 201, "{body} was answered {answer}");
        answer["id"].as_str().expect("an id").to_owned()
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
