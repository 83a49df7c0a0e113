//! Opens the store that the settings name, for whichever command needs one.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;

use super::witness::WitnessFile;
use crate::{
    clock::{Clock, Entropy},
    lease::Epoch,
    settings::{Settings, StoreKind},
    store::{
        Fresh, Health, LeaseStore, Witness,
        dynamodb::{self, DynamoStore},
        embedded::{self, EmbeddedStore, Observer},
        nats::{self, NatsStore},
    },
    telemetry::Metrics,
};

/// How often what was seen of a shared store is remembered.
const WITNESS_INTERVAL: Duration = Duration::from_secs(5);

/// A store that is open.
pub(crate) struct OpenStore {
    /// The store.
    pub(crate) store: Arc<dyn LeaseStore>,
    opened: Opened,
    /// What was known of it before it was opened; only of a shared store.
    remembered: Option<Witness>,
    /// Where to remember what was seen of it; only of a shared store.
    witness: Option<WitnessFile>,
}

/// What only the kind itself can do.
#[derive(Clone)]
enum Opened {
    Embedded(Arc<EmbeddedStore>),
    Nats(Arc<NatsStore>),
    DynamoDb(Arc<DynamoStore>),
}

/// What a store is opened with.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// The clock of every promise.
    pub(crate) clock: Arc<dyn Clock>,
    /// Where nonces and secrets come from.
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Handles to the metrics.
    pub(crate) metrics: Arc<Metrics>,
}

impl Surroundings {
    /// What a store is made with when there is none.
    pub(crate) fn fresh(&self) -> Fresh {
        let mut secret = [0; 32];
        self.entropy.fill(&mut secret);
        Fresh { identity: self.entropy.nonce(), secret, created_ms: self.clock.wall_ms() }
    }
}

/// Tells the histogram of syncs.
struct Syncs {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl Observer for Syncs {
    fn nanos(&self) -> u64 {
        self.clock.now().0
    }

    fn synced(&self, writes: usize, took: Duration) {
        self.metrics.synced(writes, took);
    }
}

/// The store of the settings in a few words, without a secret: for the log and for messages.
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

/// The entry of the settings' store in the witness file; none where nothing is to be remembered.
pub(crate) fn witness_file(settings: &Settings) -> Option<WitnessFile> {
    let path: &Path = &settings.node.witness;
    let kind = settings.store.kind;
    let wanted = kind != StoreKind::Embedded && !path.as_os_str().is_empty();
    wanted.then(|| WitnessFile::new(path, kind.as_str(), place(settings)))
}

impl OpenStore {
    /// Opens the store, or makes one where the settings allow it. A shared store that went backwards
    /// since this node last saw it opens frozen.
    pub(crate) async fn open(
        settings: &Settings,
        surroundings: &Surroundings,
    ) -> anyhow::Result<Self> {
        Self::open_with(settings, surroundings, surroundings.fresh()).await
    }

    /// Opens the store; a new one is made with `fresh`.
    pub(crate) async fn open_with(
        settings: &Settings,
        surroundings: &Surroundings,
        fresh: Fresh,
    ) -> anyhow::Result<Self> {
        let remembered = witness_file(settings).map(|file| file.read()).transpose()?.flatten();
        let kind = settings.store.kind;
        let opened = match kind {
            StoreKind::Embedded => {
                open_embedded(settings, surroundings, fresh).map(Opened::Embedded)
            }
            StoreKind::Nats => {
                open_nats(settings, surroundings, fresh, remembered).await.map(Opened::Nats)
            }
            StoreKind::DynamoDb => {
                open_dynamodb(settings, surroundings, fresh, remembered).await.map(Opened::DynamoDb)
            }
        };
        let opened = opened.with_context(|| {
            format!("the {} store ({}) cannot be opened", kind.as_str(), place(settings))
        })?;
        let store: Arc<dyn LeaseStore> = match &opened {
            Opened::Embedded(store) => store.clone(),
            Opened::Nats(store) => store.clone(),
            Opened::DynamoDb(store) => store.clone(),
        };
        Ok(Self { store, opened, remembered, witness: witness_file(settings) })
    }

    /// The highest generation of tokens that is known to have been.
    pub(crate) fn epoch(&self) -> Epoch {
        let remembered = self.remembered.map_or(Epoch::default(), |witness| witness.epoch);
        self.store.meta().epoch.max(remembered)
    }

    /// Sets the gauges of the store; to be called when somebody asks for them.
    pub(crate) fn gauges(&self, metrics: Arc<Metrics>) -> impl Fn() + Send + Sync + use<> {
        let (store, opened) = (self.store.clone(), self.opened.clone());
        move || {
            let health = store.health();
            let (keys, live_bytes, log_bytes) = match &opened {
                Opened::Embedded(store) => {
                    let stats = store.stats();
                    (stats.keys, stats.live_bytes, stats.log_bytes)
                }
                Opened::Nats(store) => {
                    let stats = store.stats();
                    (stats.keys, stats.live_bytes, 0)
                }
                Opened::DynamoDb(store) => (store.stats().keys, 0, 0),
            };
            metrics.store_state(keys, live_bytes, log_bytes, health == Health::Ready);
            metrics.frozen(matches!(health, Health::Frozen(_)));
        }
    }

    /// Remembers every few seconds what was seen of a shared store. Never ends.
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

    /// Remembers what was seen, settles what is in flight, and lets go of the store.
    pub(crate) async fn close(self) {
        if let Some(file) = &self.witness {
            remember(&*self.store, file).await;
        }
        match self.opened {
            Opened::Embedded(store) => store.close(),
            Opened::Nats(store) => store.close().await,
            Opened::DynamoDb(store) => store.close().await,
        }
    }
}

async fn remember(store: &dyn LeaseStore, file: &WitnessFile) {
    let Some(shared) = store.shared() else { return };
    let frozen = matches!(store.health(), Health::Frozen(_));
    let (seen, file) = (shared.witness(), file.clone());
    let saved = tokio::task::spawn_blocking(move || file.save(seen, frozen)).await;
    if let Ok(Err(error)) = saved {
        tracing::warn!(
            error = format!("{error:#}"),
            "what was seen of the store is not remembered"
        );
    }
}

fn open_embedded(
    settings: &Settings,
    surroundings: &Surroundings,
    fresh: Fresh,
) -> anyhow::Result<Arc<EmbeddedStore>> {
    let section = &settings.store.embedded;
    let (clock, metrics) = (surroundings.clock.clone(), surroundings.metrics.clone());
    let options = embedded::Options {
        segment_bytes: section.segment_size.0,
        min_log_bytes: section.min_log_size.0,
        max_keys: settings.limits.keys,
        observer: Some(Arc::new(Syncs { clock, metrics })),
        ..embedded::Options::new(&section.data_dir, fresh)
    };
    let wall = surroundings.clock.clone();
    Ok(Arc::new(EmbeddedStore::open(options, Arc::new(move || wall.wall_ms()))?))
}

async fn open_nats(
    settings: &Settings,
    surroundings: &Surroundings,
    fresh: Fresh,
    witness: Option<Witness>,
) -> anyhow::Result<Arc<NatsStore>> {
    let options = nats::Options::of(&settings.store.nats)?;
    let Surroundings { clock, metrics, .. } = surroundings.clone();
    let opened = NatsStore::open(options, fresh, witness, clock, metrics).await;
    opened.map_err(|error| match &error {
        nats::OpenError::Create { why, .. } if why.contains("replicas") => anyhow::anyhow!(
            "{error}; a server without a cluster keeps one copy: where that is enough, set \
             store.nats.replicas = 1"
        ),
        _ => error.into(),
    })
}

async fn open_dynamodb(
    settings: &Settings,
    surroundings: &Surroundings,
    fresh: Fresh,
    witness: Option<Witness>,
) -> anyhow::Result<Arc<DynamoStore>> {
    let section = &settings.store.dynamodb;
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let options = dynamodb::Options {
        table: section.table.clone(),
        region: given(&section.region),
        endpoint: given(&section.endpoint),
        create_table: section.create_table,
        request_timeout: section.request_timeout,
        poll_interval: section.poll_interval,
        flush_interval: section.flush_interval,
        history: section.history,
    };
    let Surroundings { clock, metrics, .. } = surroundings.clone();
    Ok(DynamoStore::open(options, fresh, witness, clock, metrics).await?)
}
