//! Two nodes on one store.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    clock::{ms, within},
    dynamo_endpoint::Endpoint,
    nats_server::Server,
    node::Node,
};

/// How long something may take that depends on a node's death: a record's time to live, and some.
pub const DEATH_MS: u64 = 15_000;

pub enum Store {
    Nats(Server),
    DynamoDb(Endpoint),
}

impl Store {
    /// Copies the data of the NATS server, which stands still meanwhile.
    pub fn copy(&mut self) {
        let server = self.server();
        let data = server.data_dir();
        server.kill();
        copy(&data, &data.with_extension("older"));
        server.run();
    }

    /// Puts the data of the NATS server back to the copy.
    pub fn put_back(&mut self) {
        let server = self.server();
        let data = server.data_dir();
        server.kill();
        std::fs::remove_dir_all(&data).expect("it is there");
        copy(&data.with_extension("older"), &data);
        server.run();
    }

    fn server(&mut self) -> &mut Server {
        let Self::Nats(server) = self else { panic!("the store is no NATS server") };
        server
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} to {}", from.display(), to.display());
}

pub struct Pair {
    pub a: Node,
    pub b: Node,
    pub store: Store,
    pub sets: Vec<String>,
    dir: TempDir,
}

pub const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "none"),
    ("AWS_SECRET_ACCESS_KEY", "none"),
    ("AWS_REGION", "eu-central-1"),
];

/// What the nodes are started with: in a hurry to forget dead sessions, and to move leases.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    CREDENTIALS[0],
    CREDENTIALS[1],
    CREDENTIALS[2],
    ("TENURE_TEST_RETENTION_MS", "4000"),
    ("TENURE_TEST_MIN_AGE_MS", "1500"),
];

/// What holds for the keys of hand-overs and pools.
const POLICIES: &str = r#"
[[policy]]
prefix = "shards/"
pool = "shards"
balance = true
handover_timeout = "20s"

[[policy]]
prefix = "allow_stale/"
pool = "allow_stale"
balance = true
handover_timeout = "2s"

[[policy]]
prefix = "kept/"
pool = "kept"
balance = true
rejoin_window = "1m"

[[policy]]
prefix = "guarded/"
pool = "guarded"
lock_delay = "6s"
mass_failure_within = "30s"

[[policy]]
prefix = "heavy/"
pool = "heavy"
balance = "load"

[[policy]]
prefix = "permits/"
permits = 4

[[policy]]
prefix = "placed/"
pool = "placed"
balance = true
require = ["gpu=true"]

[[policy]]
prefix = "warm/"
pool = "warm"
balance = true
warmup_timeout = "40s"

[[policy]]
prefix = "one/"
pool = "one"
balance = true
warmup_timeout = "40s"
warmups = 1

[[policy]]
prefix = "lazy/"
pool = "lazy"
balance = true
handover_timeout = "60s"
"#;

/// What a holder has.
#[derive(Clone, Debug)]
pub struct Grant {
    pub key: String,
    pub lease_id: String,
    pub token: u64,
    pub node: String,
}

impl Grant {
    pub fn of(grant: &Value) -> Self {
        let text =
            |name: &str| grant[name].as_str().unwrap_or_else(|| panic!("{grant}")).to_owned();
        let token = grant["token"].as_u64().expect("a token");
        Self { key: text("key"), lease_id: text("lease_id"), token, node: text("node") }
    }

    pub fn proof(&self) -> Value {
        json!({ "key": self.key, "lease_id": self.lease_id })
    }
}

impl Pair {
    pub async fn nats() -> Self {
        let server = Server::start();
        let url = format!("store.nats.url={}", server.url());
        let sets = ["store.kind=nats".to_owned(), url, "store.nats.replicas=1".to_owned()];
        Self::start(Store::Nats(server), sets.to_vec()).await
    }

    pub async fn dynamodb() -> Self {
        let endpoint = Endpoint::start();
        let sets = vec![
            "store.kind=dynamodb".to_owned(),
            format!("store.dynamodb.endpoint={}", endpoint.url()),
            "store.dynamodb.create_table=true".to_owned(),
        ];
        Self::start(Store::DynamoDb(endpoint), sets).await
    }

    /// Two nodes with settings of their own, that `observer` may observe, and more variables of their environment.
    pub async fn nats_with(
        of_a: &[String],
        of_b: &[String],
        observer: &str,
        environment: &[(&str, &str)],
    ) -> Self {
        let server = Server::start();
        let url = format!("store.nats.url={}", server.url());
        let sets = ["store.kind=nats".to_owned(), url, "store.nats.replicas=1".to_owned()];
        Self::begin(Store::Nats(server), sets.to_vec(), [of_a, of_b], observer, environment).await
    }

    async fn start(store: Store, sets: Vec<String>) -> Self {
        Self::begin(store, sets, [&[], &[]], "", &[]).await
    }

    async fn begin(
        store: Store,
        mut sets: Vec<String>,
        [of_a, of_b]: [&[String]; 2],
        observer: &str,
        environment: &[(&str, &str)],
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        sets.push("node.ttl=2s".to_owned());
        let witness = dir.path().join("witness.json");
        sets.push(format!("node.witness={}", witness.display()));
        let policies = dir.path().join("tenure.toml");
        std::fs::write(&policies, POLICIES).expect("a settings file");
        let environment = [&ENVIRONMENT[..], environment].concat();
        let node = |name: &str, own: &[String]| {
            let node = Node::new(name, &[&sets, own].concat(), &environment);
            node.configured(&policies).with_token(observer)
        };
        let (mut a, mut b) = (node("a", of_a), node("b", of_b));
        a.start().await;
        b.start().await;
        let two = within(ms(DEATH_MS), async || {
            b.get("/v1/nodes").await["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2)
                && a.get("/v1/nodes").await["nodes"].as_array().is_some_and(|n| n.len() == 2)
        });
        assert!(two.await, "the nodes know each other");
        Self { a, b, store, sets, dir }
    }

    /// The settings' file of the nodes that the pair began with.
    pub fn settings(&self) -> PathBuf {
        self.dir.path().join("tenure.toml")
    }

    /// Gives both nodes one more policy.
    pub async fn reload(&self, policy: &str) {
        let known = std::fs::read_to_string(self.settings()).expect("the settings of the pair");
        std::fs::write(self.settings(), known + policy).expect("settings");
        for node in [&self.a, &self.b] {
            node.signal(Signal::HUP);
            let applied = "tenure_config_reloads_total{outcome=\"applied\"}";
            assert!(within(ms(5_000), async || node.metric(applied).await > 0.5).await);
        }
    }

    /// Runs the program on the same store.
    pub fn tenure(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_tenure")));
        command.args(arguments).envs(CREDENTIALS).current_dir(self.dir.path());
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command.output().expect("the program runs")
    }
}

/// Acquires a free key.
pub async fn acquire(node: &Node, key: &str, owner: &str, ttl_ms: u64) -> Grant {
    let body = json!({ "key": key, "owner": owner, "ttl_ms": ttl_ms });
    let (status, grant) = node.post("/v1/acquire", &body).await;
    assert_eq!(status, 200, "{grant}");
    Grant::of(&grant)
}

/// Heartbeats until one is answered with 200 or is lost; gives the last answer.
pub async fn heartbeat_until_answered(node: &Node, grant: &Grant) -> (u16, Value) {
    let mut last = (0, Value::Null);
    within(ms(DEATH_MS), async || {
        last = node.post("/v1/heartbeat", &grant.proof()).await;
        assert!([200, 409, 503].contains(&last.0), "{last:?}");
        last.0 != 503
    })
    .await;
    last
}
