//! The table's stream of changes, if one is enabled. It says when to query the log.
//!
//! The stream is used only as a hint that the log may have new entries. So trouble with it (a trimmed shard,
//! an expired iterator, too many readers) can only change when the log is queried: sooner, or as often as
//! without a stream.
//!
//! AWS allows two readers per shard. With more nodes, the stream throttles, and the nodes that it refuses
//! query the log periodically.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use aws_sdk_dynamodbstreams::types::{OperationType, Record, Shard, ShardIteratorType};
use tokio::time::sleep;

use super::{command::Command, layout::LOG, shared::DynamoShared};

/// The shortest pause between two reads of a shard. AWS allows five reads per second.
const PAUSE: Duration = Duration::from_millis(250);
/// How long the stream is not read after a failure.
const AFTER_TROUBLE: Duration = Duration::from_secs(5);
/// How long to wait before looking again for a stream, if there is none.
const NO_STREAM: Duration = Duration::from_secs(30);
/// The highest number of shards that are read. With more shards, querying the log is better.
const MAX_SHARDS: usize = 16;

/// Whether the stream reports changes.
pub(super) fn healthy(shared: &DynamoShared) -> bool {
    shared.stream_ok.load(std::sync::atomic::Ordering::Relaxed)
}

fn set_healthy(shared: &DynamoShared, ok: bool) {
    shared.stream_ok.store(ok, std::sync::atomic::Ordering::Relaxed);
}

/// Runs until the store is dropped.
pub(super) async fn run(shared: Arc<DynamoShared>) {
    loop {
        let Some(stream) = shared.identity().stream else {
            sleep(NO_STREAM).await;
            continue;
        };
        if let Err(why) = follow(&shared, &stream).await {
            tracing::debug!(why, "cannot read the table's stream; the log is polled instead");
        }
        set_healthy(&shared, false);
        let _ = shared.commands.try_send(Command::Look);
        sleep(AFTER_TROUBLE).await;
    }
}

/// Reads the stream until a failure.
async fn follow(shared: &DynamoShared, stream: &str) -> Result<(), String> {
    let mut open: HashMap<String, String> = HashMap::new();
    let mut seen: HashSet<String> = HashSet::new();
    let shards = describe(shared, stream).await?;
    for shard in shards.iter().filter(|shard| is_last(shard, &shards)) {
        let id = shard.shard_id().unwrap_or_default();
        let iterator = iterator(shared, stream, id, ShardIteratorType::Latest).await?;
        open.insert(id.to_owned(), iterator);
    }
    seen.extend(shards.iter().filter_map(|shard| shard.shard_id().map(str::to_owned)));
    if open.is_empty() || open.len() > MAX_SHARDS {
        return Err(format!("the stream has {} open shards", open.len()));
    }
    // The iterators do not bring what was logged before they were made.
    let _ = shared.commands.try_send(Command::Look);
    set_healthy(shared, true);
    loop {
        let mut ended = false;
        for (id, at) in std::mem::take(&mut open) {
            let request = shared.client.streams.get_records().shard_iterator(at).send();
            let reply = shared.client.send("GetRecords", request).await.map_err(|f| f.why)?;
            if reply.records().iter().any(is_log_entry) {
                // If the channel is full, the task queries the log soon anyway.
                let _ = shared.commands.try_send(Command::Look);
            }
            match reply.next_shard_iterator {
                Some(next) => drop(open.insert(id, next)),
                None => ended = true,
            }
        }
        if ended {
            for shard in describe(shared, stream).await? {
                let id = shard.shard_id().unwrap_or_default().to_owned();
                if seen.insert(id.clone()) {
                    // A successor is read from its beginning.
                    let from = ShardIteratorType::TrimHorizon;
                    let iterator = iterator(shared, stream, &id, from).await?;
                    open.insert(id, iterator);
                }
            }
            if open.is_empty() {
                return Err("its last shard ended".to_owned());
            }
        }
        sleep(PAUSE.max(shared.options.poll_interval)).await;
    }
}

/// Whether no other shard continues this one.
fn is_last(shard: &Shard, all: &[Shard]) -> bool {
    all.iter().all(|other| other.parent_shard_id() != shard.shard_id())
}

/// Whether a record reports a new entry of the log.
fn is_log_entry(record: &Record) -> bool {
    let keys = record.dynamodb().and_then(|record| record.keys());
    let pk = keys.and_then(|keys| keys.get("pk")).and_then(|pk| pk.as_s().ok());
    record.event_name() == Some(&OperationType::Insert) && pk.is_some_and(|pk| pk == LOG)
}

async fn describe(shared: &DynamoShared, stream: &str) -> Result<Vec<Shard>, String> {
    let (mut shards, mut start) = (Vec::new(), None);
    loop {
        let request = shared.client.streams.describe_stream().stream_arn(stream);
        let request = request.set_exclusive_start_shard_id(start).send();
        let reply = shared.client.send("DescribeStream", request).await.map_err(|f| f.why)?;
        let found = reply.stream_description.ok_or("an empty description")?;
        start = found.last_evaluated_shard_id;
        shards.extend(found.shards.unwrap_or_default());
        if start.is_none() {
            return Ok(shards);
        }
    }
}

async fn iterator(
    shared: &DynamoShared,
    stream: &str,
    shard: &str,
    from: ShardIteratorType,
) -> Result<String, String> {
    let request = shared.client.streams.get_shard_iterator();
    let request = request.stream_arn(stream).shard_id(shard).shard_iterator_type(from).send();
    let reply = shared.client.send("GetShardIterator", request).await.map_err(|f| f.why)?;
    reply.shard_iterator.ok_or_else(|| "no iterator".to_owned())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::types::{AttributeValue, StreamRecord};

    use super::*;

    fn record(kind: OperationType, pk: &str) -> Record {
        let keys = StreamRecord::builder().keys("pk", AttributeValue::S(pk.to_owned())).build();
        Record::builder().event_name(kind).dynamodb(keys).build()
    }

    #[test]
    fn only_a_new_log_entry_is_news() {
        assert!(is_log_entry(&record(OperationType::Insert, "log")));
        // Deleted by age.
        assert!(!is_log_entry(&record(OperationType::Remove, "log")));
        assert!(!is_log_entry(&record(OperationType::Insert, "l#log")));
        assert!(!is_log_entry(&Record::builder().build()));
    }

    #[test]
    fn of_shards_that_split_the_last_are_read() {
        let shard = |id: &str, parent: Option<&str>| {
            let parent = parent.map(str::to_owned);
            Shard::builder().shard_id(id).set_parent_shard_id(parent).build()
        };
        let all =
            [shard("a", None), shard("b", Some("a")), shard("c", Some("a")), shard("d", None)];
        let last = all.iter().filter(|one| is_last(one, &all)).filter_map(|one| one.shard_id());
        assert_eq!(last.collect::<Vec<_>>(), ["b", "c", "d"]);
    }
}
