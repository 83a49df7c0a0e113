//! What the nodes share: three NATS servers, a DynamoDB endpoint, or, of one node, a directory.

use std::{net::SocketAddr, path::PathBuf, process::Command};

use tempfile::TempDir;

use crate::support::{
    clock::{ms, within},
    dynamo_endpoint::Endpoint,
    http, nats_server,
    ports::free_port,
    process::Process,
};

/// How many NATS servers keep the bucket.
const REPLICAS: usize = 3;
/// The bucket, and the table.
const NAME: &str = "chaos";
/// How long the servers may take to find each other.
const START_MS: u64 = 30_000;

/// The servers behind a store.
pub enum Servers {
    Embedded(TempDir),
    Nats { _dir: TempDir, servers: Vec<NatsServer> },
    Dynamo(Endpoint),
}

/// One of the NATS servers.
#[derive(Debug)]
pub struct NatsServer {
    name: String,
    pub client: SocketAddr,
    monitor: SocketAddr,
    config: PathBuf,
    process: Option<Process>,
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl NatsServer {
    fn start(&mut self) {
        assert!(self.process.is_none());
        let mut command = Command::new(nats_server::program());
        command.arg("-c").arg(&self.config);
        self.process = Some(Process::start(&self.name, &mut command));
    }

    async fn ready(&self) {
        let url = format!("http://{}/healthz", self.monitor);
        let http = http::builder().build().expect("a client");
        let is_ready = within(ms(START_MS), async || {
            http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
        let said = || self.process.as_ref().map(Process::said).unwrap_or_default();
        assert!(is_ready, "{} is not ready; it said:\n{}", self.name, said());
    }
}

impl Servers {
    pub fn embedded() -> Self {
        Self::Embedded(tempfile::tempdir().expect("a directory"))
    }

    /// A DynamoDB endpoint with an empty account.
    pub fn dynamo() -> Self {
        Self::Dynamo(Endpoint::start())
    }

    /// A cluster of three, each of which syncs every write.
    pub async fn nats() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let routes: Vec<u16> = (0..REPLICAS).map(|_| free_port()).collect();
        let all: Vec<_> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let mut servers = Vec::new();
        for (n, route) in routes.iter().enumerate() {
            let (client, monitor) = (free_port(), free_port());
            let name = format!("nats-{n}");
            let store = dir.path().join(&name);
            let text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{client}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
                 jetstream {{ store_dir: {:?}, sync_interval: always, max_mem: 64M, max_file: 2G }}\n\
                 cluster {{ name: chaos, listen: \"127.0.0.1:{route}\", \
                 routes: [{}] }}\n",
                store.display().to_string(),
                all.join(", "),
            );
            let config = dir.path().join(format!("{name}.conf"));
            std::fs::write(&config, text).expect("written");
            let (client, monitor) = (local(client), local(monitor));
            servers.push(NatsServer { name, client, monitor, config, process: None });
        }
        servers.iter_mut().for_each(NatsServer::start);
        for server in &servers {
            server.ready().await;
        }
        Self::Nats { _dir: dir, servers }
    }

    /// The settings of a node.
    pub fn settings(&self) -> Vec<String> {
        match self {
            Self::Embedded(dir) => {
                vec![format!("store.embedded.data_dir={}", dir.path().display())]
            }
            Self::Dynamo(endpoint) => vec![
                "store.kind=dynamodb".to_owned(),
                format!("store.dynamodb.endpoint={}", endpoint.url()),
                format!("store.dynamodb.table={NAME}"),
                "store.dynamodb.create_table=true".to_owned(),
            ],
            Self::Nats { servers, .. } => {
                let urls: Vec<_> = servers.iter().map(|s| format!("nats://{}", s.client)).collect();
                vec![
                    "store.kind=nats".to_owned(),
                    format!("store.nats.url={}", urls.join(",")),
                    format!("store.nats.bucket={NAME}"),
                    format!("store.nats.replicas={REPLICAS}"),
                ]
            }
        }
    }

    pub fn environment(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("AWS_ACCESS_KEY_ID", "none"),
            ("AWS_SECRET_ACCESS_KEY", "none"),
            ("AWS_REGION", "eu-central-1"),
        ]
    }
}
