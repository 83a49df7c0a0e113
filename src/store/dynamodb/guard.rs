//! Periodic tasks: they check whether the table is still the same, look for writes of unknown outcome, and
//! delete old entries of the log.

use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::types::TimeToLiveStatus;
use tokio::time::{sleep, timeout};

use super::{
    client::{Client, FailureKind},
    command::Command,
    shared::DynamoShared,
    table,
};
use crate::{
    lease::StoreError,
    store::{Meta, RESTORING, ROTATED, own_level},
};

/// The reason if the item is missing.
const GONE: &str = "the store's own record is gone";
/// How often the store's own record and the log's end are checked.
const CHECK: Duration = Duration::from_secs(5);
/// Every how many checks the table itself is checked too.
const DESCRIBE_EVERY: u32 = 6;
/// The shortest time between two checks, however much there is to suspect.
const MIN_PAUSE: Duration = Duration::from_millis(200);
/// The pause between two searches for a write of unknown outcome.
const LOOK: Duration = Duration::from_secs(1);
/// Old entries are deleted each quarter of the time that they are kept, but within these bounds.
const THROW_AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// How long reading the whole table again may take.
pub(super) const RELOAD_WITHIN: Duration = Duration::from_secs(600);

/// Checks whether the store is still the same.
pub(super) async fn identity(shared: Arc<DynamoShared>) {
    let mut round = 0;
    loop {
        let suspected = timeout(CHECK, shared.suspect.notified()).await.is_ok();
        let suspected = suspected || shared.recent_failures().gone;
        round += 1;
        if shared.recent_failures().frozen.is_some() {
            sleep(MIN_PAUSE).await;
            continue;
        }
        if let Err(why) = check(&shared, suspected || round % DESCRIBE_EVERY == 0).await {
            tracing::debug!(%why, "cannot check the store's own record; retrying");
        }
        sleep(MIN_PAUSE).await;
    }
}

async fn check(shared: &DynamoShared, describe: bool) -> Result<(), StoreError> {
    if describe {
        match table::describe(&shared.client).await {
            Ok(found) => {
                let (was, is) = (shared.identity(), table::identity(&found));
                if was.id != is.id {
                    let why = format!("the table was made again (id {}, was {})", is.id, was.id);
                    shared.freeze(why, shared.meta().epoch);
                    return Ok(());
                }
                *shared.identity.write().unwrap_or_else(std::sync::PoisonError::into_inner) = is;
                shared.recent_failures().gone = false;
            }
            Err(failure) => {
                shared.recent_failures().failed(&failure.why, failure.kind == FailureKind::Gone);
                return Err(StoreError::Unavailable(failure.why));
            }
        }
    }
    let was = shared.meta();
    let own = shared.read_meta().await?;
    if shared.meta().epoch != was.epoch {
        // The record was refreshed meanwhile.
        return Ok(());
    }
    match own {
        None => shared.freeze(GONE.to_owned(), was.epoch),
        Some(own) if own.restoring && !shared.options.restore => {
            shared.freeze(RESTORING.to_owned(), was.epoch);
        }
        Some(own) if shared.is_rotated(own.secret) => shared.freeze_rotated(),
        Some(own) if own.meta.identity != was.identity || own.meta.epoch != was.epoch => {
            let why = format!(
                "the store's identity or epoch has changed since it was opened (epoch {}, was {})",
                own.meta.epoch.0, was.epoch.0
            );
            shared.freeze(why, was.epoch);
        }
        Some(own) => match own_level().opens(own.meta.level) {
            Ok(()) => check_log(shared).await?,
            Err(why) => shared.freeze(why.to_string(), was.epoch),
        },
    }
    Ok(())
}

async fn check_log(shared: &DynamoShared) -> Result<(), StoreError> {
    let head = shared.state().head;
    let end = shared.read_entries(head, true, 2).await?;
    match end.first().map(|read| read.number) {
        None if head > 0 => {
            let why = format!("the log of changes went backwards; its end was {head}");
            shared.freeze(why, shared.meta().epoch);
        }
        // Entries between were deleted, by age or by hand. Their changes are lost to listeners.
        Some(number) if number > head + 1 => {
            tracing::warn!(head, number, "the log of changes has a hole; reading everything again");
            shared.ask(Command::Reload, RELOAD_WITHIN).await?;
        }
        _ => {}
    }
    Ok(())
}

impl DynamoShared {
    /// Reads the store's own record again. A frozen store thaws if the epoch is higher.
    pub async fn refresh_meta(&self) -> Result<Arc<Meta>, StoreError> {
        let was = self.meta();
        let Some(own) = self.read_meta().await? else {
            self.freeze(GONE.to_owned(), was.epoch);
            return Err(StoreError::Unavailable(GONE.to_owned()));
        };
        if own.restoring && !self.options.restore {
            // The store thaws once the restore has ended.
            self.freeze(RESTORING.to_owned(), was.epoch);
            return Err(StoreError::Unavailable(RESTORING.to_owned()));
        }
        if let Err(why) = own_level().opens(own.meta.level) {
            self.freeze(why.to_string(), was.epoch);
            return Err(StoreError::Unavailable(why.to_string()));
        }
        if self.is_rotated(own.secret) {
            self.freeze_rotated();
            return Err(StoreError::Unavailable(ROTATED.to_owned()));
        }
        let frozen = self.recent_failures().frozen.clone();
        if own.meta.epoch <= was.epoch && own.meta.identity != was.identity {
            let why = "the store has another identity without a higher epoch";
            self.freeze(why.to_owned(), was.epoch);
            return Ok(was);
        }
        let higher = frozen.as_ref().is_some_and(|frozen| own.meta.epoch > frozen.epoch);
        let table = table::describe(&self.client).await;
        let table = table.map_err(|failure| StoreError::Unavailable(failure.why))?;
        let table = table::identity(&table);
        if table.id != own.table_id {
            let why = "the store's own record names another table: this one is a copy";
            self.freeze(why.to_owned(), was.epoch);
            return Ok(was);
        }
        self.set_meta(own.meta);
        *self.identity.write().unwrap_or_else(std::sync::PoisonError::into_inner) = table;
        if higher {
            self.thaw().await?;
        }
        Ok(self.meta())
    }

    async fn thaw(&self) -> Result<(), StoreError> {
        // What waits to be logged was written into a store that no longer exists. The items hold what is durable.
        self.state().outbox.forget_pending();
        self.ask(Command::Reload, RELOAD_WITHIN).await?;
        let mut recent_failures = self.recent_failures();
        (recent_failures.frozen, recent_failures.gone) = (None, false);
        drop(recent_failures);
        self.metrics.frozen(false);
        tracing::warn!(
            epoch = self.meta().epoch.0,
            "the store is no longer frozen: its epoch was raised"
        );
        self.to_log.notify_one();
        Ok(())
    }
}

/// Looks for writes of unknown outcome, so that their changes are logged also if no caller asks again.
pub(super) async fn resolve_unknown(shared: Arc<DynamoShared>) {
    loop {
        sleep(LOOK).await;
        let keys = shared.state().outbox.unresolved();
        for key in keys {
            // The read itself takes in what it finds.
            if shared.read_lease(&key).await.is_ok() {
                shared.state().outbox.looked(&key);
            }
        }
    }
}

/// Deletes old entries of the log.
pub(super) async fn old_entries(shared: Arc<DynamoShared>) {
    let pause = (shared.options.history / 4).clamp(THROW_AWAY.0, THROW_AWAY.1);
    let mut by_table = by_table(&shared.client).await;
    loop {
        sleep(pause / 2 + shared.jitter(pause)).await;
        if by_table.is_none() {
            by_table = self::by_table(&shared.client).await;
        }
        // One node is enough. More do no harm.
        let nodes = u32::try_from(shared.state().sessions.len().max(1)).unwrap_or(u32::MAX);
        let turn = shared.jitter(Duration::from_secs(u64::from(nodes))) < Duration::from_secs(1);
        if shared.recent_failures().frozen.is_none() {
            let delete = by_table == Some(false) && turn;
            if let Err(why) = shared.throw_away(delete).await {
                tracing::debug!(%why, "cannot delete old entries of the log; retrying");
            }
        }
    }
}

/// Whether the table deletes expired items by itself; `None` if it does not say.
pub(super) async fn by_table(client: &Client) -> Option<bool> {
    let request = client.db.describe_time_to_live().table_name(&client.table);
    let reply = client.send("DescribeTimeToLive", request.send()).await.ok()?;
    let found = reply.time_to_live_description?;
    let on = matches!(
        found.time_to_live_status(),
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
    );
    Some(on && found.attribute_name() == Some("ttl"))
}
