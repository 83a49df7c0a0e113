//! What a kind of store is opened with, and the operations in which the kinds differ.

use std::{pin::Pin, sync::Arc};

use crate::{
    clock::{Clock, Entropy},
    store::{Fresh, LeaseStore, Witness},
    telemetry::Metrics,
};

/// A store, with the operations of its kind.
pub(super) type Opened = Arc<dyn Kind>;

/// Operations that differ by kind.
pub(super) trait Kind: LeaseStore {
    fn figures(&self) -> Figures;

    /// Settles what is in flight, and closes the store.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

/// Figures of a store. Zero where its kind does not count.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) keys: u64,
    pub(super) live_bytes: u64,
    pub(super) log_bytes: u64,
    pub(super) stuck: bool,
}

/// What a store needs to be opened.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) clock: Arc<dyn Clock>,
    /// The source of nonces and secrets.
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Surroundings {
    /// What a new store is made with.
    pub(crate) fn fresh(&self) -> Fresh {
        let mut secret = [0; 32];
        self.entropy.fill(&mut secret);
        Fresh { identity: self.entropy.nonce(), secret, created_ms: self.clock.wall_ms() }
    }
}

/// How to open a store. The embedded store uses only the first field.
#[cfg_attr(not(any(feature = "nats", feature = "dynamodb")), expect(dead_code))]
pub(super) struct Opening {
    /// What a new store is made with.
    pub(super) fresh: Fresh,
    /// What the witness file says.
    pub(super) witness: Option<Witness>,
    /// Whether the store is opened to restore a backup.
    pub(super) restore: bool,
}
