//! Opens the store: its thread, its bucket and its own record, and whether it is the store that this node
//! knew.

use std::{sync::Arc, thread, time::Duration};

use async_nats::jetstream::stream::Info;
use tokio::{sync::oneshot, time::timeout};

use super::{
    super::{Fresh, Witness, own_level},
    bucket, connect,
    core::{Core, MAX_ON_THEIR_WAY},
    error::NatsOpenError,
    follow, guard,
    link::{Asked, Link, Sent, created},
    meta::{self, MetaRecord, MetaState},
    options::Options,
};
use crate::{clock::Clock, lease::Revision, telemetry::Metrics};

/// How many times reading or creating the store's own record is tried. Of nodes that start at once, one creates
/// it and the others read it. A stream that was just created may not have elected its leader.
const ATTEMPTS: u32 = 20;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a failed load is repeated. Requests to a consumer that was just made get no answer until the servers
/// have told each other about it, and a stream may be electing its leader.
const LOAD: Duration = Duration::from_secs(10);
/// How many times a stream that seems to have gone backwards is checked before opening fails for lack of a
/// leader.
const LEADERLESS: u32 = 40;
/// How long draining the client may take.
const DRAIN: Duration = Duration::from_secs(2);

/// Asks the store's thread to end. It answers when it has ended.
pub(super) type Stop = oneshot::Sender<oneshot::Sender<()>>;

/// The parameters for opening a store.
pub(super) struct Opening {
    pub options: Options,
    pub fresh: Fresh,
    pub witness: Option<Witness>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// Starts the store's thread. It runs until it is stopped, or until the sender is dropped.
pub(super) async fn open(opening: Opening) -> Result<(Arc<Core>, Stop), NatsOpenError> {
    connect::validate(&opening.options)?;
    let (ready, opened) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(live(opening, ready, stopped)),
            Err(why) => drop(ready.send(Err(NatsOpenError::interrupted(why)))),
        }
    };
    let thread = thread::Builder::new().name("nats-store".to_owned()).spawn(run);
    thread.map_err(NatsOpenError::interrupted)?;
    let core =
        opened.await.unwrap_or_else(|_| Err(NatsOpenError::interrupted("its thread ended")))?;
    Ok((core, stop))
}

/// The main function of the store's thread.
async fn live(
    opening: Opening,
    ready: oneshot::Sender<Result<Arc<Core>, NatsOpenError>>,
    stopped: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let core = match start(opening).await {
        Ok(core) => core,
        Err(why) => return drop(ready.send(Err(why))),
    };
    let guard = tokio::spawn(guard::watch(Arc::clone(&core)));
    if ready.send(Ok(Arc::clone(&core))).is_err() {
        return;
    }
    let done = stopped.await;
    core.condition().closed = true;
    guard.abort();
    follow::end(&core);
    if let Ok(done) = done {
        // Requests in flight are answered, or time out by themselves.
        let settled = core.permits.acquire_many(MAX_ON_THEIR_WAY);
        let _ = timeout(core.link.timeout * 3, settled).await;
        let _ = timeout(DRAIN, core.link.client.drain()).await;
        let _ = done.send(());
    }
}

async fn start(opening: Opening) -> Result<Arc<Core>, NatsOpenError> {
    let Opening { options, fresh, witness, clock, metrics } = opening;
    let link = connect::connect(&options).await?;
    let info = bucket::ensure(&options, &link).await?;
    bucket::judge(&options, &link, &info)?;
    tracing::warn!(
        bucket = options.bucket,
        replicas = info.config.num_replicas,
        "tenure cannot ask the servers whether they sync each write (jetstream {{ sync_interval: \
         always }}); without it a power failure of all copies at once loses acknowledged writes"
    );
    let origin = own_record(&link, &fresh, created(&info), &metrics).await?;
    own_level().opens(origin.level)?;
    if origin.restoring && !options.restore {
        return Err(NatsOpenError::Restoring { bucket: options.bucket });
    }
    let core = Arc::new(Core::new(options, link, origin.clone(), clock, metrics));
    core.metrics.frozen(false);
    load(&core, &info).await?;
    let remember = witness.unwrap_or_else(|| core.witness());
    let look = || guard::went_backwards(&remember, &origin, Revision(core.table().consumed()));
    let (mut backwards, mut confirmed) = (look(), 1);
    for _ in 0..LEADERLESS {
        if backwards.is_none() || confirmed >= guard::CONFIRM {
            break;
        }
        // A server that was just elected may know less than the stream has. The feed delivers the rest.
        tokio::time::sleep(guard::EVERY).await;
        backwards = look();
        if let Asked::Here(info) = core.link.info().await
            && guard::leads(info.cluster.as_ref())
            && core.link.leader_takes_writes().await
        {
            confirmed += 1;
        }
    }
    if backwards.is_some() && confirmed < guard::CONFIRM {
        let why = "the stream's leader has lost contact with its followers, or takes no writes"
            .to_owned();
        return Err(NatsOpenError::JetStream { why });
    }
    let other = (origin.stream_created != created(&info)).then(|| {
        "the bucket's own record is of another bucket: it was made again, copied or restored"
            .to_owned()
    });
    if let Some(why) = backwards.or(other) {
        core.freeze_as(why, remember);
    }
    Ok(core)
}

/// Loads the content of the stream, and follows it from there.
async fn load(core: &Arc<Core>, info: &Info) -> Result<(), NatsOpenError> {
    let end = core.clock.now() + LOAD;
    loop {
        match follow::reload(core, info, true).await {
            Ok(()) => return Ok(()),
            Err(why) if core.clock.now() >= end => return Err(NatsOpenError::interrupted(why)),
            Err(why) => tracing::debug!(why, "cannot load the stream; retrying"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The store's own record. It is created if there is none.
async fn own_record(
    link: &Link,
    fresh: &Fresh,
    created: i128,
    metrics: &Metrics,
) -> Result<MetaRecord, NatsOpenError> {
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        let expected = match meta::read(link).await {
            Ok(MetaState::Here(_, record)) => return Ok(record),
            Ok(MetaState::Missing(expected)) => expected,
            Ok(MetaState::Damaged(_, why)) => {
                return Err(NatsOpenError::Meta { subject: link.subjects.meta.clone(), why });
            }
            Err(unread) => {
                why = unread.to_string();
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let record = MetaRecord::fresh(fresh, created);
        metrics.other_writes.increment(1);
        match meta::write(link, expected, &record).await {
            Sent::Stored(_) => return Ok(record),
            Sent::WrongLast => {}
            // A stream that is being created has no leader for a moment.
            Sent::Refused(refused) => why = refused.to_string(),
            Sent::Unknown(unknown) => why = unknown.to_string(),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(NatsOpenError::interrupted(format!("the store's own record cannot be made: {why}")))
}
