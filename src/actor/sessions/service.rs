//! What the tasks and operations of sessions work with.

use std::sync::Arc;

use super::known::Sessions;
use crate::actor::{environment::Environment, pools::Pools, runtime::registry::Registry};

/// What the tasks and operations of sessions work with.
pub struct SessionService {
    pub(super) environment: Arc<Environment>,
    pub(super) registry: Arc<Registry>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) pools: Arc<Pools>,
}

impl SessionService {
    /// A service for these sessions, which may join these pools.
    pub(in crate::actor) fn new(
        environment: Arc<Environment>,
        registry: Arc<Registry>,
        sessions: Arc<Sessions>,
        pools: Arc<Pools>,
    ) -> Self {
        Self { environment, registry, sessions, pools }
    }
}
