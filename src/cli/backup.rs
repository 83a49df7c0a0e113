//! `tenure backup`: writes what a store holds to a file that `tenure restore` reads.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use clap::Args;

use super::{
    Exit, Failure, Output, SettingsArgs,
    backup_file::{Header, Writer},
    backup_socket,
    backup_store::{Progress, write_store},
};
use crate::{
    manager::engine::{self, OpenStore, Surroundings},
    settings::Settings,
    store::{LeaseStore, embedded},
};

/// Back up a store to a file, including its secret
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Back up a store to a file, including its secret: every key with its record, and \
        its token as a number. A store can be backed up while coordinators serve it. The one of an \
        embedded store writes the backup itself: run the command as its user, with its settings."
)]
pub struct BackupArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// File to create, readable only by you because it contains the cluster's secret [default: stdout]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Skip keys whose records cannot be read, instead of failing
    #[arg(long)]
    skip_unreadable: bool,
}

impl BackupArgs {
    pub(super) async fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let loaded = self.settings.load()?;
        loaded.check_files()?;
        let mut settings = loaded.settings;
        engine::check_is_there(&settings)?;
        // A backup writes no witness file.
        settings.node.witness = PathBuf::new();
        let surroundings = Surroundings::of_a_command(&settings);
        let (keys, skipped) = match OpenStore::open_existing(&settings, &surroundings).await {
            Ok(opened) => {
                let written = self.write(&settings, &*opened.store).await;
                opened.close().await;
                written?
            }
            Err(error) if is_locked(&error) => {
                let dir = &settings.store.embedded.data_dir;
                let fetched = backup_socket::fetch(dir, self.file.as_deref(), self.skip_unreadable);
                fetched.context("the store is in use")?
            }
            Err(error) => return Err(error.into()),
        };
        if self.file.is_some() {
            let answer = serde_json::json!({ "keys": keys, "skipped": skipped });
            let rows =
                [("keys", keys), ("skipped", skipped)].map(|(n, v)| (n.into(), v.to_string()));
            output.record(&answer, &rows)?;
        }
        Ok(Exit::Done)
    }

    async fn write(
        &self,
        settings: &Settings,
        store: &dyn LeaseStore,
    ) -> anyhow::Result<(u64, u64)> {
        let header = Header::of(settings.store.kind.as_str(), store)?;
        let writer = Writer::create(self.file.as_deref(), &header)?;
        write_store(store, writer, self.skip_unreadable, Progress::shown()).await
    }
}

/// Whether a coordinator, or another command, uses the embedded store.
fn is_locked(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(embedded::EmbeddedOpenError::Locked { .. }))
}

/// Adds what to do if the store is in use.
pub(super) fn say_locked(error: anyhow::Error) -> anyhow::Error {
    if is_locked(&error) {
        return error.context(
            "stop the coordinator first: while it runs, only it can use its embedded store",
        );
    }
    error
}

impl Surroundings {
    /// For a command that runs no coordinator: its metrics are never read.
    pub(super) fn of_a_command(settings: &Settings) -> Self {
        Self {
            clock: Arc::new(crate::clock::SystemClock::new()),
            entropy: Arc::new(crate::clock::SystemEntropy::new()),
            metrics: Arc::new(crate::telemetry::Metrics::register(settings.store.kind.as_str())),
        }
    }
}
