//! A coordinator on the embedded store, and clients of it.

use rustix::process::Signal;
use tempfile::TempDir;
use tenure::client::{Client, Hold, Lease};

pub use crate::support::clock::{eventually, soon};
use crate::support::{clock::ms, node::Node};

/// A coordinator that keeps port and data over restarts.
pub struct Server {
    pub node: Node,
    dir: TempDir,
}

impl Server {
    pub async fn start() -> Self {
        Self::configured("").await
    }

    /// One with this settings file.
    pub async fn configured(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = format!("store.embedded.data_dir={}", dir.path().join("data").display());
        let file = dir.path().join("tenure.toml");
        std::fs::write(&file, config).expect("a settings file");
        let env = [("TENURE_CONFIG", file.to_str().expect("UTF-8"))];
        let mut node = Node::new("node", &[data], &env);
        node.start().await;
        Self { node, dir }
    }

    /// Replaces the settings file, and lets the running server read it.
    pub async fn reconfigure(&self, config: &str) {
        std::fs::write(self.dir.path().join("tenure.toml"), config).expect("a settings file");
        let applied = "tenure_config_reloads_total{outcome=\"applied\"}";
        let before = self.node.metric(applied).await;
        self.node.signal(Signal::HUP);
        eventually("the settings apply", async || self.node.metric(applied).await > before).await;
    }

    pub fn client(&self) -> Client {
        Client::new(&self.node.url).expect("an address")
    }

    pub async fn hold(&self, key: &str, ttl_ms: u64) -> Lease {
        self.client().hold(hold(key, ttl_ms)).await.expect("a grant")
    }

    pub async fn state(&self, key: &str) -> String {
        self.client().lease(key).await.expect("a lease").state
    }

    /// The short types of a key's events.
    pub async fn history(&self, key: &str) -> Vec<String> {
        let info = self.node.get("/v1/info").await;
        let store = &info["store_id"].as_str().expect("store_id")[..8];
        let page =
            self.node.get(&format!("/v1/events?format=json&after={store}-0-0&prefix={key}")).await;
        let events = page["events"].as_array().expect("events");
        let short = |event: &serde_json::Value| {
            let kind = event["type"].as_str().unwrap_or_default();
            kind.trim_start_matches("io.tenure.lease.").to_owned()
        };
        events.iter().filter(|event| event["subject"] == key).map(short).collect()
    }

    pub async fn until_state(&self, key: &str, state: &str) {
        eventually(&format!("{key} is {state}"), async || self.state(key).await == state).await;
    }
}

pub fn hold(key: &str, ttl_ms: u64) -> Hold {
    Hold::key(key).owner("w").ttl(ms(ttl_ms))
}
