//! A store, the nodes on it, and the files of the plugins.

use std::{fs, path::Path, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tempfile::TempDir;

use crate::fences::{journal::Journal, plan};

use crate::support::{
    clock::within, dynamo_endpoint::Endpoint, http, nats_server::Server, node::Node,
};

enum Store {
    Embedded,
    Nats(#[expect(dead_code, reason = "runs until it is dropped")] Server),
    DynamoDb(#[expect(dead_code, reason = "runs until it is dropped")] Endpoint),
}

pub struct Stand {
    /// One on the embedded store, else two.
    pub nodes: Vec<Node>,
    pub journal: Journal,
    http: reqwest::Client,
    _dir: TempDir,
    store: Store,
}

/// How long an answer may take while a thousand fences run.
const PATIENCE: Duration = Duration::from_secs(60);

const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "none"),
    ("AWS_SECRET_ACCESS_KEY", "none"),
    ("AWS_REGION", "eu-central-1"),
];

impl Stand {
    pub async fn embedded() -> Self {
        Self::embedded_with(plan::settings).await
    }

    /// With these settings of the program, the journal and the gate.
    pub async fn embedded_with(settings: impl Fn(&Path, &Path, &Path) -> String) -> Self {
        Self::start(Store::Embedded, &["store.kind=embedded".to_owned()], settings).await
    }

    pub async fn nats() -> Self {
        let server = Server::start();
        let url = format!("store.nats.url={}", server.url());
        let sets = ["store.kind=nats".to_owned(), url, "store.nats.replicas=1".to_owned()];
        Self::start(Store::Nats(server), &sets, plan::settings).await
    }

    pub async fn dynamodb() -> Self {
        let endpoint = Endpoint::start();
        let sets = [
            "store.kind=dynamodb".to_owned(),
            format!("store.dynamodb.endpoint={}", endpoint.url()),
            "store.dynamodb.create_table=true".to_owned(),
        ];
        Self::start(Store::DynamoDb(endpoint), &sets, plan::settings).await
    }

    async fn start(
        store: Store,
        sets: &[String],
        settings: impl Fn(&Path, &Path, &Path) -> String,
    ) -> Self {
        allow_connections();
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::new(dir.path());
        let config = dir.path().join("tenure.toml");
        fs::write(&config, settings(&journal.program, &journal.path, &journal.gate))
            .expect("settings");
        let config = config.to_str().expect("UTF-8");
        let environment: Vec<_> =
            CREDENTIALS.into_iter().chain([("TENURE_CONFIG", config)]).collect();
        let shared = !matches!(store, Store::Embedded);
        let node = |name: &str| {
            let mut sets = sets.to_vec();
            let beside =
                |file: &str| dir.path().join(format!("{name}-{file}")).display().to_string();
            sets.push(format!("store.embedded.data_dir={}", beside("data")));
            sets.push(format!("node.witness={}", beside("witness.json")));
            sets.push("telemetry.log=error,tenure=info".to_owned());
            sets.push("telemetry.ownership_lines_per_second=50".to_owned());
            sets.push("limits.exec_checks=true".to_owned());
            Node::new(name, &sets, &environment)
        };
        let mut nodes = vec![node("a")];
        if shared {
            nodes.push(node("b"));
        }
        nodes.iter_mut().for_each(Node::launch);
        for node in &mut nodes {
            node.ready().await;
        }
        let http = http::builder().timeout(PATIENCE).build();
        Self { nodes, journal, http: http.expect("a client"), _dir: dir, store }
    }

    pub fn is_shared(&self) -> bool {
        !matches!(self.store, Store::Embedded)
    }

    /// An answer, however busy the node is.
    pub async fn get(&self, node: usize, path: &str) -> Value {
        let url = format!("{}{path}", self.nodes[node].url);
        let ask = async || {
            let answer = self.http.get(&url).send().await;
            answer.unwrap_or_else(|why| panic!("{path}: {why:?}"))
        };
        let mut answer = ask().await;
        // The node may be overloaded for a moment.
        let came = within(PATIENCE, async || {
            if answer.status() == 503 {
                answer = ask().await;
            }
            answer.status() != 503
        });
        came.await;
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.expect("JSON")
    }

    /// Every lease, as the node says.
    pub async fn leases(&self, node: usize) -> Vec<Value> {
        let (mut leases, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.get(node, &format!("/v1/leases?limit=1000{after}")).await;
            leases.extend(page["leases"].as_array().expect("leases").iter().cloned());
            let Some(next) = page["next"].as_str() else { return leases };
            let next: String = next.bytes().map(|byte| format!("%{byte:02X}")).collect();
            after = format!("&after={next}");
        }
    }

    /// Every event since the store began.
    pub async fn events(&self, node: usize) -> Vec<Value> {
        let (mut events, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let path = format!("/v1/events?format=json&after={after}");
            let page = self.get(node, &path).await;
            assert_eq!(page["reset"], false, "the whole history is kept");
            let more = page["events"].as_array().expect("events");
            if more.is_empty() {
                return events;
            }
            events.extend(more.iter().cloned());
            after = page["next"].as_str().expect("a cursor").to_owned();
        }
    }
}

/// A connection for every waiter, here and in the nodes that are started from here.
fn allow_connections() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("more files");
}
