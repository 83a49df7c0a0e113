//! The settings of a coordinator that runs: read again when SIGHUP asks for it.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{
    SettingsArgs,
    follower::{Changing, Follower},
};
use crate::{
    settings::{Faults, Loaded},
    telemetry::{FileKind, Files, Metrics},
};

/// Settings that were read again, and why.
pub(super) type Read = (Result<Loaded, Faults>, String);

/// All layers of the settings.
#[derive(Clone)]
pub(super) struct SettingsFile {
    args: SettingsArgs,
    metrics: Arc<Metrics>,
    reads: mpsc::UnboundedSender<Read>,
}

impl SettingsFile {
    /// What is read goes into this channel.
    pub(super) fn new(
        args: &SettingsArgs,
        metrics: &Arc<Metrics>,
        reads: mpsc::UnboundedSender<Read>,
    ) -> Self {
        Self { args: args.clone(), metrics: metrics.clone(), reads }
    }

    /// Reads them when that is asked for, from now on.
    pub(super) fn follow(self) -> Follower {
        Follower::start(self)
    }
}

impl Changing for SettingsFile {
    const KIND: FileKind = FileKind::Settings;
    const LOOKS: bool = false;
    type Look = Result<Loaded, Faults>;

    fn read(&self) -> Self::Look {
        self.args.load()
    }

    fn tell(&self, found: Self::Look, reason: &str) {
        let _ = self.reads.send((found, reason.to_owned()));
    }

    fn files(&self) -> &Files {
        &self.metrics.files
    }
}
