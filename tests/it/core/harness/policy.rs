//! Policies and fences, as sentences.

use std::sync::Arc;

use tenure::lease::{
    FencePlan, FenceReport, FenceResult, FenceRun, FenceWhen, Input, OnFenceFailure, Policies,
    Policy, Request,
};

use super::Bench;

/// What a plugin does with an ended tenure before anybody is granted the key.
pub fn before_grant(plugins: &[&str]) -> FencePlan {
    FencePlan {
        plugins: plugins.iter().map(|&plugin| plugin.into()).collect(),
        when: FenceWhen::BeforeGrant,
        timeout_ms: 5_000,
        on_failure: OnFenceFailure::Block,
        on_release: false,
    }
}

/// The same, once somebody else was granted the key.
pub fn after_grant(plugins: &[&str]) -> FencePlan {
    FencePlan { when: FenceWhen::AfterGrant, ..before_grant(plugins) }
}

/// What holds for every key.
pub fn ruled(lock_delay_ms: u32, fence: Option<FencePlan>) -> Arc<Policies> {
    let policy = Policy { lock_delay_ms, fence: fence.map(Arc::new), ..Policy::default() };
    Arc::new(Policies::new(Vec::new(), policy))
}

pub fn skip() -> Request {
    Request::FenceSkip("it is gone for good".into(), "root".into())
}

pub fn failed() -> FenceResult {
    FenceResult::Failed("no answer".into())
}

/// Each key has this many permits, and belongs to this pool.
pub fn with_permits(permits: u32, pool: &str) -> Arc<Policies> {
    let policy = Policy { permits, pool: pool.into(), ..Policy::default() };
    Arc::new(Policies::new(Vec::new(), policy))
}

impl Bench {
    /// The settings are read again: the policies change, and every actor is nudged.
    pub fn reload(&mut self, policies: Arc<Policies>) {
        self.context.policies = policies;
        self.input(Input::Tick);
    }

    /// A key that was never written, under a lock-delay and fences.
    pub fn ruled(lock_delay_ms: u32, fence: Option<FencePlan>) -> Self {
        let mut bench = Self::new();
        bench.context.policies = ruled(lock_delay_ms, fence);
        bench
    }

    /// The oldest fence that runs ends like this.
    #[track_caller]
    pub fn report(&mut self, outcome: FenceResult) -> FenceRun {
        assert!(!self.fences.is_empty(), "a fence runs");
        self.report_nth(0, outcome)
    }

    pub fn report_nth(&mut self, nth: usize, outcome: FenceResult) -> FenceRun {
        let run = self.fences.remove(nth);
        let report = FenceReport { plugin: run.plugin.clone(), token: run.token, outcome };
        self.oracle.reported(&report);
        self.input(Input::Fenced(report));
        run
    }

    /// Every fence that runs is confirmed.
    pub fn confirm_all(&mut self) {
        while !self.fences.is_empty() {
            self.report(FenceResult::Confirmed);
            self.settle();
        }
    }

    /// The plugins that run, with the tokens of whom they fence.
    pub fn running(&self) -> Vec<(&str, u64)> {
        self.fences.iter().map(|run| (&*run.plugin, run.token.0)).collect()
    }
}
