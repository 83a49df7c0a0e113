//! `tenure backup`: writes what a store holds to a file that `tenure restore` reads.

use std::{io::IsTerminal as _, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    Exit, Failure, Output, SettingsArgs,
    backup_file::{Header, Writer},
    output,
};
use crate::{
    clock::{Clock as _, rfc3339},
    manager::engine::{self, OpenStore, Surroundings},
    settings::Settings,
    store::{LeaseStore, Pages, embedded},
};

/// Number of keys per page of a scan.
const PAGE: usize = 500;
/// How often the progress line is drawn, per second.
const DRAWS_PER_S: u8 = 4;

/// Back up a store to a file, including its secret
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Back up a store to a file, including its secret: every key with its record, and \
        its token as a number. A shared store can be backed up while it is in use. The coordinator \
        of an embedded store must be stopped first."
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
        let opened = OpenStore::open_existing(&settings, &surroundings).await;
        let opened = opened.map_err(say_locked)?;
        let written = self.write(&settings, &surroundings, &*opened.store).await;
        opened.close().await;
        let (keys, skipped) = written?;
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
        surroundings: &Surroundings,
        store: &dyn LeaseStore,
    ) -> anyhow::Result<(u64, u64)> {
        let meta = store.meta();
        let secret = store.secret_bytes().context("this kind of store cannot be backed up")?;
        let written_at = rfc3339(surroundings.clock.wall_ms());
        let header = Header::new(settings.store.kind.as_str(), &meta, written_at, secret);
        let mut writer = Writer::create(self.file.as_deref(), &header)?;
        let (bar, mut skipped) = (progress(None), 0);
        let mut pages = Pages::of(store, "", PAGE);
        while let Some(page) = pages.next().await.context("the store cannot be read")? {
            bar.inc(page.len() as u64);
            for (key, found) in page {
                match found.record {
                    Ok(record) => writer.key(&key, found.revision, &record)?,
                    Err(why) if self.skip_unreadable => {
                        output::talk(&format!("skipped: {:?}: {why}", key.as_str()));
                        skipped += 1;
                    }
                    Err(why) => anyhow::bail!(
                        "the record of {:?} cannot be read: {why}. Back up the store with the \
                         version of tenure that wrote it, or skip such keys with \
                         --skip-unreadable: they are free after a restore",
                        key.as_str()
                    ),
                }
            }
        }
        bar.finish_and_clear();
        Ok((writer.finish()?, skipped))
    }
}

/// Adds what to do if the store is in use.
pub(super) fn say_locked(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(embedded::EmbeddedOpenError::Locked { .. }) => error.context(
            "stop the coordinator first: while it runs, only it can use its embedded store",
        ),
        _ => error,
    }
}

/// A progress line, on a terminal.
pub(super) fn progress(total: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S);
    let form =
        if total.is_some() { "{bar:30} {human_pos}/{human_len} keys" } else { "{human_pos} keys" };
    let style = ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(total, target).with_style(style)
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
