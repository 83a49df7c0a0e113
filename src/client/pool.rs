//! A worker that takes its share of a pool, and hands leases over when asked.
//!
//! Guarantees: each held lease has one task, and none once its guarantee has ended: a task that still runs then is
//! dropped at its next `.await`. A lease is handed over only after its task has ended. When [`WorkerPool::run`] returns,
//! none of its tasks and preparations runs any more.
//!
//! Does not guarantee: that a task that blocks its thread stops in time, or that none runs after a caller dropped the
//! future of [`WorkerPool::run`]. Tokens protect against both.
//!
//! Assumes: a task that is asked to hand over ([`Lease::handover_requested`]) ends. At the deadline its lease is
//! revoked, and the task is dropped.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tenure::client::{Client, Lease, WorkerPool};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::new("http://127.0.0.1:7373")?;
//!     let shards = (0..32).map(|n| format!("shards/{n}"));
//!     let pool = WorkerPool::new(client, "shards").owner("w1").keys(shards);
//!     let leaving = pool.drain_handle();
//!     tokio::spawn(async move {
//!         let _ = tokio::signal::ctrl_c().await;
//!         leaving.drain();
//!     });
//!     pool.run(|lease: Arc<Lease>| async move {
//!         let from = lease.value().unwrap_or("the beginning").to_owned();
//!         println!("{} from {from}, token {}", lease.key(), lease.token());
//!         // … work on the shard until another member must have it:
//!         lease.handover_requested().await;
//!         Ok::<_, std::io::Error>("row 4711".to_owned())
//!     })
//!     .await?;
//!     Ok(())
//! }
//! ```

use std::{fmt::Display, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::leave::{Leave, asked_to_leave};
use super::member_tasks::{Ended, Handover, Waiting};
use super::pool_labels::{Following, LabelsHandle};
use super::rests::Rests;
use super::tending::{Task, tend};
use super::warming::{Prepare, Warming};
use super::{
    Client, ClientError, DrainHandle, Hold, Lease, Loss, Order, Preparation, Session,
    SessionOptions,
};
use crate::{
    api::Code,
    clock::{Chance, Clock, Entropy, SystemEntropy},
    lease::{Moment, ZONE},
};

/// How long one call waits for keys.
const WAIT: Duration = Duration::from_secs(30);
/// How long a look at the pool may take.
const LOOK: Duration = Duration::from_secs(1);
/// The first and the longest pause after a failed call.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How long a member has no lease before it reports this, and the interval between further reports.
const REPORTS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];
/// How long the tasks of a member that stops, and comes back, may take.
const STOP: Duration = Duration::from_secs(30);

type Watcher = Arc<dyn Fn(&str, &Ended) + Send + Sync>;
type WaitWatcher = Arc<dyn Fn(Waiting<'_>) + Send + Sync>;

/// A member of a pool.
pub struct WorkerPool {
    client: Client,
    pool: String,
    owner: Option<String>,
    weight: u32,
    capacity: usize,
    version: Option<String>,
    address: Option<String>,
    load_limit: Option<f64>,
    labels: LabelsHandle,
    keys: Vec<String>,
    ttl: Duration,
    order: Order,
    watcher: Watcher,
    waits: WaitWatcher,
    leave: Arc<watch::Sender<Leave>>,
    prepare: Prepare,
}

impl WorkerPool {
    /// A member of this pool, with a weight of 1 and no bound on the leases that it takes.
    #[must_use]
    pub fn new(client: Client, pool: impl Into<String>) -> Self {
        Self {
            client,
            pool: pool.into(),
            owner: None,
            weight: 1,
            capacity: usize::MAX,
            version: None,
            address: None,
            load_limit: None,
            labels: LabelsHandle::default(),
            keys: Vec::new(),
            ttl: Duration::from_secs(15),
            order: Order::Random,
            watcher: Arc::new(|_, _| {}),
            waits: Arc::new(|_| {}),
            leave: Arc::new(watch::Sender::new(Leave::Not)),
            prepare: Arc::new(|_| Box::pin(std::future::ready(()))),
        }
    }

    /// The owner; by default, a name of its own.
    #[must_use]
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { owner: Some(owner.into()), ..self }
    }

    /// Its share of the work relative to other members.
    #[must_use]
    pub fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The most leases at once. The rest of its share goes to other members.
    #[must_use]
    pub fn capacity(self, capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ..self }
    }

    /// The version of the program: during an upgrade, keys that come free go to the newest version.
    #[must_use]
    pub fn version(self, version: impl Into<String>) -> Self {
        Self { version: Some(version.into()), ..self }
    }

    /// Where it serves its keys, such as `10.0.0.7:8080`. [`Router`](super::Router)s are told it.
    #[must_use]
    pub fn address(self, address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..self }
    }

    /// The highest load that it accepts, in the unit of [`Lease::report_load`].
    #[must_use]
    pub fn load_limit(self, limit: f64) -> Self {
        Self { load_limit: Some(limit), ..self }
    }

    /// Adds a label. Policies say by labels which members may have their keys.
    #[must_use]
    pub fn label(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.add(name.into(), value.into());
        self
    }

    /// Where it runs: the label `zone`.
    #[must_use]
    pub fn zone(self, zone: impl Into<String>) -> Self {
        self.label(ZONE, zone)
    }

    /// A handle that changes its labels while it runs.
    #[must_use]
    pub fn labels(&self) -> LabelsHandle {
        self.labels.clone()
    }

    /// The keys to take from; by default, all known keys of the pool.
    #[must_use]
    pub fn keys<K: Into<String>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        Self { keys: keys.into_iter().map(Into::into).collect(), ..self }
    }

    /// How long its session lasts without a heartbeat.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// The order in which keys are tried. After a session was lost, its former keys come first.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Prepares for a key before it is handed over to this member, where the pool's policy sets `warmup_timeout`, such as by
    /// filling a cache. The holder is asked for the key when the future resolves, or when the time for it is over. The
    /// future is dropped if the key goes elsewhere. Without this, a member is prepared at once.
    #[must_use]
    pub fn prepare<F, T>(self, prepare: F) -> Self
    where
        F: Fn(Preparation) -> T + Send + Sync + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        Self { prepare: Arc::new(move |key| Box::pin(prepare(key))), ..self }
    }

    /// Calls `watcher` at the end of every task.
    #[must_use]
    pub fn on_end(self, watcher: impl Fn(&str, &Ended) + Send + Sync + 'static) -> Self {
        Self { watcher: Arc::new(watcher), ..self }
    }

    /// Calls `watcher` for every failed call that is repeated, and from time to time while there is nothing to do.
    #[must_use]
    pub fn on_wait(self, watcher: impl Fn(Waiting<'_>) + Send + Sync + 'static) -> Self {
        Self { waits: Arc::new(watcher), ..self }
    }

    /// A handle that stops it in good order.
    #[must_use]
    pub fn drain_handle(&self) -> DrainHandle {
        DrainHandle::new(self.leave.clone())
    }

    /// Takes leases and runs a task for each, until it is drained.
    ///
    /// A task that returns `Ok` hands its lease over, with the returned value, to the next caller. A task that fails or
    /// panics releases its lease, and this member leaves the key alone for a while. Whoever may read the key sees the error,
    /// or the message of the panic, as the reason of the release. A task that is asked to hand over
    /// decides itself when to end; at the deadline the lease is revoked.
    ///
    /// # Errors
    /// The server refuses the session, or a call under it, and a repeat would not help; or
    /// [`ClientError::Replaced`].
    pub async fn run<F, T, R, E>(self, work: F) -> Result<(), ClientError>
    where
        F: Fn(Arc<Lease>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<R, E>> + Send + 'static,
        R: Into<Handover> + Send + 'static,
        E: Display + Send + 'static,
    {
        let work = Arc::new(work);
        let start: Start = Box::new(move |lease| {
            let work = work.clone();
            Box::pin(async move {
                let ended = work(lease).await;
                ended.map(Into::into).map_err(|error| error.to_string())
            })
        });
        let chance = SystemEntropy::new().chance();
        let (rests, running) = (Rests::default(), TaskTracker::new());
        let mut member = Member { pool: self, start, chance, rests, running };
        let mut order = member.pool.order;
        while let Some((session, labels)) = member.join().await? {
            let done = tokio::select! {
                done = member.work(&session, order) => done,
                never = labels.keep(&session) => match never {},
            };
            match done {
                Ok(false) => order = Order::Sticky,
                end => {
                    // The session ends with its last handle, so the tasks that it covers end before.
                    member.all_gone().await;
                    return end.map(drop);
                }
            }
        }
        member.all_gone().await;
        Ok(())
    }
}

type Start = Box<dyn Fn(Arc<Lease>) -> Task + Send + Sync>;
type Acquiring<'a> = Pin<Box<dyn Future<Output = Result<Vec<Lease>, ClientError>> + Send + 'a>>;

struct Member {
    pool: WorkerPool,
    start: Start,
    chance: Chance,
    rests: Rests,
    /// All tasks and preparations whose futures still exist, whether they run or were aborted.
    running: TaskTracker,
}

impl Member {
    /// Opens a session; `None` when the member is drained before.
    async fn join(&mut self) -> Result<Option<(Arc<Session>, Following)>, ClientError> {
        let mut pause = PAUSES[0];
        loop {
            let pool = &self.pool;
            let mut leave = pool.leave.subscribe();
            let owner = pool.owner.clone().unwrap_or_else(super::hold::nameless);
            let options = SessionOptions::new(owner)
                .ttl(pool.ttl)
                .pool(pool.pool.as_str())
                .weight(pool.weight);
            let options = match u32::try_from(pool.capacity) {
                Ok(capacity) => options.capacity(capacity),
                Err(_) => options,
            };
            let options = pool.version.iter().fold(options, SessionOptions::version);
            let options = pool.address.iter().fold(options, SessionOptions::address);
            let options = pool.load_limit.into_iter().fold(options, SessionOptions::load_limit);
            let mut labels = pool.labels.follow();
            let label = |options: SessionOptions, (name, value)| options.label(name, value);
            let options = labels.now().into_iter().fold(options, label);
            tokio::select! {
                biased;
                () = asked_to_leave(&mut leave) => return Ok(None),
                opened = pool.client.open_session(options) => match opened {
                    Ok(session) => return Ok(Some((Arc::new(session), labels))),
                    Err(error) if is_final(&error) => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, "cannot open a session; retrying");
                        (pool.waits)(Waiting::Failed(&error));
                    }
                },
            }
            let rest = pause + self.chance.jitter(pause);
            tokio::select! {
                biased;
                () = asked_to_leave(&mut leave) => return Ok(None),
                () = sleep(rest) => {}
            }
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Works until the session is lost, or until all is handed over; true in the second case.
    async fn work(&mut self, session: &Arc<Session>, order: Order) -> Result<bool, ClientError> {
        let mut tasks: JoinSet<(String, Ended)> = JoinSet::new();
        let mut leave = self.pool.leave.subscribe();
        let mut asking: Option<Acquiring<'_>> = None;
        let (mut pause, mut leaving) = (Duration::ZERO, false);
        let mut report = Box::pin(sleep(REPORTS[0]));
        let mut warming = Warming::new(session, self.pool.prepare.clone(), self.running.clone());
        loop {
            if leaving && tasks.is_empty() {
                drop(warming);
                self.all_gone().await;
                let _ = session.close().await;
                return Ok(true);
            }
            let room = self.pool.capacity.saturating_sub(tasks.len());
            if asking.is_none() && room > 0 && !leaving {
                let rest = pause + self.chance.jitter(pause);
                asking = Some(ask(session.clone(), self.what(order), rest));
            }
            let asked = async {
                match asking.as_mut() {
                    Some(asked) => asked.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = asked_to_leave(&mut leave), if !leaving => {
                    leaving = true;
                    asking = None;
                    self.leave(session).await;
                }
                () = ordered_to_leave(session), if !leaving => {
                    tracing::warn!(pool = self.pool.pool, "an administrator drains this member");
                    self.pool.leave.send_replace(Leave::Drain);
                }
                loss = session.lost() => {
                    tracing::warn!(%loss, pool = self.pool.pool, "the session was lost");
                    self.wind_up(tasks).await;
                    if loss == Loss::Replaced && !leaving {
                        // Another session under this name would take the keys from that process again.
                        return Err(ClientError::Replaced { owner: session.owner().to_owned() });
                    }
                    return Ok(leaving);
                }
                Some(ended) = tasks.join_next() => self.ended(ended),
                lease = warming.next() => self.tend(&mut tasks, lease, session),
                // Tasks that have not ended by the deadline are dropped.
                () = sleep(time_to_leave(session)), if leaving => tasks.shutdown().await,
                asked = asked => {
                    asking = None;
                    pause = match asked {
                        Ok(leases) => {
                            for lease in leases.into_iter().take(room) {
                                self.tend(&mut tasks, lease, session);
                            }
                            Duration::ZERO
                        }
                        Err(error) => {
                            if is_failure(&error) {
                                (self.pool.waits)(Waiting::Failed(&error));
                                report = Box::pin(sleep(REPORTS[1]));
                            }
                            refused(error, pause, !tasks.is_empty())?
                        }
                    };
                }
                () = &mut report, if tasks.is_empty() && !leaving => {
                    let why = if self.has_no_keys().await { Waiting::NoKeys } else { Waiting::NoLease };
                    (self.pool.waits)(why);
                    report = Box::pin(sleep(REPORTS[1]));
                }
            }
        }
    }

    /// Whether the pool is known to have no keys. Its members may wait for keys that nobody has named.
    async fn has_no_keys(&self) -> bool {
        let pool = &self.pool;
        let look = async { pool.client.pool(&pool.pool).await.ok()?.keys };
        pool.keys.is_empty() && timeout(LOOK, look).await.ok().flatten() == Some(0)
    }

    fn what(&self, order: Order) -> Hold {
        let pool = &self.pool;
        let hold = match pool.keys.as_slice() {
            [] => Hold::pool(pool.pool.as_str()),
            keys => Hold::any(keys.iter().cloned()),
        };
        hold.order(order).wait(WAIT).fair()
    }

    /// Tells the server that this member leaves, unless it comes back.
    async fn leave(&self, session: &Session) {
        if self.comes_back(session) {
            return session.ask_for_all(STOP);
        }
        if let Err(error) = session.drain().await {
            // The member then hands its leases over without the server's help.
            tracing::debug!(%error, "cannot tell the server that this member leaves");
            session.ask_for_all(self.pool.ttl);
        }
    }

    /// Whether the keys of this member, which leaves, are kept for it.
    fn comes_back(&self, session: &Session) -> bool {
        session.rejoin_window().is_some() && *self.pool.leave.borrow() == Leave::Stop
    }

    /// Waits until the tasks of a lost session have ended with their leases.
    async fn wind_up(&mut self, mut tasks: JoinSet<(String, Ended)>) {
        while let Some(ended) = tasks.join_next().await {
            self.ended(ended);
        }
    }

    fn tend(&self, tasks: &mut JoinSet<(String, Ended)>, lease: Lease, session: &Session) {
        let lease = Arc::new(lease);
        let rest = self.rests.of(lease.key(), self.pool.client.clock.now());
        let task = (self.start)(lease.clone());
        let leave = self.pool.leave.clone();
        let (keeps, owner) = (session.rejoin_window().is_some(), session.owner().to_owned());
        let heir = move || (keeps && *leave.borrow() == Leave::Stop).then_some(owner);
        let running = self.running.clone();
        tasks.spawn(async move {
            let key = lease.key().to_owned();
            (key, tend(lease, task, rest, &running, heir).await)
        });
    }

    /// Waits until no future of a task or a preparation exists any more. Tokio drops the future of an aborted task later,
    /// on the thread that runs it.
    async fn all_gone(&self) {
        self.running.close();
        self.running.wait().await;
        self.running.reopen();
    }

    fn ended(&mut self, ended: Result<(String, Ended), tokio::task::JoinError>) {
        let Ok((key, ended)) = ended else { return };
        match &ended {
            Ended::Failed(why) => {
                tracing::error!(key, why, "the task of a lease failed; its next start is delayed");
                self.rests.failed(&key, self.pool.client.clock.now());
            }
            Ended::Lost(loss) => {
                tracing::warn!(key, %loss, "a lease was lost; its task was stopped");
            }
            Ended::Done | Ended::Kept => self.rests.fine(&key),
        }
        (self.pool.watcher)(&key, &ended);
    }
}

/// Resolves when the session is asked to hand all its leases over.
async fn ordered_to_leave(session: &Session) {
    let mut deadlines = session.deadlines();
    if deadlines.wait_for(|deadline| deadline.handover.is_some()).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The time that a leaving session has left.
fn time_to_leave(session: &Session) -> Duration {
    let end = session.deadline().handover.unwrap_or(Moment::ZERO);
    end.since(session.now())
}

fn ask<'a>(session: Arc<Session>, hold: Hold, rest: Duration) -> Acquiring<'a> {
    Box::pin(async move {
        sleep(rest).await;
        session.acquire_any(hold).await
    })
}

/// Whether something is wrong beyond there being no key.
fn is_failure(error: &ClientError) -> bool {
    !matches!(error.code(), Some(Code::NoneAvailable | Code::SessionLost))
}

fn is_final(error: &ClientError) -> bool {
    error.problem().is_some_and(|problem| !problem.retryable)
}

/// How long to pause after a failed call.
fn refused(error: ClientError, pause: Duration, holds: bool) -> Result<Duration, ClientError> {
    let longer = (pause * 2).clamp(PAUSES[0], PAUSES[1]);
    // Whoever may acquire nothing now still has what it holds, until the session ends.
    if error.is_no_permission() && holds {
        return Ok(PAUSES[1]);
    }
    if error.problem().is_none() {
        tracing::debug!(%error, "cannot acquire a lease; retrying");
        return Ok(longer);
    }
    match error.code() {
        Some(Code::NoneAvailable) => Ok(PAUSES[0]),
        // The next heartbeat finds this out.
        Some(Code::SessionLost) => Ok(longer),
        _ if is_final(&error) => Err(error),
        _ => Ok(longer),
    }
}
