//! Writes what a store holds to a backup, and shows how far it is.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{backup_file::Writer, output};
use crate::store::{LeaseStore, Pages};

/// Number of keys per page of a scan.
const PAGE: usize = 500;
/// How often the progress line is drawn, per second.
const DRAWS_PER_S: u8 = 4;

/// Writes every key of a store. Returns the numbers of keys that were written, and skipped.
pub(super) async fn write_store(
    store: &dyn LeaseStore,
    mut writer: Writer,
    skip_unreadable: bool,
    progress: Progress,
) -> anyhow::Result<(u64, u64)> {
    let mut skipped = 0;
    let mut pages = Pages::of(store, "", PAGE);
    while let Some(page) = pages.next().await.context("the store cannot be read")? {
        progress.advance(page.len() as u64);
        for (key, found) in page {
            match found.record {
                Ok(record) => writer.key(&key, found.revision, &record)?,
                Err(why) if skip_unreadable => {
                    output::talk(&format!("skipped: {:?}: {why}", key.as_str()));
                    skipped += 1;
                }
                Err(why) => anyhow::bail!(
                    "the record of {:?} cannot be read: {why}. Back up the store with the version of tenure that wrote \
                     it, or skip such keys with --skip-unreadable: they are free after a restore",
                    key.as_str()
                ),
            }
        }
    }
    Ok((writer.finish()?, skipped))
}

/// The line that shows how far a backup is. It goes when this is dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn shown() -> Self {
        Self(progress(None))
    }

    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    pub(super) fn advance(&self, keys: u64) {
        self.0.inc(keys);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
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
