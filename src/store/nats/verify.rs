//! Checks a bucket before a coordinator is started on it.
//!
//! Guarantees: no message of the bucket is written or removed. Rights are tried with requests that the server must
//! refuse, and with a purge of a subject that has no message.
//!
//! Does not guarantee: that no right is missing. A request that the user may not send gets no answer, like one that was
//! lost.

use std::time::Duration;

use async_nats::jetstream::{consumer::DeliverPolicy, response::Response, stream::Info};
use futures_util::{StreamExt, future::join_all};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::{
        Finding, Witness,
        verify::{self, Records},
    },
    bucket, connect,
    error::NatsOpenError,
    follow, guard,
    link::{Asked, Link, Sent, created},
    message,
    meta::{self, MetaState},
    nodes::{self, sweep},
    options::Options,
    subject::Name,
};
use crate::lease::{Epoch, Key, Nonce, Revision};

/// A key whose write is tried and refused. Whether it exists does not matter.
const TRIED: &str = "tenure-store-verify";
/// How many messages may be in flight.
const BATCH: usize = 1024;
/// Reading fails after this time without a message.
const STALL: Duration = Duration::from_secs(5);
/// What to do about an answer that did not come.
const RIGHTS: &str = "docs/security.md lists what the user must be allowed";

/// Checks the bucket of these options. `nobody` is a name that no node has. Runs on the caller's runtime.
pub async fn findings(options: &Options, nobody: Nonce, witness: Option<Witness>) -> Vec<Finding> {
    let connected = connect::validate(options).map(|()| connect::connect(options));
    let link = match connected {
        Ok(connecting) => connecting.await,
        Err(why) => Err(why),
    };
    let link = match link {
        Ok(link) => link,
        Err(why) => return vec![Finding::failed("connection", why)],
    };
    let version = link.client.server_info().version;
    let mut found = vec![Finding::ok("connection", format!("NATS server {version}"))];
    let info = match bucket::ask(&link, false).await {
        Asked::Here(info) => info,
        Asked::Gone => {
            found.push(absent(options, &link, witness).await);
            return found;
        }
        Asked::Unanswered(why) => {
            let why = NatsOpenError::JetStream { why };
            found.push(Finding::failed("bucket", format!("{why}; {RIGHTS}")));
            return found;
        }
    };
    found.push(settings(options, &link, &info));
    found.push(rights(&link, nobody).await);
    let (epoch, own) = own_record(options, &link, &info, witness).await;
    found.push(own);
    if let Some(epoch) = epoch {
        found.push(match records(&link, &info, epoch).await {
            Ok(records) => records.finding(),
            Err(why) => Finding::failed("records", format!("they cannot be read: {why}; {RIGHTS}")),
        });
    }
    found.push(match nodes::scan(&link).await {
        Ok(nodes) => verify::nodes(&nodes),
        Err(why) => Finding::failed("nodes", format!("they cannot be read: {why}; {RIGHTS}")),
    });
    found
}

/// There is no bucket: whether the first coordinator may and can make it.
async fn absent(options: &Options, link: &Link, witness: Option<Witness>) -> Finding {
    let bucket = options.bucket.clone();
    if witness.is_some() {
        let why = format!("there is no bucket {bucket:?}, and this node saw it before");
        return Finding::failed("bucket", verify::frozen(&why));
    }
    if !options.create_bucket {
        return Finding::failed("bucket", NatsOpenError::NoBucket { bucket });
    }
    let clustered = link.client.server_info().cluster.is_some();
    if options.replicas < 2 && clustered && !options.accept_data_loss {
        let faults = vec![bucket::SINGLE_COPY.to_owned()];
        return Finding::failed("bucket", NatsOpenError::Unfit { bucket, faults });
    }
    if options.replicas > 1 && !clustered {
        let why = format!(
            "the bucket {bucket:?} cannot be made with {} copies, since the server has no cluster and keeps one; where \
             that is enough, set store.nats.replicas = 1",
            options.replicas
        );
        return Finding::failed("bucket", why);
    }
    if !may_create(link).await {
        let stream = &link.subjects.stream;
        let why = format!(
            "there is no bucket {bucket:?}, and no answer to $JS.API.STREAM.CREATE.{stream}: allow the user to publish \
             there, or make the bucket yourself"
        );
        return Finding::failed("bucket", why);
    }
    let why = format!("there is no bucket {bucket:?} yet; the first coordinator makes it");
    Finding::warning("bucket", why)
}

/// Whether the user may make the bucket. Asks for a stream whose two names differ, which no server makes.
async fn may_create(link: &Link) -> bool {
    let stream = &link.subjects.stream;
    let differs = json!({ "name": format!("{stream}-") });
    let asked = link.context.request(format!("STREAM.CREATE.{stream}"), &differs);
    let answer: Result<Result<Response<Value>, _>, _> = timeout(link.timeout, asked).await;
    matches!(answer, Ok(Ok(_)))
}

/// Whether the stream keeps what it acknowledges.
fn settings(options: &Options, link: &Link, info: &Info) -> Finding {
    if let Err(why) = bucket::judge(options, link, info) {
        return Finding::failed("bucket", why);
    }
    let risks = bucket::losing(options, info);
    if risks.is_empty() {
        let copies = info.config.num_replicas;
        let kept = format!(
            "{} keeps {copies} copies in files; whether its servers sync each write (sync_interval: always) cannot be \
             asked",
            link.subjects.stream
        );
        return Finding::ok("bucket", kept);
    }
    let risks = risks.join("; ");
    let why = format!("it may lose acknowledged writes, which accept_data_loss accepts: {risks}");
    Finding::warning("bucket", why)
}

/// Whether the user may write what a coordinator writes, and remove what it removes.
async fn rights(link: &Link, nobody: Nonce) -> Finding {
    let subjects = &link.subjects;
    let of_lease = Key::new(TRIED).map(|key| subjects.lease(&key));
    let of_node = subjects.node(nobody);
    let all = [Some(subjects.meta.clone()), of_lease.ok(), Some(of_node.clone())];
    let writes = all.into_iter().flatten().map(|subject| async move {
        match link.try_write(subject.clone()).await {
            Sent::WrongLast => None,
            Sent::Refused(why) | Sent::Unknown(why) => Some(format!("{subject}: {why}")),
            Sent::Stored(_) => Some(format!("{subject}: the server stored what it must refuse")),
        }
    });
    // Of a node that does not exist, everything is removed.
    let purges = timeout(link.timeout, sweep(&link.stream, &of_node, Revision(1)));
    let (writes, purged) = tokio::join!(join_all(writes), purges);
    let mut missing: Vec<String> = writes.into_iter().flatten().collect();
    if !purged.unwrap_or(false) {
        missing.push(format!("$JS.API.STREAM.PURGE.{}: refused or not answered", subjects.stream));
    }
    if missing.is_empty() {
        return Finding::ok("rights", "the user may write and remove records");
    }
    Finding::failed("rights", format!("{}; {RIGHTS}", missing.join("; ")))
}

/// Judges the store's own record. Gives its epoch, if the store can be opened.
async fn own_record(
    options: &Options,
    link: &Link,
    info: &Info,
    witness: Option<Witness>,
) -> (Option<Epoch>, Finding) {
    const CHECK: &str = "identity";
    let record = match meta::read(link).await {
        Ok(MetaState::Here(_, record)) => record,
        Ok(MetaState::Missing(_)) if info.state.messages == 0 && witness.is_none() => {
            let new = "the bucket is empty; the first coordinator gives it an identity";
            return (None, Finding::warning(CHECK, new));
        }
        Ok(MetaState::Missing(_)) => {
            let why = "is missing, though there was a store".to_owned();
            let subject = link.subjects.meta.clone();
            return (None, Finding::failed(CHECK, NatsOpenError::Meta { subject, why }));
        }
        Ok(MetaState::Damaged(_, why)) => {
            let subject = link.subjects.meta.clone();
            return (None, Finding::failed(CHECK, NatsOpenError::Meta { subject, why }));
        }
        Err(why) => return (None, Finding::failed(CHECK, format!("{why}; {RIGHTS}"))),
    };
    let bucket = options.bucket.clone();
    if record.restoring {
        return (None, Finding::failed(CHECK, NatsOpenError::Restoring { bucket }));
    }
    let other = (record.stream_created != created(info))
        .then(|| "the bucket was made again, copied or restored".to_owned());
    let last = Revision(info.state.last_sequence);
    let backwards = witness.and_then(|seen| guard::went_backwards(&seen, &record, last));
    let finding = match other.or(backwards) {
        Some(why) => Finding::failed(CHECK, verify::frozen(&why)),
        None => verify::identity(record.identity, record.epoch, record.level),
    };
    (Some(record.epoch), finding)
}

/// Judges every lease's record.
async fn records(link: &Link, info: &Info, epoch: Epoch) -> Result<Records, String> {
    let mut records = Records::new(epoch);
    let (leases, last) = (link.subjects.all_leases(), info.state.last_sequence);
    if info.state.messages == 0 {
        return Ok(records);
    }
    let consumer = follow::consumer(link, DeliverPolicy::LastPerSubject, leases.clone()).await?;
    let mut pending = consumer.cached_info().num_pending;
    let mut messages = follow::messages(link, &consumer, BATCH).await?;
    let mut reached = 0;
    while pending > 0 || !follow::complete(link, &leases, reached, last).await? {
        let next = timeout(STALL, messages.next()).await;
        let next = next.map_err(|_| "the consumer delivered nothing in time".to_owned())?;
        let brought;
        (brought, pending) = next.ok_or("the consumer ended")??;
        // What was written since then is of a coordinator that serves.
        if brought.sequence > last {
            break;
        }
        reached = brought.sequence;
        if let Name::Lease(Some(key)) = &brought.name
            && !brought.removal
        {
            let revision = Revision(brought.sequence);
            let found = message::found(key, revision, &brought.payload);
            records.take(key.as_str(), revision, found.record.as_deref());
        }
    }
    drop(messages);
    // The server would remove the consumer by itself later.
    let removal = link.stream.delete_consumer(&consumer.cached_info().name);
    let _ = timeout(link.timeout, removal).await;
    Ok(records)
}
