//! The log of changes in the table: reading, appending and deleting entries.

use std::ops::ControlFlow;

use aws_sdk_dynamodb::{
    operation::put_item::PutItemError,
    types::{
        AttributeValue, DeleteRequest, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
        WriteRequest,
    },
};

use super::{
    client::{Failure, FailureKind},
    layout::{self, Item, LOG, LogEntry, n, s},
    position::end_of,
    shared::DynamoShared,
};
use crate::{
    lease::{CodecError, StoreError},
    store::FeedBatch,
};

/// How many entries are read at a time. A page is at most 1 MB anyway.
pub(super) const PAGE: i32 = 200;
/// How many items one request may delete.
const DELETES: usize = 25;
/// How many entries one round deletes. The next round continues.
const MAX_DELETES: i32 = 1000;
/// How much longer than promised entries are kept, in milliseconds.
const MARGIN_MS: u64 = 600_000;

/// An entry as it was read: its number, the writer's wall clock when it was written, and its content.
pub(super) struct ReadEntry {
    pub number: u64,
    pub at_ms: u64,
    pub entry: Result<LogEntry, CodecError>,
}

/// The outcome of an attempt to append.
pub(super) enum Appended {
    /// The entry is now the last one.
    Yes,
    /// Another entry has the number.
    Lost(Option<ReadEntry>),
    /// The attempt failed, or its outcome is unknown. Reading the log shows which.
    Failed,
}

fn read_entry(item: &Item) -> Option<ReadEntry> {
    let (number, entry) = layout::parse_entry(item)?;
    Some(ReadEntry { number, at_ms: layout::number(item, "at_ms").unwrap_or(0), entry })
}

impl DynamoShared {
    /// Reads a page of entries, forwards from a number, or backwards from the end.
    pub async fn read_entries(
        &self,
        from: u64,
        forward: bool,
        limit: i32,
    ) -> Result<Vec<ReadEntry>, StoreError> {
        let reply = self
            .send_read("Query log", || {
                self.client
                    .db
                    .query()
                    .table_name(&self.client.table)
                    .consistent_read(true)
                    .key_condition_expression("pk = :log AND sk >= :from")
                    .expression_attribute_values(":log", s(LOG))
                    .expression_attribute_values(":from", s(layout::log_sk(from)))
                    .scan_index_forward(forward)
                    .limit(limit)
                    .return_consumed_capacity(ReturnConsumedCapacity::Total)
                    .send()
            })
            .await?;
        self.charge_read(reply.consumed_capacity());
        Ok(reply.items().iter().filter_map(read_entry).collect())
    }

    /// Reads entries from a number on, page by page, until `take` breaks off or there are no more.
    pub async fn walk<T>(
        &self,
        mut from: u64,
        page: i32,
        mut take: impl FnMut(ReadEntry) -> ControlFlow<T>,
    ) -> Result<Option<T>, StoreError> {
        loop {
            let entries = self.read_entries(from, true, page).await?;
            let Some(last) = entries.last() else { return Ok(None) };
            from = last.number + 1;
            for read in entries {
                if let ControlFlow::Break(done) = take(read) {
                    return Ok(Some(done));
                }
            }
        }
    }

    /// Reads from the last known entry to the log's end. Returns how many entries there were.
    pub async fn read_on(&self) -> Result<usize, StoreError> {
        let mut total = 0;
        let head = self.state().head;
        let take = |read| {
            total += 1;
            if self.take(read) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        if self.walk(head + 1, PAGE, take).await?.is_some() {
            self.suspect.notify_one();
            return Err(StoreError::Unavailable("the log has a hole; reading it again".to_owned()));
        }
        Ok(total)
    }

    /// Takes in an entry that was read. Returns `false` if it does not follow the last one.
    pub fn take(&self, read: ReadEntry) -> bool {
        let mut state = self.state();
        if read.number <= state.head {
            return true;
        }
        if read.number != state.head + 1 {
            return false;
        }
        state.outbox.last_entry_ms = self.clock.wall_ms();
        let batches = match &read.entry {
            Ok(entry) => state.apply(read.number, entry),
            Err(why) => {
                tracing::error!(entry = read.number, %why, "skipping an unreadable log entry");
                state.skip(read.number)
            }
        };
        // Under the lock, so that the feed has the log's order.
        self.publish(batches);
        true
    }

    /// Appends an entry after the last known one.
    pub async fn append(&self, number: u64, entry: LogEntry) -> Appended {
        let now_ms = self.clock.wall_ms();
        let keep = u64::try_from(self.options.history.as_millis()).unwrap_or(u64::MAX);
        let expires = now_ms.saturating_add(keep).saturating_add(MARGIN_MS) / 1000;
        let request = self
            .client
            .db
            .put_item()
            .table_name(&self.client.table)
            .item("pk", s(LOG))
            .item("sk", s(layout::log_sk(number)))
            .item("entry", layout::b(layout::encode(&entry)))
            .item("by", s(entry.by.to_string()))
            .item("at_ms", n(now_ms))
            .item("ttl", n(expires))
            .condition_expression("attribute_not_exists(pk)")
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        self.metrics.other_writes.increment(1);
        match self.send("PutItem log", request.send()).await {
            Ok(reply) => {
                self.charge_write(reply.consumed_capacity());
                self.take(ReadEntry { number, at_ms: now_ms, entry: Ok(entry) });
                Appended::Yes
            }
            Err(Failure { kind: FailureKind::Condition, service, .. }) => {
                let winner = service.as_ref().and_then(|error| match error {
                    PutItemError::ConditionalCheckFailedException(failed) => failed.item(),
                    _ => None,
                });
                Appended::Lost(winner.and_then(read_entry))
            }
            Err(failure) => {
                tracing::debug!(why = failure.why, "an append to the log has an unknown outcome");
                Appended::Failed
            }
        }
    }

    /// Deletes entries that are older than the history to be kept, and records the oldest remaining one. The last
    /// entry always stays.
    pub async fn throw_away(&self, delete: bool) -> Result<(), StoreError> {
        let keep = u64::try_from(self.options.history.as_millis()).unwrap_or(u64::MAX);
        let before_ms = self.clock.wall_ms().saturating_sub(keep);
        let head = self.state().head;
        let limit = if delete { MAX_DELETES } else { 1 };
        let oldest = self.read_entries(0, true, limit).await?;
        let old = |read: &&ReadEntry| read.number < head && read.at_ms < before_ms;
        let doomed: Vec<u64> = match delete {
            true => oldest.iter().take_while(old).map(|read| read.number).collect(),
            false => Vec::new(),
        };
        let first = match doomed.last() {
            Some(last) => *last + 1,
            None => oldest.first().map_or(head, |read| read.number),
        };
        self.note_first(first);
        for chunk in doomed.chunks(DELETES) {
            self.delete(chunk).await?;
        }
        Ok(())
    }

    /// Records that the log begins with this entry.
    pub fn note_first(&self, first: u64) {
        let mut state = self.state();
        state.earliest = state.earliest.max(end_of(first.saturating_sub(1)));
    }

    async fn delete(&self, numbers: &[u64]) -> Result<(), StoreError> {
        let mut requests = Vec::new();
        for number in numbers {
            let key = [("pk", s(LOG)), ("sk", s(layout::log_sk(*number)))];
            let key = key.map(|(name, value)| (name.to_owned(), value));
            let key = std::collections::HashMap::<String, AttributeValue>::from(key);
            let delete = DeleteRequest::builder().set_key(Some(key)).build();
            let delete = delete.map_err(|e| StoreError::Unavailable(e.to_string()))?;
            requests.push(WriteRequest::builder().delete_request(delete).build());
        }
        self.metrics.other_writes.increment(requests.len() as u64);
        let request = self.client.db.batch_write_item();
        let request = request.request_items(&self.client.table, requests);
        let request = request.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let reply = self.send("BatchWriteItem log", request.send()).await;
        let reply = reply.map_err(|failure| StoreError::Unavailable(failure.why))?;
        // The next round finds what was not deleted.
        reply.consumed_capacity().iter().for_each(|one| self.charge_write(Some(one)));
        Ok(())
    }
}

/// The batches for listeners if it is not known what they missed.
pub(super) fn lost_until(head: u64) -> Vec<FeedBatch> {
    vec![FeedBatch::Gap { resume: end_of(head) }]
}
