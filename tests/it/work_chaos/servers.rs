//! What the nodes share: three NATS servers or, of one node, a directory.

use tempfile::TempDir;

use crate::support::nats_server::{Cluster, Sync};

/// The servers behind a store.
pub enum Servers {
    Embedded(TempDir),
    Nats(Cluster),
}

impl Servers {
    pub fn embedded() -> Self {
        Self::Embedded(tempfile::tempdir().expect("a directory"))
    }

    /// A cluster of three, each of which syncs every write.
    pub fn nats() -> Self {
        Self::Nats(Cluster::start(Sync::Always))
    }

    /// The settings of a node.
    pub fn settings(&self) -> Vec<String> {
        match self {
            Self::Embedded(dir) => {
                vec![format!("store.embedded.data_dir={}", dir.path().display())]
            }
            Self::Nats(cluster) => vec![
                "store.kind=nats".to_owned(),
                format!("store.nats.url={}", cluster.url()),
                format!("store.nats.replicas={}", cluster.servers.len()),
            ],
        }
    }
}
