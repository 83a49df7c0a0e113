//! Loads the bucket, and follows what is written to it.
//!
//! Two consumers are used, one after the other. The first delivers the last message of every subject, and the
//! second everything after that. The second sees every subject of the bucket. So a sequence that it was not
//! given is one that the stream dropped, perhaps with a change (see [`Table::follow`]).
//!
//! [`Table::follow`]: super::table::Table::follow

use std::{convert::Infallible, sync::Arc, time::Duration};

use async_nats::jetstream::{
    self,
    consumer::{AckPolicy, Consumer, DeliverPolicy, pull},
    stream::Info,
};
use futures_util::{Stream, StreamExt};
use tokio::time::{sleep, timeout};

use super::{
    super::{Committed, FeedBatch, Position},
    core::{Core, lock},
    link::{Asked, Link},
    message,
    table::{Brought, Table},
    write::MARK,
};

/// How often the server reports that it has nothing to send. After two missing reports, a new consumer is made.
const IDLE_HEARTBEAT: Duration = Duration::from_millis(500);
/// How often a request for messages is repeated.
const PULL_EXPIRES: Duration = Duration::from_secs(10);
/// How many messages may be in flight to this node.
const PULL_BATCH: usize = 4096;
/// How many messages are processed at once.
const CHUNK: usize = 256;
/// The server removes a consumer that was not used for this time.
const INACTIVE: Duration = Duration::from_secs(30);
/// Loading fails after this time without a message.
const LOAD_STALL: Duration = Duration::from_secs(5);
/// The pause before the stream is followed again.
const FOLLOW_AGAIN: Duration = Duration::from_millis(100);
/// How often the time is recorded until which the stream was followed.
const TICK: Duration = Duration::from_secs(1);
/// A node that did not follow the stream for this time loads the stream again. Marks of removals may be gone by
/// then, and nothing else shows the removals.
const TOO_LONG: Duration = Duration::from_secs(MARK.as_secs() / 2);

/// A short-lived consumer of some subjects.
pub(super) async fn consumer(
    link: &Link,
    deliver_policy: DeliverPolicy,
    filter_subject: String,
) -> Result<Consumer<pull::Config>, String> {
    let config = pull::Config {
        deliver_policy,
        filter_subject,
        ack_policy: AckPolicy::None,
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: INACTIVE,
        description: Some("tenure".to_owned()),
        ..pull::Config::default()
    };
    match timeout(link.timeout, link.stream.create_consumer(config)).await {
        Ok(consumer) => consumer.map_err(|why| why.to_string()),
        Err(_) => Err("the server did not make a consumer in time".to_owned()),
    }
}

/// The messages of a consumer, in order. Ends with an error at the first irregularity.
pub(super) async fn messages<'a>(
    link: &'a Link,
    consumer: &Consumer<pull::Config>,
    batch: usize,
) -> Result<impl Stream<Item = Result<(Brought, u64), String>> + Unpin + use<'a>, String> {
    let asked = consumer.stream().max_messages_per_batch(batch);
    let asked = asked.heartbeat(IDLE_HEARTBEAT).expires(PULL_EXPIRES).messages();
    let messages = timeout(link.timeout, asked).await.map_err(|why| why.to_string())?;
    let messages = messages.map_err(|why| why.to_string())?;
    let mut delivered = 0;
    Ok(messages.map(move |message| {
        let message = message.map_err(|why| why.to_string())?;
        let brought = bring(link, message, delivered + 1)?;
        delivered += 1;
        Ok(brought)
    }))
}

/// One message, and how many follow it, if it is the consumer's next one.
fn bring(link: &Link, message: jetstream::Message, next: u64) -> Result<(Brought, u64), String> {
    let (sequence, pending) = {
        let info = message.info().map_err(|why| why.to_string())?;
        if info.consumer_sequence != next {
            return Err(format!("message {next} of the consumer was lost"));
        }
        (info.stream_sequence, info.pending)
    };
    let name = link.subjects.name(&message.subject);
    let removal = message::is_removal(message.headers.as_ref());
    let payload = message.message.payload;
    Ok((Brought { sequence, name, removal, payload }, pending))
}

/// Removes a consumer that is no longer needed. The server would do so by itself later.
pub(super) fn discard(link: &Link, consumer: &Consumer<pull::Config>) {
    let (stream, name) = (link.stream.clone(), consumer.cached_info().name.clone());
    let limit = link.timeout;
    tokio::spawn(async move { timeout(limit, stream.delete_consumer(&name)).await.is_ok() });
}

/// Whether a consumer that went past `reached` has delivered everything up to `last`. The consumer may be on a
/// server that is behind, so having nothing pending proves nothing. The stream's leader is asked instead.
pub(super) async fn complete(
    link: &Link,
    subjects: &str,
    reached: u64,
    last: u64,
) -> Result<bool, String> {
    if reached >= last {
        return Ok(true);
    }
    let next = link.next(subjects, reached + 1).await.map_err(|why| why.to_string())?;
    Ok(next.is_none_or(|next| next > last))
}

/// Loads the content of a stream.
pub(super) async fn load(link: &Link, info: &Info) -> Result<Table, String> {
    let mut table = Table::new(info.state.first_sequence);
    let last = info.state.last_sequence;
    if info.state.messages > 0 {
        let all = link.subjects.all.clone();
        let consumer = consumer(link, DeliverPolicy::LastPerSubject, all).await?;
        let mut pending = consumer.cached_info().num_pending;
        let mut messages = messages(link, &consumer, PULL_BATCH).await?;
        let mut reached = 0;
        while pending > 0 || !complete(link, &link.subjects.all, reached, last).await? {
            let next = timeout(LOAD_STALL, messages.next()).await;
            let next = next.map_err(|_| "the consumer delivered nothing in time".to_owned())?;
            let brought;
            (brought, pending) = next.ok_or("the consumer ended")??;
            // What was written since the load began is followed later.
            if brought.sequence > last {
                break;
            }
            reached = brought.sequence;
            table.load(&brought);
        }
        discard(link, &consumer);
    }
    table.loaded(last);
    Ok(table)
}

/// Loads the store again and follows it from there. Listeners are told about the changes that were lost
/// meanwhile. If the store has `thawed`, its present content replaces what was known.
pub(super) async fn reload(core: &Arc<Core>, info: &Info, thawed: bool) -> Result<(), String> {
    let _one = core.loading.lock().await;
    end(core);
    let began = core.clock.now();
    let table = load(&core.link, info).await;
    if let Ok(table) = table.as_ref() {
        if thawed {
            core.forget_highest(table.consumed());
        }
        *lock(&core.followed) = began;
    }
    let result = table.map(|mut table| {
        let resume = table.latest();
        let consumed = table.consumed();
        let mut now = core.table_mut();
        table.take_over(&mut now);
        *now = table;
        // There are no listeners yet when the store is opened.
        let _ = core.feed.send(FeedBatch::Gap { resume });
        core.consumed.send_replace(consumed);
    });
    begin(core);
    result
}

fn begin(core: &Arc<Core>) {
    let follower = tokio::spawn(follow(Arc::clone(core))).abort_handle();
    *lock(&core.follower) = Some(follower);
}

pub(super) fn end(core: &Core) {
    if let Some(follower) = lock(&core.follower).take() {
        follower.abort();
    }
}

/// Follows the stream with a new consumer, unless that is being done already.
pub(super) fn again(core: &Arc<Core>) {
    if let Ok(_one) = core.loading.try_lock() {
        end(core);
        begin(core);
    }
}

/// Follows the stream until the task is aborted.
async fn follow(core: Arc<Core>) {
    loop {
        let Err(why) = session(&core).await;
        tracing::debug!(why, "following the stream stopped; starting again");
        sleep(FOLLOW_AGAIN).await;
    }
}

/// Records that the stream is being followed now, unless it was not followed for too long.
fn note_followed(core: &Core) -> Result<(), String> {
    let now = core.clock.now();
    let mut followed = lock(&core.followed);
    if now.since(*followed) > TOO_LONG {
        return Err("this node was paused for too long".to_owned());
    }
    *followed = now;
    Ok(())
}

async fn session(core: &Arc<Core>) -> Result<Infallible, String> {
    let link = &core.link;
    let mut connections = link.connections.clone();
    connections.borrow_and_update();
    let Asked::Here(info) = link.info().await else {
        return Err("the stream does not answer".to_owned());
    };
    let silence = core.clock.now().since(*lock(&core.followed));
    if silence > TOO_LONG {
        tracing::warn!(
            ?silence,
            "this node did not follow the stream for too long; loading all of it again"
        );
        let core = core.clone();
        // The reload ends this task.
        tokio::spawn(async move {
            sleep(FOLLOW_AGAIN).await;
            reload(&core, &info, false).await
        });
        return std::future::pending().await;
    }
    let from = core.table().consumed() + 1;
    let policy = DeliverPolicy::ByStartSequence { start_sequence: from };
    let consumer = consumer(link, policy, link.subjects.all.clone()).await?;
    let last = info.state.last_sequence;
    if complete(link, &link.subjects.all, from - 1, last).await? {
        // The stream no longer has what it had up to its last sequence.
        advance(core, |table| table.skip_to(last));
    }
    core.condition().stale = None;
    let messages = messages(link, &consumer, PULL_BATCH).await?;
    let mut chunks = messages.ready_chunks(CHUNK);
    let why = loop {
        let chunk = tokio::select! {
            chunk = chunks.next() => chunk,
            () = sleep(TICK) => match note_followed(core) {
                Ok(()) => continue,
                Err(why) => break why,
            },
            // The server may have been restarted and may not know the consumer any more. The longer this takes,
            // the more of what was written is overwritten.
            _ = connections.changed() => break "the connection was made again".to_owned(),
        };
        let Some(chunk) = chunk else { break "the consumer ended".to_owned() };
        if let Err(why) = note_followed(core).and_then(|()| take(core, chunk)) {
            break why;
        }
    };
    discard(link, &consumer);
    Err(why)
}

/// Takes in some messages, and publishes their changes.
fn take(core: &Core, chunk: Vec<Result<(Brought, u64), String>>) -> Result<(), String> {
    let mut failed = Ok(());
    advance(core, |table| {
        let mut changes: Vec<Committed> = Vec::new();
        for message in chunk {
            let brought = match message {
                Ok((brought, _)) => brought,
                Err(why) => {
                    failed = Err(why);
                    break;
                }
            };
            let Some((told, resume)) = table.follow(&brought) else { continue };
            if told.lost {
                tell(core, &mut changes);
                gap(core, resume);
            }
            changes.extend(told.changes);
        }
        tell(core, &mut changes);
    });
    failed
}

/// Publishes the changes. It is no error if there are no listeners.
fn tell(core: &Core, changes: &mut Vec<Committed>) {
    if !changes.is_empty() {
        let _ = core.feed.send(FeedBatch::Changes(std::mem::take(changes).into()));
    }
}

fn gap(core: &Core, resume: Position) {
    tracing::warn!(?resume, "the stream dropped changes that this node did not see");
    core.metrics.feed_gaps.increment(1);
    let _ = core.feed.send(FeedBatch::Gap { resume });
}

fn advance(core: &Core, step: impl FnOnce(&mut Table)) {
    let mut table = core.table_mut();
    step(&mut table);
    let consumed = table.consumed();
    drop(table);
    core.saw(consumed);
    core.consumed.send_if_modified(|now| std::mem::replace(now, consumed) != consumed);
}
