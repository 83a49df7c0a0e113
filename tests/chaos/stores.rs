//! What the nodes share: three NATS servers, a DynamoDB endpoint, or, of one node, a directory. Each server has
//! a place of its own in the network, and a disk of its own.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::{
    clock::{ms, within},
    disk::Disk,
    net::Net,
};

use crate::support::{http, nats_server, process::Process};

/// The bucket, and the table.
const NAME: &str = "chaos";
/// How long servers may take to be ready, on a busy machine.
const START_MS: u64 = 180_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One coordinator is all that such a store can have.
    Embedded,
    Nats,
    Dynamodb,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Embedded, Self::Nats, Self::Dynamodb];

    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Nats => "nats",
            Self::Dynamodb => "dynamodb",
        }
    }

    pub fn nodes(self) -> usize {
        if self == Self::Embedded { 1 } else { 3 }
    }

    /// Where its servers are.
    pub fn places(self) -> Vec<String> {
        match self {
            Self::Embedded => Vec::new(),
            Self::Nats => (0..3).map(|n| format!("nats{n}")).collect(),
            Self::Dynamodb => vec!["dynamo".to_owned()],
        }
    }
}

/// A server of the store.
pub struct Server {
    pub place: String,
    pub addr: SocketAddr,
    pub disk: Disk,
    config: PathBuf,
    pub process: Option<Process>,
}

pub struct Servers {
    pub kind: Kind,
    pub all: Vec<Server>,
}

impl Servers {
    pub async fn start(kind: Kind, net: &Net, dir: &Path) -> Self {
        let port = if kind == Kind::Nats { 4222 } else { 8000 };
        let server = |place: &String| Server {
            place: place.clone(),
            addr: SocketAddr::from((net.addr(place), port)),
            disk: Disk::mount(&dir.join(place)),
            config: dir.join(format!("{place}.conf")),
            process: None,
        };
        let mut servers = Self { kind, all: kind.places().iter().map(server).collect() };
        if kind == Kind::Nats {
            servers.configure();
        }
        for n in 0..servers.all.len() {
            servers.launch(n, net);
        }
        for n in 0..servers.all.len() {
            servers.ready(n).await;
        }
        servers
    }

    /// A cluster of three, each of which syncs every write.
    fn configure(&self) {
        let routes: Vec<String> =
            self.all.iter().map(|server| format!("nats://{}:6222", server.addr.ip())).collect();
        for server in &self.all {
            let text = format!(
                "server_name: {}\nlisten: \"{}\"\nhttp: \"{ip}:8222\"\njetstream {{ store_dir: {:?}, \
                 sync_interval: always, max_mem: 64M, max_file: 1G }}\ncluster {{ name: chaos, listen: \
                 \"{ip}:6222\", routes: [{}] }}\n",
                server.place,
                server.addr,
                server.disk.path().display().to_string(),
                routes.join(", "),
                ip = server.addr.ip(),
            );
            std::fs::write(&server.config, text).expect("written");
        }
    }

    pub fn launch(&mut self, n: usize, net: &Net) {
        let kind = self.kind;
        let server = &mut self.all[n];
        assert!(server.process.is_none(), "{} runs", server.place);
        let mut command: Command;
        if kind == Kind::Nats {
            command = net.command(&server.place, nats_server::program());
            command.arg("-c").arg(&server.config);
        } else {
            command = net.command(&server.place, std::env::current_exe().expect("a program"));
            command.args(["endpoint", &server.addr.to_string()]).arg(server.disk.path());
        }
        server.process = Some(Process::start(&server.place, &mut command));
    }

    /// Waits until a server answers.
    pub async fn ready(&mut self, n: usize) {
        assert!(self.is_ready(n, START_MS).await, "{} is not ready", self.all[n].place);
    }

    pub async fn is_ready(&mut self, n: usize, patience_ms: u64) -> bool {
        let (kind, server) = (self.kind, &self.all[n]);
        let health = format!("http://{}:8222/healthz", server.addr.ip());
        let http = http::builder().timeout(ms(2_000));
        let http = http.build().expect("a client");
        within(ms(patience_ms), async || match kind {
            Kind::Nats => {
                http.get(&health).send().await.is_ok_and(|answer| answer.status().is_success())
            }
            _ => TcpStream::connect(server.addr).await.is_ok(),
        })
        .await
    }

    pub fn kill(&mut self, n: usize) {
        self.all[n].process.take().expect("it runs").kill();
    }

    /// The settings of a node, whose files are on this disk.
    pub fn settings(&self, disk: Option<&Disk>) -> Vec<String> {
        let text = match self.kind {
            Kind::Embedded => {
                let data = disk.expect("a disk").path().join("data");
                format!("store.embedded.data_dir={}", data.display())
            }
            Kind::Nats => {
                let urls: Vec<_> = self.all.iter().map(|s| format!("nats://{}", s.addr)).collect();
                format!(
                    "store.kind=nats store.nats.url={} store.nats.bucket={NAME} store.nats.replicas=3 \
                     store.nats.history=64",
                    urls.join(",")
                )
            }
            Kind::Dynamodb => format!(
                "store.kind=dynamodb store.dynamodb.endpoint=http://{} store.dynamodb.table={NAME} \
                 store.dynamodb.create_table=true",
                self.all[0].addr
            ),
        };
        text.split(' ').map(str::to_owned).collect()
    }

    async fn jetstream(&self) -> Option<async_nats::Client> {
        let running = self.all.iter().filter(|server| server.process.is_some());
        let urls: Vec<_> = running.map(|server| format!("nats://{}", server.addr)).collect();
        let connected = tokio::time::timeout(ms(3_000), async_nats::connect(urls)).await;
        connected.ok()?.ok()
    }

    /// Which server leads: that of the bucket's stream, or the only one.
    pub async fn leader(&self) -> Option<usize> {
        if self.kind != Kind::Nats {
            return Some(0);
        }
        let jetstream = async_nats::jetstream::new(self.jetstream().await?);
        let mut stream = jetstream.get_stream(format!("KV_{NAME}")).await.ok()?;
        let leader = stream.info().await.ok()?.cluster.clone()?.leader?;
        self.all.iter().position(|server| server.place == leader)
    }

    /// Has the stream's leader, and that of the servers' own group, give up its place. Who led the stream
    /// before, and who does afterwards.
    pub async fn step_down(&self) -> (Option<usize>, Option<usize>) {
        let before = self.leader().await;
        if let Some(client) = self.jetstream().await {
            for subject in [
                format!("$JS.API.STREAM.LEADER.STEPDOWN.KV_{NAME}"),
                "$JS.API.META.LEADER.STEPDOWN".to_owned(),
            ] {
                let asked = client.request(subject, Vec::new().into());
                let _ = tokio::time::timeout(ms(2_000), asked).await;
            }
        }
        let mut after = None;
        within(ms(START_MS), async || {
            after = self.leader().await;
            after.is_some()
        })
        .await;
        (before, after)
    }
}

/// The process of a DynamoDB endpoint, with a database on a disk.
pub fn endpoint(addr: &str, disk: &str) {
    let path = Path::new(disk).join("database");
    let database = dynoxide::Database::new(path.to_str().expect("UTF-8")).expect("a database");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = tokio::net::TcpListener::bind(addr).await.expect("its address");
        dynoxide::server::serve_on(listener, database).await;
    });
}
