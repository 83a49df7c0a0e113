//! The NATS store of the settings.

use std::pin::Pin;

use super::kind::{Figures, Kind, Opened, Opening, Surroundings};
use crate::{
    lease::Nonce,
    settings::{FileError, Settings},
    store::{
        Finding, Witness,
        nats::{self, NatsOpenError, NatsStore, Options},
    },
};

/// The options that the settings give. `restore`: to restore a backup.
fn options(settings: &Settings, restore: bool) -> Result<Options, FileError> {
    let max_keys = settings.limits.keys;
    Ok(Options { max_keys, restore, ..Options::of(&settings.store.nats)? })
}

pub(super) async fn open(
    settings: &Settings,
    surroundings: &Surroundings,
    opening: Opening,
) -> anyhow::Result<Opened> {
    let Opening { fresh, witness, restore } = opening;
    let options = options(settings, restore)?;
    let Surroundings { clock, metrics, .. } = surroundings.clone();
    let opened = NatsStore::open(options, fresh, witness, clock, metrics).await;
    let opened = opened.map_err(|error| match &error {
        NatsOpenError::Create { why, .. } if why.contains("replicas") => anyhow::anyhow!(
            "{error}; a server without a cluster keeps one copy: where that is enough, set \
             store.nats.replicas = 1"
        ),
        _ => error.into(),
    });
    Ok(opened?)
}

pub(super) async fn verify(
    settings: &Settings,
    nobody: Nonce,
    witness: Option<Witness>,
) -> Vec<Finding> {
    match options(settings, false) {
        Ok(options) => nats::findings(&options, nobody, witness).await,
        Err(why) => vec![Finding::failed("connection", why)],
    }
}

impl Kind for NatsStore {
    fn figures(&self) -> Figures {
        let stats = self.stats();
        Figures { keys: stats.keys, live_bytes: stats.live_bytes, ..Figures::default() }
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.close())
    }
}
