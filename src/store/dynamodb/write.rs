//! Compare-and-set of a lease's record.

use std::sync::Arc;

use aws_sdk_dynamodb::{
    operation::put_item::{PutItemError, builders::PutItemFluentBuilder},
    types::{ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure},
};

use super::{
    client::{Failure, FailureKind},
    layout::{LEASE, LeaseItem, Noted, Trail, b, encode, lease_pk, n, s},
    shared::DynamoShared,
};
use crate::{
    lease::{Key, Record, Revision, StoreError},
    store::{Write, WriteOutcome},
};

/// How many changes of one key may wait to be logged. While this many wait, the key's writes are refused. So no
/// change is lost, and the item stays small.
const MAX_TRAIL: usize = 32;

/// A write that is ready to send.
struct Draft {
    key: Key,
    expected: Revision,
    revision: Revision,
    trail: Trail,
    record: Arc<Record>,
}

impl DynamoShared {
    /// Sends the write once. Nothing here repeats it.
    pub async fn compare_and_set(&self, write: Write) -> WriteOutcome {
        let now = self.clock.now();
        if let Some(why) = self.recent_failures().refuses(now) {
            return WriteOutcome::Refused(StoreError::Unavailable(why));
        }
        let unlogged = self.state().unlogged(&write.key, write.expected.0);
        let unlogged = match unlogged {
            Some(unlogged) => unlogged,
            None => match self.read_lease(&write.key).await {
                Err(why) => return WriteOutcome::Refused(why),
                // The write can no longer succeed.
                Ok(found) if found.as_ref().map(|f| f.revision) != Some(write.expected) => {
                    return WriteOutcome::Conflict(found);
                }
                Ok(_) => {
                    let again = self.state().unlogged(&write.key, write.expected.0);
                    let Some(unlogged) = again else {
                        let why = "the record changed while it was read; try again".to_owned();
                        return WriteOutcome::Refused(StoreError::Unavailable(why));
                    };
                    unlogged
                }
            },
        };
        if unlogged.len() >= MAX_TRAIL && !write.changes.is_empty() {
            let why = format!("{MAX_TRAIL} changes of the key wait to be logged");
            return WriteOutcome::Refused(StoreError::Unavailable(why));
        }
        let Some(draft) = self.draft(write, unlogged) else {
            return WriteOutcome::Refused(StoreError::Unavailable(
                "the store is closed".to_owned(),
            ));
        };
        let request = self.request(&draft);
        self.metrics.lease_writes.increment(1);
        let reply = self.send("PutItem lease", request.send()).await;
        match reply {
            Ok(reply) => {
                self.charge_write(reply.consumed_capacity());
                self.committed(draft)
            }
            Err(failure) => self.failed(draft, failure),
        }
    }

    /// Removes an item, if all of its changes are in the log. Returns whether the item is gone.
    pub async fn forget(&self, key: &Key, expected: Revision) -> Result<bool, StoreError> {
        let now = self.clock.now();
        if let Some(why) = self.recent_failures().refuses(now) {
            return Err(StoreError::Unavailable(why));
        }
        let unlogged = self.state().unlogged(key, expected.0);
        if unlogged.is_none_or(|unlogged| !unlogged.is_empty()) {
            let found = self.read_lease(key).await?;
            let Some(found) = found else { return Ok(true) };
            let logged = self.state().unlogged(key, expected.0).is_some_and(|left| left.is_empty());
            if found.revision != expected || !logged {
                return Ok(false);
            }
        }
        let delete = self
            .client
            .db
            .delete_item()
            .table_name(&self.client.table)
            .key("pk", s(lease_pk(key)))
            .key("sk", s(LEASE))
            .condition_expression("attribute_not_exists(pk) OR #rev = :expected")
            .expression_attribute_names("#rev", "rev")
            .expression_attribute_values(":expected", n(expected.0))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        self.metrics.lease_writes.increment(1);
        match self.send("DeleteItem lease", delete.send()).await {
            Ok(reply) => {
                self.charge_write(reply.consumed_capacity());
                self.state().observe_absent(key, expected.0);
                Ok(true)
            }
            Err(failure) if failure.kind == FailureKind::Condition => Ok(false),
            Err(failure) => Err(StoreError::Unavailable(failure.why)),
        }
    }

    fn draft(&self, write: Write, mut changes: Vec<Noted>) -> Option<Draft> {
        let Write { key, expected, record, changes: new } = write;
        let mut state = self.state();
        // The log may have been read further since. An item's changes are in no entry up to the head that it
        // names.
        if let Some(known) = state.keys.get(&key) {
            changes.retain(|noted| noted.order() > known.logged);
        }
        // An item that was deleted by hand and created again gets a revision above all earlier ones.
        let revision = if expected == Revision::ABSENT { state.high + 1 } else { expected.0 + 1 };
        let revision = Revision(revision);
        let at_ms = self.clock.wall_ms();
        changes.extend(new.into_iter().map(|mut change| {
            change.resolve(record.epoch, revision);
            Noted { revision, node: record.node, at_ms, change }
        }));
        let count = if changes.is_empty() { 0 } else { state.outbox.begin()? };
        let trail = Trail { writer: state.me, count, head: state.head, changes };
        Some(Draft { key, expected, revision, trail, record })
    }

    fn request(&self, draft: &Draft) -> PutItemFluentBuilder {
        let Draft { key, expected, revision, trail, record } = draft;
        let mut bytes = Vec::with_capacity(256);
        record.encode_into(&mut bytes);
        let put = self
            .client
            .db
            .put_item()
            .table_name(&self.client.table)
            .item("pk", s(lease_pk(key)))
            .item("sk", s(LEASE))
            .item("key", s(key.as_str()))
            .item("rev", n(revision.0))
            .item("record", b(bytes))
            .item("state", s(record.state.as_str()))
            .item("token", n(record.token(*revision).0))
            .item("seq", n(record.seq))
            .item("recent", b(encode(trail)))
            .set_item_owner(record.tenure.as_ref().map(|tenure| tenure.owner.as_str()))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        if *expected == Revision::ABSENT {
            return put.condition_expression("attribute_not_exists(pk)");
        }
        put.condition_expression("#rev = :expected")
            .expression_attribute_names("#rev", "rev")
            .expression_attribute_values(":expected", n(expected.0))
    }

    fn committed(&self, draft: Draft) -> WriteOutcome {
        let Draft { key, revision, trail, .. } = draft;
        let mut state = self.state();
        let count = trail.count;
        let item = LeaseItem {
            key: key.clone(),
            revision,
            record: Ok(draft.record),
            seq: 0,
            trail: trail.clone(),
        };
        state.observe(&item);
        if count > 0 {
            state.outbox.commit(count, &key, trail.changes);
        }
        drop(state);
        if count > 0 {
            self.to_log.notify_one();
        }
        WriteOutcome::Committed(revision)
    }

    fn failed(&self, draft: Draft, failure: Failure<PutItemError>) -> WriteOutcome {
        let Draft { key, expected, trail, .. } = draft;
        let count = trail.count;
        let unknown = failure.kind == FailureKind::Unknown;
        if count > 0 {
            let mut state = self.state();
            if unknown {
                state.outbox.outcome_unknown(count, &key, expected.0);
            } else {
                state.outbox.cancel(count);
            }
        }
        match failure.kind {
            FailureKind::Condition => {
                let item = failure.service.as_ref().and_then(|error| match error {
                    PutItemError::ConditionalCheckFailedException(failed) => failed.item(),
                    _ => None,
                });
                let item = item.and_then(|item| LeaseItem::parse(item, Some(&key)));
                WriteOutcome::Conflict(self.observe(&key, item, expected.0))
            }
            FailureKind::TooLarge => WriteOutcome::Refused(StoreError::TooLong(failure.why)),
            _ if unknown => WriteOutcome::Unknown(StoreError::Unavailable(failure.why)),
            _ => WriteOutcome::Refused(StoreError::Unavailable(failure.why)),
        }
    }
}

/// Sets an attribute that only some items have.
trait SetOwner {
    fn set_item_owner(self, owner: Option<&str>) -> Self;
}

impl SetOwner for PutItemFluentBuilder {
    fn set_item_owner(self, owner: Option<&str>) -> Self {
        match owner {
            Some(owner) => self.item("owner", s(owner)),
            None => self,
        }
    }
}
