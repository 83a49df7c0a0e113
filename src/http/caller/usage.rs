//! How much a principal uses at this node at a time.
//!
//! Guarantees: at no time are more calls of one principal admitted than its limits say, at one node.
//!
//! Does not guarantee: a limit over several nodes.

use std::{
    num::NonZeroU32,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use dashmap::DashMap;

use super::rate::{Cell, Cells};
use crate::{access::Principal, clock::Clock, telemetry::LimitKind};

/// What is in use, by the names of the principals.
#[derive(Default)]
pub struct Usages(DashMap<Arc<str>, Arc<Usage>>);

/// What one principal uses.
#[derive(Debug, Default)]
pub struct Usage {
    waits: AtomicU32,
    streams: AtomicU32,
    connections: AtomicU32,
    cells: Cells,
    refusals: OnceLock<Arc<Cell>>,
}

/// What a principal uses one of, for as long as this exists.
#[derive(Debug)]
pub struct InUse(Option<(Arc<Usage>, Kind)>);

/// What a principal may use a limited number of.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Calls that wait.
    Waits,
    /// Streams of events.
    Streams,
    /// Open connections.
    Connections,
}

impl Kind {
    /// The limit in the access file.
    pub fn limit(self) -> LimitKind {
        match self {
            Self::Waits => LimitKind::Waits,
            Self::Streams => LimitKind::Streams,
            Self::Connections => LimitKind::Connections,
        }
    }

    /// How many the principal may use; `None` for any number.
    fn most(self, principal: &Principal) -> Option<u32> {
        match self {
            Self::Waits => principal.limit().waits,
            Self::Streams => principal.limit().streams,
            Self::Connections => principal.limit().connections,
        }
    }
}

impl Usages {
    /// What the principal with this name uses.
    pub fn of(&self, name: &Arc<str>) -> Arc<Usage> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        self.0.entry(name.clone()).or_default().clone()
    }
}

impl Usage {
    fn count(&self, kind: Kind) -> &AtomicU32 {
        match kind {
            Kind::Waits => &self.waits,
            Kind::Streams => &self.streams,
            Kind::Connections => &self.connections,
        }
    }

    /// The cell for messages beyond the principal's rates, which are refused at a bounded pace.
    pub fn refusals(&self, rate: NonZeroU32, clock: &Arc<dyn Clock>) -> Arc<Cell> {
        self.refusals.get_or_init(|| Arc::new(Cell::new(rate, clock))).clone()
    }

    /// What is left of the principal's rates.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }
}

impl InUse {
    /// Nothing that is limited.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// One more of this kind.
    ///
    /// # Errors
    /// The limit, if the principal uses as many already.
    pub fn one_more(usage: &Arc<Usage>, principal: &Principal, kind: Kind) -> Result<Self, u32> {
        let most = kind.most(principal).unwrap_or(u32::MAX);
        let more = |used: u32| (used < most).then(|| used + 1);
        let counted = usage.count(kind).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.map(|_| Self(Some((usage.clone(), kind)))).map_err(|_| most)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some((usage, kind)) = &self.0 {
            usage.count(*kind).fetch_sub(1, Ordering::Relaxed);
        }
    }
}
