//! The embedded store of the settings.

use std::{pin::Pin, sync::Arc, time::Duration};

use super::kind::{Figures, Kind, Opened, Opening, Surroundings};
use crate::{
    clock::Clock,
    settings::Settings,
    store::{
        Finding, Fresh,
        embedded::{self, EmbeddedStore, Observer, Options, Stats as EmbeddedStats},
    },
    telemetry::Metrics,
};

/// Reports syncs to the histogram.
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

/// The options that the settings give.
fn options(settings: &Settings, fresh: Fresh) -> Options {
    let section = &settings.store.embedded;
    Options {
        segment_bytes: section.segment_size.0,
        min_log_bytes: section.min_log_size.0,
        max_keys: settings.limits.keys,
        ..Options::new(&section.data_dir, fresh)
    }
}

pub(super) async fn open(
    settings: &Settings,
    surroundings: &Surroundings,
    opening: Opening,
) -> anyhow::Result<Opened> {
    let (clock, metrics) = (surroundings.clock.clone(), surroundings.metrics.clone());
    let observer: Arc<dyn Observer> = Arc::new(Syncs { clock, metrics });
    let options = Options { observer: Some(observer), ..options(settings, opening.fresh) };
    let wall = surroundings.clock.clone();
    Ok(Arc::new(EmbeddedStore::open(options, Arc::new(move || wall.wall_ms()))?))
}

/// Reads the whole log, on this thread.
pub(super) fn verify(settings: &Settings, fresh: Fresh) -> Vec<Finding> {
    embedded::findings(&options(settings, fresh))
}

impl Kind for EmbeddedStore {
    fn figures(&self) -> Figures {
        let stats = self.stats();
        let EmbeddedStats { keys, live_bytes, log_bytes, stuck, .. } = stats;
        Figures { keys, live_bytes, log_bytes, stuck }
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        self.close();
        Box::pin(std::future::ready(()))
    }
}
