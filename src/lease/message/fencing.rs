//! The orders that plugins are given for a fence, and what they report.

use crate::lease::{
    primitives::{Nonce, Owner, Token},
    records::ChangeKind,
};

/// One plugin's part in a fence that must be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRun {
    pub plugin: Box<str>,
    /// The token of the tenure that ended.
    pub token: Token,
    pub owner: Owner,
    pub reason: ChangeKind,
    pub session: Option<Nonce>,
    /// The time that the plugin has to confirm, in milliseconds.
    pub timeout_ms: u64,
}

/// The result of a [`FenceRun`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FenceReport {
    pub plugin: Box<str>,
    /// The token of the tenure that ended.
    pub token: Token,
    pub outcome: FenceResult,
}

/// The outcome of a [`FenceRun`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FenceResult {
    /// The ended tenure cannot reach the resource any more.
    Confirmed,
    /// The ended tenure may still reach the resource, and the plugin gave up; why.
    Failed(Box<str>),
    /// The outcome is unknown: the fence must run again.
    Interrupted,
}

impl FenceReport {
    /// Why the plugin failed for good, if it did.
    pub(in crate::lease) fn failure(&self) -> Option<Box<str>> {
        match &self.outcome {
            FenceResult::Failed(why) => Some(format!("{}: {why}", self.plugin).into()),
            FenceResult::Confirmed | FenceResult::Interrupted => None,
        }
    }
}
