//! Publishes a key's fences on the bus, for their plugins.

use std::{sync::Arc, time::Duration};

use super::actor::LeaseActor;
use crate::{
    actor::{
        mail::Mail,
        runtime::fence::{Fence, FenceOutcome, Report},
    },
    lease::{FenceReport, FenceResult, FenceRun},
    plugin::FenceOrder,
};

impl LeaseActor {
    /// Publishes a fence for its plugin. The report comes back as mail. After a report that the fence was interrupted,
    /// the lease has it published again.
    pub(super) fn fence(&self, run: FenceRun) {
        let key = self.key().clone();
        let policy = self.coordinator.node_context().policies.of(key.as_str()).clone();
        let (plugin, token) = (run.plugin, run.token);
        let order = FenceOrder {
            key: key.clone(),
            token,
            owner: run.owner,
            reason: run.reason,
            session: run.session,
            pool: policy.pool.clone(),
            attempt: 1,
            traceparent: None,
        };
        let (registry, name) = (Arc::downgrade(&self.coordinator.registry), plugin.clone());
        let report = Report::new(move |outcome| {
            let outcome = match outcome {
                FenceOutcome::Confirmed => FenceResult::Confirmed,
                FenceOutcome::Failed(why) => FenceResult::Failed(why.into()),
                FenceOutcome::Interrupted => FenceResult::Interrupted,
            };
            let report = FenceReport { plugin: name, token, outcome };
            if let Some(registry) = registry.upgrade() {
                let _ = registry.post(key.as_str(), Mail::Fenced(report));
            }
        });
        let budget = Duration::from_millis(run.timeout_ms);
        let trace = self.cause_of_fence();
        self.coordinator.plugins.order(&plugin, Fence { order, budget, report, trace });
    }
}
