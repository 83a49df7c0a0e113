//! Opening: the store's thread, its bucket, its own record, and whether it is the one that was known.

use std::{sync::Arc, thread, time::Duration};

use async_nats::jetstream::stream::Info;
use tokio::{sync::oneshot, time::timeout};

use super::{
    super::{Fresh, Witness},
    bucket, connect,
    core::{Core, MAX_ON_THEIR_WAY},
    error::OpenError,
    follow, guard,
    link::{Asked, Link, Sent, created},
    meta::{self, MetaRecord, MetaState},
    options::Options,
};
use crate::{clock::Clock, lease::Revision, telemetry::Metrics};

/// Attempts to read the store's own record or to make it: of nodes that start at once one wins and the
/// others read, and a stream that was just made may not have elected its leader.
const ATTEMPTS: u32 = 20;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(250);
/// For so long a loading that failed is begun again: a request to a consumer that was just made finds
/// nobody until the servers have told each other of it, and a stream may be electing its leader.
const LOAD: Duration = Duration::from_secs(10);
/// So often a stream that seems to have gone backwards is looked at before one is told that it has no leader.
const LEADERLESS: u32 = 40;
/// How long a client that is drained may take.
const DRAIN: Duration = Duration::from_secs(2);

/// Asks the store's thread to end; the answer says that it did.
pub(super) type Stop = oneshot::Sender<oneshot::Sender<()>>;

/// What a store is opened with.
pub(super) struct Opening {
    pub options: Options,
    pub fresh: Fresh,
    pub witness: Option<Witness>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// Starts the store's thread; it lives until it is stopped, or until the sender is dropped.
pub(super) async fn open(opening: Opening) -> Result<(Arc<Core>, Stop), OpenError> {
    connect::validate(&opening.options)?;
    let (ready, opened) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(live(opening, ready, stopped)),
            Err(why) => drop(ready.send(Err(OpenError::interrupted(why)))),
        }
    };
    let thread = thread::Builder::new().name("nats-store".to_owned()).spawn(run);
    thread.map_err(OpenError::interrupted)?;
    let core = opened.await.unwrap_or_else(|_| Err(OpenError::interrupted("its thread ended")))?;
    Ok((core, stop))
}

/// The life of the store's thread.
async fn live(
    opening: Opening,
    ready: oneshot::Sender<Result<Arc<Core>, OpenError>>,
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
        // What is on its way is answered, or times out by itself.
        let settled = core.permits.acquire_many(MAX_ON_THEIR_WAY);
        let _ = timeout(core.link.timeout * 3, settled).await;
        let _ = timeout(DRAIN, core.link.client.drain()).await;
        let _ = done.send(());
    }
}

async fn start(opening: Opening) -> Result<Arc<Core>, OpenError> {
    let Opening { options, fresh, witness, clock, metrics } = opening;
    let link = connect::connect(&options).await?;
    let info = bucket::ensure(&options, &link).await?;
    bucket::judge(&options, &link, &info)?;
    tracing::warn!(
        bucket = options.bucket,
        replicas = info.config.num_replicas,
        "whether the servers sync each write (jetstream {{ sync_interval: always }}) cannot be asked; \
         without it a power failure of all copies at once loses acknowledged writes"
    );
    let origin = own_record(&link, &fresh, created(&info), &metrics).await?;
    if origin.restoring && !options.restore {
        return Err(OpenError::Restoring { bucket: options.bucket });
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
        // A server that was just elected may know less than it has; the feed brings the rest.
        tokio::time::sleep(guard::EVERY).await;
        backwards = look();
        if let Asked::Here(info) = core.link.info().await
            && guard::leads(info.cluster.as_ref())
        {
            confirmed += 1;
        }
    }
    if backwards.is_some() && confirmed < guard::CONFIRM {
        let why = "the stream's leader has lost touch with the others".to_owned();
        return Err(OpenError::JetStream { why });
    }
    let other = (origin.stream_created != created(&info)).then(|| {
        "the bucket is another one than its record was made for: made again, copied or restored"
            .to_owned()
    });
    if let Some(why) = backwards.or(other) {
        core.freeze_as(why, remember);
    }
    Ok(core)
}

/// Loads what the stream has, and follows it from there.
async fn load(core: &Arc<Core>, info: &Info) -> Result<(), OpenError> {
    let end = core.clock.now() + LOAD;
    loop {
        match follow::reload(core, info, true).await {
            Ok(()) => return Ok(()),
            Err(why) if core.clock.now() >= end => return Err(OpenError::interrupted(why)),
            Err(why) => tracing::debug!(why, "the stream is loaded anew"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The store's own record, made when there is none.
async fn own_record(
    link: &Link,
    fresh: &Fresh,
    created: i128,
    metrics: &Metrics,
) -> Result<MetaRecord, OpenError> {
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        let expected = match meta::read(link).await {
            Ok(MetaState::Here(_, record)) => return Ok(record),
            Ok(MetaState::Missing(expected)) => expected,
            Ok(MetaState::Damaged(_, why)) => {
                return Err(OpenError::Meta { subject: link.subjects.meta.clone(), why });
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
            // A stream that is being made has no leader for a moment.
            Sent::Refused(refused) => why = refused.to_string(),
            Sent::Unknown(unknown) => why = unknown.to_string(),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(OpenError::interrupted(format!("its own record cannot be made {why}")))
}
