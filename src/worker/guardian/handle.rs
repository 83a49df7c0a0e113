//! The agent's side: starts the guardian, gives it orders, and acts itself if the guardian does not follow them.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::process::{Signal, kill_process, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    process::{Child, Command},
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

use super::{
    process_tree,
    serve::is_ours,
    wire::{Exit, Order, Report, RunError, Task, Why},
};
use crate::{
    clock::{Entropy as _, SystemEntropy, boottime_ms},
    worker::{PrivateDir, group::pid},
};

/// The longest time for the guardian's start.
const START: Duration = Duration::from_secs(20);
/// The number of orders that may wait for a guardian that does not read.
const QUEUE: usize = 4096;
/// The interval of checks whether the guardian did what was due.
const LOOK: Duration = Duration::from_millis(20);
/// The number of such checks after which a stopped guardian gets SIGCONT.
const WAKE_EVERY: u32 = 10;
/// The time that killed processes get to disappear before they are searched for and killed again.
const BREATH: Duration = Duration::from_millis(1);
/// After this many consecutive searches that find nothing, nothing is left.
const MANY_LOOKS: u32 = 40;
/// Killed processes that are not gone after this time are stuck in the system, which is logged.
const STUCK: Duration = Duration::from_secs(10);
/// The numbers of badges start here. The numbers of slots stay below.
const BADGES: u64 = 1 << 63;
/// The interval at which a guardian that must end gets SIGCONT, in case it is stopped.
const AGAIN: Duration = Duration::from_millis(500);

/// The guardian of this process. Clones are handles of the same guardian.
#[derive(Clone, Debug)]
pub struct Guardian(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pid: u32,
    /// The mark of its programs. Each program's mark has its slot's number, too.
    mark: String,
    orders: Mutex<Option<mpsc::Sender<Order>>>,
    slots: Mutex<HashMap<u64, Known>>,
    /// The badges of running programs.
    badges: Mutex<BTreeSet<u64>>,
    next: AtomicU64,
    gone: watch::Receiver<bool>,
}

/// What the agent knows of a slot.
#[derive(Debug)]
struct Known {
    grace: u64,
    margin: u64,
    deadline: Option<u64>,
    /// When the current request must be done.
    done_by: Option<u64>,
    pid: Option<u32>,
    started: Option<oneshot::Sender<Result<u32, RunError>>>,
    exited: Option<oneshot::Sender<Exit>>,
    willed: watch::Sender<Option<Exit>>,
    stopping: watch::Sender<Option<Why>>,
}

/// A slot of the guardian: at most one program at a time, its deadline, and its will. When this is dropped, the program
/// is stopped with the grace, and the will is dropped.
#[derive(Debug)]
pub struct Slot {
    id: u64,
    grace: Duration,
    shared: Arc<Shared>,
    willed: watch::Receiver<Option<Exit>>,
    stopping: watch::Receiver<Option<Why>>,
}

/// Makes the program that carries it end with this process, until this is dropped.
#[derive(Debug)]
pub struct Badge {
    id: u64,
    shared: Arc<Shared>,
}

impl Badge {
    /// The variable for the program's environment: name and value.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        (process_tree::MARK, process_tree::mark(&self.shared.mark, self.id))
    }
}

impl Drop for Badge {
    fn drop(&mut self) {
        locked(&self.shared.badges).remove(&self.id);
        self.shared.tell(Order::Leave { id: self.id });
    }
}

/// A started program.
#[derive(Debug)]
pub struct Running {
    /// The process id of the program and of its process group.
    pub pid: u32,
    exited: oneshot::Receiver<Exit>,
    exit: Option<Exit>,
}

/// The path of this program. It works even if the file was replaced.
pub(in crate::worker) fn own_program() -> PathBuf {
    if cfg!(any(target_os = "linux", target_os = "android")) {
        return "/proc/self/exe".into();
    }
    std::env::current_exe().unwrap_or_else(|_| "tenure".into())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl Guardian {
    /// Starts a guardian. The directory must be kept until [`Guardian::finish`] has returned.
    ///
    /// # Errors
    /// If the guardian does not start.
    pub async fn start(dir: &PrivateDir) -> io::Result<Self> {
        Self::start_program(own_program(), dir).await
    }

    /// [`Guardian::start`], with the `tenure` program at this path.
    ///
    /// # Errors
    /// If the guardian does not start.
    pub async fn start_program(program: PathBuf, dir: &PrivateDir) -> io::Result<Self> {
        let socket = dir.path().join("guardian");
        let listener = UnixListener::bind(&socket)?;
        // The guardian has a process group of its own, so that signals to the agent's group do not reach it. The
        // programs that it runs can still get the agent's terminal.
        let mark = SystemEntropy::new().nonce().to_string();
        let mut command = Command::new(program);
        // The guardian's programs can read its environment, so it must contain no secrets.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
            command.env_remove(name);
        }
        let mut child = command
            .args(["guardian", "--mark", &mark, "--socket"])
            .arg(&socket)
            .stdin(Stdio::inherit())
            .process_group(0)
            .spawn()?;
        let came = async {
            tokio::select! {
                accepted = listener.accept() => accepted.map(|(stream, _)| stream),
                ended = child.wait() => Err(io::Error::other(format!("it ended: {:?}", ended?))),
            }
        };
        let stream = match timeout(START, came).await {
            Ok(Ok(stream)) => stream,
            failed => {
                let _ = child.start_kill();
                let slow = || io::Error::from(io::ErrorKind::TimedOut);
                return Err(failed.map_or_else(|_| slow(), |came| came.err().unwrap_or_else(slow)));
            }
        };
        let _ = std::fs::remove_file(&socket);
        Ok(Self::with(child, stream, mark))
    }

    fn with(child: Child, stream: UnixStream, mark: String) -> Self {
        let (orders, queue) = mpsc::channel(QUEUE);
        let (over, gone) = watch::channel(false);
        let shared = Arc::new(Shared {
            pid: child.id().unwrap_or(0),
            mark,
            orders: Mutex::new(Some(orders)),
            slots: Mutex::default(),
            badges: Mutex::default(),
            next: AtomicU64::new(1),
            gone,
        });
        tokio::spawn(converse(shared.clone(), child, stream, queue, over));
        Self(shared)
    }

    /// The process id of the guardian.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Creates a slot. `grace` is the time between SIGTERM and SIGKILL. `margin` is the time to leave before the
    /// deadline ([`margin`](crate::worker::margin)).
    #[must_use]
    pub fn slot(&self, grace: Duration, margin: Duration) -> Slot {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let ((willed, will_seen), (stopping, stop_seen)) =
            (watch::channel(None), watch::channel(None));
        let known = Known {
            grace: millis(grace),
            margin: millis(margin),
            deadline: None,
            done_by: None,
            pid: None,
            started: None,
            exited: None,
            willed,
            stopping,
        };
        let order = Order::Slot { id, grace_ms: known.grace, margin_ms: known.margin };
        locked(&self.0.slots).insert(id, known);
        self.0.tell(order);
        Slot { id, grace, shared: self.0.clone(), willed: will_seen, stopping: stop_seen }
    }

    /// A badge for a program that this process starts itself, and that must end with this process.
    #[must_use]
    pub fn badge(&self) -> Badge {
        let id = BADGES + self.0.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.0.badges).insert(id);
        self.0.tell(Order::Attend { id });
        Badge { id, shared: self.0.clone() }
    }

    /// Sets when the guarantee of all slots ends, as a reading of [`boottime_ms`]. `None` means never.
    pub fn deadline(&self, at_ms: Option<u64>) {
        for known in locked(&self.0.slots).values_mut() {
            known.deadline = at_ms;
        }
        self.0.tell(Order::Deadline { id: None, at_ms });
    }

    /// Whether the guardian is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        *self.0.gone.borrow()
    }

    /// Resolves when the guardian is gone. Everything that it ran is killed by then.
    pub async fn gone(&self) {
        let mut gone = self.0.gone.clone();
        // An error means that the connection to the guardian has ended.
        let _ = gone.wait_for(|&gone| gone).await;
    }

    /// Stops everything that runs, runs the remaining wills, and waits for the guardian's end.
    pub async fn finish(self) {
        locked(&self.0.orders).take();
        // A stopped guardian must be continued to end.
        while timeout(AGAIN, self.gone()).await.is_err() {
            self.0.wake();
        }
    }
}

impl Shared {
    /// Sends an order, and returns whether it was queued. A guardian that does not read is noticed by what it fails to
    /// do.
    fn tell(&self, order: Order) -> bool {
        locked(&self.orders).as_ref().is_some_and(|orders| orders.try_send(order).is_ok())
    }

    fn hear(&self, report: Report) {
        let mut slots = locked(&self.slots);
        match report {
            Report::Started { id, pid } => {
                let Some(known) = slots.get_mut(&id) else { return };
                known.pid = Some(pid);
                let _ = known.started.take().map(|started| started.send(Ok(pid)));
            }
            Report::Refused { id, error } => {
                let Some(known) = slots.get_mut(&id) else { return };
                (known.exited, known.done_by) = (None, None);
                let _ = known.started.take().map(|started| started.send(Err(error)));
            }
            Report::Stopping { id, why } => {
                if let Some(known) = slots.get_mut(&id) {
                    known.stopping.send_replace(Some(why));
                }
            }
            Report::Exited { id, exit } => {
                let Some(known) = slots.get_mut(&id) else { return };
                known.end(exit);
            }
            Report::Willed { id, exit } => {
                if let Some(known) = slots.get_mut(&id) {
                    known.willed.send_replace(Some(exit));
                }
            }
        }
    }

    /// Kills what the guardian should have killed and has not, because it stands still. This includes processes that
    /// left their group.
    fn step_in(&self, now: u64) {
        let mut late = false;
        for (id, known) in locked(&self.slots).iter() {
            let due = known.kill_at().is_some_and(|at| now >= at);
            let Some(leader) = known.pid.filter(|_| due).and_then(pid) else { continue };
            late = true;
            // Without a report from the guardian, the leader is not reaped, so its process id is still its own.
            let _ = kill_process_group(leader, Signal::KILL);
            for stray in process_tree::wearers(&process_tree::mark(&self.mark, *id)) {
                process_tree::signal(stray, Signal::KILL);
            }
        }
        if late {
            self.wake();
        }
    }

    /// Continues a stopped guardian.
    fn wake(&self) {
        process_tree::signal(self.pid, Signal::CONT);
    }

    /// Kills everything that the guardian ran until nothing of it lives. Only then reports that the programs have
    /// ended.
    async fn all_gone(&self) {
        locked(&self.orders).take();
        let began = boottime_ms();
        let (mut quiet, mut said, mut started) = (0, false, process_tree::started());
        // One search can miss a process that is started meanwhile. A search that finds nothing is final if the system
        // has started no process since the search before it. On a busy machine, many such searches are needed.
        loop {
            let found = self.kill_all();
            let now = process_tree::started();
            let nothing_new = now.is_some() && started == now;
            quiet = if found { 0 } else { quiet + 1 };
            if !found && ((nothing_new && quiet > 1) || quiet >= MANY_LOOKS) {
                break;
            }
            started = now;
            let spent = boottime_ms().saturating_sub(began);
            if spent >= millis(STUCK) && !said {
                said = true;
                tracing::error!("the guardian is gone, and one of its processes cannot be killed");
            }
            sleep(if said { LOOK } else { BREATH }).await;
        }
        for known in locked(&self.slots).values_mut() {
            let _ = known.started.take().map(|s| s.send(Err(RunError::GuardianGone)));
            known.end(Exit { why: Some(Why::GuardianGone), ..Exit::default() });
        }
    }
}

impl Shared {
    /// Sends SIGKILL to everything that the guardian ran, including processes that left their group or were not
    /// reported yet, and to processes that carry a badge. Returns whether there was any. Processes of a program whose
    /// badge was dropped live on.
    fn kill_all(&self) -> bool {
        let leaders: Vec<u32> =
            locked(&self.slots).values().filter_map(|known| known.pid).collect();
        let groups: Vec<u32> =
            leaders.into_iter().filter(|&leader| process_tree::is_group_alive(leader)).collect();
        for leader in groups.iter().copied().filter_map(pid) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        let is_meant = |id| id < BADGES || locked(&self.badges).contains(&id);
        process_tree::kill_wearers(&self.mark, is_meant) || !groups.is_empty()
    }
}

impl Known {
    /// When the agent kills what the guardian has not killed.
    fn kill_at(&self) -> Option<u64> {
        let last = self.deadline.map(|deadline| deadline.saturating_sub(self.margin / 4 * 3));
        match (last, self.done_by) {
            (Some(last), Some(done_by)) => Some(last.min(done_by)),
            (last, done_by) => last.or(done_by),
        }
    }

    fn end(&mut self, exit: Exit) {
        (self.pid, self.done_by) = (None, None);
        self.stopping.send_replace(None);
        let _ = self.exited.take().map(|exited| exited.send(exit));
    }
}

impl Slot {
    /// The slot's number, unique among the slots of this guardian.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Runs a program, in a process group of its own.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn run(&self, task: Task) -> Result<Running, RunError> {
        let ((started, starts), (exited, exits)) = (oneshot::channel(), oneshot::channel());
        {
            let mut slots = locked(&self.shared.slots);
            let known = slots.get_mut(&self.id).ok_or(RunError::GuardianGone)?;
            if known.started.is_some() || known.exited.is_some() {
                return Err(RunError::Busy);
            }
            (known.started, known.exited) = (Some(started), Some(exited));
            let limit = task.limit_ms.map(|limit| limit.saturating_add(known.margin));
            known.done_by = limit.map(|limit| boottime_ms().saturating_add(limit));
        }
        if !self.shared.tell(Order::Run { id: self.id, task }) {
            if let Some(known) = locked(&self.shared.slots).get_mut(&self.id) {
                (known.started, known.exited, known.done_by) = (None, None, None);
            }
            return Err(RunError::GuardianGone);
        }
        let pid = starts.await.map_err(|_| RunError::GuardianGone)??;
        Ok(Running { pid, exited: exits, exit: None })
    }

    /// Sets when the guarantee ends, as a reading of [`boottime_ms`]. `None` means never.
    pub fn deadline(&self, at_ms: Option<u64>) {
        if let Some(known) = locked(&self.shared.slots).get_mut(&self.id) {
            known.deadline = at_ms;
        }
        self.shared.tell(Order::Deadline { id: Some(self.id), at_ms });
    }

    /// Sets the will: what the guardian runs by itself, once, after it has stopped what runs. It does so when the
    /// deadline comes near and no newer one has arrived, or when this process is gone. The will may take `limit_ms`,
    /// and that time is reserved before the deadline.
    pub fn will(&self, task: Option<Task>) {
        self.shared.tell(Order::Will { id: self.id, task });
    }

    /// Sends a signal to the program's process group.
    pub fn signal(&self, signal: Signal) {
        self.shared.tell(Order::Signal { id: self.id, signal: signal.as_raw() });
    }

    /// Stops the program: SIGTERM, and SIGKILL after the grace. A second call can only shorten the grace.
    pub fn stop(&self, grace: Duration) {
        let grace_ms = millis(grace);
        if let Some(known) = locked(&self.shared.slots).get_mut(&self.id) {
            let by = boottime_ms().saturating_add(grace_ms).saturating_add(known.margin);
            known.done_by = Some(known.done_by.map_or(by, |earlier| earlier.min(by)));
        }
        self.shared.tell(Order::Stop { id: self.id, grace_ms });
    }

    /// The grace with which the slot was created.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Resolves when the guardian starts to stop the program, with the reason.
    pub async fn stopping(&self) -> Why {
        let mut stopping = self.stopping.clone();
        let why = stopping.wait_for(Option::is_some).await.ok().and_then(|why| *why);
        why.unwrap_or(Why::GuardianGone)
    }

    /// Resolves to true when the guardian has run the will by itself, and to false when that can no longer happen. The
    /// future does not keep the slot alive.
    pub fn willed_later(&self) -> impl Future<Output = bool> + Send + 'static {
        let mut willed = self.willed.clone();
        async move { willed.wait_for(Option::is_some).await.is_ok() }
    }

    /// Resolves when the guardian has run the will by itself, with the will's exit.
    pub async fn willed(&self) -> Exit {
        let mut willed = self.willed.clone();
        let exit = willed.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        exit.unwrap_or(Exit { why: Some(Why::GuardianGone), ..Exit::default() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.tell(Order::Dismiss { id: self.id });
        let mut slots = locked(&self.shared.slots);
        if let Some(known) = slots.get_mut(&self.id) {
            if known.pid.is_none() && known.exited.is_none() {
                slots.remove(&self.id);
            } else {
                known.done_by = Some(boottime_ms() + known.grace + known.margin);
            }
        }
    }
}

impl Running {
    /// Resolves when the program has ended. The future may be dropped, and the method called again.
    pub async fn exited(&mut self) -> Exit {
        if self.exit.is_none() {
            let gone = Exit { why: Some(Why::GuardianGone), ..Exit::default() };
            self.exit = Some((&mut self.exited).await.unwrap_or(gone));
        }
        self.exit.unwrap_or_default()
    }
}

/// Sends orders and receives reports until one side is gone.
async fn converse(
    shared: Arc<Shared>,
    mut child: Child,
    stream: UnixStream,
    mut queue: mpsc::Receiver<Order>,
    over: watch::Sender<bool>,
) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let say = async move {
        while let Some(order) = queue.recv().await {
            let Ok(mut line) = serde_json::to_vec(&order) else { continue };
            line.push(b'\n');
            if writer.write_all(&line).await.is_err() {
                break;
            }
        }
        let _ = writer.shutdown().await;
    };
    let hear = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(report) = serde_json::from_str(&line) {
                shared.hear(report);
            }
        }
    };
    let watch = async {
        let mut looks = 0_u32;
        loop {
            sleep(LOOK).await;
            shared.step_in(boottime_ms());
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(WAKE_EVERY) && process_tree::is_stopped(shared.pid) {
                shared.wake();
            }
        }
    };
    tokio::pin!(say);
    tokio::select! {
        () = hear => {}
        // `say` ends when there are no more orders. Reports are still received after that.
        never = async { (&mut say).await; std::future::pending::<()>().await } => never,
        () = watch => {}
    }
    // A guardian without a connection is useless, so it is killed.
    if let Some(guardian) = child.id().and_then(pid) {
        let _ = kill_process(guardian, Signal::KILL);
    }
    shared.all_gone().await;
    let _ = child.wait().await;
    over.send_replace(true);
}
