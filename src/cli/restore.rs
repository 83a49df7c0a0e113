//! `tenure restore`: a backup into an empty store, under an epoch above every token in it; or a higher
//! epoch for the store as it is.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    Exit, Failure, Output, SettingsArgs,
    backup::{check_is_there, progress, say_locked},
    backup_file::{Backup, Item},
    output, raise,
};
use crate::{
    lease::{Epoch, Revision},
    manager::engine::{OpenStore, Surroundings, place},
    settings::{Settings, StoreKind},
    store::{Fresh, LeaseStore, Outcome, Range, Write, embedded::EmbeddedStore},
};

/// How many keys are written at a time.
const IN_FLIGHT: usize = 64;
/// How often a write that was refused or is in doubt is tried.
const ATTEMPTS: u32 = 10;
/// How long to wait before the next try; each time as much longer.
const PAUSE: Duration = Duration::from_millis(100);

/// Bring a backup into an empty store, or raise the epoch of a frozen one
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Bring a backup into an empty store, or raise the epoch of a frozen one.\n\n\
        A backup is older than what was granted after it, and a store that is made anew counts its \
        revisions from the start: either would give tokens a second time. So a restore always raises \
        the epoch, the most significant part of every token, and --raise-epoch says that you know. No \
        coordinator of the store may be alive; one that is frozen may be while the store stays as it is. Where a higher epoch was in use than \
        the backup, the store and the witness file know, name it with --epoch: it was printed when it \
        was raised, and is in /v1/info and in every token (token / 2^43)."
)]
pub struct RestoreArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The backup; without it the store stays as it is and only its epoch is raised
    #[arg(long, value_name = "FILE", visible_alias = "input")]
    file: Option<PathBuf>,
    /// Make every token to come greater than every token before
    #[arg(long)]
    raise_epoch: bool,
    /// The epoch to raise to [default: the one after the highest that backup and store know]
    #[arg(long, value_name = "EPOCH", requires = "raise_epoch")]
    epoch: Option<u16>,
}

impl RestoreArgs {
    pub(super) async fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let loaded = self.settings.load()?;
        loaded.check_files()?;
        let settings = loaded.settings;
        if !self.raise_epoch {
            return Err(Failure::Usage(
                "a restore needs --raise-epoch: what was granted after the backup is not in it, so the \
                 same tokens would be given a second time, and a resource could not tell the old \
                 owner from the new one. Stop every coordinator of the store, then say --raise-epoch"
                    .into(),
            ));
        }
        let surroundings = Surroundings::of_a_command(&settings);
        let (keys, epoch) = match &self.file {
            None => {
                check_is_there(&settings)?;
                (None, raise::in_place(&settings, &surroundings, self.epoch).await?)
            }
            Some(path) => {
                let backup = Backup::open(path)?;
                let epoch = restore(&settings, &surroundings, &backup, self.epoch).await?;
                output::talk(&format!(
                    "epoch {0} was used now: to restore the same backup once more, say --epoch {1}",
                    epoch.0,
                    epoch.0 + 1
                ));
                (Some(backup.keys), epoch)
            }
        };
        let answer = serde_json::json!({ "keys": keys, "epoch": epoch.0 });
        let mut rows = vec![("epoch".to_owned(), epoch.0.to_string())];
        rows.extend(keys.map(|keys| ("keys".to_owned(), keys.to_string())));
        output.record(&answer, &rows)?;
        Ok(Exit::Done)
    }
}

/// Fills the empty store. The epoch is raised before the first key is written: a restore that broke
/// off leaves no store that would give a token twice, and on the embedded store none that is served.
async fn restore(
    settings: &Settings,
    surroundings: &Surroundings,
    backup: &Backup,
    wanted: Option<u16>,
) -> anyhow::Result<Epoch> {
    let secret = backup.header.secret()?;
    let created_ms = backup.header.created_ms;
    let fresh = Fresh { identity: surroundings.entropy.nonce(), secret: secret.0, created_ms };
    let open = || OpenStore::open_with(settings, surroundings, fresh.clone());
    let mut opened = open().await.map_err(say_locked)?;
    let checked = check_empty(settings, &*opened.store, backup).await;
    let epoch = match checked {
        Ok(()) => raise::above(backup.epoch.max(opened.epoch()), wanted),
        Err(why) => Err(why),
    };
    let raised = match (epoch, opened.store.shared()) {
        (Ok(epoch), Some(_)) => {
            raise::shared(&*opened.store, surroundings, epoch).await.map(|()| epoch)
        }
        (epoch, _) => epoch,
    };
    let epoch = match raised {
        Ok(epoch) => epoch,
        Err(why) => {
            opened.close().await;
            return Err(why);
        }
    };
    let dir = &settings.store.embedded.data_dir;
    let embedded = settings.store.kind == StoreKind::Embedded;
    if embedded {
        EmbeddedStore::begin_restore(dir, fresh.identity)?;
        opened.close().await;
        EmbeddedStore::restamp(dir, surroundings.entropy.nonce(), epoch)?;
        opened = open().await?;
    }
    let mut filled = fill(settings, surroundings, &opened.store, backup).await;
    if filled.is_ok() && embedded {
        filled = EmbeddedStore::end_restore(dir).map_err(Into::into);
    }
    opened.close().await;
    filled.with_context(|| {
        format!("the restore is not complete: {}, and restore again", how_to_empty(settings))
    })?;
    Ok(epoch)
}

/// A restore overwrites nothing, and mixes with nothing.
async fn check_empty(
    settings: &Settings,
    store: &dyn LeaseStore,
    backup: &Backup,
) -> anyhow::Result<()> {
    let range = Range { limit: 1, ..Range::default() };
    let found = store.scan(range).await.context("the store cannot be read")?;
    anyhow::ensure!(
        found.is_empty(),
        "the {} store ({}) holds keys; a backup goes into an empty store: {}",
        settings.store.kind.as_str(),
        place(settings),
        how_to_empty(settings)
    );
    anyhow::ensure!(
        store.secret_bytes() == Some(backup.header.secret()?),
        "the {} store ({}) has a secret of its own, under which no holder's lease id of the backup \
         would be right: {}",
        settings.store.kind.as_str(),
        place(settings),
        how_to_empty(settings)
    );
    Ok(())
}

fn how_to_empty(settings: &Settings) -> String {
    let store = &settings.store;
    match store.kind {
        StoreKind::Embedded => format!(
            "move {} away, or name another directory (store.embedded.data_dir)",
            store.embedded.data_dir.display()
        ),
        StoreKind::Nats => format!(
            "delete the bucket (`nats kv del {}`), or name another (store.nats.bucket)",
            store.nats.bucket
        ),
        StoreKind::DynamoDb => format!(
            "delete the table {}, or name another (store.dynamodb.table)",
            store.dynamodb.table
        ),
    }
}

async fn fill(
    settings: &Settings,
    surroundings: &Surroundings,
    store: &Arc<dyn LeaseStore>,
    backup: &Backup,
) -> anyhow::Result<()> {
    if let Some(shared) = store.shared() {
        raise::nobody_wakes(shared, surroundings, settings.node.ttl).await?;
    }
    let bar = progress(Some(backup.keys));
    stream::iter(backup.items()?)
        .map(|item| async { put(&**store, item?).await })
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(|()| {
            bar.inc(1);
            std::future::ready(Ok(()))
        })
        .await?;
    bar.finish_and_clear();
    match store.shared() {
        Some(shared) => raise::nobody_wakes(shared, surroundings, Duration::ZERO).await,
        None => Ok(()),
    }
}

/// Writes one key's record; what is in doubt is settled by reading.
async fn put(store: &dyn LeaseStore, (key, record): Item) -> anyhow::Result<()> {
    let mut trouble = None;
    for attempt in 0..ATTEMPTS {
        tokio::time::sleep(PAUSE * attempt).await;
        let write = Write {
            key: key.clone(),
            expected: Revision::ABSENT,
            record: record.clone(),
            changes: Vec::new(),
        };
        trouble = match store.compare_and_set(write).await {
            Outcome::Committed(_) => return Ok(()),
            Outcome::Conflict(Some(found)) => match found.record {
                // An attempt whose outcome was unknown.
                Ok(there) if there.nonce == record.nonce => return Ok(()),
                _ => anyhow::bail!("somebody else wrote {:?} meanwhile", key.as_str()),
            },
            Outcome::Conflict(None) => None,
            Outcome::Refused(why) | Outcome::Unknown(why) => Some(why),
        };
    }
    let why = trouble.map_or_else(|| "it conflicts with nothing".into(), |why| why.to_string());
    anyhow::bail!("{:?} cannot be written: {why}", key.as_str())
}
