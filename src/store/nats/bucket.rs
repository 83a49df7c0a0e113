//! The bucket's stream: how a new one is created, and what an existing one must be like.

use std::time::Duration;

use async_nats::jetstream::{
    ErrorCode,
    context::{CreateStreamError, CreateStreamErrorKind},
    stream::{Compression, Config, DiscardPolicy, Info, RetentionPolicy, StorageType},
};

use super::{
    error::NatsOpenError,
    link::{Asked, Link},
    options::Options,
};

/// The span within which the server recognizes repeated message ids. The store uses none; this is a bucket's
/// usual value.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// How many times a stream that does not answer is asked.
const ATTEMPTS: u32 = 3;
/// The pause before the stream is asked again. Some refusals come at once.
const AGAIN: Duration = Duration::from_millis(250);
/// How many times a cluster with too few servers is asked to create the stream. More servers may just be
/// starting.
const PEERS: u32 = 40;

pub(super) const SINGLE_COPY: &str = "it keeps a single copy, on a cluster of servers";

/// The stream of a new bucket, as the usual tools would create it.
fn config(options: &Options, link: &Link) -> Config {
    Config {
        name: link.subjects.stream.clone(),
        description: Some("leases of tenure".to_owned()),
        subjects: vec![link.subjects.all.clone()],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: options.replicas,
        max_messages_per_subject: i64::from(options.history),
        max_messages: -1,
        max_bytes: -1,
        max_message_size: -1,
        max_consumers: -1,
        duplicate_window: DUPLICATE_WINDOW,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        compression: Some(Compression::None),
        ..Config::default()
    }
}

/// The stream's description. It is requested again if there is no answer: a stream that another node is just
/// creating has no leader yet, and requests to it are lost. If it was `made` a moment ago, some servers of the
/// cluster may not know it yet.
pub(super) async fn ask(link: &Link, made: bool) -> Asked {
    for _ in 1..ATTEMPTS {
        match link.info().await {
            Asked::Unanswered(why) => {
                tracing::debug!(why, "the stream did not answer; asking again");
            }
            Asked::Gone if made => {}
            answer => return answer,
        }
        tokio::time::sleep(AGAIN).await;
    }
    link.info().await
}

async fn make(options: &Options, link: &Link) -> Result<(), CreateStreamError> {
    let lacks_peers = |why: &CreateStreamError| match why.kind() {
        CreateStreamErrorKind::JetStream(error) => {
            error.error_code() == ErrorCode::CLUSTER_NO_PEERS
        }
        _ => false,
    };
    for attempt in 1..PEERS {
        match link.context.create_stream(config(options, link)).await {
            Err(why) if lacks_peers(&why) => {
                if attempt == 1 {
                    tracing::info!(%why, "the cluster has too few servers; trying again for 10 s");
                }
                tokio::time::sleep(AGAIN).await;
            }
            made => return made.map(drop),
        }
    }
    link.context.create_stream(config(options, link)).await.map(drop)
}

/// The stream. It is created if it is missing.
pub(super) async fn ensure(options: &Options, link: &Link) -> Result<Info, NatsOpenError> {
    match ask(link, false).await {
        Asked::Here(info) => return Ok(*info),
        Asked::Gone if options.create_bucket => {}
        Asked::Gone => return Err(NatsOpenError::NoBucket { bucket: options.bucket.clone() }),
        Asked::Unanswered(why) => return Err(NatsOpenError::JetStream { why }),
    }
    let clustered = link.client.server_info().cluster.is_some();
    if options.replicas < 2 && clustered && !options.accept_data_loss {
        let (bucket, faults) = (options.bucket.clone(), vec![SINGLE_COPY.to_owned()]);
        return Err(NatsOpenError::Unfit { bucket, faults });
    }
    let made = make(options, link).await;
    // Another node may have created it meanwhile, perhaps with other settings. What exists counts.
    match (ask(link, true).await, made) {
        (Asked::Here(info), _) => Ok(*info),
        (_, Err(why)) => {
            Err(NatsOpenError::Create { bucket: options.bucket.clone(), why: why.to_string() })
        }
        (Asked::Unanswered(why), Ok(_)) => Err(NatsOpenError::interrupted(why)),
        (Asked::Gone, Ok(_)) => Err(NatsOpenError::interrupted("the new bucket disappeared again")),
    }
}

/// Refuses a stream that could lose acknowledged writes.
pub(super) fn judge(options: &Options, link: &Link, info: &Info) -> Result<(), NatsOpenError> {
    let bucket = options.bucket.clone();
    let faults = strange(link, &info.config);
    if !faults.is_empty() {
        return Err(NatsOpenError::Foreign { bucket, faults });
    }
    let faults = losing(options, info);
    if faults.is_empty() {
        return Ok(());
    }
    if options.accept_data_loss {
        tracing::warn!(bucket, ?faults, "the bucket may lose writes; accept_data_loss is set");
        return Ok(());
    }
    Err(NatsOpenError::Unfit { bucket, faults })
}

/// The faults that make a stream unusable.
fn strange(link: &Link, config: &Config) -> Vec<String> {
    let mut faults = Vec::new();
    if config.subjects != [link.subjects.all.clone()] {
        faults.push(format!("its subjects are {:?}, not {:?}", config.subjects, link.subjects.all));
    }
    if config.mirror.is_some() || config.sources.as_ref().is_some_and(|s| !s.is_empty()) {
        faults.push("it is fed by another stream".to_owned());
    }
    if config.sealed || config.no_ack {
        faults.push("it is sealed, or acknowledges nothing".to_owned());
    }
    if config.subject_transform.is_some() {
        faults.push("it transforms subjects".to_owned());
    }
    if !config.allow_rollup || config.deny_purge {
        faults.push("nodes' records cannot be removed (allow_rollup, deny_purge)".to_owned());
    }
    faults
}

/// The faults that make a stream lose writes.
pub(super) fn losing(options: &Options, info: &Info) -> Vec<String> {
    let config = &info.config;
    let mut faults = Vec::new();
    let mut fault = |is: bool, what: &str| {
        if is {
            faults.push(what.to_owned());
        }
    };
    fault(config.storage != StorageType::File, "its storage is memory, not file");
    fault(config.retention != RetentionPolicy::Limits, "its retention is not limits");
    fault(config.discard != DiscardPolicy::New, "it discards old messages, not new ones");
    fault(config.discard_new_per_subject, "it refuses writes of a key once its history is full");
    fault(!config.max_age.is_zero(), "it removes messages by age");
    fault(config.max_bytes > 0, "it is limited in bytes");
    fault(config.max_messages > 0, "it is limited in messages");
    fault(config.max_messages_per_subject < 1, "it keeps every write of a key forever");
    let replicas = config.num_replicas;
    if replicas < options.replicas {
        let want = options.replicas;
        fault(true, &format!("it keeps {replicas} copies, and the settings require {want}"));
    } else {
        let clustered = info.cluster.as_ref().is_some_and(|c| c.name.is_some());
        fault(replicas < 2 && clustered, SINGLE_COPY);
    }
    faults
}
