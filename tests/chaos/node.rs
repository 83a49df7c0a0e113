//! A coordinator at a place of its own in the network.

use std::{
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
};

use crate::{
    clock::ms,
    disk::Disk,
    net::Net,
    stores::{Kind, Servers},
    support::node,
};

/// How long a node may answer after it last renewed its record.
pub const NODE_TTL_MS: u64 = 3_000;
/// How long it may take until it is ready: opening a store that was hurt, on a busy machine.
const START_MS: u64 = 180_000;
/// What the AWS SDK wants to know.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "none"),
    ("AWS_SECRET_ACCESS_KEY", "none"),
    ("AWS_REGION", "eu-central-1"),
];

pub struct Node {
    pub place: String,
    node: node::Node,
    wall_offset: PathBuf,
    /// What its embedded store is on.
    pub disk: Option<Disk>,
}

impl Deref for Node {
    type Target = node::Node;

    fn deref(&self) -> &node::Node {
        &self.node
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut node::Node {
        &mut self.node
    }
}

impl Node {
    pub fn new(n: usize, servers: &Servers, net: &Net, dir: &Path) -> Self {
        let place = format!("node{n}");
        let listen = (net.addr(&place), 7373).into();
        let disk = (servers.kind == Kind::Embedded).then(|| Disk::mount(&dir.join(&place)));
        let mut sets = servers.settings(disk.as_ref());
        sets.push(format!("node.advertise_url=http://{listen}"));
        sets.push("server.accept_no_auth=true".to_owned());
        sets.push(format!("node.ttl={NODE_TTL_MS}ms"));
        sets.push(format!("node.witness={}", dir.join(format!("{place}.witness")).display()));
        sets.push("telemetry.log=warn,tenure=info".to_owned());
        sets.push("server.workers=1".to_owned());
        let node = node::Node::at(listen, &place, &sets, &ENVIRONMENT).patient(ms(START_MS));
        Self { node, wall_offset: dir.join(format!("{place}.offset")), disk, place }
    }

    pub fn launch(&mut self, net: &Net) {
        let mut command = net.command(&self.place, env!("CARGO_BIN_EXE_tenure"));
        command.env("TENURE_TEST_WALL_OFFSET", &self.wall_offset);
        self.node.launch_by(command);
    }

    /// SIGKILL; it must still run.
    pub fn kill(&mut self) {
        assert!(self.node.process_mut().ended().is_none(), "{} has ended by itself", self.place);
        self.node.kill();
    }

    /// Sets its wall clock, by so much beside the machine's.
    pub fn set_wall(&self, offset_ms: i64) {
        let part = self.wall_offset.with_extension("part");
        std::fs::write(&part, offset_ms.to_string()).expect("written");
        std::fs::rename(&part, &self.wall_offset).expect("in its place");
    }

    /// The sum of all series that start so; 0 when it does not answer.
    pub async fn metric(&self, series: &str) -> u64 {
        self.node.try_metric(series).await.unwrap_or_default() as u64
    }

    /// The program's other commands, as an operator gives them at this node's place.
    pub fn tenure(&self, net: &Net, args: &[&str]) -> Result<String, String> {
        let mut command = net.command(&self.place, env!("CARGO_BIN_EXE_tenure"));
        command.args(args).args(self.node.sets()).envs(ENVIRONMENT);
        let done = command.output().expect("it starts");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if done.status.success() { Ok(said(&done.stdout)) } else { Err(said(&done.stderr)) }
    }
}
