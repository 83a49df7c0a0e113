//! Reads the store's own record again, and raises its epoch and its level. A higher epoch thaws a frozen store.

use std::sync::Arc;

use super::{
    super::{ANOTHER_STARTED, Meta, REGISTERED, RESTORING, ROTATED, Raise, StoreError, own_level},
    bucket,
    core::{Core, lock},
    follow, guard,
    link::{Asked, Sent, created, unavailable},
    meta::{self, MetaRecord, MetaState},
};
use crate::lease::{Epoch, Level, Revision};

/// Epochs are below this (R7).
const END: u16 = 1 << 10;
/// How many times a write of the record is tried. Nodes that register at the same moment write the same record,
/// and each try succeeds for one of them.
const TRIES: u32 = 8;

/// Reads the store's own record again, and thaws the store if its epoch was raised.
pub(super) async fn refresh(core: Arc<Core>) -> Result<Arc<Meta>, StoreError> {
    // Taken before the request: what is seen while the answer is on its way must not contradict it.
    let witness = core.witness();
    let info = match core.link.info().await {
        Asked::Here(info) => info,
        Asked::Gone => return Err(unavailable("the bucket is gone")),
        Asked::Unanswered(why) => return Err(unavailable(why)),
    };
    let record = match meta::read(&core.link).await? {
        MetaState::Here(_, record) => record,
        MetaState::Missing(_) => return Err(unavailable("the store's own record is gone")),
        MetaState::Damaged(_, why) => {
            return Err(unavailable(format!("the store's own record {why}")));
        }
    };
    if record.restoring && !core.options.restore {
        // The store thaws once the restore has ended.
        core.freeze(RESTORING.to_owned());
        return Err(unavailable(RESTORING));
    }
    if let Err(why) = own_level().opens(record.level) {
        core.freeze(why.to_string());
        return Err(unavailable(why));
    }
    if core.is_rotated(&record) {
        core.freeze_rotated();
        return Err(unavailable(ROTATED));
    }
    let frozen = core.condition().frozen.clone();
    let below = frozen.as_ref().map_or_else(|| core.meta().epoch, |frozen| frozen.epoch);
    if record.epoch > below && record.stream_created == created(&info) {
        // A listener that is told about lost changes must find the store's new identity.
        *lock(&core.origin) = record.clone();
        core.set_meta(record.meta());
        follow::reload(&core, &info, true).await.map_err(unavailable)?;
        let mut condition = core.condition();
        (condition.frozen, condition.suspect, condition.failing) = (None, None, None);
        drop(condition);
        core.metrics.frozen(false);
        tracing::info!(epoch = record.epoch.0, "the store continues under a new epoch");
        return Ok(core.meta());
    }
    if frozen.is_none() {
        let last = info.state.last_sequence;
        if last < witness.highest.0 {
            // A server that was just elected may know less than the feed delivered. The guard checks again.
            return Err(unavailable(guard::less_than_seen(last, witness.highest.0)));
        }
        let wrong = guard::went_backwards(&witness, &record, Revision(last));
        let other = (record.stream_created != created(&info))
            .then(|| "the bucket's own record is of another bucket".to_owned());
        if let Some(why) = wrong.or(other) {
            core.freeze(why);
        }
    }
    core.set_meta(record.meta());
    Ok(core.meta())
}

/// The revision of the store's own record, whatever the record contains.
pub(super) async fn own_revision(core: Arc<Core>) -> Result<Revision, StoreError> {
    if matches!(core.link.info().await, Asked::Gone) {
        return Ok(Revision::ABSENT);
    }
    Ok(match meta::read(&core.link).await? {
        MetaState::Here(revision, _)
        | MetaState::Missing(revision)
        | MetaState::Damaged(revision, _) => revision,
    })
}

/// Writes the store's own record again unchanged, if its epoch is this one.
pub(super) async fn register(core: Arc<Core>, epoch: Epoch) -> Result<bool, StoreError> {
    for _ in 0..TRIES {
        let (revision, record) = match meta::read(&core.link).await? {
            MetaState::Here(revision, record) => (revision, record),
            MetaState::Missing(_) => return Err(unavailable("the store's own record is gone")),
            MetaState::Damaged(_, why) => {
                return Err(unavailable(format!("the store's own record {why}")));
            }
        };
        if record.epoch != epoch {
            return Ok(false);
        }
        own_level().opens(record.level).map_err(unavailable)?;
        core.metrics.other_writes.increment(1);
        match meta::write(&core.link, revision, &record).await {
            Sent::Stored(_) => return Ok(true),
            Sent::WrongLast => {}
            Sent::Refused(why) | Sent::Unknown(why) => return Err(why),
        }
    }
    Err(unavailable("too many nodes write the store's own record at once"))
}

/// Gives the store another identity and a higher epoch. Creates its bucket if it is gone. For a restore, it also
/// marks the store; for a rotation, it also replaces the secret.
pub(super) async fn raise(core: Arc<Core>, raise: Raise) -> Result<(), StoreError> {
    let Raise { identity, epoch, seen, restoring, secret } = raise;
    let info = bucket::ensure(&core.options, &core.link).await.map_err(unavailable)?;
    let known = lock(&core.origin).clone();
    let (expected, before) = match meta::read(&core.link).await? {
        MetaState::Here(revision, record) => (revision, record),
        // Without a new secret, the known one is kept, so that lease ids stay the same.
        MetaState::Missing(revision) | MetaState::Damaged(revision, _) => (revision, known.clone()),
    };
    let frozen = core.condition().frozen.as_ref().map_or(known.epoch, |frozen| frozen.epoch);
    let below = before.epoch.max(frozen);
    if epoch <= below || epoch.0 >= END {
        let why = format!("the epoch must be above {} and below {END}", below.0);
        return Err(unavailable(why));
    }
    if before.restoring && !restoring {
        return Err(unavailable(RESTORING));
    }
    if expected != seen {
        return Err(unavailable(REGISTERED));
    }
    let stream_created = created(&info);
    *lock(&core.rotating) = secret;
    let secret = secret.map_or(before.secret, |secret| secret.0);
    let level = before.level.max(core.meta().level);
    let record = MetaRecord { identity, epoch, secret, stream_created, restoring, level, ..before };
    core.metrics.other_writes.increment(1);
    match meta::write(&core.link, expected, &record).await {
        Sent::Stored(_) => Ok(()),
        Sent::WrongLast => Err(unavailable(REGISTERED)),
        Sent::Refused(why) => Err(why),
        Sent::Unknown(why) => match meta::read(&core.link).await? {
            MetaState::Here(_, now) if now.identity == identity => Ok(()),
            _ => Err(why),
        },
    }
}

/// Gives the store a higher level, if no node has registered since `seen` was read.
pub(super) async fn raise_level(
    core: Arc<Core>,
    level: Level,
    seen: Revision,
) -> Result<(), StoreError> {
    let (revision, record) = match meta::read(&core.link).await? {
        MetaState::Here(revision, record) => (revision, record),
        MetaState::Missing(_) => return Err(unavailable("the store's own record is gone")),
        MetaState::Damaged(_, why) => {
            return Err(unavailable(format!("the store's own record {why}")));
        }
    };
    if record.level >= level {
        core.set_meta(Meta { level: record.level, ..(*core.meta()).clone() });
        return Ok(());
    }
    if revision != seen {
        return Err(unavailable(ANOTHER_STARTED));
    }
    core.metrics.other_writes.increment(1);
    match meta::write(&core.link, revision, &MetaRecord { level, ..record }).await {
        Sent::Stored(_) => {
            core.set_meta(Meta { level, ..(*core.meta()).clone() });
            Ok(())
        }
        Sent::WrongLast => Err(unavailable(ANOTHER_STARTED)),
        // Whether it was written shows the next time.
        Sent::Refused(why) | Sent::Unknown(why) => Err(why),
    }
}

/// Removes the mark of a restore, if the store still has the identity that the restore gave it.
pub(super) async fn end_restore(core: Arc<Core>) -> Result<(), StoreError> {
    let (expected, record) = match meta::read(&core.link).await? {
        MetaState::Here(expected, record) if record.identity == core.meta().identity => {
            (expected, record)
        }
        _ => {
            return Err(unavailable(
                "the store's identity has changed meanwhile: was it restored twice?",
            ));
        }
    };
    if !record.restoring {
        return Ok(());
    }
    let record = MetaRecord { restoring: false, ..record };
    core.metrics.other_writes.increment(1);
    match meta::write(&core.link, expected, &record).await {
        Sent::Stored(_) => Ok(()),
        Sent::WrongLast => Err(unavailable("another node wrote the store's own record meanwhile")),
        Sent::Refused(why) | Sent::Unknown(why) => Err(why),
    }
}

/// Whether a restore was begun and has not ended.
pub(super) async fn is_restoring(core: Arc<Core>) -> Result<bool, StoreError> {
    let found = meta::read(&core.link).await?;
    Ok(matches!(found, MetaState::Here(_, record) if record.restoring))
}
