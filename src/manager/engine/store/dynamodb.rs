//! The DynamoDB store of the settings.

use std::pin::Pin;

use super::kind::{Figures, Kind, Opened, Opening, Surroundings};
use crate::{
    lease::Nonce,
    settings::Settings,
    store::{
        Finding, Witness,
        dynamodb::{self, DynamoStore, Options},
    },
};

/// The options that the settings give. `restore`: to restore a backup.
fn options(settings: &Settings, restore: bool) -> Options {
    let section = &settings.store.dynamodb;
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    Options {
        table: section.table.clone(),
        region: given(&section.region),
        endpoint: given(&section.endpoint),
        create_table: section.create_table,
        request_timeout: section.request_timeout,
        poll_interval: section.poll_interval,
        flush_interval: section.flush_interval,
        history: section.history,
        max_keys: settings.limits.keys,
        restore,
    }
}

pub(super) async fn open(
    settings: &Settings,
    surroundings: &Surroundings,
    opening: Opening,
) -> anyhow::Result<Opened> {
    let Opening { fresh, witness, restore } = opening;
    let options = options(settings, restore);
    let Surroundings { clock, metrics, .. } = surroundings.clone();
    Ok(DynamoStore::open(options, fresh, witness, clock, metrics).await?)
}

pub(super) async fn verify(
    settings: &Settings,
    nobody: Nonce,
    witness: Option<Witness>,
) -> Vec<Finding> {
    dynamodb::findings(&options(settings, false), nobody, witness).await
}

impl Kind for DynamoStore {
    fn figures(&self) -> Figures {
        Figures { keys: self.stats().keys, ..Figures::default() }
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.close())
    }
}
