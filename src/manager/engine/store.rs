//! Opens the store that the settings name, for every command that needs one, and knows in what the kinds of stores
//! differ.

#[cfg(not(all(feature = "nats", feature = "dynamodb")))]
mod absent;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod embedded;
mod kind;
#[cfg(feature = "nats")]
mod nats;

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;

#[cfg(not(feature = "dynamodb"))]
use self::absent as dynamodb;
#[cfg(not(feature = "nats"))]
use self::absent as nats;
pub(crate) use self::kind::Surroundings;
use self::kind::{Figures, Opened, Opening};
use super::witness::WitnessFile;
use crate::{
    files::apart,
    lease::Epoch,
    settings::{Settings, StoreKind},
    store::{Finding, Fresh, Health, LeaseStore, SecretBytes, Witness, embedded::EmbeddedStore},
    telemetry::Metrics,
};

/// How often the node writes what it saw of a shared store to the witness file.
const WITNESS_INTERVAL: Duration = Duration::from_secs(5);

/// How long the last of these writes may take.
const WITNESS_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn LeaseStore>,
    opened: Opened,
    /// What the witness file said before the store was opened. Only for a shared store.
    remembered: Option<Witness>,
    /// The witness file. Only for a shared store.
    witness: Option<WitnessFile>,
}

/// A short description of the settings' store, without secrets, for the log and for messages.
pub(crate) fn place(settings: &Settings) -> String {
    let store = &settings.store;
    match store.kind {
        StoreKind::Embedded => store.embedded.data_dir.display().to_string(),
        StoreKind::Nats => {
            let mut servers: Vec<&str> = store.nats.url.split(',').map(str::trim).collect();
            servers.sort_unstable();
            format!("{} bucket {}", servers.join(","), store.nats.bucket)
        }
        StoreKind::DynamoDb => {
            let dynamodb = &store.dynamodb;
            let whence = [&dynamodb.endpoint, &dynamodb.region].into_iter().find(|s| !s.is_empty());
            let whence = whence.map_or("AWS", String::as_str);
            format!("{whence} table {}", dynamodb.table)
        }
    }
}

/// How to get an empty store, for messages.
pub(crate) fn how_to_empty(settings: &Settings) -> String {
    let store = &settings.store;
    match store.kind {
        StoreKind::Embedded => format!(
            "move {} away, or name another directory (store.embedded.data_dir)",
            store.embedded.data_dir.display()
        ),
        StoreKind::Nats => format!(
            "delete the bucket (`nats kv del {}`), or name another (store.nats.bucket)",
            store.nats.bucket
        ),
        StoreKind::DynamoDb => format!(
            "delete the table {}, or name another (store.dynamodb.table)",
            store.dynamodb.table
        ),
    }
}

/// The directory of a store that one process has for itself. `None` for a store that several can share.
fn own_directory(settings: &Settings) -> Option<&Path> {
    let store = &settings.store;
    (!store.kind.is_shared()).then_some(&*store.embedded.data_dir)
}

/// Refuses a directory without a store: opening it would create an empty one.
pub(crate) fn check_is_there(settings: &Settings) -> anyhow::Result<()> {
    let is_there = own_directory(settings).is_none_or(|dir| dir.join("META").exists());
    anyhow::ensure!(is_there, "there is no embedded store in {}", place(settings));
    Ok(())
}

/// Gives a closed store a new identity, this epoch and, if one is given, this secret. A shared store gets them while it
/// is open.
pub(crate) fn restamp(
    settings: &Settings,
    surroundings: &Surroundings,
    epoch: Epoch,
    secret: Option<SecretBytes>,
) -> anyhow::Result<()> {
    let Some(dir) = own_directory(settings) else { return Ok(()) };
    let identity = surroundings.entropy.nonce();
    match secret {
        None => EmbeddedStore::restamp(dir, identity, epoch)?,
        Some(secret) => EmbeddedStore::rotate(dir, identity, epoch, secret)?,
    }
    Ok(())
}

/// Ends the restore of a store that is still open. A shared store has ended it itself.
pub(crate) fn end_restore(settings: &Settings) -> anyhow::Result<()> {
    own_directory(settings).map_or(Ok(()), |dir| Ok(EmbeddedStore::end_restore(dir)?))
}

/// The entry of the settings' store in the witness file. `None` if the node has no witness file.
pub(crate) fn witness_file(settings: &Settings) -> Option<WitnessFile> {
    let path: &Path = &settings.node.witness;
    let kind = settings.store.kind;
    let wanted = kind.is_shared() && !path.as_os_str().is_empty();
    wanted.then(|| WitnessFile::new(path, kind.as_str(), place(settings)))
}

/// Checks the settings' store, and what this node remembers of it. Changes nothing.
pub(crate) async fn verify(settings: &Settings, surroundings: &Surroundings) -> Vec<Finding> {
    let remembered = witness_file(settings).map(|file| file.read()).transpose();
    let (witness, odd) = match remembered {
        Ok(remembered) => (remembered.flatten(), None),
        Err(why) => (None, Some(Finding::failed("witness", format!("{why:#}")))),
    };
    let nobody = surroundings.entropy.nonce();
    let found = match settings.store.kind {
        StoreKind::Embedded => embedded::verify(settings, surroundings.fresh()),
        StoreKind::Nats => nats::verify(settings, nobody, witness).await,
        StoreKind::DynamoDb => dynamodb::verify(settings, nobody, witness).await,
    };
    let seen =
        witness.map(|seen| Finding::ok("witness", format!("revision {} was seen", seen.highest.0)));
    found.into_iter().chain(odd).chain(seen).collect()
}

impl OpenStore {
    /// Opens the store, or makes one if the settings permit it. A shared store that went backwards since this node last
    /// saw it opens frozen.
    pub(crate) async fn open(
        settings: &Settings,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Self> {
        Self::open_with(settings, surroundings, surroundings.fresh(), false).await
    }

    /// Opens the store to restore a backup, even if an earlier restore was interrupted. A new store is made with
    /// `fresh`.
    pub(crate) async fn open_to_restore(
        settings: &Settings,
        surroundings: &Surroundings,
        fresh: Fresh,
    ) -> anyhow::Result<Self> {
        Self::open_with(settings, surroundings, fresh, true).await
    }

    /// Opens the store, and makes none.
    pub(crate) async fn open_existing(
        settings: &Settings,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Self> {
        let mut settings = settings.clone();
        settings.store.nats.create_bucket = false;
        settings.store.dynamodb.create_table = false;
        Self::open(&settings, surroundings).await
    }

    /// Begins the restore of a store that is open for it, under this epoch. A shared store has begun it when its epoch
    /// was raised.
    pub(crate) async fn begin_restore(
        self,
        settings: &Settings,
        surroundings: &Surroundings,
        fresh: Fresh,
        epoch: Epoch,
    ) -> anyhow::Result<Self> {
        let Some(dir) = own_directory(settings) else { return Ok(self) };
        EmbeddedStore::begin_restore(dir, fresh.identity)?;
        self.close().await;
        restamp(settings, surroundings, epoch, None)?;
        Self::open_to_restore(settings, surroundings, fresh).await
    }

    async fn open_with(
        settings: &Settings,
        surroundings: &Surroundings,
        fresh: Fresh,
        restore: bool,
    ) -> anyhow::Result<Self> {
        let file = witness_file(settings);
        file.as_ref().map(WitnessFile::check).transpose()?;
        let remembered = file.map(|file| file.read()).transpose()?.flatten();
        let kind = settings.store.kind;
        let opening = Opening { fresh, witness: remembered, restore };
        let opened = match kind {
            StoreKind::Embedded => embedded::open(settings, surroundings, opening).await,
            StoreKind::Nats => nats::open(settings, surroundings, opening).await,
            StoreKind::DynamoDb => dynamodb::open(settings, surroundings, opening).await,
        };
        let opened = opened.with_context(|| {
            format!("the {} store ({}) cannot be opened", kind.as_str(), place(settings))
        })?;
        let store: Arc<dyn LeaseStore> = opened.clone();
        Ok(Self { store, opened, remembered, witness: witness_file(settings) })
    }

    /// The highest epoch that the store or the witness file names.
    pub(crate) fn epoch(&self) -> Epoch {
        let remembered = self.remembered.map_or(Epoch::default(), |witness| witness.epoch);
        self.store.meta().epoch.max(remembered)
    }

    /// Returns a function that sets the store's gauges, to be called whenever they are read.
    pub(crate) fn gauges(&self, metrics: Arc<Metrics>) -> impl Fn() + Send + Sync + use<> {
        let (store, opened) = (self.store.clone(), self.opened.clone());
        move || {
            let health = store.health();
            let Figures { keys, live_bytes, log_bytes, stuck } = opened.figures();
            metrics.store_state(keys, live_bytes, log_bytes, health == Health::Ready);
            metrics.store_stuck.set(if stuck { 1.0 } else { 0.0 });
            metrics.frozen(matches!(health, Health::Frozen(_)));
            metrics.epoch(store.meta().epoch.0);
        }
    }

    /// Writes what was seen of a shared store to the witness file every few seconds. Never ends.
    pub(crate) fn remembering(&self) -> impl Future<Output = ()> + use<> {
        let (store, file) = (self.store.clone(), self.witness.clone());
        async move {
            let Some(file) = file else { return std::future::pending().await };
            loop {
                tokio::time::sleep(WITNESS_INTERVAL).await;
                remember(&*store, &file).await;
            }
        }
    }

    /// Writes the witness file, settles what is in flight, and closes the store.
    pub(crate) async fn close(self) {
        if let Some(file) = &self.witness {
            let remembered = remember(&*self.store, file);
            if tokio::time::timeout(WITNESS_PATIENCE, remembered).await.is_err() {
                tracing::warn!("node.witness is not written: its file system does not answer");
            }
        }
        self.opened.close().await;
    }
}

async fn remember(store: &dyn LeaseStore, file: &WitnessFile) {
    let Some(shared) = store.shared() else { return };
    let frozen = matches!(store.health(), Health::Frozen(_));
    let (seen, file) = (shared.witness(), file.clone());
    let saved = apart(move || file.save(seen, frozen)).await;
    if let Some(Err(error)) = saved {
        tracing::warn!(
            error = format!("{error:#}"),
            "cannot write what was seen of the store to node.witness"
        );
    }
}
