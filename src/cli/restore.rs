//! `tenure restore`: writes a backup into an empty store, under an epoch above every token in it. Without a backup, it
//! raises the epoch of the store as it is.

#[cfg(feature = "testing")]
#[path = "../../tests/doors/cut_restore.rs"]
mod door;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    Exit, Failure, Output, SettingsArgs,
    backup::say_locked,
    backup_file::{Backup, Item},
    backup_store::progress,
    output,
    raise::{self, Change},
};
use crate::{
    access::Revoked,
    lease::{Epoch, Key, Revision},
    manager::engine::{self, OpenStore, Surroundings, how_to_empty, place},
    settings::Settings,
    store::{Fresh, LeaseStore, Pages, Range, SharedStore, Write, WriteOutcome},
};

/// Number of keys that are written concurrently.
const IN_FLIGHT: usize = 64;
/// Number of keys per page of a scan.
const PAGE: usize = 1000;
/// How often a write is tried that was refused or whose outcome is unknown.
const ATTEMPTS: u32 = 10;
/// The pause before the next try. It grows by this much with each try.
const PAUSE: Duration = Duration::from_millis(100);

/// Restore a backup into an empty store, or raise the epoch of a frozen store
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Restore a backup into an empty store, or raise the epoch of a frozen store.\n\n\
        A backup does not contain what was granted after it, and a new store counts its revisions from \
        the start. Either would issue the same tokens a second time. So a restore always raises the \
        epoch, the most significant part of every token; --raise-epoch confirms that you know this. \
        Stop all coordinators of the store first. (Frozen ones may run if only the epoch is raised.) \
        If an epoch was in use that is higher than any that the backup, the store and the witness \
        file know, name one above it with --epoch. Each epoch is printed when it is raised, and is in \
        /v1/info and in every token (token / 2^43)."
)]
pub struct RestoreArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Backup to restore [default: none, only the epoch is raised]
    #[arg(long, value_name = "FILE", visible_alias = "input")]
    file: Option<PathBuf>,
    /// Raise the epoch, so that every later token is greater than every earlier one; required
    #[arg(long)]
    raise_epoch: bool,
    /// New epoch [default: the one after the highest that the backup, the store and the witness know]
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
                "a restore needs --raise-epoch: the backup does not contain what was granted after it, \
                 so the same tokens would be given a second time, and a resource could not tell the \
                 old owner from the new one. Stop every coordinator of the store, then use --raise-epoch"
                    .into(),
            ));
        }
        let surroundings = Surroundings::of_a_command(&settings);
        let (keys, epoch) = match &self.file {
            None => {
                engine::check_is_there(&settings)?;
                (
                    None,
                    raise::in_place(&settings, &surroundings, self.epoch, Change::Nothing).await?,
                )
            }
            Some(path) => {
                let backup = Backup::open(path)?;
                let epoch = restore(&settings, &surroundings, &backup, self.epoch).await?;
                output::talk(&format!(
                    "epoch {0} is now used: to restore the same backup again, use --epoch {1}",
                    epoch.0,
                    epoch.0 + 1
                ));
                if let Some(line) = revocations(&backup)? {
                    output::talk(&line);
                }
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

/// Fills the empty store. The epoch is raised and the store is marked before the first key is written. So a restore
/// that was cut off leaves no store that could issue a token twice, and no store that a coordinator serves.
async fn restore(
    settings: &Settings,
    surroundings: &Surroundings,
    backup: &Backup,
    wanted: Option<u16>,
) -> anyhow::Result<Epoch> {
    let secret = backup.header.secret()?;
    let created_ms = backup.header.created_ms;
    let fresh = Fresh { identity: surroundings.entropy.nonce(), secret: secret.0, created_ms };
    let opened = OpenStore::open_to_restore(settings, surroundings, fresh.clone()).await;
    let opened = opened.map_err(say_locked)?;
    let (epoch, rest) = match begin(settings, surroundings, &opened, backup, wanted).await {
        Ok(begun) => begun,
        Err(why) => {
            opened.close().await;
            return Err(why);
        }
    };
    let opened = opened.begin_restore(settings, surroundings, fresh, epoch).await?;
    let filled = fill(settings, surroundings, &opened.store, backup, rest).await;
    let filled = filled.and_then(|()| engine::end_restore(settings));
    opened.close().await;
    filled.with_context(|| {
        let or_empty = how_to_empty(settings);
        if settings.store.kind.is_shared() {
            format!("the restore is not complete: restore again; or {or_empty}")
        } else {
            format!("the restore is not complete: {or_empty}, and restore again")
        }
    })?;
    Ok(epoch)
}

/// What an earlier restore left in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    /// It was cut off: what it wrote must be removed.
    Part,
}

/// Checks that the store may be filled. Raises the epoch of a shared store, and marks it.
async fn begin(
    settings: &Settings,
    surroundings: &Surroundings,
    opened: &OpenStore,
    backup: &Backup,
    wanted: Option<u16>,
) -> anyhow::Result<(Epoch, Rest)> {
    let store = &*opened.store;
    let rest = match store.shared() {
        Some(shared) if shared.is_restoring().await? => Rest::Part,
        _ => Rest::Nothing,
    };
    if rest == Rest::Nothing {
        check_empty(settings, store).await?;
    }
    check_secret(settings, store, backup)?;
    let epoch = raise::above(backup.epoch.max(opened.epoch()), wanted)?;
    if let Some(shared) = store.shared() {
        raise::shared(store, surroundings, epoch, Change::Restore).await?;
        let level = backup.header.level;
        if !level.is_first() {
            // No node lives. Those that start later must be able to read the records.
            let seen = shared.own_revision().await.context("the store cannot be read")?;
            let raised = shared.raise_level(level, seen).await;
            raised.context("the store cannot be given the level of the backup")?;
        }
    }
    Ok((epoch, rest))
}

/// Refuses a store that holds keys: a restore neither overwrites keys nor adds to them.
async fn check_empty(settings: &Settings, store: &dyn LeaseStore) -> anyhow::Result<()> {
    let range = Range { limit: 1, ..Range::default() };
    let found = store.scan(range).await.context("the store cannot be read")?;
    anyhow::ensure!(
        found.is_empty(),
        "the {} store ({}) holds keys; a backup goes into an empty store: {}",
        settings.store.kind.as_str(),
        place(settings),
        how_to_empty(settings)
    );
    Ok(())
}

fn check_secret(
    settings: &Settings,
    store: &dyn LeaseStore,
    backup: &Backup,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        store.secret_bytes() == Some(backup.header.secret()?),
        "the {} store ({}) has a secret of its own, under which the lease ids in the backup would \
         be invalid: {}",
        settings.store.kind.as_str(),
        place(settings),
        how_to_empty(settings)
    );
    Ok(())
}

async fn fill(
    settings: &Settings,
    surroundings: &Surroundings,
    store: &Arc<dyn LeaseStore>,
    backup: &Backup,
    rest: Rest,
) -> anyhow::Result<()> {
    if let Some(shared) = store.shared() {
        raise::nobody_wakes(shared, surroundings, settings.node.ttl).await?;
    }
    if rest == Rest::Part {
        remove_all(&**store).await?;
    }
    let bar = progress(Some(backup.keys));
    stream::iter(backup.items()?)
        .map(|item| async { put(&**store, item?).await })
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(|()| {
            bar.inc(1);
            #[cfg(feature = "testing")]
            door::cut_off(bar.position());
            std::future::ready(Ok(()))
        })
        .await?;
    bar.finish_and_clear();
    let Some(shared) = store.shared() else { return Ok(()) };
    if rest == Rest::Part {
        // A write that the earlier restore had in flight may have arrived since.
        let there = count(&**store).await?;
        let keys = backup.keys;
        anyhow::ensure!(there == keys, "the store holds {there} keys, and the backup has {keys}");
    }
    raise::nobody_wakes(shared, surroundings, Duration::ZERO).await?;
    end(shared).await
}

/// What to do about the revocation list: the backup has the one of its moment. `None`: it never had one.
fn revocations(backup: &Backup) -> anyhow::Result<Option<String>> {
    let mut found = None;
    for item in backup.items()? {
        let (key, record) = item?;
        if key.is_of_revocations() {
            found = Some(Revoked::of_value(record.value.as_deref()));
        }
    }
    let list = match found {
        None => return Ok(None),
        Some(Ok(list)) => match list.entries.len() {
            1 => "1 entry".to_owned(),
            entries => format!("{entries} entries"),
        },
        Some(Err(error)) => format!("a value that cannot be read ({error})"),
    };
    Ok(Some(format!(
        "the revocation list of the backup has {list}. Revoke again who was revoked since the backup was made: tenure access \
         list, tenure access revoke; or take them out of the access file before you start a coordinator"
    )))
}

/// The last step: removes the mark. From now on the store has all keys.
async fn end(shared: &dyn SharedStore) -> anyhow::Result<()> {
    let mut failure = None;
    for attempt in 0..ATTEMPTS {
        tokio::time::sleep(PAUSE * attempt).await;
        match shared.end_restore().await {
            Ok(()) => return Ok(()),
            Err(why) => failure = Some(why),
        }
    }
    let why = failure.map_or_else(String::new, |why| why.to_string());
    anyhow::bail!("all keys are written, but the mark of the restore cannot be removed: {why}")
}

async fn count(store: &dyn LeaseStore) -> anyhow::Result<u64> {
    let (mut pages, mut count) = (Pages::of(store, "", PAGE), 0);
    while let Some(page) = pages.next().await.context("the store cannot be read")? {
        count += page.len() as u64;
    }
    Ok(count)
}

/// Removes what a cut-off restore wrote: it may have restored another backup.
async fn remove_all(store: &dyn LeaseStore) -> anyhow::Result<()> {
    let mut pages = Pages::of(store, "", PAGE);
    while let Some(page) = pages.next().await.context("the store cannot be read")? {
        stream::iter(page)
            .map(|(key, found)| async move { remove(store, &key, found.revision).await })
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<()>()
            .await?;
    }
    Ok(())
}

async fn remove(store: &dyn LeaseStore, key: &Key, revision: Revision) -> anyhow::Result<()> {
    let mut failure = None;
    for attempt in 0..ATTEMPTS {
        tokio::time::sleep(PAUSE * attempt).await;
        match store.forget(key, revision).await {
            Ok(true) => return Ok(()),
            Ok(false) => anyhow::bail!("another process writes {:?}", key.as_str()),
            Err(why) => failure = Some(why),
        }
    }
    let why = failure.map_or_else(String::new, |why| why.to_string());
    anyhow::bail!("{:?}, which a cut-off restore wrote, cannot be removed: {why}", key.as_str())
}

/// Writes one key's record. An unknown outcome is resolved by the next try.
async fn put(store: &dyn LeaseStore, (key, record): Item) -> anyhow::Result<()> {
    let mut failure = None;
    for attempt in 0..ATTEMPTS {
        tokio::time::sleep(PAUSE * attempt).await;
        let write = Write {
            key: key.clone(),
            expected: Revision::ABSENT,
            record: record.clone(),
            changes: Vec::new(),
        };
        failure = match store.compare_and_set(write).await {
            WriteOutcome::Committed(_) => return Ok(()),
            WriteOutcome::Conflict(Some(found)) => match found.record {
                // An earlier try, whose outcome was unknown, wrote it.
                Ok(there) if there.nonce == record.nonce => return Ok(()),
                _ => anyhow::bail!("another process wrote {:?} meanwhile", key.as_str()),
            },
            WriteOutcome::Conflict(None) => None,
            WriteOutcome::Refused(why) | WriteOutcome::Unknown(why) => Some(why),
        };
    }
    let why = failure.map_or_else(|| "a conflict without a record".into(), |why| why.to_string());
    anyhow::bail!("{:?} cannot be written: {why}", key.as_str())
}
