//! Reads and writes the store's own record.

use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemFluentBuilder, types::ReturnConsumedCapacity,
};

use super::{
    client::{Client, Failure, FailureKind},
    error::DynamoOpenError,
    layout::{Item, META, b, n, s},
    own::{CHANGES, LEVEL, Own, RESTORING_SINCE, parse},
    shared::DynamoShared,
    table::{self, Identity},
};
use crate::{
    lease::{Epoch, Level, Revision, StoreError},
    store::{ANOTHER_STARTED, Fresh, Meta, REGISTERED, Raise, own_level},
};

/// Reads the record, or creates it.
pub(super) async fn open(
    client: &Client,
    fresh: &Fresh,
    identity: &Identity,
) -> Result<Own, DynamoOpenError> {
    let bad = |why: String| DynamoOpenError::Unavailable { table: client.table.clone(), why };
    let request = client
        .db
        .put_item()
        .table_name(&client.table)
        .item("pk", s(META))
        .item("sk", s(META))
        .item("identity", s(fresh.identity.to_string()))
        .item("epoch", n(0))
        .item("secret", b(fresh.secret.to_vec()))
        .item("created_ms", n(fresh.created_ms))
        .item("table_id", s(&identity.id))
        .condition_expression("attribute_not_exists(pk)");
    // The record is read first, because a failed write costs more than a read.
    if let Some(item) = get(client).await.map_err(&bad)? {
        return parse(&item).map_err(|why| damaged(client, why));
    }
    match client.send("PutItem meta", request.send()).await {
        Ok(_) | Err(Failure { kind: FailureKind::Condition | FailureKind::Unknown, .. }) => {}
        Err(failure) => return Err(bad(failure.why)),
    }
    let none = || bad("its item `meta` disappeared again".to_owned());
    let item = get(client).await.map_err(&bad)?.ok_or_else(none)?;
    parse(&item).map_err(|why| damaged(client, why))
}

fn damaged(client: &Client, why: String) -> DynamoOpenError {
    DynamoOpenError::Damaged { table: client.table.clone(), why }
}

/// The item of the record; `None` if it is missing.
pub(super) async fn get(client: &Client) -> Result<Option<Item>, String> {
    let request = client.db.get_item().table_name(&client.table).consistent_read(true);
    let request = request.key("pk", s(META)).key("sk", s(META)).send();
    let reply = client.send("GetItem meta", request).await.map_err(|failure| failure.why)?;
    Ok(reply.item)
}

impl DynamoShared {
    /// Reads the record; `None` if it is missing.
    pub async fn read_meta(&self) -> Result<Option<Own>, StoreError> {
        let reply = self
            .send_read("GetItem meta", || {
                let get = self.client.db.get_item().table_name(&self.client.table);
                let get = get.return_consumed_capacity(ReturnConsumedCapacity::Total);
                get.consistent_read(true).key("pk", s(META)).key("sk", s(META)).send()
            })
            .await?;
        self.charge_read(reply.consumed_capacity());
        let Some(item) = reply.item else { return Ok(None) };
        parse(&item).map(Some).map_err(|why| StoreError::Unavailable(format!("meta has {why}")))
    }

    /// Gives the store another identity and a higher epoch, and binds it to this table. For a restore, it also
    /// marks the store; for a rotation, it also replaces the secret. Without a restore, a store that is marked is left as it is.
    pub async fn raise_epoch(&self, raise: Raise) -> Result<(), StoreError> {
        let Raise { identity, epoch, seen, restoring, secret } = raise;
        self.rotates(secret);
        let table = table::describe(&self.client).await;
        let table = table.map_err(|failure| StoreError::Unavailable(failure.why))?;
        let table = table::identity(&table);
        let set = "SET #identity = :identity, #epoch = :epoch, #table = :table, #changes = :next";
        let unseen = if seen == Revision::ABSENT {
            "attribute_not_exists(#changes)"
        } else {
            "#changes = :seen"
        };
        let only = format!("attribute_exists(pk) AND #epoch < :epoch AND {unseen}");
        let (set, only) = if restoring {
            (format!("{set}, #restoring = :now"), only)
        } else {
            (set.to_owned(), format!("{only} AND attribute_not_exists(#restoring)"))
        };
        let set = if secret.is_some() { format!("{set}, #secret = :secret") } else { set };
        let now = restoring.then(|| n(self.clock.wall_ms()));
        let values = [
            (":identity", Some(s(identity.to_string()))),
            (":epoch", Some(n(u64::from(epoch.0)))),
            (":table", Some(s(&table.id))),
            (":now", now),
            (":secret", secret.map(|secret| b(secret.0.to_vec()))),
            (":next", Some(n(seen.0 + 1))),
            (":seen", (seen != Revision::ABSENT).then(|| n(seen.0))),
        ];
        let values = values.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        let update = self.client.db.update_item();
        let update = update
            .update_expression(set)
            .condition_expression(only)
            .expression_attribute_names("#identity", "identity")
            .expression_attribute_names("#epoch", "epoch")
            .expression_attribute_names("#table", "table_id")
            .expression_attribute_names("#restoring", RESTORING_SINCE)
            .expression_attribute_names("#changes", CHANGES)
            .set_expression_attribute_values(Some(values.collect()));
        // A name that no expression uses is an error.
        let update = match secret {
            Some(_) => update.expression_attribute_names("#secret", "secret"),
            None => update,
        };
        if self.update(update).await? {
            return Ok(());
        }
        let now = self.read_meta().await?;
        let registered = now.is_some_and(|now| now.meta.epoch < epoch && now.revision != seen);
        let why = if registered {
            REGISTERED.to_owned()
        } else {
            format!(
                "the store's epoch is {} or above, or unknown, or it is being restored",
                epoch.0
            )
        };
        Err(StoreError::Unavailable(why))
    }

    /// Counts a node that has written its first record, if the store has this epoch and a level that this program
    /// knows. Returns whether it has.
    pub async fn register(&self, epoch: Epoch) -> Result<bool, StoreError> {
        let update = self.client.db.update_item();
        let update = update
            .update_expression("ADD #changes :one")
            .condition_expression(
                "#epoch = :epoch AND (attribute_not_exists(#level) OR #level <= :own)",
            )
            .expression_attribute_names("#changes", CHANGES)
            .expression_attribute_names("#epoch", "epoch")
            .expression_attribute_names("#level", LEVEL)
            .expression_attribute_values(":own", n(u64::from(own_level().0)))
            .expression_attribute_values(":one", n(1))
            .expression_attribute_values(":epoch", n(u64::from(epoch.0)));
        self.update(update).await
    }

    /// Gives the store a higher level, if no node has registered since `seen` was read.
    pub async fn raise_level(&self, level: Level, seen: Revision) -> Result<(), StoreError> {
        let unseen = if seen == Revision::ABSENT {
            "attribute_not_exists(#changes)"
        } else {
            "#changes = :seen"
        };
        let lower = "attribute_exists(pk) AND (attribute_not_exists(#level) OR #level < :level)";
        let values = [
            (":level", Some(n(u64::from(level.0)))),
            (":seen", (seen != Revision::ABSENT).then(|| n(seen.0))),
        ];
        let values = values.into_iter().filter_map(|(name, value)| Some((name.into(), value?)));
        let update = self.client.db.update_item();
        let update = update
            .update_expression("SET #level = :level")
            .condition_expression(format!("{lower} AND {unseen}"))
            .expression_attribute_names("#level", LEVEL)
            .expression_attribute_names("#changes", CHANGES)
            .set_expression_attribute_values(Some(values.collect()));
        if !self.update(update).await? {
            let now = self.read_meta().await?.map(|own| own.meta.level);
            if now.is_none_or(|now| now < level) {
                return Err(StoreError::Unavailable(ANOTHER_STARTED.to_owned()));
            }
        }
        self.set_meta(Meta { level, ..(*self.meta()).clone() });
        Ok(())
    }

    /// Removes the mark of a restore, if the store still has the identity that the restore gave it.
    pub async fn end_restore(&self) -> Result<(), StoreError> {
        let update = self.client.db.update_item();
        let update = update
            .update_expression("REMOVE #restoring")
            .condition_expression("#identity = :identity")
            .expression_attribute_names("#identity", "identity")
            .expression_attribute_names("#restoring", RESTORING_SINCE)
            .expression_attribute_values(":identity", s(self.meta().identity.to_string()));
        if self.update(update).await? {
            return Ok(());
        }
        let why = "the store's identity has changed meanwhile: was it restored twice?";
        Err(StoreError::Unavailable(why.to_owned()))
    }

    /// Sends an update of the record. Returns whether its condition held.
    async fn update(&self, update: UpdateItemFluentBuilder) -> Result<bool, StoreError> {
        let update = update
            .table_name(&self.client.table)
            .key("pk", s(META))
            .key("sk", s(META))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        self.metrics.other_writes.increment(1);
        match self.send("UpdateItem meta", update.send()).await {
            Ok(reply) => {
                self.charge_write(reply.consumed_capacity());
                Ok(true)
            }
            Err(failure) if failure.kind == FailureKind::Condition => Ok(false),
            Err(failure) => Err(StoreError::Unavailable(failure.why)),
        }
    }
}
