//! A coordinator on the embedded store that sends its spans to a collector.

use std::net::SocketAddr;

use serde_json::Value;

use crate::{
    support::{clock::PATIENCE, http, node},
    traces::collector::Collector,
};

pub struct Node {
    pub process: node::Node,
    http: reqwest::Client,
    _dir: tempfile::TempDir,
}

impl Node {
    /// Starts a node with these settings.
    pub async fn start(collector: &Collector, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut sets = collector.sets();
        sets.push(format!("store.embedded.data_dir={}", dir.path().join("data").display()));
        sets.push("telemetry.log_format=json".to_owned());
        sets.push("node.name=one".to_owned());
        sets.extend(more.iter().map(|set| (*set).to_owned()));
        let mut process = node::Node::at(SocketAddr::from(([127, 0, 0, 1], 0)), "one", &sets, &[]);
        process.listens().unwrap_or_else(|ended| panic!("{ended:?}"));
        process.ready().await;
        Self { process, http: http::client(), _dir: dir }
    }

    /// A call with these headers.
    pub async fn call(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
        call(&self.http, &self.process.url, path, headers, body).await
    }
}

/// A call to the node at `url`, with these headers.
pub async fn call(
    http: &reqwest::Client,
    url: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let mut request = http.post(format!("{url}{path}")).json(body).timeout(PATIENCE);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap_or_else(|why| panic!("{path}: {why:?}"));
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}
