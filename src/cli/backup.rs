//! `tenure backup`: what a store holds, as a file that `tenure restore` reads.

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
    manager::engine::{OpenStore, Surroundings, place},
    settings::{Settings, StoreKind},
    store::{LeaseStore, Range, embedded},
};

/// How many keys are asked for at a time.
const PAGE: usize = 500;
/// How often the progress line is drawn.
const DRAWS_PER_S: u8 = 4;

/// Write what a store holds to a file, secret included
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Write what a store holds to a file, secret included: every key with its record \
        and its token as a number. A shared store is read while it is in use; the coordinator of an \
        embedded store has to be stopped first."
)]
pub struct BackupArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The file to make; it holds the cluster's secret, so only you may read it [default: stdout]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Leave out keys whose record cannot be read, instead of giving up
    #[arg(long)]
    skip_unreadable: bool,
}

impl BackupArgs {
    pub(super) async fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let loaded = self.settings.load()?;
        loaded.check_files()?;
        let mut settings = loaded.settings;
        check_is_there(&settings)?;
        // What is to be saved is there, as it is: nothing is made, and nothing is remembered of it.
        settings.store.nats.create_bucket = false;
        settings.store.dynamodb.create_table = false;
        settings.node.witness = PathBuf::new();
        let surroundings = Surroundings::of_a_command(&settings);
        let opened = OpenStore::open(&settings, &surroundings).await;
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
        let header = Header::new(
            settings.store.kind.as_str(),
            meta.identity.to_string(),
            meta.epoch,
            meta.created_ms,
            rfc3339(surroundings.clock.wall_ms()),
            secret,
        );
        let mut writer = Writer::create(self.file.as_deref(), &header)?;
        let (bar, mut skipped, mut after) = (progress(None), 0, None);
        loop {
            let range = Range { prefix: String::new(), after, limit: PAGE };
            let page = store.scan(range).await.context("the store cannot be read")?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.as_str().to_owned());
            bar.inc(page.len() as u64);
            for (key, found) in page {
                match found.record {
                    Ok(record) => writer.key(&key, found.revision, &record)?,
                    Err(why) if self.skip_unreadable => {
                        output::talk(&format!("left out: {:?}: {why}", key.as_str()));
                        skipped += 1;
                    }
                    Err(why) => anyhow::bail!(
                        "the record of {:?} cannot be read: {why}. Read the store with the program \
                         that wrote it, or leave such keys out with --skip-unreadable: nobody holds \
                         them after a restore",
                        key.as_str()
                    ),
                }
            }
        }
        bar.finish_and_clear();
        Ok((writer.finish()?, skipped))
    }
}

/// An embedded store is made where there is none; that is not what a command about its content means.
pub(super) fn check_is_there(settings: &Settings) -> Result<(), Failure> {
    let dir = &settings.store.embedded.data_dir;
    if settings.store.kind == StoreKind::Embedded && !dir.join("META").exists() {
        let why = anyhow::anyhow!("there is no embedded store in {}", place(settings));
        return Err(Failure::Other(why));
    }
    Ok(())
}

/// Says what to do when the store is in use.
pub(super) fn say_locked(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(embedded::OpenError::Locked { .. }) => error.context(
            "stop the coordinator first: an embedded store is the coordinator's alone while it runs",
        ),
        _ => error,
    }
}

/// A line about how far it is, on a terminal.
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
    /// Of a command that runs no coordinator: nobody reads its metrics.
    pub(super) fn of_a_command(settings: &Settings) -> Self {
        Self {
            clock: Arc::new(crate::clock::SystemClock::new()),
            entropy: Arc::new(crate::clock::SystemEntropy::new()),
            metrics: Arc::new(crate::telemetry::Metrics::register(settings.store.kind.as_str())),
        }
    }
}
