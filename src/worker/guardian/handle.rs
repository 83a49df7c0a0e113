//! The agent's side: starts the guardian, gives it orders, and acts itself if the guardian does not follow them.

use std::{io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use rustix::process::{Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    process::{Child, Command},
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::{
    badge::Badge,
    process_tree,
    program::{own_program, secret_variables},
    shared::{GuardianShared, LOOK, locked},
    slot::Slot,
    wire::GuardianOrder,
};
use crate::{
    clock::{Entropy as _, SystemEntropy, boottime_ms},
    worker::{PrivateDir, group::pid},
};

/// The longest time for the guardian's start.
const START: Duration = Duration::from_secs(20);
/// The number of orders that may wait for a guardian that does not read.
const QUEUE: usize = 4096;
/// The number of looks after which a stopped guardian gets SIGCONT.
const WAKE_EVERY: u32 = 10;
/// The interval at which a guardian that must end gets SIGCONT, in case it is stopped.
const AGAIN: Duration = Duration::from_millis(500);

/// The guardian of this process. Clones are handles of the same guardian.
#[derive(Clone, Debug)]
pub struct Guardian(Arc<GuardianShared>);

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
        for name in secret_variables() {
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
        let shared = Arc::new(GuardianShared::new(child.id().unwrap_or(0), mark, orders, gone));
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
        Slot::new(&self.0, grace, margin)
    }

    /// A badge for a program that this process starts itself, and that must end with this process.
    #[must_use]
    pub fn badge(&self) -> Badge {
        Badge::new(&self.0)
    }

    /// Sets when the guarantee of all slots ends, as a reading of [`boottime_ms`]. `None` means never.
    pub fn deadline(&self, at_ms: Option<u64>) {
        for known in locked(&self.0.slots).values_mut() {
            known.deadline = at_ms;
        }
        self.0.tell(GuardianOrder::Deadline { id: None, at_ms });
    }

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
        self.0.close();
        // A stopped guardian must be continued to end.
        while timeout(AGAIN, self.gone()).await.is_err() {
            self.0.wake();
        }
    }
}

/// Sends orders and receives reports until one side is gone.
async fn converse(
    shared: Arc<GuardianShared>,
    mut child: Child,
    stream: UnixStream,
    mut queue: mpsc::Receiver<GuardianOrder>,
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
