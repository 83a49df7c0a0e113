//! The NATS store of the settings.

use std::pin::Pin;

use super::kind::{Figures, Kind, Opened, Opening, Surroundings};
use crate::{
    settings::Settings,
    store::nats::{NatsOpenError, NatsStore, Options},
};

pub(super) async fn open(
    settings: &Settings,
    surroundings: &Surroundings,
    opening: Opening,
) -> anyhow::Result<Opened> {
    let Opening { fresh, witness, restore } = opening;
    let max_keys = settings.limits.keys;
    let options = Options { max_keys, restore, ..Options::of(&settings.store.nats)? };
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

impl Kind for NatsStore {
    fn figures(&self) -> Figures {
        let stats = self.stats();
        Figures { keys: stats.keys, live_bytes: stats.live_bytes, ..Figures::default() }
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.close())
    }
}
